"""Right answers to `t5_relative_bucket`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch05_positions.t5_relative_bucket import EXERCISE


@EXERCISE.style("exact where near, logarithm where far")
def near_and_far(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.style("as in T5's code, buckets added up")
def added_up(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    buckets = 0
    if bidirectional:
        num_buckets //= 2
        buckets += (relative_position > 0).to(torch.long) * num_buckets
        distance = torch.abs(relative_position)
    else:
        distance = -torch.min(relative_position, torch.zeros_like(relative_position))
    max_exact = num_buckets // 2
    large = torch.log(distance.float() / max_exact) / math.log(max_distance / max_exact)
    large = max_exact + (large * (num_buckets - max_exact)).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    buckets += torch.where(distance < max_exact, distance, large)
    return buckets


@EXERCISE.style("number by number, in plain Python")
def number_by_number(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2

    def bucket(r):
        n = abs(r) if bidirectional else max(-r, 0)
        if n >= exact:
            n = exact + int(math.log(n / exact) / math.log(max_distance / exact) * (per_side - exact))
        return min(n, per_side - 1) + (per_side if bidirectional and r > 0 else 0)

    flat = [bucket(r) for r in relative_position.flatten().tolist()]
    return torch.tensor(flat, device=relative_position.device).reshape(relative_position.shape)


@EXERCISE.style("counting the bucket edges that a distance has passed")
def edges_passed(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    steps = torch.arange(per_side - exact, device=relative_position.device) / (per_side - exact)
    edges = exact * (max_distance / exact) ** steps
    edges = torch.cat([torch.arange(1, exact, device=edges.device), edges])
    n = relative_position.abs() if bidirectional else torch.relu(-relative_position)
    ahead = per_side * (relative_position > 0) if bidirectional else 0
    return torch.bucketize(n, edges, right=True) + ahead


@EXERCISE.style("a table of all distances, looked up")
def looked_up(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    n = torch.arange(max_distance + 1, device=relative_position.device)
    growth = torch.log2(n.clamp(min=exact) / exact) / math.log2(max_distance / exact)
    table = torch.where(n < exact, n, exact + torch.floor(growth * (per_side - exact)))
    table = table.clamp(max=per_side - 1).int()
    behind = table[(-relative_position).clamp(0, max_distance)]
    ahead = table[relative_position.clamp(0, max_distance)]
    if not bidirectional:
        return behind
    return torch.where(relative_position > 0, per_side + ahead, behind)


@EXERCISE.style("differences of logarithms, in floats")
def differences_of_logarithms(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    r = relative_position.double()
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    n = r.abs() if bidirectional else torch.clamp(-r, min=0)
    scale = (per_side - exact) / (math.log(max_distance) - math.log(exact))
    far = exact + torch.floor((torch.log(n + 1e-9) - math.log(exact)) * scale + 1e-9)
    far[far > per_side - 1] = per_side - 1
    far[n < exact] = n[n < exact]
    return far + per_side * torch.heaviside(r, torch.zeros_like(r)) if bidirectional else far
