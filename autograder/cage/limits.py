"""Set limits on this process's use of the machine; the process cannot raise them again."""

from __future__ import annotations

import resource
import sys

WAITING = 4
"""The limit of a cell's clock time, as a multiple of its processor seconds: a cell may sleep or wait."""
IMAGE_CAP = 1 << 20
"""The most characters of a picture that is kept."""
OUTPUTS_CAP = 20
"""The most outputs of a cell that are kept."""


def lower(which: int, soft: int, hard: int | None = None) -> None:
    """Lower one limit, to at most the value that this machine allows.

    Args:
        which: a limit of the module `resource`.
        soft: the soft limit, where the process gets a signal or an error.
        hard: the hard limit, or `soft` if it is None.

    Raises:
        OSError: Linux refuses the limit. Other systems lack some limits; there a refusal is ignored.
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
