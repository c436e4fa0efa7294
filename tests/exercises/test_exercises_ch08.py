"""Caches: what is published gets full marks, and a mistake that no bank knows is told where it lies."""

from importlib import import_module

import pytest
import torch
from exercise_bank import PUBLIC_SEED, report_on


def converted(layer, *tensors):
    """Tensors in the dtype and on the device of a layer: transformers leaves that to its models."""
    return [x.to(layer.keys) for x in tensors]


class StaticCache:
    """transformers' layer of a static cache, which hands back all its room."""

    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        layer = import_module("transformers.cache_utils").StaticLayer(max_len)
        one = torch.zeros(batch, num_kv_heads, 1, d_head, dtype=dtype, device=device)
        layer.lazy_initialization(one, one)
        self.layer, self.max_len, self.length = layer, max_len, 0

    def update(self, k, v):
        if self.length + k.shape[2] > self.max_len:
            raise ValueError("the cache is full")
        self.length += k.shape[2]
        keys, values = self.layer.update(*converted(self.layer, k, v))
        return keys[:, :, : self.length], values[:, :, : self.length]


class DynamicCache:
    """transformers' layer of a dynamic cache, which joins old and new; with the limit of the exercise."""

    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        layer = import_module("transformers.cache_utils").DynamicLayer()
        none = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        layer.lazy_initialization(none, none)
        layer.keys = layer.values = none
        self.layer, self.max_len = layer, max_len

    @property
    def length(self):
        return self.layer.keys.shape[2]

    def update(self, k, v):
        if self.length + k.shape[2] > self.max_len:
            raise ValueError("the cache is full")
        return self.layer.update(*converted(self.layer, k, v))


class DynamicWindow:
    """transformers' sliding layer, which keeps a token less than its window and hands back all it joined."""

    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        layer = import_module("transformers.cache_utils").DynamicSlidingWindowLayer(window + 1)
        none = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        layer.lazy_initialization(none, none)
        layer.keys = layer.values = none
        self.layer, self.window = layer, window

    @property
    def length(self):
        return self.layer.cumulative_length

    def update(self, k, v):
        keys, values = self.layer.update(*converted(self.layer, k, v))
        return keys[:, :, -self.window :], values[:, :, -self.window :]


class StaticWindow:
    """transformers' sliding layer of a static cache, whose room is handed back before it is full."""

    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        layer = import_module("transformers.cache_utils").StaticSlidingWindowLayer(window, window)
        one = torch.zeros(batch, num_kv_heads, 1, d_head, dtype=dtype, device=device)
        layer.lazy_initialization(one, one)
        self.layer, self.window, self.length = layer, window, 0

    def update(self, k, v):
        self.length += k.shape[2]
        keys, values = self.layer.update(*converted(self.layer, k, v))
        if self.length < self.window:
            return keys[:, :, : self.length], values[:, :, : self.length]
        return keys[:, :, -self.window :], values[:, :, -self.window :]


