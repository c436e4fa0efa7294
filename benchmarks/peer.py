"""A peer with nanoGPT's interface, given as FILE:CLASS on the command line.

CLASSConfig(block_size, vocab_size, n_layer, n_head, n_embd, dropout, bias), a call
``(idx, targets) -> (logits, loss)``, ``configure_optimizers`` and ``generate``.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def load(path: str, **sizes: int) -> Any:
    """Make the model that FILE:CLASS names, without dropout and with biases; GPT-2's sizes unless given."""
    file, _, name = path.rpartition(":")
    if not Path(file).is_file():
        raise SystemExit(f"expected --peer FILE:CLASS with a file that exists, got {path!r}")
    spec = importlib.util.spec_from_file_location("peer_model", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"expected --peer FILE:CLASS with a file of Python, got {path!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["peer_model"] = module  # its dataclasses look for their module
    spec.loader.exec_module(module)
    config = {"n_layer": 12, "n_head": 12, "n_embd": 768, "dropout": 0.0, "bias": True, **sizes}
    return getattr(module, name)(getattr(module, f"{name}Config")(**config))
