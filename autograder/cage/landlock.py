"""Restrict a process to some files with Landlock, a mechanism of Linux that a process cannot undo.

The zygote makes a ruleset once, and each child enters it. A file that no rule names cannot be opened. The
filter of `syscalls` refuses actions that Landlock allows, such as changing a file's mode or sending a
datagram.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""The numbers of the three system calls, the same on every machine."""
PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38

READ_FILE, READ_DIR = 1 << 2, 1 << 3
READ = READ_FILE | READ_DIR
OF_A_FILE = READ_FILE | 1 << 1 | 1 << 14
EXECUTE, MAKE_DEVICES = 1 << 0, 1 << 6 | 1 << 11
FILES_SINCE = {1: 13, 2: 14, 3: 15, 5: 16}
"""The number of kinds of file access, by the version of the interface that introduced it."""
NETWORK_SINCE, NETWORK = 4, 0b11
SCOPES_SINCE, SCOPES = 6, 0b11
"""The versions that can also refuse TCP, and then abstract sockets and signals to other processes."""

_libc = ctypes.CDLL(None if os.name == "posix" else "msvcrt", use_errno=True)


def version() -> int:
    """Return the version of Landlock's interface in this kernel, or 0 without Landlock."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def ruleset(readable: Iterable[str], writable: Iterable[str]) -> int:
    """Return a descriptor of a ruleset that allows only these files and folders, with all files below them.

    Args:
        readable: paths that may be read and listed; a path that does not exist is left out.
        writable: paths that may also be changed. No file may be executed.

    Raises:
        OSError: this kernel has no Landlock.
    """
    have = version()
    every = (1 << max((n for since, n in FILES_SINCE.items() if since <= have), default=0)) - 1
    handled = struct.pack(
        "=QQQ", every, NETWORK if have >= NETWORK_SINCE else 0, SCOPES if have >= SCOPES_SINCE else 0
    )
    size = 24 if have >= SCOPES_SINCE else 16 if have >= NETWORK_SINCE else 8
    rules = _checked(_libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(size), 0))
    for paths, access in ((readable, READ), (writable, every & ~EXECUTE & ~MAKE_DEVICES)):
        for path in paths:
            _allow(rules, path, access)
    return rules


def _allow(rules: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        access = access if os.path.isdir(path) else access & OF_A_FILE
        _checked(_libc.syscall(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0))
    finally:
        os.close(descriptor)


def restrict_self(rules: int) -> None:
    """Apply the rules to this process and to all processes that it starts, until they end."""
    _checked(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_libc.syscall(RESTRICT_SELF, rules, 0))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
