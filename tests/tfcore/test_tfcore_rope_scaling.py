"""Slower rotations against transformers: frequencies, temperatures, and what a file may leave out."""

from __future__ import annotations

import json
import math

import pytest
import tiny_checkpoints as tiny
import torch
import transformers
from saved_checkpoints import rewrite, same_as
from tiny_checkpoints import TOLERANCE, T, batch, checkpoint, distance, our_output, their_output
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.generate import CompiledDecoder
from tfcore.io import from_pretrained, save_pretrained
from tfcore.io.rope import rope_from, scaling_json
from tfcore.models import Decoder
from tfcore.positions import Positions, Rotation, apply_rope, inverse_frequencies
from tfcore.rope_scaling import SCALINGS, Llama3, read_scaling
from tfcore.testing import raise_weights

ORIGINAL = "original_max_position_embeddings"
LONGEST = 160  # max_position_embeddings
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40}


def longrope(pairs, **more):
    short, long = torch.linspace(1, 2, pairs).tolist(), torch.linspace(1.5, 9, pairs).tolist()
    numbers = {"short_factor": short, "long_factor": long, "original_max_position_embeddings": 40}
    return {"rope_type": "longrope", **numbers, **more}


def scalings(pairs):
    return {
        "linear": {"rope_type": "linear", "factor": 2.5},
        "llama3": {**tiny.LLAMA_3_SCALING, "original_max_position_embeddings": 64},
        "dynamic": {"rope_type": "dynamic", "factor": 3.0},
        "yarn": YARN,
        "yarn, long": {**YARN, "original_max_position_embeddings": 4096, "factor": 16},
        "yarn, ends": {**YARN, "beta_fast": 5.0, "beta_slow": 0.3},
        "yarn, fractions": {**YARN, "beta_fast": 5.0, "beta_slow": 0.3, "truncate": False},
        "yarn, ramp without a length": {**YARN, ORIGINAL: 5},
        "yarn, attention_factor": {**YARN, "attention_factor": 0.7},
        "yarn, mscale": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3},
        "yarn, mscale alone": {**YARN, "mscale": 0.7},
        "yarn, mscale of 0": {**YARN, "mscale": 0.7, "mscale_all_dim": 0},
        "yarn, factor below 1": {**YARN, "factor": 0.5},
        "yarn, no factor": {**YARN, "factor": None},
        "yarn, no original length": {"rope_type": "yarn", "factor": 4.0},
        "longrope": longrope(pairs),
        "longrope, factor": longrope(pairs, factor=3.0),
        "longrope, factor below 1": longrope(pairs, factor=0.9),
        "longrope, attention_factor": longrope(pairs, attention_factor=1.4, factor=3.0),
    }


NAMES = list(scalings(1))
SIZES = [(8, 1.0, 333.0), (32, 1.0, 10_000.0), (64, 0.25, 500_000.0), (20, 0.5, 1e6)]  # d_head, part, base


def fields(d_head, part, base, scaling):
    """The fields of a Llama's config.json, with as few heads as possible."""
    partly = {} if part == 1 else {"partial_rotary_factor": part}
    return {
        "hidden_size": 2 * d_head,
        "num_attention_heads": 2,
        "max_position_embeddings": LONGEST,
        "rope_theta": base,
        "rope_scaling": {**scaling, **partly},
    }


