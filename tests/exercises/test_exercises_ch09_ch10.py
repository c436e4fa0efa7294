"""Variants: what is published gets full marks, an unknown mistake is told by a law, reads are counted."""

import math

import pytest
import torch
import torch.nn.functional as F
from exercise_bank import named, report_on

from autograder import exercises
from autograder.cage import probes
from autograder.checking.candidate import local
from autograder.checking.examination import examine
from autograder.student import PUBLIC_SEED


def mistral(seq_len, window):
    """transformers' overlay for a causal window, asked of all pairs."""
    from transformers.masking_utils import sliding_window_causal_mask_function

    allowed = sliding_window_causal_mask_function(window)
    i, j = torch.meshgrid(torch.arange(seq_len), torch.arange(seq_len), indexing="ij")
    return allowed(0, 0, i, j)


def flash_attention(q, k, v, block_size, causal=False):
    """As FlashAttention-2 has it: rows outside, columns inside, in float32, one division at the end."""
    T, out = q.shape[2], torch.zeros_like(q)
    for i in range(0, T, block_size):
        q_i = q[:, :, i : i + block_size].float()
        rows = torch.arange(i, i + q_i.shape[2], device=q.device)
        o, m = torch.zeros_like(q_i), torch.full_like(q_i[..., 0], -1e30)
        total = torch.zeros_like(m)
        for j in range(0, T, block_size):
            if causal and j > rows[-1]:
                break
            k_j, v_j = (x[:, :, j : j + block_size].float() for x in (k, v))
            s = torch.einsum("bhid,bhjd->bhij", q_i, k_j) / math.sqrt(q.shape[-1])
            if causal:
                cols = torch.arange(j, j + k_j.shape[2], device=q.device)
                s = torch.where(rows[:, None] >= cols, s, -1e30)
            m_new = torch.maximum(m, s.amax(-1))
            p, alpha = torch.exp(s - m_new[..., None]), torch.exp(m - m_new)
            total, o, m = alpha * total + p.sum(-1), alpha[..., None] * o + p @ v_j, m_new
        out[:, :, i : i + block_size] = (o / total[..., None]).to(q.dtype)
    return out


def without_n_squared_memory(q, k, v, block_size, causal=False):
    """As Rabe and Staats have it: the parts of a chunk of queries, put together by their maxima."""

    def part(q_i, k_j, v_j, allowed):
        scores = (q_i @ k_j.mT * q.shape[-1] ** -0.5).masked_fill(~allowed, -1e30)
        peak = scores.amax(-1, keepdim=True).detach()
        e = torch.exp(scores - peak)
        return e @ v_j, e.sum(-1, keepdim=True), peak

    position = torch.arange(q.shape[2], device=q.device)
    keys = list(zip(*(x.split(block_size, -2) for x in (k, v, position[:, None])), strict=True))
    chunks = []
    for q_i, rows in zip(q.split(block_size, 2), position.split(block_size), strict=True):
        parts = [part(q_i, k_j, v_j, (rows[:, None] >= cols.T) | (not causal)) for k_j, v_j, cols in keys]
        values, sums, peaks = (torch.stack(x) for x in zip(*parts, strict=True))
        shares = torch.exp(peaks - peaks.amax(0))
        chunks.append((shares * values).sum(0) / (shares * sums).sum(0))
    return torch.cat(chunks, dim=2)


def updated_out_and_lse(q_shards, k_shards, v_shards, causal=False):
    """As open ring attention merges: out - sigmoid(block_lse - lse) (out - block_out), in float32."""
    out_shards = []
    for rank, q in enumerate(q_shards):
        out = lse = None
        for step in range(len(q_shards)):
            source = (rank - step) % len(q_shards)
            if causal and source > rank:
                continue
            s = (q @ k_shards[source].mT).float() / q.shape[-1] ** 0.5
            if causal and source == rank:
                s = s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf)
            block_out, block_lse = s.softmax(-1) @ v_shards[source].float(), s.logsumexp(-1, keepdim=True)
            if out is None:
                out, lse = block_out, block_lse
            else:
                out = out - torch.sigmoid(block_lse - lse) * (out - block_out)
                lse = lse - F.logsigmoid(lse - block_lse)
        out_shards.append(out.to(q.dtype))
    return out_shards


