"""What a submission is confined by: a forked child steps behind these walls before it reads a line of it."""

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
    """The walls of one zygote; its children inherit what was prepared.

    Args:
        rules: Landlock's ruleset, or None where there is none.
        filter_program: of system calls, or None.
    """

    rules: int | None = None
    filter_program: bytes | None = None

    def enter(self, memory_bytes: int, cpu_seconds: int, keep: int) -> None:
        """Confines this process for good.

        Args:
            memory_bytes: what it may take beyond what it has now.
            cpu_seconds: processor time in all.
            keep: the one descriptor that stays open, besides the null device at 0, 1 and 2.
        """
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        _limit(memory_bytes, cpu_seconds)
        if self.rules is not None or self.filter_program is not None:
            _drop_capabilities()
        if self.rules is not None:
            landlock.step_behind(self.rules)
        if self.filter_program is not None:
            syscalls.step_behind(self.filter_program)
        os.closerange(3, keep)
        os.closerange(keep + 1, MOST_DESCRIPTORS)


def prepared(config: dict[str, Any]) -> Walls:
    """The walls that a zygote was told to put up, ready to be stepped behind.

    Args:
        config: ``readable``: the files and folders that a submission may read, None for no wall around files;
            ``writable``: the folders that it may change; ``filter``: the program from `syscalls.program` in
            base64, None for no filter.

    Raises:
        OSError: this kernel has not what is asked for.
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
    limits.lower(resource.RLIMIT_CPU, cpu_seconds, 10 * cpu_seconds + 600)  # XCPU alone: KILL is others'


def _drop_capabilities() -> None:
    """Gives up what root, or the head of a user name space, may do beyond others."""
    header = struct.pack("=Ii", CAPABILITIES_3, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")
