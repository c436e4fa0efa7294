"""The suite is not blind: each fault of ``mutants.py``, made in tfcore itself, must fail one of these checks.

The checks are tests of their own as well. They build what they compare anew, so that a fault that is made
while something is built shows too; what others compute is kept. The table stands at the end of the run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tiny_checkpoints as tiny
import torch
import torch.nn.functional as F
from attention_oracle import CASES, GRADIENT_TOLERANCE, TOLERANCE, distance, make_inputs, oracle
from mutants import MUTANTS
from native_sparse_oracle import native_sparse_oracle

from tfcore.attention import attention
from tfcore.cache import dequantize_kv, quantize_kv
from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, NativeSparseConfig, PositionConfig
from tfcore.delta_rule import gated_delta_rule, gated_delta_rule_step
from tfcore.generate import (
    CompiledDecoder,
    accept_tree,
    filter_logits,
    speculative_accept,
    speculative_generate,
)
from tfcore.io import from_pretrained
from tfcore.layers import Indexer, NativeSparseAttention, repeat_kv
from tfcore.linear_attention import linear_attention
from tfcore.losses import next_token_loss, summed_cross_entropy
from tfcore.models import Decoder
from tfcore.positions import alibi_slopes, apply_rope
from tfcore.routing import route_top_k
from tfcore.selective_scan import selective_scan
from tfcore.state_space_duality import ssd_attention, ssd_chunked, ssd_recurrent
from tfcore.testing import format_kill_table, kill_table, raise_weights
from tfcore.train import TrainConfig, decay_groups, train
from tfcore.wkv import wkv
from tfcore.wkv7 import wkv7, wkv7_step

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:left out")]  # the pooler of BERT

CHECKS: dict[str, Callable[[], None]] = {}


def check(name: str, *args: object) -> Callable[..., Callable[..., None]]:
    """Put a function under a name, with arguments, among the checks."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        CHECKS[name] = functools.partial(function, *args)
        return function

    return add


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- attention and heads


@functools.cache
def loops() -> list[np.ndarray]:
    return [oracle(make_inputs(case, torch.float64))[0] for case in CASES]


@check("explicit attention = loops", "explicit")
@check("tiled attention = loops", "tiled")
def attention_equals_loops(backend: str) -> None:
    for case, expected in zip(CASES, loops(), strict=True):
        output = attention(**make_inputs(case, torch.float64), backend=backend)
        assert distance(output, expected) < TOLERANCE[torch.float64]


@check("gradient of tiled attention = explicit")
def gradients_agree() -> None:
    case = next(case for case in CASES if case.name == "grouped, causal")
    gradients = []
    for backend in ("explicit", "tiled"):
        inputs = make_inputs(case, torch.float64)
        leaves = [inputs[name].requires_grad_() for name in "qkv"]
        output = attention(**inputs, backend=backend)
        gradients.append(torch.autograd.grad((output * draw(*output.shape)).sum(), leaves))
    for one, other in zip(*gradients, strict=True):
        assert (one - other).abs().max() < GRADIENT_TOLERANCE[torch.float64]


@check("gradient of capped scores, tiled = explicit")
def gradients_of_capped_scores_agree() -> None:
    found = []
    for backend in ("explicit", "tiled"):
        x = [draw(2, 3, 7, 5, seed=seed).requires_grad_() for seed in range(3)]
        output = attention(*x, softcap=0.8, backend=backend)
        found.append(torch.autograd.grad((output * draw(*output.shape, seed=4)).sum(), x))
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() < GRADIENT_TOLERANCE[torch.float64]


@check("a sink is one more key of value 0")
def sink_is_one_more_key() -> None:
    q, k, v = (draw(2, 3, 7, 5, seed=seed) for seed in range(3))
    sinks = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
    bias = torch.zeros(1, 3, 1, 8, dtype=torch.float64)
    bias[..., -1] = sinks.view(1, 3, 1)
    k_more, v_more = (torch.cat([x, torch.zeros_like(x[:, :, :1])], dim=2) for x in (k, v))
    expected = attention(q, k_more, v_more, bias=bias, backend="explicit")
    assert (attention(q, k, v, sinks=sinks) - expected).abs().max() < TOLERANCE[torch.float64]


