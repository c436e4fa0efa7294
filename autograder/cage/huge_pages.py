"""Make forks cheap: keep shared objects out of garbage collection, and put them on large pages."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re

COLLAPSE = 25
"""`MADV_COLLAPSE`, of Linux 6.1 and later; the mmap module has no name for it yet."""
LARGE = 2 << 20
MAPS = "/proc/self/maps"
NO_FILE = re.compile(r"(\w+)-(\w+) rw-p \w+ 00:00 0 *(\[heap\])?\n")


def prepare_forks() -> None:
    """Prepare the memory of this process for sharing with its forks."""
    gc.freeze()
    _collapse()


def _collapse() -> None:
    """Ask the kernel for large pages, since a fork mostly copies the page table; a refusal does no harm."""
    if not hasattr(mmap, "MADV_HUGEPAGE") or not os.path.exists(MAPS):
        return
    madvise = ctypes.CDLL(None).madvise
    with open(MAPS) as file:
        areas = [NO_FILE.fullmatch(line) for line in file]
    for area in filter(None, areas):
        start, end = -(-int(area[1], 16) // LARGE) * LARGE, int(area[2], 16) // LARGE * LARGE
        if start < end:
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), COLLAPSE)
