"""DeepSeek V2: V3 with a softmax in the router, whose weights need not sum to 1."""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig
from tfcore.io.families import deepseek_v3
from tfcore.io.family import Json, altered
from tfcore.routing import RouterConfig


def config_from(json: Json) -> ModelConfig:
    """Read V2's router: "greedy" chooses among all experts, "group_limited_greedy" among some groups."""
    groups = {"num_groups": json["n_group"], "top_groups": json["topk_group"]}
    if json["topk_method"] == "greedy":
        groups = {}
    router = RouterConfig(normalised=False, scale=json["routed_scaling_factor"], **groups)
    return deepseek_v3.config_with(altered(json, rope_interleave=True), router)


def json_from(config: ModelConfig) -> Json:
    """Write V3's fields, and how the router chooses."""
    json = deepseek_v3.json_from(config)
    grouped = json["n_group"] > 1
    return {**json, "topk_method": "group_limited_greedy" if grouped else "greedy"}


FAMILY = dataclasses.replace(
    deepseek_v3.FAMILY,
    name="deepseek_v2",
    architectures=("DeepseekV2ForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    defaults={
        **deepseek_v3.FAMILY.defaults,
        "n_shared_experts": 2,
        "first_k_dense_replace": 0,
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "n_group": None,
        "topk_group": None,
        "topk_method": "greedy",
        "max_position_embeddings": 2048,
    },
    only={
        "mlp_bias": (False,),
        "norm_topk_prob": (False,),
        "topk_method": ("greedy", "group_limited_greedy"),
        "rope_interleave": (True,),
    },
)
