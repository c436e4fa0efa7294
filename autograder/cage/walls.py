"""Confine a submission: a forked child enters these walls before it reads the first line of it."""

from __future__ import annotations

import base64
import ctypes
import os
import resource
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import landlock, limits, syscalls

DESCRIPTORS = 256
MOST_DESCRIPTORS = 1 << 16
FILE_BYTES = 64 << 20
CAPABILITIES_3 = 0x20080522


@dataclass(frozen=True)
class Walls:
    """The walls of one zygote, which its children inherit.

    Args:
        rules: a descriptor of Landlock's ruleset, or None without Landlock.
        filter_program: the filter of system calls, or None without a filter.
    """

    rules: int | None = None
    filter_program: bytes | None = None

    def enter(self, memory_bytes: int, cpu_seconds: int, keep: int) -> None:
        """Confine this process until it ends.

        Args:
            memory_bytes: the memory that it may use in addition to its present memory.
            cpu_seconds: the limit of its processor time.
            keep: the only descriptor that stays open, besides the null device at 0, 1 and 2.
        """
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        _limit(memory_bytes, cpu_seconds)
        if self.rules is not None or self.filter_program is not None:
            _drop_capabilities()
        if self.rules is not None:
            landlock.restrict_self(self.rules)
        if self.filter_program is not None:
            syscalls.apply(self.filter_program)
        os.closerange(3, keep)
        os.closerange(keep + 1, MOST_DESCRIPTORS)


def prepare(config: dict[str, Any]) -> Walls:
    """Return the walls that a zygote's configuration asks for, ready for its children to enter.

    Args:
        config: ``readable``: the files and folders that a submission may read, or None without a wall around
            files; ``writable``: the folders that it may change; ``filter``: the program of
            `syscalls.program` in base64, or None without a filter.

    Raises:
        OSError: this kernel lacks Landlock.
    """
    readable, program = config["readable"], config["filter"]
    return Walls(
        None if readable is None else landlock.ruleset(readable, [*config["writable"], os.devnull]),
        None if program is None else base64.b64decode(program),
    )


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if os.path.exists("/proc/self/statm") else 0
    limits.lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes)
    limits.lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    limits.lower(resource.RLIMIT_NOFILE, DESCRIPTORS)
    limits.lower(resource.RLIMIT_CORE, 0)
    # the process ends by SIGXCPU at the soft limit; SIGKILL at the hard limit would look like another's kill
    limits.lower(resource.RLIMIT_CPU, cpu_seconds, 10 * cpu_seconds + 600)


def _drop_capabilities() -> None:
    """Give up the capabilities of root or of the owner of a user name space."""
    header = struct.pack("=Ii", CAPABILITIES_3, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")
