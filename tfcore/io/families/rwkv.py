"""RWKV-4: see :mod:`tfcore.rwkv`; on disk the shares of the mixing have two axes of size 1 in front.

Transformers halves the stream, and all that is added to it, every ``rescale_every`` blocks. This is not done
here: only the epsilon of the norms shows it, which weighs four times as much after each halving.
"""

from __future__ import annotations

from tfcore.io.family import Family, Json
from tfcore.io.table import Row, leading_axes
from tfcore.rwkv import RWKV, RWKVConfig

TIME, CHANNEL = "rwkv.blocks.{layer}.attention", "rwkv.blocks.{layer}.feed_forward"
ROWS = (
    Row("embedding.weight", "rwkv.embeddings.weight"),
    Row("norm_embedding.*", "rwkv.blocks.0.pre_ln.*"),
    Row("blocks.{layer}.norm_time.*", "rwkv.blocks.{layer}.ln1.*"),
    Row("blocks.{layer}.norm_channel.*", "rwkv.blocks.{layer}.ln2.*"),
    Row("blocks.{layer}.time_mixing.log_decay", f"{TIME}.time_decay"),
    Row("blocks.{layer}.time_mixing.bonus", f"{TIME}.time_first"),
    Row("blocks.{layer}.time_mixing.mix_r", f"{TIME}.time_mix_receptance", leading_axes(2)),
    Row("blocks.{layer}.time_mixing.mix_k", f"{TIME}.time_mix_key", leading_axes(2)),
    Row("blocks.{layer}.time_mixing.mix_v", f"{TIME}.time_mix_value", leading_axes(2)),
    Row("blocks.{layer}.time_mixing.W_r.weight", f"{TIME}.receptance.weight"),
    Row("blocks.{layer}.time_mixing.W_k.weight", f"{TIME}.key.weight"),
    Row("blocks.{layer}.time_mixing.W_v.weight", f"{TIME}.value.weight"),
    Row("blocks.{layer}.time_mixing.W_o.weight", f"{TIME}.output.weight"),
    Row("blocks.{layer}.channel_mixing.mix_r", f"{CHANNEL}.time_mix_receptance", leading_axes(2)),
    Row("blocks.{layer}.channel_mixing.mix_k", f"{CHANNEL}.time_mix_key", leading_axes(2)),
    Row("blocks.{layer}.channel_mixing.W_r.weight", f"{CHANNEL}.receptance.weight"),
    Row("blocks.{layer}.channel_mixing.W_k.weight", f"{CHANNEL}.key.weight"),
    Row("blocks.{layer}.channel_mixing.W_v.weight", f"{CHANNEL}.value.weight"),
    Row("norm_final.*", "rwkv.ln_out.*"),
    Row("head.weight", "head.weight"),
)


def config_from(json: Json) -> RWKVConfig:
    """Make ``attention_hidden_size`` the channels of the time mixing; null means ``hidden_size``."""
    return RWKVConfig(
        vocab_size=json["vocab_size"],
        d_model=json["hidden_size"],
        num_layers=json["num_hidden_layers"],
        d_attention=json["attention_hidden_size"],
        d_ff=json["intermediate_size"],
        norm_eps=json["layer_norm_epsilon"],
        tied=json["tie_word_embeddings"],
    )


def json_from(config: RWKVConfig) -> Json:
    """Write the sizes; a width that is left to its default is null."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers,
        "attention_hidden_size": config.d_attention,
        "intermediate_size": config.d_ff,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="rwkv",
    architectures=("RwkvForCausalLM",),
    model=RWKV,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "attention_hidden_size": None,
        "intermediate_size": None,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
    },
    prefix="rwkv.",
    copies={"head.weight": "rwkv.embeddings.weight"},
    head="head.weight",
)
