"""GPT-2: learned positions, norms before the sublayers, a tied head.

On disk the matrices are (in, out), the transpose of ``nn.Linear``'s, and one matrix makes queries, keys and
values, in the order of ours.
"""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.io.family import Family, Json, activation, activation_name
from tfcore.io.table import Row, transposed
from tfcore.models import Decoder

ROWS = (
    Row("stack.embedding.weight", "transformer.wte.weight"),
    Row("stack.positions.table", "transformer.wpe.weight"),
    Row("stack.blocks.{layer}.norm_attention.*", "transformer.h.{layer}.ln_1.*"),
    Row("stack.blocks.{layer}.attention.W_qkv.*", "transformer.h.{layer}.attn.c_attn.*", transposed),
    Row("stack.blocks.{layer}.attention.W_o.*", "transformer.h.{layer}.attn.c_proj.*", transposed),
    Row("stack.blocks.{layer}.norm_ffn.*", "transformer.h.{layer}.ln_2.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", "transformer.h.{layer}.mlp.c_fc.*", transposed),
    Row("stack.blocks.{layer}.ffn.W_down.*", "transformer.h.{layer}.mlp.c_proj.*", transposed),
    Row("stack.final_norm.*", "transformer.ln_f.*"),
    Row("head.linear.weight", "lm_head.weight"),
)


def config_from(json: Json) -> ModelConfig:
    """Make ``n_inner`` the inner width, ``4 * n_embd`` where it is null, and ``resid_pdrop`` the dropout."""
    attention = AttentionConfig(d_model=json["n_embd"], num_heads=json["n_head"])
    block = BlockConfig(
        attention,
        d_ff=json["n_inner"] or 4 * json["n_embd"],
        activation=activation(json["activation_function"]),
        norm_eps=json["layer_norm_epsilon"],
        dropout=json["resid_pdrop"],
    )
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=json["n_layer"],
        block=block,
        positions=PositionConfig("learned", max_len=json["n_positions"]),
        tied=json["tie_word_embeddings"],
    )


def json_from(config: ModelConfig) -> Json:
    """Write one dropout for embeddings and sublayers, and 0 for the dropout of attention's weights."""
    block = config.block
    return {
        "n_embd": config.d_model,
        "n_head": block.multi_head.num_heads,
        "n_inner": block.d_ff,
        "activation_function": activation_name(block.activation),
        "layer_norm_epsilon": block.norm_eps,
        "resid_pdrop": block.dropout,
        "embd_pdrop": block.dropout,
        "attn_pdrop": 0.0,
        "vocab_size": config.vocab_size,
        "n_layer": config.num_layers,
        "n_positions": config.positions.max_len,
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="gpt2",
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    model=Decoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.1,
        "tie_word_embeddings": True,
    },
    only={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.wte.weight"},
    head="lm_head.weight",
    harmless=("h.*.attn.bias", "h.*.attn.masked_bias"),  # the causal mask
)
