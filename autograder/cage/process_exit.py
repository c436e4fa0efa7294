"""Find out whether a child process is ending, before the kernel reports its status."""

from __future__ import annotations

import os
from pathlib import Path

PF_EXITING = 0x4
FLAGS = 6
"""The place of a process's flags in /proc/PID/stat, counted from the field after its name."""


def has_begun(pid: int) -> bool:
    """Return whether a child of this process has ended or is ending.

    The socket of an ending child closes some time before `os.waitpid` reports the end. In between,
    `os.waitpid` alone would take a killed child for a living child.
    """
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # not Linux
        return False
    return bool(int(stat.rpartition(")")[2].split()[FLAGS]) & PF_EXITING)