@check("copies of a key head lie side by side")
def copies_side_by_side() -> None:
    heads = torch.arange(3.0).view(1, 3, 1, 1)
    assert repeat_kv(heads, 2).flatten().tolist() == [0, 0, 1, 1, 2, 2]


# --- whole models against transformers


@functools.cache
def theirs(name: str, padded: bool) -> torch.Tensor:
    folder, spec = tiny.folder(name), tiny.SPECS[name]
    return tiny.their_output(tiny.reload(name, folder), spec.kind, tiny.batch(spec.kind, padded))


def parity(name: str, padded: bool, chunks: list[int] | None = None, cache: str | None = None) -> None:
    kind, model = tiny.SPECS[name].kind, from_pretrained(tiny.folder(name))
    x = tiny.batch(kind, padded)
    ours = (
        tiny.our_output(model, kind, x)
        if chunks is None
        else tiny.our_output_in_chunks(model, kind, x, chunks, cache)
    )
    assert tiny.distance(ours, theirs(name, padded), x.padding) < tiny.TOLERANCE


OLDER = ("gpt2", "llama", "mistral", "mixtral", "bloom", "bert", "t5", "t5-v1.1", "bart", "marian")
NEWER = ("llama-yarn", "llama-dynamic", "llama-longrope", "qwen2-windows", "qwen3", "gemma2", "gemma3")
for name in (*OLDER, *NEWER, "gpt_neox", "gpt_oss", "deepseek_v3", "qwen3_next"):
    CHECKS[f"{name} = transformers"] = functools.partial(parity, name, False)
for name in ("gpt2", "bert"):
    CHECKS[f"{name} = transformers, padded"] = functools.partial(parity, name, True)
for name in ("gpt2", "mistral", "t5", "deepseek_v3", "qwen3_next"):
    CHECKS[f"{name} in chunks = transformers"] = functools.partial(parity, name, False, [5, 1, 4, 3])
CHECKS["mamba2 = transformers"] = functools.partial(parity, "mamba2", False)
CHECKS["mamba2 in chunks = transformers"] = functools.partial(parity, "mamba2", False, [5, 1, 4, 3])
CHECKS["mistral, sliding cache = transformers"] = functools.partial(
    parity, "mistral", False, [1] * 9 + [4], "sliding"
)


@check("Shaw in a window of clipped distances: shifting the text changes nothing")
def shaw_is_relative() -> None:
    block = BlockConfig(AttentionConfig(d_model=24, num_heads=3, window=3), d_ff=40)
    positions = PositionConfig("shaw", max_distance=2)
    model = raise_weights(Decoder(ModelConfig(31, 1, block, positions))).double()
    table = model.stack.positions.table
    q = draw(1, 3, 2, 8)
    order = model.stack.positions.relate(torch.tensor([3, 4]), torch.arange(5))
    assert order.relative_keys is not None
    keys, rows = order.relative_keys
    for i, j in ((0, 0), (0, 2), (1, 4), (1, 1)):
        clipped = max(-2, min(2, j - (3 + i)))
        assert torch.equal(q[0, :, i] @ keys[rows[i, j]], q[0, :, i] @ table[clipped + 2])


@check("slopes of 12 heads as BLOOM's")
def slopes_of_twelve() -> None:
    expected = [2.0 ** -(h + 1) for h in range(8)] + [2.0 ** -(h + 0.5) for h in range(4)]
    assert torch.allclose(alibi_slopes(12), torch.tensor(expected))


@check("RoPE in bfloat16 far out keeps its phase")
def phase_in_half_precision() -> None:
    x = draw(1, 16).to(torch.bfloat16)
    far, wide = (apply_rope(y, torch.tensor([5000])) for y in (x, x.double()))
    assert (far.double() - wide).abs().max() < 0.05


# --- experts, caches, generation


@check("weights of the chosen experts sum to 1 and follow their logits")
def routing() -> None:
    weights, experts = route_top_k(torch.tensor([[0.0, 2.0, 1.0]]), k=2)
    expected = torch.tensor([2.0, 1.0]).softmax(0)
    assert experts.tolist() == [[1, 2]]
    assert torch.allclose(weights[0], expected)


@check("rounding to 8 bits errs by half a step at most")
def half_a_step() -> None:
    x = draw(2, 3, 5, 4).float()
    q, scale = quantize_kv(x)
    assert ((dequantize_kv(q, scale) - x).abs() <= scale / 2 + 1e-6).all()


