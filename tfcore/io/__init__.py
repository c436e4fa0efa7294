"""Read and write the files of published models: ``config.json`` and safetensors, as on the Hugging Face hub.

One file in ``families/`` says all there is to know about a family: which fields of ``config.json`` mean what,
and under which name and in which layout each parameter lies on disk. That table is read in both directions.
"""

from tfcore.io.pretrained import from_pretrained, save_pretrained

__all__ = ["from_pretrained", "save_pretrained"]
