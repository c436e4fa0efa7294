"""KV caches: what decoding keeps of the tokens it has seen, so that a step reads one token and not all.

A layer's cache takes the keys and values of the new tokens and gives back those of all that may be attended
to, oldest first, the new ones last: so attention's default positions are right whatever kind of cache it is.

Read the files in this order: ``protocol.py`` (what a cache must do), ``growing.py`` (the simplest),
``preallocated.py`` (the usual), ``sliding.py``, ``quantized.py``, ``model.py`` (the caches of all layers),
``static.py`` (what a compiled step makes of the usual one).
"""

from tfcore.cache.growing import GrowingCache
from tfcore.cache.model import Cache, check_cache, make_cache
from tfcore.cache.preallocated import KVCache
from tfcore.cache.protocol import KeysAndValues, LayerCache
from tfcore.cache.quantized import QuantizedCache, dequantize_kv, quantize_kv
from tfcore.cache.sliding import SlidingWindowCache
from tfcore.cache.static import StaticCache, StaticLayer, preallocated_layers

__all__ = [
    "Cache",
    "GrowingCache",
    "KVCache",
    "KeysAndValues",
    "LayerCache",
    "QuantizedCache",
    "SlidingWindowCache",
    "StaticCache",
    "StaticLayer",
    "check_cache",
    "dequantize_kv",
    "make_cache",
    "preallocated_layers",
    "quantize_kv",
]
