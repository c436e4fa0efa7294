"""The reference implementation of the course *Transformers from first principles*.

Import the room you need; this file imports nothing, so that the numpy chapters start at once.

======================  ===============================================================================
numpy                   ``ops`` ``scaling`` ``sinusoids`` ``bottleneck``
recurrent networks      ``recurrent`` ``seq2seq``
attention               ``attention`` (the seam and its backends) ``masks`` ``ring`` ``linear_attention``
what a model is         ``config`` ``positions`` ``layers`` ``moe`` ``models``
other families          ``rwkv`` ``mamba``, on ``wkv`` and ``selective_scan``, on ``scan``
running a model         ``cache`` ``state_cache`` ``generate`` ``quantize`` ``tokenizer`` ``io``
training one            ``data`` ``train`` ``checkpoint``
looking at it           ``models.inspect`` ``costs`` ``viz`` ``testing``
======================  ===============================================================================
"""

__version__ = "0.1.0"
