"""Try the actions that a submission must not be able to do, in a child behind the same walls.

The grader trusts a wall only after it has refused such an attempt. An attempt that succeeds returns its
result; a refused attempt raises an error.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

Target = dict[str, Any]
"""The target of the attempts: the ``path`` of a secret file, the ``pid`` of the process that owns it, and the
``port`` and the ``socket`` where this process listens."""


def reads_a_file(target: Target) -> Any:
    """Read a file that only the grader needs."""
    with open(target["path"]) as file:
        return file.read()


def lists_a_folder(target: Target) -> Any:
    """List the folder of the secret file."""
    return os.listdir(os.path.dirname(target["path"]))


def writes_a_file(target: Target) -> Any:
    """Write a file beside the secret file."""
    with open(target["path"] + ".written", "w") as file:
        return file.write("written")


def removes_a_file(target: Target) -> Any:
    """Remove the secret file."""
    os.unlink(target["path"])
    return "removed"


def truncates_a_file(target: Target) -> Any:
    """Empty the secret file without opening it."""
    os.truncate(target["path"], 0)
    return "emptied"


def changes_a_mode(target: Target) -> Any:
    """Change the permissions of the secret file."""
    os.chmod(target["path"], 0o777)
    return "changed"


def changes_a_time(target: Target) -> Any:
    """Change the modification time of the secret file."""
    os.utime(target["path"], (0, 0))
    return "changed"


def reads_the_environment(target: Target) -> Any:
    """Read the environment of the process that owns the file."""
    with open(f"/proc/{target['pid']}/environ", "rb") as file:
        return file.read(10)


def reads_the_memory(target: Target) -> Any:
    """Read the memory of that process through a file."""
    with open(f"/proc/{target['pid']}/mem", "rb") as file:
        return file.fileno()


def copies_memory(target: Target) -> Any:
    """Read the memory of that process through a system call."""
    return _call_libc("process_vm_readv", target["pid"], None, 0, None, 0, 0)


def traces(target: Target) -> Any:
    """Attach to the process as a debugger does, without stopping it."""
    seize = 0x4206
    return _call_libc("ptrace", seize, target["pid"], None, None)


def signals(target: Target) -> Any:
    """Send the process signal 0, which does nothing."""
    os.kill(target["pid"], 0)
    return "sent"


def signals_everybody(target: Target) -> Any:
    """Send signal 0 to every process within reach."""
    os.kill(-1, 0)
    return "sent"


def limits_another(target: Target) -> Any:
    """Read the limits of the process; setting them needs the same permission."""
    import resource

    return resource.prlimit(target["pid"], resource.RLIMIT_CPU)


def connects(target: Target) -> Any:
    """Open a connection to a port of this machine."""
    with socket.create_connection(("127.0.0.1", target["port"]), 1):
        return "connected"


def sends_a_datagram(target: Target) -> Any:
    """Send a datagram, which Landlock does not stop."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return sock.sendto(b"x", ("127.0.0.1", target["port"]))


def connects_by_name(target: Target) -> Any:
    """Connect to a socket that has an abstract name instead of a file."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(target["socket"])
        return "connected"


def forks(target: Target) -> Any:
    """Start a process."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def executes(target: Target) -> Any:
    """Run a program."""
    return subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, timeout=5).stdout or None


def starts_a_thread(target: Target) -> Any:
    """Start a thread."""
    thread = threading.Thread(target=signal.getsignal, args=(signal.SIGINT,))
    thread.start()
    return "started"


def makes_a_namespace(target: Target) -> Any:
    """Make a user name space, where this process would be root."""
    return _call_libc("unshare", 0x10000000)


def keeps_memory_in_a_file(target: Target) -> Any:
    """Make a file in memory, which no limit on memory counts."""
    return os.memfd_create("hidden")


def _call_libc(name: str, *args: Any) -> Any:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    if (got := libc[name](*args)) < 0:
        raise OSError(ctypes.get_errno(), name)
    return f"{name} returned {got}"


ATTEMPTS: tuple[Callable[[Target], Any], ...] = (
    reads_a_file,
    lists_a_folder,
    writes_a_file,
    changes_a_mode,
    changes_a_time,
    truncates_a_file,
    removes_a_file,
    reads_the_environment,
    reads_the_memory,
    copies_memory,
    traces,
    signals,
    signals_everybody,
    limits_another,
    connects,
    sends_a_datagram,
    connects_by_name,
    makes_a_namespace,
    keeps_memory_in_a_file,
    starts_a_thread,
    forks,
    executes,
)


def make_all(target: Target) -> dict[str, str]:
    """Make every attempt and return the result of each; it is empty where the attempt was refused."""
    return {attempt.__name__: _result(attempt, target) for attempt in ATTEMPTS}


def _result(attempt: Callable[[Target], Any], target: Target) -> str:
    try:
        return str(attempt(target))[:80]
    except Exception:
        return ""
