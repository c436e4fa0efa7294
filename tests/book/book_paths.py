"""Where the book is; importing this makes its builder and its extensions importable."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "book"), str(ROOT / "book" / "_ext")]
