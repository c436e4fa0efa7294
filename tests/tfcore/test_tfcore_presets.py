"""Presets: the published number of parameters, a family for each, and tiny ones for a laptop."""

from __future__ import annotations

import pytest
import torch
import transformers
from saved_checkpoints import FAMILIES, FROM_FILES_ALONE
from torch import nn

from tfcore.config import EncoderDecoderConfig, ModelConfig
from tfcore.io.family import family_of_model, spelled_out
from tfcore.mamba import Mamba, MambaConfig
from tfcore.mamba2 import Mamba2, Mamba2Config
from tfcore.models import Decoder, Encoder, EncoderDecoder, MemoryDecoder
from tfcore.models.presets import PRESETS, preset
from tfcore.rwkv import RWKV, RWKVConfig

PUBLISHED = {  # parameters, and what is counted differently
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_482_240 - (768 * 768 + 768),  # with the pooler
    "bert-large": 335_141_888 - (1024 * 1024 + 1024),
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "bloom-560m": 559_214_592,
    "bloom-1b7": 1_722_408_960,
    "bloom-7b1": 7_069_016_064,
    "bloom": 176_247_271_424,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-v1.1-small": 76_961_152,
    "t5-v1.1-base": 247_577_856,
    "bart-base": 139_420_416 - 4 * 768 + 50_265,  # with 2 unused positions a side, without the logits' bias
    "bart-large": 406_291_456 - 4 * 1024 + 50_265,
    "marian-en-de": 74_410_496 - 2 * 512 * 512 + 58_101,  # with its sinusoids, without the logits' bias
    "whisper-tiny-decoder": 37_760_640 - 8_208_384 + 4 * 2 * 384,  # less the encoder, with biases of keys
    "rwkv-4-169m": 169_342_464,
    "rwkv-4-430m": 430_397_440,
    "mamba-130m": 129_135_360,
    "mamba-370m": 371_516_416,
    "mamba2-130m": 128_989_632,
}


def model_class(name):
    """The class of a preset's model: that of its configuration, but for one half alone."""
    alone = {"bert": Encoder, "whisper": MemoryDecoder}
    of_config = {
        ModelConfig: Decoder,
        EncoderDecoderConfig: EncoderDecoder,
        RWKVConfig: RWKV,
        MambaConfig: Mamba,
        Mamba2Config: Mamba2,
    }
    return alone.get(name.split("-")[0], of_config[type(preset(name))])


def count(name):
    with torch.device("meta"):
        return sum(p.numel() for p in model_class(name)(preset(name)).parameters())


def family_of(name):
    model = model_class(name).__new__(model_class(name))
    nn.Module.__init__(model)
    model.config = preset(name)  # all that the search looks at
    return family_of_model(model)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if n > 1e9 else ()) for name, n in PUBLISHED.items()],
)
def test_presets_have_the_published_number_of_parameters(name):
    assert count(name) == PUBLISHED[name]


def test_presets_and_families_cover_each_other():
    for name in PRESETS:
        assert f"{name}-".startswith(f"{family_of(name).name}-")
    tiny_ones = {name.removesuffix("-tiny") for name in PRESETS if name.endswith("-tiny")}
    assert set(FAMILIES) == tiny_ones | FROM_FILES_ALONE | {"whisper"}
    assert not tiny_ones & FROM_FILES_ALONE


@pytest.mark.parametrize("name", [name for name in PRESETS if name.endswith("-tiny")])
def test_tiny_presets_are_for_a_laptop(name):
    assert count(name) < 300_000


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("gpt2", "GPT2Config"),
        ("bert-base", "BertConfig"),
        ("t5-small", "T5Config"),
        ("bart-large", "BartConfig"),
    ],
)
def test_presets_are_what_transformers_takes_for_default(name, config):
    theirs = family_of(name).config(getattr(transformers, config)().to_dict())
    assert spelled_out(theirs) == spelled_out(preset(name))


def test_an_unknown_preset():
    with pytest.raises(ValueError, match=r"expected a name out of gpt2, .*got 'gpt-2'"):
        preset("gpt-2")