def fast_transformers(q, k, v, causal=True):
    """As linear attention was published: features, einsum and a small number in the normaliser."""
    Q, K = (F.elu(x) + 1 for x in (q.transpose(1, 2), k.transpose(1, 2)))
    V = v.transpose(1, 2)
    if causal:
        KV = torch.einsum("nshd,nshm->nshmd", K, V).cumsum(1)
        Z = 1 / (torch.einsum("nlhi,nlhi->nlh", Q, K.cumsum(1)) + 1e-6)
        return torch.einsum("nlhd,nlhmd,nlh->nlhm", Q, KV, Z).transpose(1, 2)
    KV = torch.einsum("nshd,nshm->nhmd", K, V)
    Z = 1 / (torch.einsum("nlhd,nhd->nlh", Q, K.sum(dim=1)) + 1e-6)
    return torch.einsum("nlhd,nhmd,nlh->nlhm", Q, KV, Z).transpose(1, 2)


def rwkv(w, u, k, v):
    """transformers' RWKV, whose decay is stored as a logarithm."""
    from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

    return rwkv_linear_attention_cpu(torch.log(w), u, k, v)[0]


def mamba(u, delta, A, B, C, D):
    """transformers' Mamba without its kernel, whose time comes last."""
    from transformers.models.mamba.modeling_mamba import mamba_selective_scan

    turned = (x.transpose(1, 2) for x in (u, delta))
    y = mamba_selective_scan(*turned, A, B.transpose(1, 2), C.transpose(1, 2), D)
    return y.transpose(1, 2).to(u.dtype)


def mixtral(logits, k):
    """transformers' router of Mixtral, whose weights are the unit matrix."""
    from types import SimpleNamespace

    from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter

    E = logits.shape[-1]
    config = SimpleNamespace(num_experts_per_tok=k, num_local_experts=E, hidden_size=E)
    router = MixtralTopKRouter(config)
    router.weight.data = torch.eye(E, dtype=logits.dtype, device=logits.device)
    _, weights, experts = router(logits)
    return weights.to(logits.dtype), experts


