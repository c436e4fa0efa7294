"""Run a zygote and a judge side by side, and grade submissions with them one at a time.

Both are new processes; neither is a fork of the other or of this process. For each submission this module
makes one socketpair, gives one end to a new child of the zygote and the other end to a new fork of the judge,
waits for the verdict, and ends the child.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder import cage
from autograder.cage import scratch_dir, wire
from autograder.cage.limits import WAITING
from autograder.grading import cages
from autograder.grading.session import GRACE_SECONDS, OVERHEAD_SECONDS, Limits
from autograder.grading.verdict import CellVerdict, Verdict

Task = dict[str, Any]
Failed = tuple[str, str, str]
"""A failed criterion of an exercise: the exercise, the mistakes that the report names, and the criterion."""

LARGE = {b"optim": "torch._dynamo", b"matplotlib": "cage.drawn_once"}
"""Modules that take long to import, by a word in the submissions that need them: torch's optimizers need its
compiler, and the first figure needs most of matplotlib. The zygote imports such a module once, for this child
and all later children."""

START_SECONDS = 120.0
CHECK_SECONDS = 0.1
"""The time between two checks whether a starting process is still alive."""


class PairError(RuntimeError):
    """The error that the zygote or the judge could not be started."""


def notebook_task(
    assignment: str,
    released: bytes,
    submission: bytes,
    seed: int,
    limits: Limits,
    known: Sequence[CellVerdict] = (),
) -> Task:
    """Return the task to grade a submitted notebook; exercises with a known verdict are not graded again."""
    return {
        "assignment": assignment,
        "released": wire.bytes_to_array(released),
        "submission": wire.bytes_to_array(submission),
        "seed": seed,
        "limits": dataclasses.asdict(limits),
        "known": wire.json_to_array([cell.as_dict() for cell in known]),
    }


def file_task(
    exercise: str, submission: bytes, is_notebook: bool, seed: int, limits: Limits, shrinking: bool = True
) -> Task:
    """Return the task to grade one exercise in a file; `shrinking` makes failing cases smaller."""
    return {
        "exercise": exercise,
        "submission": wire.bytes_to_array(submission),
        "is_notebook": is_notebook,
        "seed": seed,
        "limits": dataclasses.asdict(limits),
        "shrinking": shrinking,
    }


class Pair:
    """A zygote and a judge that grade submissions one after another.

    The two processes start with the first task, and start again if one of them is lost.

    Args:
        tier: the walls around each submission, as in `autograder.grading.cages`. Each time a zygote starts, a
            self test must find that the walls of tier A or B hold.
        user: the user that runs the submissions if root grades without walls; by default the current user.
    """

    def __init__(self, tier: str, user: str | None = None) -> None:
        self.tier = tier
        self.user = user
        self._folder: Path | None = None
        self._zygote: _Process | None = None
        self._judge: _Process | None = None
        self._failed_before: list[Failed] = []
        self._starting, self._closed = threading.RLock(), False

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End both processes for good, even while another thread waits for their verdict."""
        with self._starting:
            self._closed = True
            self._end()

    def _end(self) -> None:
        """End both processes and remove the files of submissions."""
        with self._starting:
            for process in (self._zygote, self._judge):
                if process:
                    process.end()
            self._zygote = self._judge = None
            if self._folder:
                scratch_dir.remove(self._folder)
                self._folder = None

    def grade(self, task: Task) -> Verdict:
        """Return the verdict on one task. No action of a submission raises an error here.

        If another program kills one of the processes, such as a system that is short of memory, the task is
        repeated once.

        Raises:
            PairError: the processes do not start on this machine, or the walls do not hold.
        """
        started = time.monotonic()
        for last in (False, True):
            try:
                verdict, killed = self._grade(task)
            except PairError:  # perhaps killed while it started; if it cannot start, the second try fails too
                if last or self._closed:
                    raise
                continue
            except (wire.WireError, OSError) as error:
                self._end()
                lost = f"the grader lost one of its processes: {error!r}"
                verdict, killed = Verdict("failed", note=lost), not isinstance(error, wire.TooLate)
            if last or not killed:
                break
        # In a safe tier a child cannot kill itself.
        if killed and verdict.status == "graded" and self.tier in cages.SAFE:
            verdict = Verdict("failed", note="its process was killed from outside, twice")
        return dataclasses.replace(verdict, tier=self.tier, seconds=round(time.monotonic() - started, 3))

    def _grade(self, task: Task) -> tuple[Verdict, bool]:
        """Return the verdict, and whether another program killed the child."""
        zygote, judge = self._start()
        limits = task["limits"]
        text = task["submission"].tobytes()
        order = {
            "memory_bytes": limits["memory_bytes"],
            "cpu_seconds": int(limits["total_seconds"]) + 1,
            "imports": [module for word, module in LARGE.items() if word in text],
        }
        ours, theirs = socket.socketpair()
        with ours, theirs:
            child = zygote.ask(b"F", theirs, order, START_SECONDS)["pid"]
            theirs.close()
            try:
                task_for_judge = task | {"failed_before": self._failed_before}
                reply = judge.ask(b"G", ours, task_for_judge, _most_seconds(limits))
            finally:
                ours.close()
                killed = zygote.ask(b"E", None, {"pid": child}, START_SECONDS)["killed"]
        verdict = Verdict.from_dict(wire.json_from_array(reply["verdict"]))
        self._failed_before = list(_failed(verdict)) if task.get("shrinking", True) else []
        return verdict, killed

    def _start(self) -> tuple[_Process, _Process]:
        """Return the zygote and the judge; start both again if one of them has ended."""
        if self._zygote and self._judge and self._zygote.alive and self._judge.alive:
            return self._zygote, self._judge
        with cages.secret() as target:
            zygote, judge = self._start_processes(target if self.tier in cages.SAFE else None)
            ready = self._wait_until_ready("zygote", zygote)
            self._wait_until_ready("judge", judge)
        if self.tier in cages.SAFE:
            try:
                cages.require(self.tier, wire.json_from_array(ready["facts"]))
            except cages.CageError as error:
                self._end()
                raise PairError(
                    f"this machine should support tier {self.tier}, and does not: {error}"
                ) from error
        return zygote, judge

    def _start_processes(self, target: dict[str, Any] | None) -> tuple[_Process, _Process]:
        """Start both processes in a new folder, and return them before they are ready.

        Raises:
            PairError: the pair is closed.
        """
        with self._starting:
            self._end()
            if self._closed:
                raise PairError("it was closed")
            folder = self._folder = Path(tempfile.mkdtemp(prefix="autograder-"))
            if self.user:
                shutil.chown(folder, self.user)
            script = [sys.executable, "-I", str(Path(cage.__file__).parent / "zygote.py")]
            self._zygote = zygote = _Process(
                [*cages.bubblewrap(self.tier, folder), *script],
                json.dumps(cages.config(self.tier, folder) | {"target": target}),
                _bare_environment(folder, offline=self.tier != "D"),
                folder,
                self.user,
            )
            module = [sys.executable, "-m", "autograder.grading.judge"]
            self._judge = judge = _Process(module, str(folder), {**os.environ, **_SINGLE_THREADED}, None)
            return zygote, judge

    def _wait_until_ready(self, name: str, process: _Process) -> Any:
        try:
            return process.wait_until_ready()
        except wire.WireError as error:
            stderr = process.errors()
            self._end()
            raise PairError(f"the {name} did not start: {error}\n{stderr}") from error


