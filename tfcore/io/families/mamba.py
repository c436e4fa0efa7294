"""Mamba: see :mod:`tfcore.mamba`, whose mixer has the authors' names."""

from __future__ import annotations

from tfcore.io.family import Family, Json
from tfcore.io.table import Row
from tfcore.mamba import Mamba, MambaConfig

MIXER = "backbone.layers.{layer}.mixer"
ROWS = (
    Row("embedding.weight", "backbone.embeddings.weight"),
    Row("blocks.{layer}.norm.weight", "backbone.layers.{layer}.norm.weight"),
    Row("blocks.{layer}.mixer.in_proj.*", f"{MIXER}.in_proj.*"),
    Row("blocks.{layer}.mixer.conv.*", f"{MIXER}.conv1d.*"),
    Row("blocks.{layer}.mixer.x_proj.weight", f"{MIXER}.x_proj.weight"),
    Row("blocks.{layer}.mixer.dt_proj.*", f"{MIXER}.dt_proj.*"),
    Row("blocks.{layer}.mixer.A_log", f"{MIXER}.A_log"),
    Row("blocks.{layer}.mixer.D", f"{MIXER}.D"),
    Row("blocks.{layer}.mixer.out_proj.*", f"{MIXER}.out_proj.*"),
    Row("norm_final.weight", "backbone.norm_f.weight"),
    Row("head.weight", "lm_head.weight"),
)


def config_from(json: Json) -> MambaConfig:
    """Make ``time_step_rank`` the width of the step sizes; "auto" is a sixteenth of the model's, rounded up.

    Raises:
        ValueError: an ``intermediate_size`` that is not ``expand`` times ``hidden_size``.
    """
    rank = json["time_step_rank"]
    config = MambaConfig(
        vocab_size=json["vocab_size"],
        d_model=json["hidden_size"],
        num_layers=json["num_hidden_layers"],
        d_state=json["state_size"],
        d_conv=json["conv_kernel"],
        expand=json["expand"],
        dt_rank=None if rank == "auto" else rank,
        bias=json["use_bias"],
        conv_bias=json["use_conv_bias"],
        norm_eps=json["layer_norm_epsilon"],
        tied=json["tie_word_embeddings"],
    )
    if json.get("intermediate_size", config.d_inner) != config.d_inner:
        raise ValueError(
            f"expected an intermediate_size of expand times hidden_size, {config.d_inner}, got "
            f"{json['intermediate_size']}; use transformers for it"
        )
    return config


def json_from(config: MambaConfig) -> Json:
    """Write the sizes, and ``intermediate_size`` beside the ``expand`` that it follows from."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers,
        "state_size": config.d_state,
        "conv_kernel": config.d_conv,
        "expand": config.expand,
        "intermediate_size": config.d_inner,
        "time_step_rank": "auto" if config.dt_rank is None else config.dt_rank,
        "use_bias": config.bias,
        "use_conv_bias": config.conv_bias,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="mamba",
    architectures=("MambaForCausalLM",),
    model=Mamba,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "state_size": 16,
        "conv_kernel": 4,
        "expand": 2,
        "time_step_rank": "auto",
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
    },
    only={"hidden_act": ("silu",), "rms_norm": (True,)},
    prefix="backbone.",
    old_names={"backbone.embedding.": "backbone.embeddings."},
    copies={"lm_head.weight": "backbone.embeddings.weight"},
    head="lm_head.weight",
)
