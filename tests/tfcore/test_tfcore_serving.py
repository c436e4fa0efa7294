"""A simulated server: no token is lost, no limit is passed, and no schedule is faster than the device."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcore.costs import (
    CEILINGS,
    MODELS,
    attended_pairs,
    cache_bytes,
    forward_bytes,
    forward_flops,
    time_bound,
    weight_bytes,
)
from tfcore.serving import Request, Served, serve, step_time

H100, LLAMA = CEILINGS["H100 SXM"], MODELS["Llama 3 8B"].architecture
SECONDS = step_time(LLAMA, H100)
WAYS = {"static": {"static": True}, "continuous": {}, "chunked": {"budget": 8}}


def test_the_time_of_a_step_is_that_of_a_dense_model():
    with pytest.raises(ValueError, match="expected a dense model of one stack, got 8 experts"):
        step_time(MODELS["Mixtral 8x7B"].architecture, H100)


@pytest.mark.parametrize(
    "asked", [(-1.0, 4, 2), (math.nan, 4, 2), (math.inf, 4, 2), (0.0, 0, 2), (0.0, 4, 0), (0.0, 4, 2.5)]
)
def test_a_request_that_would_never_be_served_is_refused(asked):
    with pytest.raises(ValueError, match="in whole numbers, got Request"):
        Request(*asked)


traces = st.lists(
    st.builds(
        Request,
        arrival=st.integers(0, 70).map(lambda eighths: eighths / 8),
        prompt=st.integers(1, 30),
        output=st.integers(1, 12),
    ),
    max_size=12,
)
each_way = pytest.mark.parametrize("way", WAYS)


class Watched:
    """A device that notes its steps."""

    def __init__(self, seconds=lambda step: 1.0):
        self.seconds, self.steps = seconds, []

    def __call__(self, step):
        self.steps.append(step)
        return self.seconds(step)


@each_way
@given(requests=traces, max_batch=st.integers(1, 5))
def test_every_request_gets_its_tokens_in_time(way, requests, max_batch):
    served = serve(requests, Watched(), max_batch, **WAYS[way])
    assert sorted(map(repr, requests)) == sorted(repr(x.request) for x in served)
    for x in served:
        assert x.finished
        assert len(x.times) == x.request.output
        assert x.time_to_first >= 1
        assert all(gap >= 1 for gap in x.gaps)
        assert x.read == x.request.prompt + x.request.output - 1  # its last token is not read
    firsts = [x.times[0] for x in served]
    assert firsts == sorted(firsts), "who comes first is served first"


@each_way
@given(requests=traces, max_batch=st.integers(1, 5))
def test_steps_read_every_token_once_and_keep_the_limits(way, requests, max_batch):
    device = Watched()
    serve(requests, device, max_batch, **WAYS[way])
    read = [new for step in device.steps for new, _ in step]
    assert sum(read) == sum(x.prompt + x.output - 1 for x in requests)
    assert min(read, default=1) >= 1
    assert max(map(len, device.steps), default=0) <= max_batch
    if way == "chunked":
        assert all(sum(new for new, _ in step) <= 8 for step in device.steps)
    pairs = sum(attended_pairs(new, seen, causal=True) for step in device.steps for new, seen in step)
    whole = [x.prompt + x.output - 1 for x in requests]
    assert pairs == sum(attended_pairs(n, n, causal=True) for n in whole)


@each_way
@given(requests=traces, max_batch=st.integers(1, 5))
def test_no_schedule_is_faster_than_the_device(way, requests, max_batch):
    device = Watched(SECONDS)
    served = serve(requests, device, max_batch, **WAYS[way])
    end = max((x.times[-1] for x in served), default=0.0)
    blocks = forward_flops(LLAMA, 1, 1) * 0.85  # without the head, which is 13 % of a token
    least = blocks * sum(x.prompt + x.output - 1 for x in requests) / H100.flops_per_second
    assert end >= least
    assert end >= len(device.steps) * 0.9 * weight_bytes(LLAMA) / H100.bytes_per_second
    for x in served:
        assert x.times[-1] - x.request.arrival >= SECONDS([(x.request.prompt, x.request.prompt)]) * 0.999


@given(requests=traces, max_batch=st.integers(1, 5))
def test_whoever_need_not_wait_for_a_batch_starts_no_later(requests, max_batch):
    ends = {}
    for way in ("static", "continuous"):
        now = [Request(0.0, x.prompt, x.output) for x in requests]
        ends[way] = [x.times[-1] for x in serve(now, Watched(), max_batch, **WAYS[way])]
    assert all(early <= late for early, late in zip(ends["continuous"], ends["static"], strict=True))


@each_way
def test_a_request_alone_waits_for_nothing(way):
    request = Request(2.0, prompt=20, output=3)
    (alone,) = serve([request], SECONDS, 4, **WAYS[way])
    chunks = [(8, 8), (8, 16), (4, 20)] if way == "chunked" else [(20, 20)]
    first = 2.0 + sum(SECONDS([chunk]) for chunk in chunks)
    assert alone.times[0] == pytest.approx(first)
    assert alone.gaps == pytest.approx([SECONDS([(1, 21)]), SECONDS([(1, 22)])])


def test_a_long_prompt_stops_those_that_write_unless_it_is_cut():
    requests = [Request(0.0, 100, 400), Request(0.5, 8000, 5)]
    whole, chunked = (serve(requests, SECONDS, 4, budget)[0] for budget in (None, 256))
    assert max(whole.gaps) > SECONDS([(8000, 8000)])
    assert max(chunked.gaps) < 3 * min(chunked.gaps) < max(whole.gaps)


@pytest.mark.parametrize(
    ("tokens", "seen", "batch"), [(1, 1000, 1), (1, 1000, 64), (512, 512, 1), (64, 900, 8)]
)
def test_a_step_takes_the_time_of_the_roofline(tokens, seen, batch):
    """That of tfcore.costs, which computes the head at every token and reads the table at more rows."""
    flops = forward_flops(LLAMA, tokens, seen, batch, causal=True)
    flops -= batch * (tokens - 1) * 2 * LLAMA.d_model * LLAMA.vocab_size
    expected = time_bound(flops, forward_bytes(LLAMA, tokens, seen, batch), H100)
    assert SECONDS([(tokens, seen)] * batch) == pytest.approx(expected, rel=1e-3)
    more = SECONDS([(tokens, seen)] * batch + [(1, 50_000)])
    assert more >= SECONDS([(tokens, seen)] * batch)


def test_caches_are_read_request_by_request():
    mixed = [(1, 3000), (1, 50)]
    weights = SECONDS([(1, 1)]) * H100.bytes_per_second - cache_bytes(LLAMA, 1)
    assert SECONDS(mixed) * H100.bytes_per_second == pytest.approx(weights + cache_bytes(LLAMA, 3050))


@pytest.mark.parametrize("numbers", [(-1.0, 1, 1), (0.0, 0, 1), (0.0, 1, 0)])
def test_a_request_asks_for_something(numbers):
    with pytest.raises(ValueError, match="1 or more tokens to read and to write"):
        Request(*numbers)


@pytest.mark.parametrize(("max_batch", "budget"), [(0, None), (5, 4)])
def test_a_batch_that_cannot_be(max_batch, budget):
    with pytest.raises(ValueError, match="expected room for 1 request or more and a budget"):
        serve([Request(0.0, 1, 1)], SECONDS, max_batch, budget)


def test_no_request():
    assert serve([], SECONDS, 1) == []
    assert Served(Request(0.0, 1, 1), [2.0]).gaps == []


def test_a_window_bounds_what_a_step_reads_and_multiplies():
    mistral = MODELS["Mistral 7B"].architecture
    seconds = step_time(mistral, H100)
    for new, seen in ((1, 32_768), (8192, 8192), (3, 5000)):
        flops = forward_flops(mistral, new, seen) if new == seen else None
        read = weight_bytes(mistral) + cache_bytes(mistral, seen)
        bound = read / H100.bytes_per_second
        assert seconds([(new, seen)]) >= 0.9 * bound
        if flops is None and new == 1:
            assert seconds([(new, seen)]) == pytest.approx(bound, rel=0.05)
    assert seconds([(1, 32_768)]) == pytest.approx(seconds([(1, 4096)]), rel=1e-6)
    windowless = dataclasses.replace(mistral, window=None)
    assert step_time(windowless, H100)([(1, 32_768)]) > 1.2 * seconds([(1, 32_768)])
