"""The reference implementation of the course *Transformers from first principles*.

Import the module you need; this file imports nothing, so that the numpy chapters start at once.

======================  ===============================================================================
numpy                   ``ops`` ``scaling`` ``sinusoids`` ``bottleneck``
recurrent networks      ``recurrent`` ``seq2seq``
attention               ``attention`` (one function and its backends) ``masks`` ``ring``
without a softmax       ``linear_attention`` ``delta_rule`` ``wkv7``, on ``decay``
parts and models        ``config`` ``rope_scaling`` ``positions`` ``layers`` ``moe`` ``routing`` ``models``
other families          ``rwkv`` ``mamba`` ``mamba2``
their recurrences       ``wkv`` ``selective_scan`` ``state_space_duality`` ``scan`` ``state_model``
running a model         ``cache`` ``state_cache`` ``generate`` ``quantize`` ``tokenizer`` ``io`` ``zoo``
training one            ``data`` ``losses`` ``train`` ``checkpoint``
looking at it           ``interventions`` ``costs`` ``serving`` ``viz`` ``inspection`` ``testing``
======================  ===============================================================================

A small GPT that learns to find a token's last occurrence, and the maps of where its heads look:

>>> import torch
>>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
>>> from tfcore.data import induction_batch
>>> from tfcore.losses import labeled_loss
>>> from tfcore.models import Decoder
>>> from tfcore.interventions import attention_maps
>>> from tfcore.train import TrainConfig, train
>>> block = BlockConfig(AttentionConfig(d_model=32, num_heads=2), d_ff=128)
>>> model = Decoder(ModelConfig(27, num_layers=2, block=block, positions=PositionConfig("learned", 32)))
>>> draws = torch.Generator().manual_seed(0)
>>> batches = lambda i: induction_batch(32, 32, 6, 14, num_symbols=24, generator=draws)
>>> losses = train(model, batches, TrainConfig(steps=3), labeled_loss, progress=False)  # 500 to learn it
>>> print(attention_maps(model.eval(), batches(0).tokens).shape)
torch.Size([2, 32, 2, 32, 32])
"""

__version__ = "0.1.0"