@pytest.mark.parametrize("length", [None, 1, 40, 41, LONGEST, LONGEST + 1, 1000])
@pytest.mark.parametrize(("d_head", "part", "base"), SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_frequencies_and_temperatures_are_theirs(name, d_head, part, base, length):
    d_rotary = int(d_head * part)
    scaling = scalings(d_rotary // 2)[name]
    config = transformers.LlamaConfig(**fields(d_head, part, base, scaling))
    theirs, temperature = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu", seq_len=length)
    read = rope_from({"rope_theta": base, "max_position_embeddings": LONGEST, "rope_scaling": scaling})
    ours = inverse_frequencies(d_rotary, read.base, dict(read.rope_scaling), length)
    torch.testing.assert_close(ours.float(), theirs, rtol=1e-5, atol=0)
    assert read_scaling(read.rope_scaling).temperature() == pytest.approx(temperature, rel=1e-9)


def test_every_scaling_is_compared():
    assert {scaling["rope_type"] for scaling in scalings(1).values()} | {"default"} == set(SCALINGS)


def test_the_comparison_has_fast_slow_and_middling_pairs():
    for name in ("llama3", "yarn, ends", "yarn, fractions"):
        fraction = inverse_frequencies(32) / inverse_frequencies(32, scaling=scalings(16)[name])
        assert fraction.min() == 1
        assert fraction.max() == pytest.approx(4.0)
        assert ((fraction > 1.01) & (fraction < 3.99)).any()


# --- in a model


def model_of(scaling, **more):
    block = BlockConfig(AttentionConfig(d_model=24, num_heads=2), d_ff=20)
    positions = PositionConfig("rope", rope_scaling=scaling, **more)
    return raise_weights(Decoder(ModelConfig(23, 1, block, positions))).eval()


@pytest.mark.parametrize("scaling", [YARN, longrope(3, factor=4.0)], ids=["yarn", "longrope"])
def test_a_temperature_lengthens_the_turned_channels_alone(scaling):
    positions = model_of(scaling, d_rotary=6).stack.positions
    rotation = positions.relate(torch.arange(5), torch.arange(5)).rotation
    x = torch.randn(2, 2, 5, 12, generator=torch.Generator().manual_seed(0))
    lengths = rotation(x).unflatten(-1, (2, 6)).norm(dim=-1) / x.unflatten(-1, (2, 6)).norm(dim=-1)
    expected = torch.tensor([read_scaling(scaling).temperature(), 1.0]).expand_as(lengths)
    assert expected[0, 0, 0, 0] > 1.1
    torch.testing.assert_close(lengths, expected)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_both_layouts_have_the_temperature(layout):
    x, omega = torch.randn(5, 6), inverse_frequencies(6)
    warm, cold = (Rotation(torch.arange(5), omega, layout, temperature=t) for t in (1.5, 1.0))
    torch.testing.assert_close(warm(x), 1.5 * cold(x))


@pytest.mark.parametrize("name", ["dynamic", "longrope"])
def test_the_longest_row_chooses_the_frequencies_of_all(name):
    """As in transformers: rows are counted without padding, and the next call remembers nothing."""
    more = {"factor": 4.0} if name == "longrope" else {}
    model = model_of({**scalings(6)[name], **more, ORIGINAL: 4})
    tokens = torch.randint(23, (2, 7), generator=torch.Generator().manual_seed(0))
    real = torch.tensor([[False] * 4 + [True] * 3, [True] * 7])
    short = model(tokens[:1, 4:])
    torch.testing.assert_close(model(tokens[:1], padding=real[:1])[:, 4:], short)  # three tokens, alone
    assert distance(model(tokens, padding=real)[:1, 4:], short) > 0.01
    torch.testing.assert_close(model(tokens[:1, 4:]), short)


@pytest.mark.parametrize("name", ["llama-dynamic", "llama-longrope"])
def test_a_short_text_has_the_trained_frequencies(name):
    c, x = checkpoint(name), batch("decoder")
    short = tiny.Batch(x.tokens[:, :5], x.source, x.states)
    assert distance(our_output(c.ours, c.kind, short), their_output(c.theirs, c.kind, short)) < TOLERANCE
    assert distance(our_output(c.ours, c.kind, short), our_output(c.ours, c.kind, x)[:, :5]) > 0.01


def test_a_text_after_a_longer_one_is_read_like_the_first():
    """In transformers it is not: there the base of the longer text stays."""
    c, x = checkpoint("llama-dynamic"), batch("decoder")
    middle = tiny.Batch(x.tokens[:, :11], x.source, x.states)
    theirs = tiny.reload(c.name, c.folder)
    first = their_output(theirs, c.kind, middle)
    for _ in range(2):
        assert distance(our_output(c.ours, c.kind, middle), first) < TOLERANCE
        our_output(c.ours, c.kind, x)
    their_output(theirs, c.kind, x)
    assert distance(their_output(theirs, c.kind, middle), first) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("static", [True, False], ids=["recorded", "packed"])
@pytest.mark.parametrize("name", ["llama-yarn", "llama-dynamic", "llama-longrope"])
def test_compiled_steps_grow_like_the_model(name, static):
    c, tokens = checkpoint(name), batch("decoder").tokens
    compiled = CompiledDecoder(c.ours, static, backend="eager")
    cache, expected = (
        compiled.new_cache(len(tokens), T),
        tiny.their_output_in_chunks(name, batch("decoder"), [4] + [1] * (T - 4)),
    )
    with torch.no_grad():
        ours = [compiled(piece, cache) for piece in tokens.split([4] + [1] * (T - 4), dim=1)]
    assert distance(torch.cat(ours, dim=1), expected) < TOLERANCE


def test_a_model_that_moves_to_another_type_keeps_both_tables():
    positions = model_of(longrope(6, factor=4.0)).to(torch.bfloat16).stack.positions
    assert positions.omega.dtype == positions.omega_long.dtype == torch.float64


# --- in files


@pytest.mark.parametrize(
    ("beside", "inside", "expected"),
    [({}, {}, 64), ({}, {ORIGINAL: 9}, 9), ({ORIGINAL: 7}, {ORIGINAL: 9}, 7)],
)
@pytest.mark.parametrize("name", ["llama-yarn", "llama-longrope", "llama"])
def test_a_length_that_the_scaling_leaves_out_is_found_beside_it(name, beside, inside, expected, tmp_path):
    given = json.loads((tiny.folder(name) / "config.json").read_text())["rope_parameters"]
    del given[ORIGINAL]
    folder = rewrite(tiny.folder(name), tmp_path, **beside, rope_parameters={**given, **inside})
    ours, theirs, x = from_pretrained(folder), tiny.reload(name, folder), batch("decoder")
    assert dict(ours.config.positions.rope_scaling)[ORIGINAL] == expected
    assert distance(our_output(ours, "decoder", x), their_output(theirs, "decoder", x)) < TOLERANCE


@pytest.mark.parametrize("name", ["llama-yarn", "llama-dynamic", "llama-longrope"])
def test_old_files_name_the_type_otherwise(name, tmp_path):
    given = json.loads((tiny.folder(name) / "config.json").read_text())["rope_parameters"]
    old = {"type" if key == "rope_type" else key: value for key, value in given.items()}
    base = old.pop("rope_theta")
    folder = rewrite(tiny.folder(name), tmp_path, rope_parameters=..., rope_theta=base, rope_scaling=old)
    assert same_as(name, from_pretrained(folder))


def test_dynamic_scaling_is_saved_if_its_length_is_the_models(tmp_path):
    scaling = {"rope_type": "dynamic", "factor": 3.0, ORIGINAL: 9}
    assert scaling_json(PositionConfig("rope", 9, rope_scaling=scaling)) == {
        "rope_type": "dynamic",
        "factor": 3.0,
    }
    model = checkpoint("llama-dynamic").ours
    save_pretrained(model, tmp_path / "same")
    assert from_pretrained(tmp_path / "same").config == model.config
    other = {**scaling, ORIGINAL: 5}
    positions = PositionConfig("rope", 9, base=333.0, rope_scaling=other)
    attention = AttentionConfig(d_model=12, num_heads=3, bias=False)
    block = BlockConfig(attention, 20, "silu", gated=True, ffn_bias=False, norm="rms")
    with pytest.raises(ValueError, match=r"llama: positions.rope_scaling .*5.* would become .*9"):
        save_pretrained(Decoder(ModelConfig(50, 2, block, positions)), tmp_path / "other")


# --- scalings that are refused


def rope(**entries):
    return lambda: PositionConfig("rope", rope_scaling=entries)


REFUSED = [
    (rope(rope_type="ntk", factor=4.0), r"default, linear, dynamic, yarn, longrope, llama3, got 'ntk'"),
    (rope(rope_type={}), r"longrope, llama3, got {}"),
    (
        rope(rope_type="yarn", factor=4.0),
        r"factor, original_max_position_embeddings, if you like attention_f",
    ),
    (rope(rope_type="linear"), r"'linear' with factor, got {}; add the missing"),
    (rope(type="linear", factor=2.0), r"'default' with no other entry, got {'factor': 2.0, 'type'"),
    (rope(**YARN, beta_quick=32.0), r"got .*'beta_quick': 32.0"),
    (rope(**YARN, beta_fast=0), r"beta_fast as a finite number above 0, got 0"),
    (rope(**YARN, beta_fast=None), r"beta_fast as a finite number above 0, got None"),
    (rope(**YARN, truncate=0), r"truncate as True or False, got 0"),
    (rope(**YARN, mscale=-1.0), r"mscale as a finite number of 0 or more, got -1.0"),
    (rope(**{**YARN, "factor": True}), r"factor as a finite number above 0, got True"),
    (rope(**{**YARN, "factor": math.nan}), r"factor as a finite number above 0, got nan"),
    (
        rope(**{**YARN, ORIGINAL: "40"}),
        r"original_max_position_embeddings as a finite number above 1, got '40'",
    ),
    (rope(**{**longrope(3, factor=2.0), ORIGINAL: 1}), r"embeddings as a finite number above 1, got 1"),
    (rope(**longrope(3)), r"a factor or an attention_factor .* got neither"),
    (rope(**{**longrope(3, factor=2.0), "long_factor": 2.0}), r"long_factor as a list .* got 2.0"),
    (rope(**{**longrope(3, factor=2.0), "short_factor": [1, "2", 3]}), r"short_factor as a list .*'2'"),
    (rope(**{**longrope(3, factor=2.0), "short_factor": [1.0, 0.0, 3.0]}), r"short_factor as a list .*0\.0"),
    (lambda: PositionConfig("rope", rope_scaling="yarn"), r"scaling as a dictionary, got 'yarn'"),
    (lambda: PositionConfig("rope", rope_scaling=3), r"scaling as a dictionary, got 3"),
    (lambda: model_of(YARN, base=1.0), r"a base above 1, got 1.0"),
    (lambda: model_of(longrope(5, factor=2.0)), r"a short_factor of 6 numbers, .* got 5"),
    (
        lambda: model_of({**longrope(6, factor=2.0), "long_factor": [1.0] * 7}),
        r"a long_factor of 6 numbers, .* got 7",
    ),
    (
        lambda: model_of({"rope_type": "dynamic", "factor": 2.0, ORIGINAL: 9}, d_rotary=2),
        r"at least 4 channels to turn, got 2",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_equal_scalings_are_equal_and_have_one_hash():
    given = longrope(3, factor=2.0)
    one, other = (
        PositionConfig("rope", rope_scaling=given),
        PositionConfig("rope", rope_scaling=dict(reversed(given.items()))),
    )
    assert one == other
    assert hash(one) == hash(other)
    pairs = json.loads(json.dumps(one.rope_scaling))  # lists of lists
    assert PositionConfig("rope", rope_scaling=pairs) == one


def test_a_model_on_meta_has_its_frequencies():
    config = PositionConfig("rope", rope_scaling=longrope(3, factor=2.0))
    with torch.device("meta"):
        positions = Positions(config, AttentionConfig(d_model=12, num_heads=2))
        omega = inverse_frequencies(
            6, scaling={"rope_type": "dynamic", "factor": 2.0, ORIGINAL: 9}, length=20
        )
    assert {x.device.type for x in (positions.omega, positions.omega_long, omega)} == {"cpu"}


def test_factors_in_the_wrong_order_are_refused():
    for low, high in ((4.0, 1.0), (2.0, 2.0)):
        with pytest.raises(ValueError, match=f"below high_freq_factor, got {low} and {high}"):
            Llama3(8.0, low, high, original_max_position_embeddings=64)


def test_positions_of_another_batch_are_refused():
    with pytest.raises(ValueError, match="expected positions"):
        apply_rope(torch.zeros(2, 3, 5, 4), torch.zeros(3, 1, 5))
