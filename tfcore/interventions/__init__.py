r"""Record and change what flows through a model: every place has a name that reads like the mathematics.

===========================  ================================================================================
``stream.l``                 $x^{(l)}$, what block l reads; ``stream.L`` is what the last block returns
``blocks.l.attention.X``     inside attention, where X is one of

  ``queries``                $q$ after its rotation, (B, H, T_q, d_head)
  ``keys``, ``values``       $k$ and $v$ of all tokens so far, (B, H_kv, T_k, d_head)
  ``scores``                 $s \, q \cdot k$ + bias, -inf where attending is forbidden, (B, H, T_q, T_k)
  ``weights``                their softmax, (B, H, T_q, T_k)
  ``heads``                  the output of each head, before $W^O$, (B, H, T, d_head)
  ``output``                 what attention adds to the stream, (B, T, d_model)

``blocks.l.ffn.hidden``      the inner channels of the feed-forward network, (B, T, d_ff)
``blocks.l.ffn.output``      what it adds to the stream, (B, T, d_model)
``logits``                   (B, T, V)
===========================  ================================================================================

Blocks that read a memory have the places of ``cross_attention`` too. In an encoder-decoder the names begin
with ``encoder.`` or ``decoder.``; a layer of attention alone has ``weights`` and the like. In names to
record, ``*`` stands for any layer.

Nanda and Bloom (2022), *TransformerLens*, has such places for published models.
"""

from tfcore.interventions.edits import ablate, patch, record
from tfcore.interventions.places import changed, places, self_attention_layers
from tfcore.interventions.readings import DirectEffect, attention_maps, direct_effect, logit_lens

__all__ = [
    "DirectEffect",
    "ablate",
    "attention_maps",
    "changed",
    "direct_effect",
    "logit_lens",
    "patch",
    "places",
    "record",
    "self_attention_layers",
]
