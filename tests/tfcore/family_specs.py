"""Tiny checkpoints of the families that have no chapter: classes of transformers, fields unlike defaults."""

from __future__ import annotations

from typing import Any

VOCAB, D_MODEL, D_FF, LAYERS = 53, 24, 40, 2
SHARED: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 6,
    "intermediate_size": D_FF,
    "max_position_embeddings": 64,
}
LLAMA: dict[str, Any] = {**SHARED, "num_key_value_heads": 2, "rms_norm_eps": 0.013}
SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GEMMA: dict[str, Any] = {**LLAMA, "head_dim": 10, "num_hidden_layers": 3}
ROPE = {"rope_type": "default", "rope_theta": 333.0}
KINDS = ["full_attention", "sliding_attention"]

YARN = {
    "rope_type": "yarn",
    "rope_theta": 333.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "mscale": 0.7,
    "mscale_all_dim": 1.3,
}
DEEPSEEK: dict[str, Any] = {
    **SHARED,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "num_hidden_layers": 3,
    "rms_norm_eps": 0.013,
    "kv_lora_rank": 14,
    "q_lora_rank": 11,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 7,
    "moe_intermediate_size": 12,
    "first_k_dense_replace": 1,
    "n_shared_experts": 2,
}

ROWS: dict[str, dict[str, Any]] = {
    "gpt_oss": {
        "model": "GptOssForCausalLM",
        "config": "GptOssConfig",
        "fields": {
            **LLAMA,
            "head_dim": 10,
            "intermediate_size": 12,
            "num_local_experts": 5,
            "num_experts_per_tok": 3,
            "sliding_window": 5,
            "swiglu_limit": 0.8,
            "rope_parameters": {
                **ROPE,
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "truncate": False,
            },
            **SPECIAL,
        },
        "attention": "eager",
    },
    "qwen3_next": {
        "model": "Qwen3NextForCausalLM",
        "config": "Qwen3NextConfig",
        "fields": {
            **LLAMA,
            "head_dim": 12,
            "num_hidden_layers": 3,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 5,
            "linear_value_head_dim": 7,
            "linear_conv_kernel_dim": 3,
            "num_experts": 5,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 12,
            "shared_expert_intermediate_size": 20,
            "mlp_only_layers": [2],
            "norm_topk_prob": False,
            "rope_parameters": {**ROPE, "partial_rotary_factor": 0.5},
        },
    },
    "deepseek_v2": {
        "model": "DeepseekV2ForCausalLM",
        "config": "DeepseekV2Config",
        "fields": {
            **DEEPSEEK,
            "q_lora_rank": None,
            "n_routed_experts": 5,
            "num_experts_per_tok": 3,
            "routed_scaling_factor": 1.7,
            "rope_parameters": ROPE,
        },
    },
    "deepseek_v2-groups": {
        "model": "DeepseekV2ForCausalLM",
        "config": "DeepseekV2Config",
        "fields": {
            **DEEPSEEK,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "rope_parameters": YARN,
        },
    },
    "deepseek_v3": {
        "model": "DeepseekV3ForCausalLM",
        "config": "DeepseekV3Config",
        "fields": {
            **DEEPSEEK,
            "n_routed_experts": 9,
            "num_experts_per_tok": 4,
            "n_group": 3,
            "topk_group": 2,
            "attention_bias": True,
            "rope_parameters": YARN,
        },
    },
    "deepseek_v3-half": {
        "model": "DeepseekV3ForCausalLM",
        "config": "DeepseekV3Config",
        "fields": {
            **DEEPSEEK,
            "q_lora_rank": None,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "n_group": 1,
            "topk_group": 1,
            "norm_topk_prob": False,
            "rope_interleave": False,
            "rope_parameters": ROPE,
        },
    },
    "qwen2": {
        "model": "Qwen2ForCausalLM",
        "config": "Qwen2Config",
        "fields": {**LLAMA, "rope_parameters": ROPE},
    },
    "qwen2-windows": {
        "model": "Qwen2ForCausalLM",
        "config": "Qwen2Config",
        "fields": {
            **LLAMA,
            "tie_word_embeddings": True,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 1,
        },
    },
    "qwen3": {
        "model": "Qwen3ForCausalLM",
        "config": "Qwen3Config",
        "fields": {**LLAMA, "head_dim": 10, "attention_bias": True, "rope_parameters": ROPE},
    },
    "olmo2": {
        "model": "Olmo2ForCausalLM",
        "config": "Olmo2Config",
        "fields": {**LLAMA, "attention_bias": True, "rope_parameters": ROPE, **SPECIAL},
    },
    "gemma": {
        "model": "GemmaForCausalLM",
        "config": "GemmaConfig",
        "fields": {**GEMMA, "attention_bias": True, "rope_parameters": ROPE},
    },
    "gemma2": {
        "model": "Gemma2ForCausalLM",
        "config": "Gemma2Config",
        "fields": {
            **GEMMA,
            "rope_parameters": ROPE,
            "sliding_window": 5,
            "query_pre_attn_scalar": 7,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 4.0,
        },
        "attention": "eager",  # the others leave out the cap
    },
    "gemma3": {
        "model": "Gemma3ForCausalLM",
        "config": "Gemma3TextConfig",
        "fields": {
            **GEMMA,
            "sliding_window": 5,
            "query_pre_attn_scalar": 7,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2.5, "rope_theta": 333.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 77.0},
            },
        },
    },
    "gpt_neox": {
        "model": "GPTNeoXForCausalLM",
        "config": "GPTNeoXConfig",
        "fields": {
            **SHARED,
            "num_attention_heads": 3,
            "layer_norm_eps": 0.013,
            "rope_parameters": {**ROPE, "partial_rotary_factor": 0.5},
        },
    },
    "gpt_neox-sequential": {
        "model": "GPTNeoXForCausalLM",
        "config": "GPTNeoXConfig",
        "fields": {
            **SHARED,
            "num_attention_heads": 3,
            "attention_bias": False,
            "use_parallel_residual": False,
            "tie_word_embeddings": True,
        },
    },
    "phi": {
        "model": "PhiForCausalLM",
        "config": "PhiConfig",
        "fields": {
            **SHARED,
            "num_attention_heads": 3,
            "layer_norm_eps": 0.013,
            "rope_parameters": {**ROPE, "partial_rotary_factor": 0.75},
        },
    },
    "phi3": {
        "model": "Phi3ForCausalLM",
        "config": "Phi3Config",
        "fields": {
            **LLAMA,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "sliding_window": 5,
            "rope_parameters": {**ROPE, "partial_rotary_factor": 0.75},
            **SPECIAL,
        },
    },
    "phi3-longrope": {
        "model": "Phi3ForCausalLM",
        "config": "Phi3Config",
        "fields": {
            **LLAMA,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "original_max_position_embeddings": 9,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 333.0,
                "partial_rotary_factor": 0.75,
                "short_factor": [1.1, 1.2, 1.3],
                "long_factor": [1.5, 3.0, 5.0],
            },
            **SPECIAL,
        },
    },
    "stablelm": {
        "model": "StableLmForCausalLM",
        "config": "StableLmConfig",
        "fields": {
            **SHARED,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "layer_norm_eps": 0.013,
            "use_qkv_bias": True,
            "rope_parameters": {**ROPE, "partial_rotary_factor": 0.25},
        },
    },
    "stablelm-parallel": {
        "model": "StableLmForCausalLM",
        "config": "StableLmConfig",
        "fields": {
            **SHARED,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "use_parallel_residual": True,
        },
    },
    "roberta": {
        "kind": "encoder",
        "model": "RobertaModel",
        "config": "RobertaConfig",
        "fields": {
            **SHARED,
            "num_attention_heads": 4,
            "max_position_embeddings": 31,
            "type_vocab_size": 1,
            "layer_norm_eps": 0.013,
            "pad_token_id": 1,
        },
    },
    "modernbert": {
        "kind": "encoder",
        "model": "ModernBertModel",
        "config": "ModernBertConfig",
        "fields": {
            **SHARED,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "norm_eps": 0.013,
            "local_attention": 4,
            "layer_types": [*KINDS, "sliding_attention"],
            "rope_parameters": {
                "full_attention": ROPE,
                "sliding_attention": {"rope_type": "default", "rope_theta": 77.0},
            },
            **SPECIAL,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
    },
}