@check("top p keeps the token that crosses p")
def crossing_token() -> None:
    kept = filter_logits(torch.tensor([0.5, 0.1, 0.4]).log(), top_p=0.6).exp()
    assert (kept > 0).tolist() == [True, False, True]


@check("speculative acceptance gives the target's distribution, in algebra")
def acceptance() -> None:
    p, q = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]]), torch.tensor([[0.2, 0.7, 0.1]])
    first = torch.zeros(3)
    for token in range(3):
        stands = min(1.0, float(p[0, token] / q[0, token]))
        for u, mass in ((stands / 2, stands), ((1 + stands) / 2, 1 - stands)):
            if mass < 1e-9:
                continue
            accepted, after = speculative_accept(p, q, torch.tensor([token]), torch.tensor([u]))
            drawn = torch.eye(3)[token] if accepted else after
            first += q[0, token] * mass * drawn
    assert torch.allclose(first, p[0], atol=1e-6)


@check("a tree of guesses: the residual of a residual, by hand")
def tree_by_hand() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.9, 0.1, 0.0], [0.1, 0.3, 0.6]])
    q = torch.tensor([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.5, 0.25, 0.25]])
    tokens, parents = torch.tensor([0, 0, 1]), torch.tensor([-1, -1, 0])  # node 2 is behind node 0
    for u, expected, after in [
        ((0.60, 0.00, 0.70), [0, 2], p[3]),  # 0.5 / 0.8 and 0.2 / 0.25 are above u
        ((0.60, 0.00, 0.90), [0], torch.tensor([0.0, 0.0, 1.0])),
        ((0.65, 0.01, 0.00), [], torch.tensor([0.0, 1.0, 0.0])),  # nothing is left of token 0
    ]:
        path, following = accept_tree(p, q, tokens, parents, torch.tensor(u))
        assert path == expected
        assert torch.allclose(following, after)


@check("greedy speculative text = greedy text of the target")
def speculative_is_the_target() -> None:
    def small(seed: int) -> Decoder:
        block = BlockConfig(AttentionConfig(d_model=16, num_heads=2), d_ff=20)
        return raise_weights(Decoder(ModelConfig(11, 1, block, PositionConfig("rope"))), seed=seed).eval()

    target, draft, prompt = small(1), small(2), torch.tensor([[3, 1, 4]])
    text = prompt
    with torch.no_grad():
        for _ in range(12):
            text = torch.cat([text, target(text)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(speculative_generate(target, draft, prompt, 12, num_draft=3), text)


# --- training


@check("loss of the next token, by hand")
def loss_by_hand() -> None:
    logits, tokens = draw(2, 4, 5), torch.tensor([[1, 2, 0, 3], [4, 4, 1, 2]])
    terms = [-logits[b, t].log_softmax(0)[tokens[b, t + 1]] for b in range(2) for t in range(3)]
    assert torch.allclose(next_token_loss(logits, tokens), torch.stack(terms).mean())


@check("accumulation over ragged batches = one large batch")
def ragged_accumulation() -> None:
    rows = [(draw(3, 4, seed=1), torch.tensor([0, 1, 2])), (draw(1, 4, seed=2), torch.tensor([1]))]
    whole = (torch.cat([x for x, _ in rows]), torch.cat([y for _, y in rows]))
    results = []
    for batches, accumulate in ((rows, 2), ([whole], 1)):
        model = torch.nn.Linear(4, 3).double()
        torch.nn.init.eye_(model.weight)
        torch.nn.init.zeros_(model.bias)
        config = TrainConfig(steps=1, peak_lr=0.1, accumulate=accumulate, clip_norm=None)
        gradients: list[torch.Tensor] = []
        model.weight.register_hook(gradients.append)
        losses = train(
            model,
            lambda i, b=batches: b[i],
            config,
            lambda m, b: summed_cross_entropy(m(b[0]), b[1]),
            progress=False,
        )
        results.append(losses)
    assert torch.allclose(*results)


@check("only matrices decay")
def matrices_decay() -> None:
    decayed, others = decay_groups(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3)), 0.1)
    assert [p.ndim for p in decayed["params"]] == [2]
    assert [p.ndim for p in others["params"]] == [1, 1, 1]


# --- linear time, by loops


