"""Limits on what this process may take of the machine, set for good."""

from __future__ import annotations

import resource
import sys


def lower(which: int, soft: int, hard: int | None = None) -> None:
    """Lowers one limit, to no more than this machine allows.

    Args:
        which: a limit of the module `resource`.
        soft: where a signal or an error says so.
        hard: where it ends; the same, if not given.

    Raises:
        OSError: Linux refuses. Other systems do not know every limit, and grade only where that is asked for.
    """
    _, most = resource.getrlimit(which)
    bounds = (soft, soft if hard is None else hard)
    if most != resource.RLIM_INFINITY:
        bounds = (min(bounds[0], most), min(bounds[1], most))
    try:
        resource.setrlimit(which, bounds)
    except (ValueError, OSError) as error:
        if sys.platform == "linux":
            raise OSError(f"limit {which} cannot be set to {bounds}: {error}") from error
