"""Filter system calls with seccomp: an allowlist by name; every other call is refused with EPERM.

The list has the calls that numpy, torch and matplotlib need after their import. A submission cannot start a
process or a thread, execute a program, open a socket, send a signal, change a file's mode or owner, read the
memory of another process or make a name space. So a submission is one process with one thread, and nothing
of it remains when it ends.
"""

from __future__ import annotations

import ctypes
import errno
import tempfile
from functools import cache
from typing import Any

from .landlock import NO_NEW_PRIVILEGES

ALLOWED = {
    "memory": "brk madvise mincore mlock mmap mprotect mremap msync munlock munmap membarrier",
    "files": """access chdir close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
        fadvise64 fallocate fchdir fdatasync flock fstat fstatfs fsync ftruncate getcwd getdents getdents64
        link linkat lseek lstat mkdir mkdirat newfstatat open openat pread64 preadv preadv2 pwrite64 pwritev
        pwritev2 read readahead readlink readlinkat readv rename renameat renameat2 rmdir sendfile stat statfs
        statx symlink symlinkat umask unlink unlinkat write writev""",
    "the wire and pipes": """getpeername getsockname getsockopt pipe pipe2 recvfrom recvmsg
        setsockopt shutdown""",
    "waiting": """epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 futex nanosleep
        clock_nanosleep pause poll ppoll pselect6 select sched_yield restart_syscall""",
    "clocks": "alarm clock_getres clock_gettime getitimer gettimeofday setitimer time times",
    "signals to itself": """rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend
        rt_sigtimedwait sigaltstack""",
    "itself": """arch_prctl capget exit exit_group get_robust_list getcpu getegid geteuid getgid getgroups
        getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid
        gettid getuid prctl rseq sched_get_priority_max sched_get_priority_min sched_getaffinity
        sched_getparam sched_getscheduler set_robust_list set_tid_address sysinfo uname""",
}
"""The allowed calls by purpose; a name that a processor lacks is skipped."""

ALLOWED_WITH: dict[str, tuple[dict[int, int], ...]] = {
    "prlimit64": ({0: 0, 2: 0},),
    "sendto": ({4: 0},),
    "socketpair": tuple({1: 1 | flags} for flags in (0, 0o4000, 0o2000000, 0o2004000)),
    "fcntl": tuple({1: command} for command in (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)),
    "ioctl": tuple({1: command} for command in (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
}
"""Calls that are allowed with some arguments only. Each dict is an allowed way: the places of arguments with
their values. A submission may read its own limits, send without an address, and use streams instead of
datagrams. It may not send a file's events to another process as signals, nor control a device."""

FILTER, SET_SECCOMP = 2, 22


@cache
def program() -> bytes | None:
    """Return the filter as a program for the kernel, or None if libseccomp is not installed."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    conditions: list[tuple[Any, ...]] = [(name,) for name in " ".join(ALLOWED.values()).split()]
    for name, ways in ALLOWED_WITH.items():
        for way in ways:
            equal = [pyseccomp.Arg(place, pyseccomp.EQ, value) for place, value in way.items()]
            conditions.append((name, *equal))
    for condition in conditions:
        try:
            rules.add_rule(pyseccomp.ALLOW, *condition)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def apply(filter_program: bytes) -> None:
    """Apply the filter to this process until it ends."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    kernel_program = _Program(len(filter_program) // 8, filter_program)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(
        SET_SECCOMP, FILTER, ctypes.byref(kernel_program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp: the kernel refused the filter")
