"""Imports what notebooks need once, then forks one child per submission.

It holds nothing worth stealing: no exercise, no reference, no seed, no path of the gradebook. It is started
as a script by `autograder.grading.pair` with the number of its control socket, and stays single-threaded,
since a fork keeps only the thread that forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import socket
import sys
import types
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

sys.path.insert(0, str(HERE.parent))
_meters = importlib.util.spec_from_file_location("cage.meters", HERE.parents[1] / "tfcore/testing/meters.py")
assert _meters
assert _meters.loader
sys.modules["cage.meters"] = importlib.util.module_from_spec(_meters)
_meters.loader.exec_module(sys.modules["cage.meters"])
from cage import child, wire  # noqa: E402

sys.path.pop(0)

WITHHELD = ("tfcore", "autograder")
OPEN = ("tfcore", "tfcore.data")
"""What may be imported all the same: sentences and tasks to train on, which are no answers."""


class Withhold(importlib.abc.MetaPathFinder):
    """Refuses the course's own packages: a submission must stand by itself."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        allowed = name in OPEN or name.startswith("tfcore.data.")
        if name.split(".")[0] in WITHHELD and not allowed:
            raise ModuleNotFoundError(f"{name} is not there while your work is graded: write it yourself")


def stand_in() -> types.ModuleType:
    """An ``autograder`` whose `check` does nothing, for the cells that call it."""

    class Later:
        score = 0.0

        def __repr__(self) -> str:
            return "checked by the grader"

    module = types.ModuleType("autograder")
    vars(module)["check"] = lambda *args, **kwargs: Later()
    return module


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    shell = child.make_shell()
    sys.meta_path.insert(0, Withhold())
    sys.modules["autograder"] = stand_in()
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    if threads != 1:
        raise SystemExit(f"the zygote has {threads} threads; it must have one before it forks")
    gc.freeze()
    wire.send(control, {"ready": os.getpid()})
    while True:
        tag, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not tag:
            return
        order = wire.receive(control)
        if tag == b"F":
            for name in order["imports"]:
                importlib.import_module(name)
            gc.freeze()
            wire.send(control, {"pid": fork(shell, control, descriptors[0], order)})
        else:
            wire.send(control, {"ended": end(order["pid"])})


def fork(shell: Any, control: socket.socket, descriptor: int, order: dict[str, Any]) -> int:
    """Forks the child that will run one submission and answer on `descriptor`."""
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    try:
        control.close()
        os.setsid()
        confine(order["memory_bytes"], order["cpu_seconds"])
        os.chdir(order["home"])
        os.environ["HOME"] = order["home"]
        child.serve(socket.socket(fileno=descriptor), shell)
    finally:
        os._exit(0)


def confine(memory_bytes: int, cpu_seconds: int) -> None:
    """Limits what the child may take, and leaves it no descriptor but the wire."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if os.path.exists("/proc/self/statm") else 0
    limits = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + memory_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: 64 << 20,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    for which, limit in limits.items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (limit, limit))


def end(pid: int) -> str:
    """Kills a child with its process group, waits for it, and says how it ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return "already gone"
    return json.dumps({"status": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main()