def _failed(verdict: Verdict) -> Iterator[Failed]:
    """Yield the mistakes that reports name, "" for others, each with the first criterion that it failed."""
    for report in filter(None, (cell.report for cell in verdict.cells)):
        named = set()
        for result in report.criteria:
            if result.failure and (mistake := result.failure.misconception or "") not in named:
                named.add(mistake)
                yield report.exercise, mistake, result.says


class _Process:
    """A long-lived helper process and the socket on which it takes orders."""

    def __init__(
        self,
        command: list[str],
        settings: str,
        environment: dict[str, str],
        folder: Path | None,
        user: str | None = None,
    ) -> None:
        self.control, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by end()
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), settings],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,
                **_run_as(user),
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> Any:
        """Return the first message of the process, which it sends when it has started.

        If the process ends before that, stop waiting: a child of it may live on and keep the socket open.
        """
        end = time.monotonic() + START_SECONDS
        while not select.select([self.control], [], [], CHECK_SECONDS)[0] and time.monotonic() < end:
            if not self.alive:
                raise wire.WireError("it was stopped while it started")
        return wire.receive(self.control, end)

    def ask(self, tag: bytes, passed: socket.socket | None, order: Any, seconds: float) -> Any:
        """Send an order, with a descriptor if `passed` is given, and return the answer."""
        self.control.settimeout(START_SECONDS)
        socket.send_fds(self.control, [tag], [passed.fileno()] if passed else [])
        wire.send(self.control, order)
        return wire.receive(self.control, time.monotonic() + seconds)

    def errors(self) -> str:
        """Return the last characters that the process wrote to stderr."""
        if self._stderr.closed:
            return ""
        self._stderr.seek(0)
        return self._stderr.read()[-2000:].decode(errors="replace")

    def end(self) -> None:
        # A shutdown wakes a thread that waits on the socket; a close does not.
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        self.control.close()
        self._stderr.close()


def _run_as(user: str | None) -> dict[str, Any]:
    """Return arguments of Popen that run a process as a user, in the group of this user alone."""
    import pwd

    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


_SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _bare_environment(folder: Path, offline: bool) -> dict[str, str]:
    """Return an environment for submissions that shows nothing of the machine but the path of programs.

    A sandbox has no network. The environment tells this to the library that downloads models, which would
    otherwise retry for 23 seconds.
    """
    return {
        **({"HF_HUB_OFFLINE": "1"} if offline else {}),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "USER": "student",
        "IPYTHONDIR": str(folder / "ipython"),
        "MPLCONFIGDIR": str(folder / "matplotlib"),
        **_SINGLE_THREADED,
    }


def _most_seconds(limits: dict[str, Any]) -> float:
    """Return the most seconds that one submission can take: its limit, its last cell and the judge's work."""
    return float(
        limits["total_seconds"] + WAITING * limits["cell_seconds"] + GRACE_SECONDS + OVERHEAD_SECONDS
    )
