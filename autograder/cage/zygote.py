"""Import the libraries of notebooks once, then fork one child per submission.

The zygote has no secrets: no exercise, no reference, no seed, no path of the gradebook.
`autograder.grading.pair` starts it as a script with the number of its control socket and the configuration
of its walls. It has a single thread, since a fork keeps only the thread that forks. Each child enters the
walls before it reads a line of a submission. The zygote watches the child's home while the child runs, and
empties it afterwards.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

gc.disable()  # garbage collection would take a quarter of the time of the imports
HERE = Path(__file__).resolve().parent

sys.path.insert(0, str(HERE.parent))
_meters = importlib.util.spec_from_file_location("cage.meters", HERE.parents[1] / "tfcore/testing/meters.py")
assert _meters
assert _meters.loader
sys.modules["cage.meters"] = importlib.util.module_from_spec(_meters)
_meters.loader.exec_module(sys.modules["cage.meters"])
sys.modules["cage.meters"].products()  # imports more of torch here, and not again in each child
from cage import child, process_exit, scratch_dir, self_test, walls, wire  # noqa: E402

sys.path.pop(0)

WITHHELD = ("tfcore", "autograder")
OPEN = ("tfcore", "tfcore.data")
"""Modules of the course that a submission may import: sentences and tasks for training, without answers."""


class Withhold(importlib.abc.MetaPathFinder):
    """An import hook that refuses the course's own packages, since a submission must work without them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        allowed = name in OPEN or name.startswith("tfcore.data.")
        if name.split(".")[0] in WITHHELD and not allowed:
            raise ModuleNotFoundError(f"{name} is not available while your work is graded: write it yourself")


def stub_modules() -> dict[str, types.ModuleType]:
    """Return stubs of ``autograder`` and ``tfwidgets``: `check`, `bring` and `show` do nothing."""

    class Later:
        score = 0.0

        def __repr__(self) -> str:
            return "checked by the grader"

    modules = {name: types.ModuleType(name) for name in ("autograder", "tfwidgets")}
    vars(modules["autograder"])["check"] = lambda *args, **kwargs: Later()
    vars(modules["autograder"])["bring"] = lambda *args, **kwargs: None
    vars(modules["tfwidgets"])["show"] = lambda *args, **kwargs: None
    return modules


def main() -> None:
    control, config = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    Path(config["folder"], "home").mkdir()
    confined = walls.prepare(config)
    facts = self_test.facts(confined, config["target"]) if config["target"] else None
    shell = child.make_shell()
    sys.path.insert(0, str(HERE.parents[1]))
    for name in OPEN:  # imported now, since the walls keep a child from reading our folders
        importlib.import_module(name)
    sys.path.pop(0)
    sys.meta_path.insert(0, Withhold())
    sys.modules |= stub_modules()
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    if threads != 1:
        raise SystemExit(f"the zygote has {threads} threads; it must have one before it forks")
    gc.freeze()
    gc.enable()
    wire.send(control, {"ready": os.getpid(), "facts": wire.json_to_array(facts)})
    nursery = Nursery(control, shell, confined, Path(config["folder"]) / "home")
    while True:
        nursery.watch()
        tag, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not tag:
            return
        order = wire.receive(control)
        if tag == b"F":
            for name in order["imports"]:
                importlib.import_module(name)
                gc.freeze()
            wire.send(control, {"pid": nursery.fork(descriptors[0], order)})
        else:
            wire.send(control, {"killed": nursery.end(order["pid"])})


class Nursery:
    """The current child and its home folder."""

    living: int | None = None
    ended_for: str | None = None

    def __init__(self, control: socket.socket, shell: Any, confined: walls.Walls, home: Path) -> None:
        self.control, self.shell, self.walls, self.home = control, shell, confined, home

    def watch(self) -> None:
        """Wait for an order, and end a child that fills its home."""
        while not select.select([self.control], [], [], scratch_dir.LOOK_SECONDS if self.living else None)[0]:
            if self.living and scratch_dir.is_full(self.home):
                self.ended_for = "it filled its home folder"
                self.kill(self.living)

    def fork(self, descriptor: int, order: dict[str, Any]) -> int:
        """Fork the child that will run one submission and answer on `descriptor`."""
        scratch_dir.empty(self.home)
        pid = os.fork()
        if pid:
            os.close(descriptor)
            self.living, self.ended_for = pid, None
            return pid
        try:
            os.setsid()
            os.chdir(self.home)
            for name in ("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR"):
                os.environ[name] = str(self.home)
            tempfile.tempdir = None  # the imports set the zygote's folder
            sys.path.insert(0, "")
            self.walls.enter(order["memory_bytes"], order["cpu_seconds"], keep=descriptor)
            child.serve(socket.socket(fileno=descriptor), self.shell)
        finally:
            os._exit(0)

    def kill(self, pid: int) -> None:
        """Kill a child and its process group, if they exist."""
        for ended in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                ended(pid, signal.SIGKILL)

    def end(self, pid: int) -> bool:
        """Kill a child, wait for it and empty its home; return whether another process had killed it."""
        by_itself = process_exit.has_begun(pid)
        self.kill(pid)
        _, status = os.waitpid(pid, 0)
        self.living = None
        scratch_dir.empty(self.home)
        return by_itself and not self.ended_for and os.waitstatus_to_exitcode(status) == -signal.SIGKILL


if __name__ == "__main__":
    main()
