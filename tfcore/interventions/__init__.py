"""Record and change what flows through a model; ``places`` has a table of the names."""

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
