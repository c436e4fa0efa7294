"""The arithmetic of costs, held to what torch counts on real modules."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from architecture_models import BATCH, GPT, LENGTH, LLAMA, TINY, Attention, build
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tfcore import costs
from tfcore.costs import CEILINGS, MODELS, Architecture


@pytest.mark.parametrize("name", TINY)
def test_parameters_are_those_of_the_module(name):
    model, a, _, _ = build(name)
    parts = costs.parameters_by_part(a)
    assert costs.model_parameters(a) == sum(p.numel() for p in model.parameters()) == sum(parts.values())
    assert costs.weight_bytes(a, 4) == sum(p.numel() * p.element_size() for p in model.parameters())
    assert costs.training_state_bytes(a) == 16 * sum(p.numel() for p in model.parameters())
    attention = [m for m in model.modules() if isinstance(m, Attention)]
    assert parts["attention"] == sum(p.numel() for m in attention for p in m.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_forward_operations_are_those_that_torch_counts(name):
    model, a, tokens, options = build(name)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*tokens)
    assert costs.forward_flops(a, LENGTH, batch=BATCH, **options) == counter.get_total_flops()


@pytest.mark.parametrize("name", TINY)
def test_training_operations_are_those_that_torch_counts(name):
    model, a, tokens, options = build(name)
    with FlopCounterMode(display=False) as counter:
        model(*tokens).square().sum().backward()
    assert costs.training_flops(a, LENGTH, batch=BATCH, **options) == counter.get_total_flops()


@pytest.mark.parametrize("name", ["gpt", "llama", "one key head", "own width of heads"])
def test_parts_of_the_operations_are_those_of_the_modules(name):
    model, a, tokens, _ = build(name)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*tokens)
    counted = {
        place: sum(numbers.values()) for place, numbers in counter.get_flop_counts().items() if "." in place
    }
    parts = costs.flops_by_part(a, LENGTH, batch=BATCH)
    attention = sum(n for place, n in counted.items() if place.endswith(".attention"))
    linear = sum(n for place, n in counted.items() if ".attention." in place)
    assert parts["projections"] == linear
    assert parts["scores"] == attention - linear
    assert parts["feed-forward"] == sum(n for place, n in counted.items() if place.endswith(".ffn"))
    assert parts["head"] == counted["Model.head"]


def test_recomputing_runs_the_blocks_once_more():
    from torch.utils.checkpoint import checkpoint

    model, a, (tokens,), _ = build("gpt")
    x = model.embedding(tokens) + model.positions.weight[:LENGTH]
    with FlopCounterMode(display=False) as counter:
        for block in model.blocks:
            x = checkpoint(block, x, use_reentrant=False, early_stop=False)
        model.head(model.norms[0](x)).square().sum().backward()
    assert costs.training_flops(a, LENGTH, batch=BATCH, recompute=True) == counter.get_total_flops()


def test_short_sequences_cost_about_six_operations_per_parameter_and_token():
    a = MODELS["Llama 2 7B"].architecture
    assert costs.training_flops(a, 128) / 128 / costs.model_parameters(a) == pytest.approx(6, rel=0.02)


@pytest.mark.parametrize("name", ["gpt", "one key head", "gated with biases", "bert"])
def test_activations_are_what_autograd_saves(name):
    model, a, tokens, _ = build(name)
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, Tensor] = {}

    def keep(x: Tensor) -> Tensor:
        saved[x.untyped_storage().data_ptr()] = x
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        out = model(*tokens)
        loss = out.sum() if a.head == "none" else F.cross_entropy(out.flatten(0, 1), tokens[0].flatten())
    floats = [
        x for at, x in saved.items() if at not in parameters and x.is_floating_point() and x.numel() > 1
    ]
    size = sum(x.untyped_storage().nbytes() for x in floats)
    assert loss.requires_grad
    statistics = 2 * (2 * a.num_layers + 1)  # the mean and the deviation that each norm keeps for a token
    if a.head == "none":
        statistics += a.d_model  # the input of the last norm, which no head follows
    assert size == costs.activation_bytes(a, LENGTH, BATCH, 4) + statistics * BATCH * LENGTH * 4


def test_activations_without_weights_are_linear_in_the_length():
    sizes = [costs.activation_bytes(GPT, n, store_weights=False) for n in (50, 100, 150)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]
    full = costs.activation_bytes(GPT, 100)
    assert full - sizes[1] == GPT.num_layers * GPT.num_heads * 100 * 100 * 2


# --- pairs, lengths, caches


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3, 20])
def test_pairs_are_counted_one_by_one(causal, window):
    for k_len, q_len in itertools.product(range(1, 13), repeat=2):
        if q_len > k_len:
            continue
        pairs = sum(
            (window is None or abs(p - j) < window) and not (causal and j > p)
            for p in range(k_len - q_len, k_len)
            for j in range(k_len)
        )
        assert costs.attended_pairs(q_len, k_len, causal, window) == pairs


@pytest.mark.parametrize("name", ["gpt", "llama", "own width of heads", "experts"])
@pytest.mark.parametrize("causal", [False, True])
def test_beyond_the_crossover_scores_cost_more_than_the_rest(name, causal):
    length = costs.crossover_length(TINY[name], causal)
    scores, rest = [], []
    for n in (length - 1, length):
        parts = costs.flops_by_part(TINY[name], n, causal=causal)
        scores.append(parts.pop("scores"))
        rest.append(sum(parts.values()))
    assert scores[0] <= rest[0]
    assert scores[1] > rest[1]


def test_the_crossover_of_the_textbook_and_that_of_a_window():
    plain = Architecture(4, 30, 5, 120, vocab_size=11, max_len=9, head="none")
    assert costs.crossover_length(plain) == 6 * 30 + 1
    assert costs.crossover_length(plain, causal=True) == 12 * 30
    assert costs.crossover_length(replace(plain, window=360), causal=True) == 12 * 30
    assert costs.crossover_length(replace(plain, window=150), causal=True) is None


def test_decoding_with_a_cache_does_the_operations_of_the_last_row():
    whole, shorter = (costs.forward_flops(LLAMA, n, causal=True) for n in (13, 12))
    assert costs.forward_flops(LLAMA, 1, 13) == whole - shorter
    in_chunks = costs.forward_flops(LLAMA, 8, causal=True) + costs.forward_flops(LLAMA, 5, 13, causal=True)
    assert in_chunks == whole


def test_a_cache_holds_keys_and_values_of_every_layer():
    tensors = [torch.zeros(3, 5, 11, 7, dtype=torch.float16) for _ in range(4) for _ in "kv"]
    assert costs.kv_cache_bytes(4, 5, 7, 11, batch=3) == sum(t.nbytes for t in tensors)
    assert costs.kv_cache_bytes(4, 5, 7, 11, 3, bytes_per_element=1) * 2 == sum(t.nbytes for t in tensors)
    a = MODELS["Llama 2 70B"].architecture
    assert costs.cache_bytes(a, 4096, 2) == costs.kv_cache_bytes(80, 8, 128, 4096, 2)
    windowed = replace(a, window=1024)
    assert costs.cache_bytes(windowed, 4096) == costs.cache_bytes(a, 1024)
    assert costs.cache_bytes(windowed, 100) == costs.cache_bytes(a, 100)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kv_heads", [None, 1, 3, 6])
def test_parameters_of_an_attention_layer_are_those_of_its_matrices(kv_heads, bias):
    width = 24 // 6 * (kv_heads or 6)
    shapes = [(24, 24), (24, width), (24, width), (24, 24)]
    layers = [nn.Linear(*shape, bias=bias) for shape in shapes]
    assert costs.parameter_count(24, 6, kv_heads, bias) == sum(
        p.numel() for layer in layers for p in layer.parameters()
    )


def test_parameters_of_an_attention_layer_are_those_of_torch():
    layer = nn.MultiheadAttention(24, 6)
    assert costs.parameter_count(24, 6) == sum(p.numel() for p in layer.parameters())


# --- hardware


def test_time_is_bound_by_the_slower_of_the_two():
    ceiling = costs.Ceiling(flops_per_second=100.0, bytes_per_second=10.0, source="")
    assert costs.time_bound(1000, 1, ceiling) == 10
    assert costs.time_bound(1, 1000, ceiling) == 100
    assert costs.arithmetic_intensity(1000, 100) == ceiling.ridge == 10
    assert costs.time_bound(1000, 100, ceiling) == 1000 / 100 == 100 / 10


def test_every_ceiling_lies_above_what_was_measured():
    published, measured = CEILINGS["H200 SXM"], CEILINGS["H200 SXM, measured"]
    assert measured.flops_per_second < published.flops_per_second
    assert measured.bytes_per_second < published.bytes_per_second
    assert all(100 < ceiling.ridge < 400 for ceiling in CEILINGS.values())


def test_a_forward_pass_reads_each_weight_that_it_needs():
    """One token: all of a tied model; of an untied one, of tables and of experts only what is met."""
    cache = costs.cache_bytes(GPT, 9)
    unread = (GPT.max_len - 1) * GPT.d_model
    assert costs.forward_bytes(GPT, 1, 9) == (costs.model_parameters(GPT) - unread) * 2 + cache
    experts = TINY["experts"]
    unread = (experts.vocab_size - 1) * experts.d_model
    met = costs.active_parameters(experts) - unread
    assert costs.forward_bytes(experts, 1, 9) == met * 2 + costs.cache_bytes(experts, 9)
    every_expert = costs.model_parameters(experts) - (experts.vocab_size - 30) * experts.d_model
    assert costs.forward_bytes(experts, 30) == every_expert * 2 + costs.cache_bytes(experts, 30)


def test_one_sequence_is_bound_by_memory_and_many_by_arithmetic():
    a, ceiling = MODELS["Llama 3 8B"].architecture, CEILINGS["H100 SXM"]
    one = costs.arithmetic_intensity(costs.forward_flops(a, 1, 128), costs.forward_bytes(a, 1, 128))
    prompt = costs.arithmetic_intensity(costs.forward_flops(a, 4096), costs.forward_bytes(a, 4096))
    assert one < 2 < ceiling.ridge < prompt
    rates = [costs.tokens_per_second(a, 128, ceiling, batch) for batch in (1, 8, 64)]
    assert rates[0] < rates[1] < rates[2] < 64 * rates[0]
    seconds = costs.forward_bytes(a, 1, 128) / ceiling.bytes_per_second
    assert rates[0] == pytest.approx(1 / seconds)


# --- what cannot be

BAD = [
    lambda: costs.parameter_count(10, 3),
    lambda: costs.parameter_count(12, 6, 4),
    lambda: replace(GPT, num_heads=3),
    lambda: replace(GPT, num_kv_heads=2),
    lambda: replace(GPT, d_ff=0),
    lambda: replace(GPT, norm="batch"),
    lambda: replace(GPT, head="two"),
    lambda: replace(GPT, num_experts=2, top_k=3),
    lambda: costs.attended_pairs(5, 4),
    lambda: costs.attended_pairs(0, 4),
    lambda: costs.attended_pairs(4, 4, window=0),
    lambda: costs.parameter_count(12, 0),
    lambda: costs.parameter_count(12, 6, 0),
    lambda: costs.parameter_count(-12, 6),
    lambda: costs.forward_flops(GPT, 5, source_len=4),
    lambda: costs.forward_flops(TINY["encoder and decoder"], 5),
    lambda: costs.forward_flops(TINY["encoder and decoder"], 5, 7, source_len=4),
    lambda: costs.crossover_length(TINY["encoder and decoder"]),
    lambda: costs.cache_bytes(TINY["encoder and decoder"], 5),
    lambda: costs.activation_bytes(TINY["encoder and decoder"], 5),
    lambda: costs.activation_bytes(TINY["experts"], 5),
    lambda: costs.forward_bytes(GPT, 10, 5),
    lambda: costs.forward_bytes(GPT, -1),
    lambda: costs.forward_bytes(GPT, 1, batch=0),
    lambda: costs.forward_bytes(GPT, 1, bytes_per_element=0),
    lambda: costs.cache_bytes(GPT, -5),
    lambda: costs.cache_bytes(GPT, 5, batch=-1),
    lambda: costs.kv_cache_bytes(0, 2, 3, 4),
    lambda: costs.forward_flops(GPT, 3, batch=-1),
    lambda: costs.training_flops(GPT, 3, batch=0),
    lambda: costs.forward_flops(TINY["encoder and decoder"], 10, source_len=0),
    lambda: costs.activation_bytes(GPT, -1),
    lambda: costs.activation_bytes(GPT, 5, batch=0),
    lambda: costs.weight_bytes(GPT, -1),
    lambda: costs.weight_bytes(GPT, float("nan")),
    lambda: costs.Ceiling(-1, 1, "x"),
    lambda: costs.Ceiling(1, 0, "x"),
    lambda: costs.time_bound(-1, 1, CEILINGS["H100 SXM"]),
    lambda: costs.arithmetic_intensity(1, 0),
    lambda: costs.tokens_per_second(GPT, 5, CEILINGS["H100 SXM"], batch=-1),
    lambda: replace(GPT, num_encoder_layers=-4),
    lambda: replace(GPT, extra_norms=-1),
    lambda: replace(GPT, other_parameters=-1),
]


@pytest.mark.parametrize("call", BAD)
def test_what_cannot_be_is_refused_with_advice(call):
    with pytest.raises(ValueError, match=r"expected .*, got .*; "):
        call()


def test_a_cache_may_be_empty_and_an_element_half_a_byte():
    assert costs.cache_bytes(GPT, 0) == 0
    assert costs.weight_bytes(GPT, 0.5) * 4 == costs.weight_bytes(GPT)
    assert costs.time_bound(0, 10, costs.Ceiling(0.5, 0.5, "")) == 20


def test_costs_need_no_torch():
    code = "import sys, tfcore.costs; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sources_stand_in_the_bibliography():
    entries = (Path(__file__).parents[2] / "book" / "references.bib").read_text()
    sources = {x.source for x in [*costs.MODELS.values(), *costs.CEILINGS.values()]}
    assert {key for key in sources if f"{{{key}," not in entries} <= {"measured"}
