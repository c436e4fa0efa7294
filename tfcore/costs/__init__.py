"""What a model costs, by arithmetic: parameters, operations, bytes, and the least time on given hardware.

An ``Architecture`` describes a model, published or imagined; ``MODELS`` holds the published ones and
``CEILINGS`` the hardware. Nothing here needs torch.
"""

from tfcore.costs.architecture import Architecture
from tfcore.costs.memory import (
    activation_bytes,
    cache_bytes,
    kv_cache_bytes,
    training_state_bytes,
    weight_bytes,
)
from tfcore.costs.named import MODELS, NamedModel
from tfcore.costs.operations import (
    attended_pairs,
    crossover_length,
    flops_by_part,
    forward_flops,
    training_flops,
)
from tfcore.costs.parameters import active_parameters, model_parameters, parameter_count, parameters_by_part
from tfcore.costs.roofline import (
    CEILINGS,
    Ceiling,
    arithmetic_intensity,
    forward_bytes,
    time_bound,
    tokens_per_second,
)

__all__ = [
    "CEILINGS",
    "MODELS",
    "Architecture",
    "Ceiling",
    "NamedModel",
    "activation_bytes",
    "active_parameters",
    "arithmetic_intensity",
    "attended_pairs",
    "cache_bytes",
    "crossover_length",
    "flops_by_part",
    "forward_bytes",
    "forward_flops",
    "kv_cache_bytes",
    "model_parameters",
    "parameter_count",
    "parameters_by_part",
    "time_bound",
    "tokens_per_second",
    "training_flops",
    "training_state_bytes",
    "weight_bytes",
]
