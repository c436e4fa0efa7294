"""DeepSeek V3: latent attention, and after a few dense blocks small experts beside one that all tokens use.

V2 has another router. The further blocks that V3 predicts more tokens with are no part of the model here.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tfcore.config import BlockConfig, LatentAttentionConfig, Layout, ModelConfig
from tfcore.io.family import Family, Json, activation, activation_name
from tfcore.io.rope import rope_from, scaling_json
from tfcore.io.table import Row, one_each
from tfcore.models import Decoder
from tfcore.rope_scaling import Yarn, read_scaling
from tfcore.routing import RouterConfig

LAYER = "model.layers.{layer}"
OURS = "stack.blocks.{layer}"
MLP = {"W_gate": "gate_proj", "W_up": "up_proj", "W_down": "down_proj"}
ATTENTION = {
    "W_dq.*": "q_a_proj.*",
    "norm_q.weight": "q_a_layernorm.weight",
    "W_dkv.*": "kv_a_proj_with_mqa.*",
    "norm_kv.weight": "kv_a_layernorm.weight",
    "W_ukv.weight": "kv_b_proj.weight",
    "W_o.*": "o_proj.*",
}
ROWS = (
    Row("stack.embedding.weight", "model.embed_tokens.weight"),
    Row(f"{OURS}.norm_attention.weight", f"{LAYER}.input_layernorm.weight"),
    Row(f"{OURS}.norm_ffn.weight", f"{LAYER}.post_attention_layernorm.weight"),
    *(Row(f"{OURS}.attention.{ours}", f"{LAYER}.self_attn.{theirs}") for ours, theirs in ATTENTION.items()),
    *(
        Row(f"{OURS}.attention.W_uq.weight", f"{LAYER}.self_attn.{name}.weight", when=condition)
        for name, condition in (
            ("q_proj", lambda layer: layer.config.d_query is None),
            ("q_b_proj", lambda layer: layer.config.d_query is not None),
        )
    ),
    *(Row(f"{OURS}.ffn.{ours}.*", f"{LAYER}.mlp.{theirs}.*") for ours, theirs in MLP.items()),
    *(
        Row(f"{OURS}.ffn.shared.{ours}.*", f"{LAYER}.mlp.shared_experts.{theirs}.*")
        for ours, theirs in MLP.items()
    ),
    *(
        Row(f"{OURS}.ffn.{ours.lower()}", f"{LAYER}.mlp.experts.{{expert}}.{theirs}.weight", one_each)
        for ours, theirs in MLP.items()
    ),
    Row(f"{OURS}.ffn.router.weight", f"{LAYER}.mlp.gate.weight"),
    Row(f"{OURS}.ffn.router.balance", f"{LAYER}.mlp.gate.e_score_correction_bias"),
    Row("stack.final_norm.weight", "model.norm.weight"),
    Row("head.linear.weight", "lm_head.weight"),
)


def config_with(json: Json, router: RouterConfig) -> ModelConfig:
    """Read the fields that V2 and V3 share: dense blocks first, then blocks of experts."""
    _check_implied(json)
    positions = rope_from(json)
    layout: Layout = "interleaved" if json["rope_interleave"] else "half"
    attention = LatentAttentionConfig(
        d_model=json["hidden_size"],
        num_heads=json["num_attention_heads"],
        d_latent=json["kv_lora_rank"],
        d_nope=json["qk_nope_head_dim"],
        d_rope=json["qk_rope_head_dim"],
        d_value=json["v_head_dim"],
        d_query=json["q_lora_rank"],
        bias=json["attention_bias"],
        scale=_scale(json["qk_nope_head_dim"] + json["qk_rope_head_dim"], positions.rope_scaling),
    )
    dense = BlockConfig(
        attention,
        d_ff=json["intermediate_size"],
        activation=activation(json["hidden_act"]),
        gated=True,
        ffn_bias=json["mlp_bias"],
        norm="rms",
        norm_eps=json["rms_norm_eps"],
    )
    inner = json["moe_intermediate_size"]
    shared = json["n_shared_experts"]
    experts = dataclasses.replace(
        dense,
        d_ff=inner,
        num_experts=json["n_routed_experts"],
        top_k=json["num_experts_per_tok"],
        router=router,
        shared_d_ff=inner * shared if shared else None,
    )
    number, first = json["num_hidden_layers"], json["first_k_dense_replace"]
    blocks = tuple(dense if layer < first else experts for layer in range(number))
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=number,
        block=dense,
        blocks=blocks,
        positions=dataclasses.replace(positions, layout=layout),
        tied=json["tie_word_embeddings"],
    )


def _check_implied(json: Json) -> None:
    """Refuse fields that contradict those that they follow from."""
    rotated = json["qk_rope_head_dim"]
    implied = {
        "num_key_value_heads": json["num_attention_heads"],
        "head_dim": rotated,
        "qk_head_dim": json["qk_nope_head_dim"] + rotated,
    }
    for name, value in implied.items():
        if json.get(name) not in (None, value):
            raise ValueError(f"expected {name} as {value}, which other fields ask for, got {json[name]!r}")


def _scale(width: int, scaling: Any) -> float:
    """Return the scale of the scores: YaRN's temperature over all channels is a part of it."""
    yarn = read_scaling(scaling)
    warm = 1.0
    if isinstance(yarn, Yarn) and yarn.mscale_all_dim and yarn.factor > 1:
        warm = 0.1 * yarn.mscale_all_dim * math.log(yarn.factor) + 1
    return width**-0.5 * warm**2