class Published:
    """As transformers, torchao and others write it, with the names and the shapes of the exercises."""

    @staticmethod
    def quantize_kv__torchao(x):
        """The symmetric integers of torchao, whose smallest step is the rounding of the dtype."""
        low, high = x.amin(dim=2, keepdim=True), x.amax(dim=2, keepdim=True)
        largest = torch.max(-torch.min(low, torch.zeros_like(low)), torch.max(high, torch.zeros_like(high)))
        scale = torch.clamp(largest / (float(127 - -127) / 2), min=torch.finfo(x.dtype).tiny)
        return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale

    @staticmethod
    def quantize_kv__llm_int8(x):
        """The row-wise absmax of LLM.int8(), along the tokens."""
        absmax = x.abs().amax(dim=2, keepdim=True)
        inverse = torch.where(absmax == 0, torch.zeros_like(absmax), 127.0 / absmax.clamp(min=1e-30).float())
        return torch.round(x.float() * inverse).clamp(-127, 127).to(torch.int8), absmax / 127.0

    @staticmethod
    def dequantize_kv__torchao(q, scale):
        zero_point = torch.zeros_like(scale)
        return ((q.to(torch.float32) - zero_point) * scale).to(scale.dtype)

    @staticmethod
    def speculative_accept__transformers(p_target, p_draft, draft_tokens, u):
        """The lines of `_speculative_sampling`, from the probabilities on."""
        candidate_length = len(draft_tokens)
        q_i = p_draft[torch.arange(candidate_length), draft_tokens]
        p_i = p_target[torch.arange(candidate_length), draft_tokens]
        probability_ratio = p_i / q_i
        is_accepted = u <= probability_ratio
        n_matches = ((~is_accepted).cumsum(dim=-1) < 1).sum()
        p_n_plus_1 = p_target[n_matches, :]
        if n_matches < candidate_length:
            q_n_plus_1 = p_draft[n_matches, :]
            p_prime = torch.clamp((p_n_plus_1 - q_n_plus_1), min=0)
            p_prime.div_(p_prime.sum())
        else:
            p_prime = p_n_plus_1
        return n_matches, p_prime

    @staticmethod
    def speculative_accept__gpt_fast(p_target, p_draft, draft_tokens, u):
        k = len(draft_tokens)
        p = p_draft[torch.arange(0, k, device=p_draft.device), draft_tokens]
        q = p_target[torch.arange(0, k, device=p_draft.device), draft_tokens]
        accept_draft_prob = torch.minimum(torch.ones(()).to(q), q[:k] / p)
        rejected_locations = (u > accept_draft_prob).nonzero()
        if rejected_locations.shape[0] == 0:
            return k, p_target[-1]
        accept_length = rejected_locations[0].item()
        new = p_target[accept_length] - p_draft[accept_length]
        new = torch.where(new > 0, new, 0.0)
        return accept_length, new / new.sum()

    @staticmethod
    def generate_cached__transformers(model, prompt, max_new_tokens):
        """The loop of `generate`: what the cache does not hold yet is cut off the text and read."""
        past_key_values = model.new_cache(prompt.shape[0], prompt.shape[1] + max_new_tokens)
        input_ids = prompt
        while input_ids.shape[1] < prompt.shape[1] + max_new_tokens:
            model_inputs = input_ids[:, past_key_values.length :]
            outputs = model(model_inputs, past_key_values)
            next_token_logits = outputs[:, -1, :].to(copy=True, dtype=torch.float32)
            next_tokens = torch.argmax(next_token_logits, dim=-1)
            input_ids = torch.cat([input_ids, next_tokens[:, None]], dim=-1)
        return input_ids

    @staticmethod
    def generate_cached__gpt_fast(model, prompt, max_new_tokens):
        """A prefill, then a token at a time into room that was made before."""
        B, T = prompt.shape
        T_new = T + max_new_tokens
        cache = model.new_cache(B, T_new)
        seq = torch.empty(B, T_new, dtype=prompt.dtype, device=prompt.device)
        seq[:, :T] = prompt
        if max_new_tokens == 0:
            return seq
        next_token = model(prompt, cache)[:, -1].argmax(dim=-1, keepdim=True)
        seq[:, T] = next_token.squeeze(1)
        for i in range(1, max_new_tokens):
            next_token = model(next_token.clone(), cache)[:, -1].argmax(dim=-1, keepdim=True)
            seq[:, T + i] = next_token.squeeze(1)
        return seq

    @staticmethod
    def kv_cache_bytes__allocated(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
        """A cache of transformers, filled on a device that keeps no numbers, and its bytes."""
        cache = import_module("transformers.cache_utils").DynamicCache()
        dtype = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[bytes_per_element]
        text = torch.empty(batch, num_kv_heads, seq_len, d_head, dtype=dtype, device="meta")
        for layer in range(num_layers):
            cache.update(text, text, layer)
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


PUBLISHED = {
    "KVCache, transformers": StaticCache,
    "SlidingWindowCache, transformers": StaticWindow,
    "SlidingWindowCache, transformers, joined": DynamicWindow,
}
PUBLISHED |= {n.replace("__", ", "): getattr(Published, n) for n in vars(Published) if "__" in n.strip("_")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_gets_full_marks(name, seed):
    import_module("transformers.cache_utils")  # before anything is watched, which takes time
    report = report_on(name.partition(",")[0], PUBLISHED[name], seed)
    assert report.passed, report


@pytest.mark.slow
def test_a_cache_that_joins_costs_the_copies_alone():
    report = report_on("KVCache", DynamicCache)
    (failure,) = report.failures
    assert failure.misconception == "grows_by_cat"


@pytest.mark.slow
@pytest.mark.parametrize("function", ["quantize_per_channel", "quantize_per_tensor"])
def test_torchs_own_quantiser_is_told_as_such(function):
    def quantize_kv(x):
        scale = x.abs().amax(dim=2, keepdim=True) / 127
        if function == "quantize_per_tensor":
            return torch.quantize_per_tensor(x, float(scale.max()), 0, torch.qint8).int_repr(), scale
        zeros = torch.zeros(x.shape[-1], dtype=torch.long)
        q = torch.quantize_per_channel(x, scale[0, 0, 0], zeros, x.dim() - 1, torch.qint8)
        return q.int_repr(), scale

    report = report_on("quantize_kv", quantize_kv)
    assert report.status == "forbidden"


def cache(keep):
    """A cache that joins old and new and then keeps what `keep` says of keys, values and room."""

    class Cache:
        def __init__(
            self, batch, num_kv_heads, max_len=0, d_head=0, dtype=torch.float32, device="cpu", window=0
        ):
            self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
            self.values, self.room, self.length = self.keys, max_len or window, 0

        def update(self, k, v):
            self.length += k.shape[2]
            k, v = k.to(self.keys), v.to(self.values)
            joined = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
            self.keys, self.values = keep(*joined, self.room)
            return self.keys, self.values

    return Cache


def accepted(stands=lambda p, q, u: u < p / q, rest=lambda p, q: (p - q).clamp(min=0)):
    """A speculative_accept with another test or another residual."""

    def speculative_accept(p_target, p_draft, draft_tokens, u):
        for i, token in enumerate(draft_tokens):
            if not stands(p_target[i, token], p_draft[i, token], u[i]):
                left = rest(p_target[i], p_draft[i])
                return i, left / left.sum()
        return len(draft_tokens), p_target[-1]

    return speculative_accept


def tree(stands=lambda t, q, u: u < t / q, rest=lambda t, q: (t - q).clamp(min=0)):
    """An accept_tree with another test or another residual."""

    def accept_tree(p_target, p_draft, tokens, parents, u):
        path, here, t = [], -1, p_target[0]
        for i, x in enumerate(tokens):
            if parents[i] == here and stands(t[x], p_draft[i, x], u[i]):
                path.append(i)
                here, t = i, p_target[i + 1]
            elif parents[i] == here:
                t = rest(t, p_draft[i])
                t = t / t.sum()
        return path, t

    return accept_tree


def greedy(choose=lambda logits: logits[:, -1].argmax(-1, keepdim=True)):
    """A generate_cached that chooses another token."""

    def generate_cached(model, prompt, max_new_tokens):
        cache = model.new_cache(prompt.shape[0], prompt.shape[1] + max_new_tokens)
        tokens = new = prompt
        for _ in range(max_new_tokens):
            new = choose(model(new, cache))
            tokens = torch.cat([tokens, new], dim=1)
        return tokens

    return generate_cached


def rounded(x, step, largest=127):
    return torch.round(x / torch.where(step > 0, step, 1)).clamp(-largest, largest).to(torch.int8), step


WRONG = {
    "KVCache: newest first": ("KVCache", cache(lambda k, v, n: (k.flip(2), v.flip(2))), "your keys hold"),
    "SlidingWindowCache: newest first": (
        "SlidingWindowCache",
        cache(lambda k, v, n: (k[:, :, -n:].flip(2), v[:, :, -n:])),
        "your keys hold",
    ),
    "quantize_kv: a scale over the heads": (
        "quantize_kv",
        lambda x: rounded(x, x.abs().amax(dim=1, keepdim=True) / 127),
        "your scale has shape (4, 1, 3, 2); each channel of each head has one, over all tokens: (4, 1, 1, 2)",
    ),
    "quantize_kv: four bits": (
        "quantize_kv",
        lambda x: rounded(x, x.abs().amax(dim=2, keepdim=True) / 7, 7),
        "so the scale is",
    ),
    "quantize_kv: the spread": (
        "quantize_kv",
        lambda x: rounded(x, x.std(dim=2, keepdim=True) / 127),
        "the largest absolute value is",
    ),
    "dequantize_kv: an offset": ("dequantize_kv", lambda q, scale: (q + 1) * scale, "has steps of"),
    "speculative_accept: the other end of u": (
        "speculative_accept",
        accepted(stands=lambda p, q, u: 1 - u < p / q),
        "so it is accepted",
    ),
    "speculative_accept: half the ratio": (
        "speculative_accept",
        accepted(stands=lambda p, q, u: u < 0.5 * p / q),
        "so it is accepted",
    ),
    "speculative_accept: squares": (
        "speculative_accept",
        accepted(rest=lambda p, q: (p - q).clamp(min=0) ** 2),
        "divided by the sum of residuals",
    ),
    "accept_tree: half the ratio": (
        "accept_tree",
        tree(stands=lambda t, q, u: u < 0.5 * t / q),
        "so it is accepted",
    ),
    "accept_tree: squares": (
        "accept_tree",
        tree(rest=lambda t, q: (t - q).clamp(min=0) ** 2),
        "with t as node 0 left it",
    ),
    "generate_cached: the second best": (
        "generate_cached",
        greedy(lambda logits: logits[:, -1].topk(2).indices[:, 1:]),
        "where a model that has read the whole prompt predicts",
    ),
    "kv_cache_bytes: a triangle of tokens": (
        "kv_cache_bytes",
        lambda num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2: (
            2
            * num_layers
            * num_kv_heads
            * d_head
            * (seq_len * (seq_len + 1) // 2)
            * batch
            * bytes_per_element
        ),
        "twice as many tokens should take twice the bytes",
    ),
}


class OneTokenAtATime:
    """A ring that has no room for chunks."""

    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.length, self.window = 0, window
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)

    def update(self, k, v):
        place = self.length % self.window
        self.keys[:, :, place : place + 1], self.values[:, :, place : place + 1] = k, v
        self.length += 1
        last = torch.arange(max(0, self.length - self.window), self.length) % self.window
        return self.keys[:, :, last], self.values[:, :, last]


@pytest.mark.slow
def test_a_window_for_single_tokens_earns_its_core():
    report = report_on("SlidingWindowCache", OneTokenAtATime)
    assert report.criteria[0].earned
    assert report.criteria[1].failure


def room_for_100(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), 100)
    tokens = new = prompt
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


TOLD = {
    "dequantize_kv: nothing": ("dequantize_kv", lambda q, scale: None, None),
    "dequantize_kv: in int8": ("dequantize_kv", lambda q, scale: q * scale.to(torch.int8), "all_in_int8"),
    "generate_cached: room for 100": ("generate_cached", room_for_100, "too_much_room"),
    "quantize_kv: one scale": (
        "quantize_kv",
        lambda x: rounded(x, x.abs().max() / 127),
        "one_scale_for_all",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer", "mistake"), TOLD.values(), ids=TOLD.keys())
def test_an_arrow_is_true(name, answer, mistake):
    report = report_on(name, answer)
    assert not report.passed
    assert report.diagnosis == mistake


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_sentence_to_act_on(name, answer, words):
    report = report_on(name, answer)
    assert not report.passed
    first = next(criterion.failure for criterion in report.criteria if criterion.failure)
    assert first.misconception is None, "the bank knows this one: take another"
    assert words in " ".join(str(report).split()), report


class RaisesAlways:
    """Raises by accident at every update: it takes 4 axes for 3."""

    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.length = 0

    def update(self, k, v):
        _, _, T = k.shape
        self.length += T
        return k, v


@pytest.mark.slow
def test_an_error_inside_a_step_names_its_line_and_no_refusal():
    report = str(report_on("KVCache", RaisesAlways))
    assert "ValueError: too many values to unpack" in report
    assert ": _, _, T = k.shape)" in report
    assert "refused" not in report


def test_a_parameter_that_is_missing_is_asked_for():
    def kv_cache_bytes(num_layers, num_kv_heads, d_head, seq_len, **options):
        return 2 * num_layers * num_kv_heads * d_head * seq_len * batch

    report = str(report_on("kv_cache_bytes", kv_cache_bytes))
    assert "Write `batch` among the parameters of your function" in report


def earned(name, function):
    return {result.says: result.earned / result.points for result in report_on(name, function).criteria}


def with_spare_room(spare):
    class KVCache:
        def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
            shape = (batch, num_kv_heads, max_len + spare, d_head)
            self.keys, self.values = torch.zeros(2, *shape, dtype=dtype, device=device)
            self.length, self.max_len = 0, max_len

        def update(self, k, v):
            start, end = self.length, self.length + k.shape[2]
            if end > self.max_len:
                raise ValueError("the cache is full")
            self.keys[:, :, start:end], self.values[:, :, start:end] = k, v
            self.length = end
            return self.keys[:, :, :end], self.values[:, :, :end]

    return KVCache


@pytest.mark.slow
@pytest.mark.parametrize(("spare", "right"), [(0, True), (1, False), (2, False)])
def test_room_for_a_token_more_is_too_much_room(spare, right):
    room = "room for max_len tokens, and old tokens are not copied again and again"
    assert (earned("KVCache", with_spare_room(spare))[room] == 1) == right


@pytest.mark.slow
def test_what_comes_out_is_tried_behind_an_accepted_guess_too():
    def from_the_first_row(p_target, p_draft, draft_tokens, u):
        for i, x in enumerate(draft_tokens):
            if u[i] * p_draft[i, x] >= p_target[i, x]:
                residual = (p_target[i] - p_draft[0]).clamp(min=0)  # right for the first guess
                return i, residual / residual.sum()
        return len(draft_tokens), p_target[-1]

    says = "the resulting tokens have the large model's distribution"
    assert earned("speculative_accept", from_the_first_row)[says] == 0
