"""What a submission must not be able to do, tried from the inside, by a child behind the same walls.

What the cage holds is not concluded from what was set up but from what was refused. An attempt that succeeds
says what it got; one that is refused raises.
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
"""What the attempts are aimed at: a secret file's ``path``, the ``pid`` of its owner, its open ``port``, the
``socket`` it listens on."""


def reads_a_file(target: Target) -> Any:
    """Reads a file that only the grader needs."""
    with open(target["path"]) as file:
        return file.read()


def lists_a_folder(target: Target) -> Any:
    """Lists the folder of that file."""
    return os.listdir(os.path.dirname(target["path"]))


def writes_a_file(target: Target) -> Any:
    """Writes a file beside it."""
    with open(target["path"] + ".written", "w") as file:
        return file.write("written")


def removes_a_file(target: Target) -> Any:
    """Removes it."""
    os.unlink(target["path"])
    return "removed"


def truncates_a_file(target: Target) -> Any:
    """Empties it without opening it."""
    os.truncate(target["path"], 0)
    return "emptied"


def changes_a_mode(target: Target) -> Any:
    """Changes who may read it."""
    os.chmod(target["path"], 0o777)
    return "changed"


def changes_a_time(target: Target) -> Any:
    """Changes when it was written."""
    os.utime(target["path"], (0, 0))
    return "changed"


def reads_the_environment(target: Target) -> Any:
    """Reads the environment of the process that owns it."""
    with open(f"/proc/{target['pid']}/environ", "rb") as file:
        return file.read(10)


def reads_the_memory(target: Target) -> Any:
    """Reads that process's memory through a file."""
    with open(f"/proc/{target['pid']}/mem", "rb") as file:
        return file.fileno()


def copies_memory(target: Target) -> Any:
    """Reads it through a system call."""
    return _called("process_vm_readv", target["pid"], None, 0, None, 0, 0)


def traces(target: Target) -> Any:
    """Takes hold of the process as a debugger does, without stopping it."""
    seize = 0x4206
    return _called("ptrace", seize, target["pid"], None, None)


def signals(target: Target) -> Any:
    """Sends it a signal, of the kind that does nothing."""
    os.kill(target["pid"], 0)
    return "sent"


def signals_its_group(target: Target) -> Any:
    """Sends one to every process that it can reach."""
    os.kill(-1, 0)
    return "sent"


def limits_another(target: Target) -> Any:
    """Asks for the limits of another process, to set them."""
    import resource

    return resource.prlimit(target["pid"], resource.RLIMIT_CPU)


def connects(target: Target) -> Any:
    """Opens a connection to a port of this machine."""
    with socket.create_connection(("127.0.0.1", target["port"]), 1):
        return "connected"


def sends_a_datagram(target: Target) -> Any:
    """Sends a datagram, which Landlock does not stop."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return sock.sendto(b"x", ("127.0.0.1", target["port"]))


def connects_by_name(target: Target) -> Any:
    """Connects to a socket that has a name in place of a file."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(target["socket"])
        return "connected"


def forks(target: Target) -> Any:
    """Starts a process."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def executes(target: Target) -> Any:
    """Runs a program."""
    return subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, timeout=5).stdout or None


def starts_a_thread(target: Target) -> Any:
    """Starts a thread."""
    thread = threading.Thread(target=signal.getsignal, args=(signal.SIGINT,))
    thread.start()
    return "started"


def makes_a_namespace(target: Target) -> Any:
    """Makes a user name space, in which it would be root."""
    return _called("unshare", 0x10000000)


def keeps_memory_in_a_file(target: Target) -> Any:
    """Makes a file in memory, which no limit on memory counts."""
    return os.memfd_create("hidden")


def _called(name: str, *args: Any) -> Any:
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
    signals_its_group,
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


def made(target: Target) -> dict[str, str]:
    """What each attempt got: empty where it was refused."""
    return {attempt.__name__: _got(attempt, target) for attempt in ATTEMPTS}


def _got(attempt: Callable[[Target], Any], target: Target) -> str:
    try:
        return str(attempt(target))[:80]
    except Exception:
        return ""