HERE = {
    flash_attention: "tiled_attention",
    without_n_squared_memory: "tiled_attention",
    updated_out_and_lse: "ring_attention",
    fast_transformers: "linear_attention",
}
IN_A_LIBRARY = {mistral: "sliding_window_mask", rwkv: "wkv", mamba: "selective_scan", mixtral: "route_top_k"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize(
    "function",
    [*HERE, *(pytest.param(f, marks=pytest.mark.slow) for f in IN_A_LIBRARY)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_is_published_gets_full_marks(function, seed):
    exercise = exercises.find(named((HERE | IN_A_LIBRARY)[function]))
    report = examine(exercise, local(function), seed)  # a student may not call these libraries
    assert report.passed, report


def attend(q, k, v, causal, scale=None, strict=0):
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        s = s.masked_fill(torch.ones_like(s).triu(1 - strict).bool(), -1e9)
    return torch.softmax(s, -1) @ v


def without_the_one_before(q, k, v, causal):
    i = torch.arange(q.shape[2])
    s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(i[:, None] == i + 1, -1e9)
    s = s.masked_fill(i[:, None] < i, -1e9) if causal else s
    return torch.softmax(s, -1) @ v


def kernel(q, k, v, causal, phi):
    w = phi(q) @ phi(k).mT
    w = w.tril() if causal else w
    return w @ v / w.sum(-1, keepdim=True)


def prefix_by_prefix(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    rows = []
    for t in range(1, q.shape[2] + 1):
        w = q[:, :, t - 1 : t] @ k[:, :, :t].mT
        rows.append(w @ v[:, :, :t] / w.sum(-1, keepdim=True))
    return torch.cat(rows, 2)


def put_together(q_shards, k_shards, v_shards):
    k, v = torch.cat(k_shards, 2), torch.cat(v_shards, 2)
    return [attend(q, k, v, False) for q in q_shards]


def fading(w, u, k, v, bonus=1.0, age=lambda t, i: t - 1 - i):
    rows = []
    for t in range(k.shape[1]):
        steps = torch.tensor([age(t, i) for i in range(t)], dtype=k.dtype, device=k.device)
        exponents = torch.cat([k[:, :t] - steps[:, None] * w, (k[:, t] + bonus * u)[:, None]], 1)
        rows.append((torch.softmax(exponents, 1) * v[:, : t + 1]).sum(1))
    return torch.stack(rows, 1)


def scanned(u, delta, A, B, C, D, drive=None, straight=None):
    h, ys = 0, []
    for t in range(u.shape[1]):
        write = (delta[:, t] * u[:, t])[..., None] if drive is None else drive(t)
        h = torch.exp(delta[:, t, :, None] * A) * h + write * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + (D * u[:, t] if straight is None else straight(t)))
    return torch.stack(ys, 1)


def absorbed(scale=lambda width: width**-0.5, matrices=lambda W_uk: W_uk, rotary=lambda scores: scores):
    """An absorbed_scores with another scale, other matrices or another rotary part."""

    def absorbed_scores(q_nope, q_rope, c_kv, k_rope, W_uk):
        scores = torch.einsum("bhqc,btc->bhqt", q_nope @ matrices(W_uk), c_kv)
        scores = scores + rotary(torch.einsum("bhqr,btr->bhqt", q_rope, k_rope))
        return scores * scale(q_nope.shape[-1] + q_rope.shape[-1])

    return absorbed_scores


WRONG = {
    "window: half of it": (
        "sliding_window_mask",
        lambda seq_len, window: torch.ones(seq_len, seq_len).tril().triu(-(window // 2)).bool(),
        "sees 2 tokens; with a window of 3 it sees 3: itself and 2 before it",
    ),
    "window: always the first token too": (
        "sliding_window_mask",
        lambda seq_len, window: (
            torch.ones(seq_len, seq_len).tril().bool()
            & (torch.ones(seq_len, seq_len).triu(1 - window).bool() | (torch.arange(seq_len) < 1))
        ),
        "token 3 sees 4 tokens; with a window of 3 it sees 3",
    ),
    "tiled: scaled by the block": (
        "tiled_attention",
        lambda q, k, v, block_size, causal=False: attend(q, k, v, causal, block_size**-0.5),
        "your weights are the softmax of q . k times",
    ),
    "tiled: a token does not see itself": (
        "tiled_attention",
        lambda q, k, v, block_size, causal=False: attend(q, k, v, causal, strict=1),
        "token 0 gives the weight 0.5 to token 1, a later token",
    ),
    "tiled: halves": (
        "tiled_attention",
        lambda q, k, v, block_size, causal=False: attend(q, k, v, causal) / 2,
        "give every token the value 1 and your output is 0.5",
    ),
    "tiled: only where it is causal": (
        "tiled_attention",
        lambda q, k, v, block_size, causal=False: (
            flash_attention(q, k, v, block_size, causal) if causal else attend(q, k, v, causal)
        ),
        "your largest tensor has the shape",
    ),
    "ring: only where it is causal": (
        "ring_attention",
        lambda q, k, v, causal=False: (
            updated_out_and_lse(q, k, v, causal) if causal else put_together(q, k, v)
        ),
        "3 of the k_shards are put together",
    ),
    "linear: a prefix read again by every token": (
        "linear_attention",
        lambda q, k, v, causal=True: (
            prefix_by_prefix(q, k, v) if causal else fast_transformers(q, k, v, causal)
        ),
        "the cost grows with T^2",
    ),
    "linear: only where it is causal": (
        "linear_attention",
        lambda q, k, v, causal=True: (
            fast_transformers(q, k, v) if causal else kernel(q, k, v, causal, lambda x: F.elu(x) + 1)
        ),
        "it grows with T^2, as for a softmax",
    ),
    "tiled: a token does not see the one before": (
        "tiled_attention",
        lambda q, k, v, block_size, causal=False: without_the_one_before(q, k, v, causal),
        "token 1 gives next to no weight to token 0, which it may see; 0.",
    ),
    "linear: another feature map": (
        "linear_attention",
        lambda q, k, v, causal=True: kernel(q, k, v, causal, F.softplus),
        "by phi(q) . phi(k) it should be",
    ),
    "linear: the softmax": (
        "linear_attention",
        lambda q, k, v, causal=True: attend(q, k, v, causal),
        "by phi(q) . phi(k) it should be",
    ),
    "wkv: age from the start": (
        "wkv",
        lambda w, u, k, v: fading(w, u, k, v, age=lambda t, i: i),
        "the weights of token 2 for tokens 0 and 1 have the ratio",
    ),
    "wkv: the bonus subtracted": (
        "wkv",
        lambda w, u, k, v: fading(w, u, k, v, bonus=-1.0),
        "the weights of token 1 for tokens 0 and 1 have the ratio",
    ),
    "scan: D without the input": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta, A, B, C, D, straight=lambda t: D),
        "with u = 0 your output is",
    ),
    "scan: channels mixed": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(
            u, delta, A, B, C, D, drive=lambda t: (delta[:, t] * u[:, t]).sum(-1)[:, None, None]
        ),
        "channels do not mix",
    ),
    "scan: delta squared": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(
            u, delta, A, B, C, D, drive=lambda t: (delta[:, t] ** 2 * u[:, t])[..., None]
        ),
        "at that step; C . (delta B) is",
    ),
    "absorbed: the scale of a cube root": (
        "absorbed_scores",
        absorbed(scale=lambda width: width ** (-1 / 3)),
        "your scores are q_nope . W_uk c times 0.63; it should be 1/sqrt(d_nope + d_rope) = 0.5",
    ),
    "absorbed: the matrices of other heads": (
        "absorbed_scores",
        absorbed(matrices=lambda W_uk: W_uk.roll(1, dims=0)),
        "heads do not depend on each other",
    ),
    "absorbed: the rotary part twice": (
        "absorbed_scores",
        absorbed(rotary=lambda scores: 2 * scores),
        "with q_nope = 0 your scores are q_rope . k_rope times 1; it should be",
    ),
    "absorbed: the mean over the tokens taken off": (
        "absorbed_scores",
        absorbed(rotary=lambda scores: scores - scores.mean(-1, keepdim=True)),
        "tokens do not depend on each other",
    ),
    "route: the largest in size": (
        "route_top_k",
        lambda logits, k: (torch.softmax(logits.abs().topk(k).values, -1), logits.abs().topk(k).indices),
        "and not expert",
    ),
    "route: experts counted from 2": (
        "route_top_k",
        lambda logits, k: (torch.softmax(logits.topk(k).values, -1), logits.topk(k).indices + 2),
        "numbers of experts, 0 to",
    ),
    "route: too soft": (
        "route_top_k",
        lambda logits, k: (torch.softmax(logits.topk(k).values / 2, -1), logits.topk(k).indices),
        "your weights are the softmax of the chosen logits times 0.5; the factor should be 1",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_an_unknown_mistake_is_told_by_a_law(name):
    exercise, function, says = WRONG[name]
    report = report_on(named(exercise), function, shrinking=True)
    assert not report.passed
    assert says in str(report), report


def shards(*lengths):
    draws = torch.Generator().manual_seed(0)
    return [torch.randn(1, 2, length, 3, generator=draws) for length in lengths]


class TestReadsAreCounted:
    def seen(self, function):
        return probes.visits(function, shards(2, 3, 4), shards(2, 3, 4))

    def test_a_visit_lasts_until_another_tensor_is_read(self):
        def visit(q, k):
            for _ in range(2):
                for x in k:
                    (x + 1) * x
            k[2].exp()

        assert self.seen(visit)["visits"] == [[0, 0, 0], [2, 2, 2]]

    def test_shapes_views_and_new_tensors_read_nothing(self):
        def look(q, k):
            return [(x.shape, x.mT, x[:, :, 1:], x.new_zeros(3), torch.empty_like(x)) for x in k]

        assert self.seen(look)["visits"][1] == [0, 0, 0]

    def test_what_is_put_together_is_seen(self):
        def buffer(q, k):
            whole = k[0].new_zeros(1, 2, 9, 3)
            for x, place in zip(k, torch.arange(9).split([2, 3, 4]), strict=True):
                whole[:, :, place[0] : place[-1] + 1] = x

        assert self.seen(lambda q, k: torch.cat(k, dim=2))["together"] == [0, 3]
        assert self.seen(lambda q, k: torch.cat(k[1:], dim=2))["together"] == [0, 2]
        assert self.seen(buffer)["together"] == [0, 3]
        assert self.seen(lambda q, k: [x.clone() for x in k])["together"] == [0, 1]

    def test_the_largest_tensor_is_measured(self):
        assert self.seen(lambda q, k: torch.cat(q, 2) @ k[0].mT)["largest"] == 2 * 9 * 3
        assert self.seen(lambda q, k: q[2] @ k[2].mT)["largest"] == 2 * 4 * 4


def test_gradients_are_given_inside_lists():
    found = probes.gradients(lambda x, scale: x[0] * x[1] * scale, [torch.tensor(2.0), torch.tensor(3.0)], 5)
    push = math.cos(0.5)
    assert found.keys() == {"0[0]", "0[1]"}
    assert found["0[0]"] == pytest.approx(15 * push)
    assert found["0[1]"] == pytest.approx(10 * push)


@pytest.mark.slow
def test_a_missing_gradient_in_a_list_is_named():
    exercise = exercises.find("ch09_cheaper_attention/ring_attention")
    mistake = next(m for m in exercise.misconceptions if m.name == "shards_detached")
    assert "no gradient reaches `k_shards[0]`" in str(report_on(exercise.name, mistake.function))


@pytest.mark.slow
def test_a_metered_call_may_come_first():
    """The meters are `tfcore`'s, which a student may not call."""
    import subprocess
    import sys

    asked = (
        "from autograder.cage.calling import call; import torch\n"
        "told = call(lambda: torch.ones(3) + 1, [], {}, ['tfcore'], metered=True)\n"
        "assert not told['forbidden'], told"
    )
    subprocess.run([sys.executable, "-c", asked], check=True)
