"""Landlock: Linux's own wall around files, which a process may raise before itself and never take down.

A ruleset is made once, in the zygote; each child steps behind it. What no rule names cannot be opened. What
Landlock does not refuse, such as changing a file's mode or a datagram, `syscalls` does.

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
"""How many kinds of access to files there are from which version of the interface on."""
NETWORK_SINCE, NETWORK = 4, 0b11
SCOPES_SINCE, SCOPES = 6, 0b11
"""From these versions on, TCP can be refused, then abstract sockets and signals to the outside."""

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The version of the interface that this kernel has; 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def ruleset(readable: Iterable[str], writable: Iterable[str]) -> int:
    """A descriptor of the rule that only these files and folders, with all below them, are there.

    Args:
        readable: may be read and listed; one that does not exist is left out.
        writable: may also be changed; nothing at all may be executed.

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


def step_behind(rules: int) -> None:
    """Puts this process, and all it may start, behind the rules for good."""
    _checked(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_libc.syscall(RESTRICT_SELF, rules, 0))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