def config_from(json: Json) -> ModelConfig:
    """Read V3's router: sigmoids, groups judged by their two best, and a choice that a rule balances."""
    router = RouterConfig(
        score="sigmoid",
        normalised=json["norm_topk_prob"],
        scale=json["routed_scaling_factor"],
        num_groups=json["n_group"],
        top_groups=json["topk_group"],
        group_score=2,
        balance=True,
    )
    return config_with(json, router)


def json_from(config: ModelConfig) -> Json:
    """Write the sizes of the first block, and the experts of the last."""
    dense, experts = config.layers[0], config.layers[-1]
    attention = dense.attention
    if not isinstance(attention, LatentAttentionConfig):
        raise ValueError("expected latent attention, got the usual one")
    router, inner = experts.router, experts.d_ff
    return {
        "hidden_size": config.d_model,
        "num_attention_heads": attention.num_heads,
        "num_key_value_heads": attention.num_heads,
        "kv_lora_rank": attention.d_latent,
        "q_lora_rank": attention.d_query,
        "qk_nope_head_dim": attention.d_nope,
        "qk_rope_head_dim": attention.d_rope,
        "v_head_dim": attention.d_value,
        "attention_bias": attention.bias,
        "intermediate_size": config.block.d_ff,
        "moe_intermediate_size": inner,
        "hidden_act": activation_name(dense.activation),
        "rms_norm_eps": dense.norm_eps,
        "n_routed_experts": experts.num_experts,
        "num_experts_per_tok": experts.top_k,
        "n_shared_experts": (experts.shared_d_ff or 0) // inner,
        "first_k_dense_replace": sum(block.num_experts is None for block in config.layers),
        "norm_topk_prob": router.normalised,
        "routed_scaling_factor": router.scale,
        "n_group": router.num_groups,
        "topk_group": router.top_groups,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": config.positions.max_len,
        "rope_theta": config.positions.base,
        "rope_scaling": scaling_json(config.positions),
        "rope_interleave": config.positions.layout == "interleaved",
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="deepseek_v3",
    architectures=("DeepseekV3ForCausalLM",),
    model=Decoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "q_lora_rank": 1536,
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "n_group": 8,
        "topk_group": 4,
        "max_position_embeddings": 4096,
        "rope_theta": 10_000.0,
        "rope_interleave": True,
        "tie_word_embeddings": False,
    },
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
    head="lm_head.weight",
    only={"mlp_bias": (False,)},
)