@check("selective scan = loops")
def scan_by_loops() -> None:
    u, delta, A = draw(2, 7, 3), draw(2, 7, 3, seed=1).exp(), -draw(3, 4, seed=2).exp()
    B, C, D = draw(2, 7, 4, seed=3), draw(2, 7, 4, seed=4), draw(3, seed=5)
    h, rows = torch.zeros(2, 3, 4, dtype=torch.float64), []
    for t in range(7):
        decay = (delta[:, t, :, None] * A).exp()
        h = decay * h + delta[:, t, :, None] * B[:, t, None] * u[:, t, :, None]
        rows.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    assert torch.allclose(selective_scan(u, delta, A, B, C, D), torch.stack(rows, 1))


@check("wkv = loops")
def wkv_by_loops() -> None:
    w, u, k, v = draw(3).exp(), draw(3, seed=1), draw(2, 6, 3, seed=2), draw(2, 6, 3, seed=3)
    for t in range(6):
        age = (t - 1 - torch.arange(t)).clamp(min=0)[:, None] * w
        past, now = (k[:, :t] - age).exp(), (u + k[:, t]).exp()
        expected = ((past * v[:, :t]).sum(1) + now * v[:, t]) / (past.sum(1) + now)
        assert torch.allclose(wkv(w, u, k, v)[:, t], expected)


@check("linear attention averages: ones in, ones out")
def linear_attention_averages() -> None:
    q, k = draw(2, 3, 5, 4), draw(2, 3, 5, 4, seed=1)
    assert torch.allclose(linear_attention(q, k, torch.ones_like(k)), torch.ones_like(q))


@check("delta rule in chunks = its matrices", True)
@check("delta rule in steps = its matrices", False)
def delta_rule_by_matrices(chunks: bool) -> None:
    q, k, v = draw(2, 3, 7, 4), F.normalize(draw(2, 3, 7, 4, seed=1), dim=-1), draw(2, 3, 7, 4, seed=2)
    beta, log_decay = draw(2, 3, 7, seed=3).sigmoid(), -draw(2, 3, 7, seed=4).exp()
    S, expected, state, outputs = torch.zeros(2, 3, 4, 4, dtype=torch.float64), [], None, []
    for t in range(7):
        key, strength = k[:, :, t, None], beta[:, :, t, None, None]  # (2, 3, 1, 4), (2, 3, 1, 1)
        S = log_decay[:, :, t, None, None].exp() * S @ (torch.eye(4) - strength * key.mT @ key)
        S = S + strength * v[:, :, t, :, None] @ key
        expected.append((S @ q[:, :, t, :, None]).squeeze(-1))
        one = (x[:, :, t] for x in (q, k, v, beta, log_decay))
        output, state = gated_delta_rule_step(*one, state)
        outputs.append(output)
    got = gated_delta_rule(q, k, v, beta, log_decay, chunk_size=3) if chunks else torch.stack(outputs, 2)
    assert torch.allclose(got, torch.stack(expected, 2))


@check("RWKV-7 in chunks = its matrices", True)
@check("RWKV-7 in steps = its matrices", False)
def wkv7_by_matrices(chunks: bool) -> None:
    q, k, kappa, v = (
        draw(2, 3, 7, 4),
        draw(2, 3, 7, 4, seed=1),
        draw(2, 3, 7, 4, seed=2),
        draw(2, 3, 7, 4, seed=3),
    )
    kappa, rate, log_decay = (
        F.normalize(kappa, dim=-1),
        draw(2, 3, 7, 4, seed=4).sigmoid(),
        -draw(2, 3, 7, 4).exp(),
    )
    S, expected, state, outputs = torch.zeros(2, 3, 4, 4, dtype=torch.float64), [], None, []
    for t in range(7):
        removed = kappa[:, :, t, :, None] @ (rate * kappa)[:, :, t, None]  # (2, 3, 4, 4)
        S = S @ (torch.diag_embed(log_decay[:, :, t].exp()) - removed)
        S = S + v[:, :, t, :, None] @ k[:, :, t, None]
        expected.append((S @ q[:, :, t, :, None]).squeeze(-1))
        output, state = wkv7_step(*(x[:, :, t] for x in (q, log_decay, k, v, kappa, rate)), state)
        outputs.append(output)
    got = wkv7(q, log_decay, k, v, kappa, rate, chunk_size=3) if chunks else torch.stack(outputs, 2)
    assert torch.allclose(got, torch.stack(expected, 2))


