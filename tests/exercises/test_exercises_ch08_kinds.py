"""Caches keep copies, rooms are as large as asked, and results are on the device of the inputs."""

import pytest
import torch
from exercise_bank import report_on

CHAPTER = "ch08_kv_cache"


class KeepsTheFirstChunk:
    """A window that begins with the caller's own tensors, in whatever dtype they come."""

    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.window, self.length, self.kept = window, 0, None

    def update(self, k, v):
        self.length += k.shape[2]
        if self.kept is None:
            self.kept = (k, v)
        else:
            self.kept = tuple(torch.cat(pair, dim=2) for pair in zip(self.kept, (k, v), strict=True))
        self.kept = tuple(x[:, :, -self.window :] if x.shape[2] > self.window else x for x in self.kept)
        return self.kept


class CopiesTheFirstChunk(KeepsTheFirstChunk):
    """The same with copies in the dtype and on the device that are asked for."""

    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        super().__init__(batch, num_kv_heads, window, d_head)
        self.own = {"dtype": dtype, "device": device, "copy": True}

    def update(self, k, v):
        return super().update(k.to(**self.own), v.to(**self.own))


@pytest.mark.slow
def test_a_cache_keeps_copies_in_the_dtype_that_is_asked_for():
    name = f"{CHAPTER}/SlidingWindowCache"
    report = report_on(name, KeepsTheFirstChunk)
    assert report.diagnosis == "keeps_what_it_was_given"
    assert "the caller's own tensors" in str(report)
    assert "dtype" in str(report)
    failed = {criterion.says for criterion in report.criteria if criterion.failure}
    assert {"the dtype that is asked for", "the device that is asked for"} <= failed
    assert report_on(name, CopiesTheFirstChunk).passed


def room_of(factor):
    """A KVCache whose room is so many times as long as asked."""

    class Cache(CopiesTheFirstChunk):
        def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
            self.room = torch.empty(
                2, batch, num_kv_heads, factor * max_len, d_head, dtype=dtype, device=device
            )
            self.max_len, self.length = max_len, 0

        def update(self, k, v):
            end = self.length + k.shape[2]
            if end > self.max_len:
                raise ValueError("full")
            self.room[0, :, :, self.length : end], self.room[1, :, :, self.length : end] = k, v
            self.length = end
            return self.room[0, :, :, :end], self.room[1, :, :, :end]

    return Cache


def asks_for(room):
    """A generate_cached that asks for another room."""

    def generate_cached(model, prompt, max_new_tokens):
        cache = model.new_cache(prompt.shape[0], room(prompt.shape[1], max_new_tokens))
        tokens = new = prompt
        for _ in range(max_new_tokens):
            new = model(new, cache)[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, new], dim=1)
        return tokens

    return generate_cached


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer", [room_of(1), asks_for(lambda T, n: T + n), asks_for(lambda T, n: T + n - 1)]
)
def test_room_for_what_is_asked_is_right(answer):
    name = "KVCache" if isinstance(answer, type) else "generate_cached"
    assert report_on(f"{CHAPTER}/{name}", answer).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (room_of(2), "2 times what keys and values of max_len = 30 tokens need"),
        (room_of(3), "3 times what keys and values of max_len = 30 tokens need"),
        (asks_for(lambda T, n: 2 * (T + n)), "the prompt has 4 and 3 will come, so ask for 7"),
        (asks_for(lambda T, n: T + n + 1), "you ask for room for 8 tokens"),
    ],
)
def test_more_room_than_asked_is_seen(answer, words):
    name = "KVCache" if isinstance(answer, type) else "generate_cached"
    report = report_on(f"{CHAPTER}/{name}", answer)
    assert words in str(report)
    assert 0 < report.max_score - report.score <= 0.5


def steps_made_by(make):
    """A quantize_kv that writes into a tensor of its own."""

    def quantize_kv(x):
        scale = x.abs().amax(dim=2, keepdim=True) / 127
        q = make(x)
        q[:] = (x / torch.where(scale == 0, 1.0, scale)).round().clamp(-127, 127)
        return q, scale

    return quantize_kv


HOMES = {
    "on the device of x": (lambda x: torch.empty(x.shape, dtype=torch.int8, device=x.device), True),
    "like x": (lambda x: torch.zeros_like(x, dtype=torch.int8), True),
    "new": (lambda x: x.new_zeros(x.shape, dtype=torch.int8), True),
    "the cpu named": (lambda x: torch.zeros(x.shape, dtype=torch.int8, device="cpu"), False),
    "no device": (lambda x: torch.zeros(x.shape, dtype=torch.int8), False),
    "brought": (lambda x: x.to(torch.int8).cpu(), False),
    "a list": (lambda x: torch.tensor(x.int().tolist(), dtype=torch.int8), False),
}


@pytest.mark.slow
@pytest.mark.parametrize(("make", "is_right"), HOMES.values(), ids=HOMES.keys())
def test_a_result_is_where_the_input_is(make, is_right):
    report = report_on(f"{CHAPTER}/quantize_kv", steps_made_by(make))
    assert report.passed is is_right
    assert is_right or "result 1 of 2 is on the cpu" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"device": "cpu"}])
def test_a_text_is_where_the_prompt_is(options):
    def generate_cached(model, prompt, max_new_tokens):
        B, T = prompt.shape
        text = torch.zeros(B, T + max_new_tokens, dtype=torch.long, **options)
        text[:, :T] = prompt
        cache = model.new_cache(B, T + max_new_tokens)
        logits = model(prompt, cache)
        for t in range(T, T + max_new_tokens):
            text[:, t] = logits[:, -1].argmax(-1)
            logits = model(text[:, t : t + 1], cache)
        return text

    report = report_on(f"{CHAPTER}/generate_cached", generate_cached)
    assert [c.says for c in report.criteria if c.failure] == ["works on any device"]
    assert "the model is given a tensor of shape" in str(report)


@pytest.mark.slow
def test_a_channel_of_zeros_in_float16_needs_a_guard_that_float16_holds():
    def guarded(smallest):
        def quantize_kv(x):
            scale = (x.abs().amax(dim=2, keepdim=True) / 127).clamp(min=smallest(x))
            return (x / scale).round().clamp(-127, 127).to(torch.int8), scale

        return quantize_kv

    name = f"{CHAPTER}/quantize_kv"
    assert report_on(name, guarded(lambda x: torch.finfo(x.dtype).tiny)).passed
    assert report_on(name, guarded(lambda x: 1e-12)).diagnosis == "guard_too_small_for_float16"
