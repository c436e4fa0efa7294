"""KV caches: the keys and values of the tokens seen so far, so that a step reads one token and not all.

A layer's cache takes the keys and values of the new tokens and returns the keys and values of all tokens that
may be attended to, oldest first and the new ones last. So attention's default positions are right for every
kind of cache.

Read the files in this order: ``protocol.py`` (the methods of a cache), ``growing.py`` (the simplest),
``preallocated.py`` (the usual), ``sliding.py``, ``quantized.py``, ``model.py`` (the caches of all layers),
``static.py`` (the usual one for a compiled step), ``paged.py`` (many texts in one room), ``state.py`` (a
layer without keys).
"""

from tfcore.cache.growing import GrowingCache
from tfcore.cache.model import Cache, check_cache, make_cache
from tfcore.cache.paged import PagedCache
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
    "PagedCache",
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