@check("the indexer's scores = their definition")
def indexer_by_definition() -> None:
    indexer, x = raise_weights(Indexer(8, 3, 4)).double().requires_grad_(False), draw(1, 5, 8)
    W_q, W_k, W_w = (layer.weight.T for layer in (indexer.W_q, indexer.W_k, indexer.W_w))
    q, k, w = (x[0] @ W_q).view(5, 3, 4), F.layer_norm(x[0] @ W_k, (4,), eps=1e-6), x[0] @ W_w
    k = k * indexer.norm_k.weight + indexer.norm_k.bias
    expected = [[(w[t] * (q[t] @ k[s]).clamp(min=0)).sum() / 12**0.5 for s in range(5)] for t in range(5)]
    same_place = torch.zeros(5, dtype=torch.long)
    assert torch.allclose(indexer(x, same_place)[0], torch.tensor(expected, dtype=torch.float64))


@check("native sparse attention = loops")
def native_sparse_by_loops() -> None:
    config = NativeSparseConfig(9, 6, 2, 5, 4, 2, select_block=4, num_selected=4, window=3, num_first=0)
    layer, x = raise_weights(NativeSparseAttention(config)).double(), draw(1, 31, 9)
    wanted, blocks = native_sparse_oracle(layer, x[0].numpy())
    assert torch.equal(layer.selected_blocks(x)[0], torch.from_numpy(blocks))
    assert torch.allclose(layer(x)[0], torch.from_numpy(wanted))


@check("Mamba-2's recurrence = loops", ssd_recurrent)
@check("Mamba-2's chunks = loops", functools.partial(ssd_chunked, chunk_size=3))
@check("Mamba-2's attention = loops", ssd_attention)
def ssd_by_loops(form: Callable[..., torch.Tensor]) -> None:
    x, delta, A = draw(2, 7, 3, 2), draw(2, 7, 3, seed=1).exp(), -draw(3, seed=2).exp()
    B, C = draw(2, 7, 4, seed=3), draw(2, 7, 4, seed=4)
    H, rows = torch.zeros(2, 3, 2, 4, dtype=torch.float64), []
    for t in range(7):
        new = delta[:, t, :, None, None] * x[:, t, :, :, None] * B[:, t, None, None]
        H = (delta[:, t] * A).exp()[..., None, None] * H + new
        rows.append((H * C[:, t, None, None]).sum(-1))
    assert torch.allclose(form(x, delta, A, B, C), torch.stack(rows, 1))


# --- compiled, which takes longest


@check("recorded steps = the model", True)
@check("packed steps = the model", False)
def compiled_steps_are_the_model(static: bool) -> None:
    block = BlockConfig(AttentionConfig(d_model=16, num_heads=2), d_ff=20)
    model = raise_weights(Decoder(ModelConfig(11, 1, block, PositionConfig("rope"))).eval())
    compiled, tokens = CompiledDecoder(model, static, backend="eager"), torch.tensor([[3, 1, 4, 1, 5, 9]])
    with torch.no_grad():
        for seed in (1, 2):
            raise_weights(model, seed=seed)
            cache, expected = compiled.new_cache(1, 7), model(tokens)
            compiled(tokens[:, :3], cache)
            for t in range(3, 6):
                logits = compiled(tokens[:, t : t + 1], cache)
                assert torch.allclose(logits[:, 0], expected[:, t], atol=1e-4)


@pytest.mark.parametrize("name", CHECKS)
def test_the_unbroken_code_passes(name: str) -> None:
    CHECKS[name]()


@pytest.fixture(scope="module")
def table() -> dict[str, str | None]:
    return kill_table(MUTANTS, CHECKS)


def test_every_mutant_is_caught(table, record_property) -> None:
    record_property("summary", f"{len(MUTANTS)} faults, {len(CHECKS)} checks\n{format_kill_table(table)}")
    assert [name for name, caught_by in table.items() if caught_by is None] == []


def test_a_row_that_has_lost_its_place_says_so() -> None:
    from mutants import rewritten

    with pytest.raises(ValueError, match="once in repeat_kv"):
        rewritten("no such text", "")(repeat_kv)
