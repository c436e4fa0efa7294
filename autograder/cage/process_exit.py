"""Whether a child process is ending, told before the kernel gives its status away."""

from __future__ import annotations

import os
from pathlib import Path

PF_EXITING = 0x4
FLAGS = 6
"""Where a process's flags stand in /proc/PID/stat, counted from behind its name."""


def has_begun(pid: int) -> bool:
    """Whether a child of this process has ended or is about to.

    Its end of a socket closes some time before it can be waited for. Who asks in between with `os.waitpid`
    takes a child that somebody has killed for one that lives.
    """
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        return True
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # no Linux
        return False
    return bool(int(told.rpartition(")")[2].split()[FLAGS]) & PF_EXITING)
