"""Read and write the files of published models: ``config.json`` and safetensors, as on the Hugging Face hub.

GGUF files, which hold the model and its tokenizer, are read: of Llama, Qwen 2 and 3, and Gemma 1 to 3.

One file in ``families/`` describes a family: the meaning of each field of ``config.json``, and the name and
layout of each parameter on disk. That table is read in both directions.
"""

from tfcore.io.gguf import GGUFFile
from tfcore.io.pretrained import from_pretrained, save_pretrained

__all__ = ["GGUFFile", "from_pretrained", "save_pretrained"]
