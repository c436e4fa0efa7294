"""Published models have the parameters and operations that authors, transformers and torch count."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from architecture_models import BATCH, LENGTH, SOURCE
from torch.utils.flop_counter import FlopCounterMode

from tfcore import costs
from tfcore.costs import MODELS, Architecture


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_has_the_parameters_that_it_is_said_to_have(name):
    model = MODELS[name]
    assert costs.model_parameters(model.architecture) == pytest.approx(model.published, rel=0.01)
    if model.published % 1000:
        assert costs.model_parameters(model.architecture) == model.published
    assert model.source.isidentifier()


def test_mixtral_uses_the_parameters_that_its_authors_say():
    assert costs.active_parameters(MODELS["Mixtral 8x7B"].architecture) == pytest.approx(12.9e9, rel=0.01)
    gpt2 = MODELS["GPT-2 small"].architecture
    assert costs.active_parameters(gpt2) == costs.model_parameters(gpt2)


def configuration(name: str, a: Architecture):
    """Translate an architecture into a class of transformers and its configuration."""
    import transformers as hf

    family = name.split()[0].split("-")[0]
    sizes = {
        "hidden_size": a.d_model,
        "num_hidden_layers": a.num_layers,
        "num_attention_heads": a.num_heads,
        "intermediate_size": a.d_ff,
        "vocab_size": a.vocab_size,
        "max_position_embeddings": a.max_len,
    }
    if family in ("Llama", "Mistral", "Mixtral", "Gemma"):
        sizes |= {
            "num_key_value_heads": a.kv_heads,
            "head_dim": a.head_width,
            "tie_word_embeddings": a.head == "tied",
        }
    if family == "GPT":
        names = {"n_embd": a.d_model, "n_layer": a.num_layers, "n_head": a.num_heads, "n_inner": a.d_ff}
        config = hf.GPT2Config(**names, vocab_size=a.vocab_size, n_positions=a.max_len)
        return hf.GPT2LMHeadModel, config
    if family == "BLOOM":
        names = {"hidden_size": a.d_model, "n_layer": a.num_layers, "n_head": a.num_heads}
        return hf.BloomForCausalLM, hf.BloomConfig(**names, vocab_size=a.vocab_size)
    if family == "T5":
        names = {"d_model": a.d_model, "num_layers": a.num_encoder_layers, "num_heads": a.num_heads}
        names |= {"num_decoder_layers": a.num_layers, "d_kv": a.head_width, "d_ff": a.d_ff}
        return hf.T5ForConditionalGeneration, hf.T5Config(**names, vocab_size=a.vocab_size)
    if family == "BERT":
        return hf.BertModel, hf.BertConfig(**sizes)
    if family == "Mixtral":
        experts = {"num_local_experts": a.num_experts, "num_experts_per_tok": a.top_k}
        return hf.MixtralForCausalLM, hf.MixtralConfig(**sizes, **experts)
    if family == "Gemma":
        return hf.GemmaForCausalLM, hf.GemmaConfig(**sizes)
    return getattr(hf, f"{family}ForCausalLM"), getattr(hf, f"{family}Config")(**sizes)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["published", "tiny"])
def test_a_published_model_has_the_parameters_that_transformers_gives_it(size):
    """Exactly, for the published sizes (made without memory) and for small ones."""
    for name, model in MODELS.items():
        a = model.architecture
        if size == "tiny":
            a = shrink(name, a)
        make, config = configuration(name, a)
        with torch.device("meta"):
            counted = sum(p.numel() for p in make(config).parameters())
        assert costs.model_parameters(a) == counted, name


def shrink(name: str, a: Architecture) -> Architecture:
    """Make a model small, with numbers of which no two are equal, its parts left as they are."""
    kv_heads = 3 if a.num_kv_heads and a.kv_heads < a.num_heads else None
    d_head = 10 if a.d_head else None
    d_ff = 96 if name.startswith(("GPT", "BLOOM")) else 38
    small = replace(a, num_layers=2, d_model=24, num_heads=6, num_kv_heads=kv_heads, d_head=d_head, d_ff=d_ff)
    small = replace(small, vocab_size=71, max_len=33)
    if name.startswith("T5"):
        return replace(small, num_encoder_layers=3, other_parameters=2 * 32 * 6)
    if name.startswith("BERT"):
        return replace(small, other_parameters=2 * 24 + 24 * 24 + 24)
    return replace(small, num_experts=5) if a.num_experts > 1 else small


@pytest.mark.slow
def test_operations_of_small_published_models_are_those_that_torch_counts():
    """The one matrix that is not in the table is left out of the count: the pooler of BERT."""
    for name in ("GPT-2 small", "BERT-base", "T5-base", "BLOOM-176B", "Llama 3 8B", "Gemma 7B"):
        a = shrink(name, MODELS[name].architecture)
        make, config = configuration(name, a)
        config._attn_implementation = "eager"
        model = make(config).eval()
        tokens = torch.randint(a.vocab_size, (BATCH, LENGTH))
        inputs = {"input_ids": tokens}
        options = {}
        if a.num_encoder_layers:
            inputs = {"input_ids": torch.randint(a.vocab_size, (BATCH, SOURCE)), "decoder_input_ids": tokens}
            options = {"source_len": SOURCE}
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(**inputs)
        counted = counter.get_total_flops()
        if name == "BERT-base":
            counted -= 2 * BATCH * a.d_model**2
        assert costs.forward_flops(a, LENGTH, batch=BATCH, **options) == counted, name
