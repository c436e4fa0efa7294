"""A server of one model, simulated: who is in the batch, and how long each step takes at best.

Nothing is computed but times. A step reads tokens of several requests at once: one token of a request that
writes, or a piece of a prompt. Its time is the roofline's: the weights are read once for all requests, and
each request's own cache once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral

from tfcore.costs import (
    Architecture,
    Ceiling,
    attended_pairs,
    cache_bytes,
    flops_by_part,
    forward_bytes,
    time_bound,
)

Step = Sequence[tuple[int, int]]
"""For each request in a step: the tokens that it reads, and all that it has read afterwards."""


@dataclass(frozen=True)
class Request:
    """A prompt that comes at some time and asks for some tokens.

    Args:
        arrival: when it comes, in seconds.
        prompt: tokens of the prompt, 1 or more.
        output: tokens to write, 1 or more.

    Raises:
        ValueError: counts of tokens that are not whole numbers of 1 or more, or a time that is negative or
            not finite.
    """

    arrival: float
    prompt: int
    output: int

    def __post_init__(self) -> None:
        whole = all(isinstance(count, Integral) and count >= 1 for count in (self.prompt, self.output))
        if not (whole and 0 <= self.arrival < math.inf):
            raise ValueError(
                "expected a time of 0 or later and 1 or more tokens to read and to write, in whole numbers, "
                f"got {self}; leave out requests that ask for nothing"
            )


@dataclass
class Served:
    """A request, and the times at which its tokens were written.

    >>> served = Served(Request(arrival=1.0, prompt=5, output=3), times=[1.5, 1.7, 2.3])
    >>> served.time_to_first, [round(gap, 1) for gap in served.gaps]
    (0.5, [0.2, 0.6])
    """

    request: Request
    times: list[float] = field(default_factory=list)
    read: int = 0

    @property
    def time_to_first(self) -> float:
        """Return the seconds from the arrival to the first token."""
        return self.times[0] - self.request.arrival

    @property
    def gaps(self) -> list[float]:
        """Return the seconds between each token and the next."""
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]

    @property
    def finished(self) -> bool:
        """Return whether all tokens are written."""
        return len(self.times) == self.request.output


def step_time(
    architecture: Architecture, ceiling: Ceiling, bytes_per_element: int = 2
) -> Callable[[Step], float]:
    r"""Return a function that gives the least time of a step, in seconds.

    $\max(F / F_{max}, M / M_{max})$ with the operations of all requests, the weights once, and the cache of
    each request. The head computes logits for the last token of each request only.

    Args:
        architecture: a dense model of one stack.
        ceiling: the device.
        bytes_per_element: of weights and cache.

    Returns:
        A function of a step.

    Raises:
        ValueError: a model with experts or with an encoder.

    From: Williams, Waterman and Patterson (2009), *Roofline*.

    >>> from tfcore.costs import CEILINGS, MODELS
    >>> seconds = step_time(MODELS["Llama 3 8B"].architecture, CEILINGS["H100 SXM"])
    >>> print(f"{1000 * seconds([(1, 1000)]):.1f} ms, {1000 * seconds([(1, 1000)] * 32):.1f} ms")
    4.5 ms, 5.7 ms
    """
    a = architecture
    if a.num_experts > 1 or a.num_encoder_layers > 0:
        raise ValueError(
            f"expected a dense model of one stack, got {a.num_experts} experts and {a.num_encoder_layers} "
            "layers of an encoder; the bytes that their batches read depend on the requests"
        )
    parts = flops_by_part(a, 1, 1)
    per_pair, per_text = parts["scores"], parts["head"]
    per_token = sum(parts.values()) - per_pair - per_text
    cache = cache_bytes(a, 1, 1, bytes_per_element)
    weights = forward_bytes(a, 1, 1, 1, bytes_per_element) - cache

    def seconds(step: Step) -> float:
        pairs = sum(attended_pairs(new, seen, causal=True, window=a.window) for new, seen in step)
        flops = sum(new for new, _ in step) * per_token + pairs * per_pair + len(step) * per_text
        read = sum(cache_bytes(a, seen, 1, bytes_per_element) for _, seen in step)
        return time_bound(flops, weights + read, ceiling)

    return seconds


def serve(
    requests: Iterable[Request],
    seconds: Callable[[Step], float],
    max_batch: int,
    budget: int | None = None,
    static: bool = False,
) -> list[Served]:
    """Simulate a server that takes requests in the order in which they come.

    In each step every request that has read its prompt writes a token, and the others read their prompts, in
    order. The step that reads the end of a prompt writes the first token of its answer.

    - *static*: a new batch begins when every request of the last one is finished;
    - *continuous*: a finished request leaves at once, and the next one takes its place and reads its whole
      prompt in its first step;
    - *continuous with chunked prefill*: the same, with at most ``budget`` tokens in a step. Requests that
      write come first; a prompt takes as many steps as it needs.

    Args:
        requests: in any order.
        seconds: the time of a step, for example from :func:`step_time`.
        max_batch: requests in a step, at most.
        budget: tokens in a step, at most; no limit when None.
        static: whether a batch stays together until its last request is finished.

    Returns:
        What became of each request, in the order of arrival.

    Raises:
        ValueError: no room for a request, or a budget that a full batch of writing requests would exceed.

    From: Yu et al. (2022), *Orca* (continuous); Agrawal et al. (2024), *Taming Throughput-Latency Tradeoff in
    LLM Inference with Sarathi-Serve* (chunked prefill).

    >>> two = [Request(0.0, prompt=4, output=3), Request(0.0, prompt=4, output=1)]
    >>> [x.times for x in serve(two, lambda step: 1.0, max_batch=1)]
    [[1.0, 2.0, 3.0], [4.0]]
    >>> [x.times for x in serve(two, lambda step: 1.0, max_batch=2)]
    [[1.0, 2.0, 3.0], [1.0]]
    >>> [x.times for x in serve(two, lambda step: 1.0, max_batch=2, budget=3)]
    [[2.0, 3.0, 4.0], [3.0]]
    """
    if max_batch < 1 or (budget is not None and budget < max_batch):
        raise ValueError(
            f"expected room for 1 request or more and a budget of a token for each, got max_batch "
            f"{max_batch} and budget {budget}; all requests that write take part in every step"
        )
    served = [Served(request) for request in sorted(requests, key=lambda request: request.arrival)]
    waiting, running, now = deque(served), list[Served](), 0.0
    while waiting or running:
        if not running:
            now = max(now, waiting[0].request.arrival)
        if not (static and running):
            while waiting and waiting[0].request.arrival <= now and len(running) < max_batch:
                running.append(waiting.popleft())
        plan = _plan(running, budget)
        now += seconds([(new, x.read + new) for x, new in plan])
        for x, new in plan:
            x.read += new
            if x.read >= x.request.prompt:
                x.times.append(now)
        running = [x for x in running if not x.finished]
    return served


def _plan(running: list[Served], budget: int | None) -> list[tuple[Served, int]]:
    """Choose how many tokens of each request a step reads; requests that write come first."""
    plan = [(x, 1) for x in running if x.times]
    left = None if budget is None else budget - len(plan)
    for x in running:
        if not x.times:
            new = x.request.prompt - x.read if left is None else min(x.request.prompt - x.read, left)
            if new:
                plan.append((x, new))
            left = None if left is None else left - new
    return plan
