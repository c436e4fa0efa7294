"""A zygote and a judge side by side, and the submissions that pass through them one at a time.

Neither is forked from the other, nor from this process: both are started anew. For each submission this
module makes one socketpair, gives one end to a fresh child of the zygote and the other to a fresh fork of the
judge, waits for the verdict, and ends the child.
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
from types import TracebackType
from typing import Any

from autograder import cage
from autograder.cage import scratch_dir, wire
from autograder.grading import cages
from autograder.grading.session import GRACE_SECONDS, WAITING, Limits
from autograder.grading.verdict import CellVerdict, Verdict

Task = dict[str, Any]
Made = tuple[str, str, str]
"""A mistake that was made: the exercise, its name in the bank, and the criterion that it failed."""

LARGE = {b"optim": "torch._dynamo"}
"""What a submission mentions if it needs a module that takes a second to import: torch's optimizers need its
compiler. The zygote imports it once, for that child and all that come after."""

START_SECONDS = 120.0
LOOK_SECONDS = 0.1
"""Between two looks whether who starts still lives."""
OVERHEAD_SECONDS = 60.0


class PairError(RuntimeError):
    """The zygote or the judge could not be started."""


def notebook_task(
    assignment: str,
    released: bytes,
    submission: bytes,
    seed: int,
    limits: Limits,
    known: Sequence[CellVerdict] = (),
) -> Task:
    """The task of grading a submitted notebook against the released one, but for what is known of it."""
    return {
        "kind": "notebook",
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
    """The task of grading one exercise in a plain file or notebook, making what fails smaller or not."""
    return {
        "kind": "file",
        "exercise": exercise,
        "submission": wire.bytes_to_array(submission),
        "is_notebook": is_notebook,
        "seed": seed,
        "limits": dataclasses.asdict(limits),
        "shrinking": shrinking,
    }


class Pair:
    """Grades submissions one after another; starts its two processes when first asked, and again if lost.

    Args:
        tier: the walls around each submission, as in `autograder.grading.cages`. A or B must be found to
            hold, from the inside, each time a zygote starts.
        user: who submissions run as, where root grades without walls; by default who grades.
    """

    def __init__(self, tier: str, user: str | None = None) -> None:
        self.tier = tier
        self.user = user
        self._folder: Path | None = None
        self._zygote: _Process | None = None
        self._judge: _Process | None = None
        self._made_before: list[Made] = []
        self._starting, self._closed = threading.RLock(), False

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends both processes, for good, though another thread waits for a verdict of theirs."""
        with self._starting:
            self._closed = True
            self._end()

    def _end(self) -> None:
        """Ends both processes and removes what submissions left."""
        with self._starting:
            for process in (self._zygote, self._judge):
                if process:
                    process.end()
            self._zygote = self._judge = None
            if self._folder:
                scratch_dir.remove(self._folder)
                self._folder = None

    def grade(self, task: Task) -> Verdict:
        """The verdict on one task. It never raises for what a submission does.

        Where one of the processes was killed by somebody else, such as a machine short of memory, the task is
        begun again, once.

        Raises:
            PairError: the processes do not start on this machine, or the walls do not hold.
        """
        started = time.monotonic()
        for last in (False, True):
            try:
                verdict, killed = self._grade(task)
            except PairError:  # killed while it started; where it cannot start, it does not start twice
                if last or self._closed:
                    raise
                continue
            except (wire.WireError, OSError) as error:
                self._end()
                lost = f"the grader lost one of its processes: {error!r}; grade again"
                verdict, killed = Verdict("failed", note=lost), not isinstance(error, wire.TooLate)
            if last or not killed:
                break
        if killed and verdict.status == "graded" and self.tier in cages.SAFE:  # where none can kill itself
            verdict = Verdict("failed", note="its process was killed from outside, twice; grade again")
        return dataclasses.replace(verdict, tier=self.tier, seconds=round(time.monotonic() - started, 3))

    def _grade(self, task: Task) -> tuple[Verdict, bool]:
        """The verdict, and whether somebody else killed the child."""
        zygote, judge = self._start()
        limits = task["limits"]
        order = {
            "memory_bytes": limits["memory_bytes"],
            "cpu_seconds": int(limits["total_seconds"]) + 1,
            "imports": [module for word, module in LARGE.items() if word in task["submission"].tobytes()],
        }
        ours, theirs = socket.socketpair()
        with ours, theirs:
            child = zygote.ask(b"F", theirs, order, START_SECONDS)["pid"]
            theirs.close()
            try:
                told = task | {"made_before": self._made_before}
                reply = judge.ask(b"G", ours, told, _longest(limits))
            finally:
                ours.close()
                killed = zygote.ask(b"E", None, {"pid": child}, START_SECONDS)["killed"]
        verdict = Verdict.from_dict(wire.json_from_array(reply["verdict"]))
        self._made_before = list(_made(verdict)) if task.get("shrinking", True) else []
        return verdict, killed

    def _start(self) -> tuple[_Process, _Process]:
        """The zygote and the judge, started anew if one of them has ended."""
        if self._zygote and self._judge and self._zygote.alive and self._judge.alive:
            return self._zygote, self._judge
        with cages.secret() as target:
            zygote, judge = self._started(target if self.tier in cages.SAFE else None)
            ready = self._ready("zygote", zygote)
            self._ready("judge", judge)
        if self.tier in cages.SAFE:
            try:
                cages.require(self.tier, wire.json_from_array(ready["facts"]))
            except cages.CageError as error:
                self._end()
                raise PairError(f"tier {self.tier}, which was promised, is not there: {error}") from error
        return zygote, judge

    def _started(self, target: dict[str, Any] | None) -> tuple[_Process, _Process]:
        """New processes in a new folder, which are not ready yet; none once the pair is closed."""
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
                _bare_environment(folder),
                folder,
                self.user,
            )
            module = [sys.executable, "-m", "autograder.grading.judge"]
            self._judge = judge = _Process(module, str(folder), {**os.environ, **_SINGLE_THREADED}, None)
            return zygote, judge

    def _ready(self, name: str, process: _Process) -> Any:
        try:
            return process.wait_until_ready()
        except wire.WireError as error:
            told = process.errors()
            self._end()
            raise PairError(f"the {name} did not start: {error}\n{told}") from error


def _made(verdict: Verdict) -> Iterator[Made]:
    """The mistakes in a verdict, each where it is told first."""
    for report in filter(None, (cell.report for cell in verdict.cells)):
        told = set()
        for result in report.criteria:
            mistake = result.failure.misconception if result.failure else None
            if mistake and mistake not in told:
                told.add(mistake)
                yield report.exercise, mistake, result.says


class _Process:
    """A long-lived helper process and the socket it takes orders on."""

    def __init__(
        self,
        command: list[str],
        told: str,
        environment: dict[str, str],
        folder: Path | None,
        user: str | None = None,
    ) -> None:
        self.control, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by end()
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), told],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,
                **_identity(user),
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> Any:
        """What it says when it has started.

        One that ends before is not waited for: what it has started itself may live on and keep the line open.
        """
        end = time.monotonic() + START_SECONDS
        while not select.select([self.control], [], [], LOOK_SECONDS)[0] and time.monotonic() < end:
            if not self.alive:
                raise wire.WireError("it was ended while it started")
        return wire.receive(self.control, end)

    def ask(self, tag: bytes, passed: socket.socket | None, order: Any, seconds: float) -> Any:
        """Sends an order, with a descriptor where one is passed, and waits for the answer."""
        self.control.settimeout(START_SECONDS)
        socket.send_fds(self.control, [tag], [passed.fileno()] if passed else [])
        wire.send(self.control, order)
        return wire.receive(self.control, time.monotonic() + seconds)

    def errors(self) -> str:
        """The end of what the process wrote to stderr."""
        if self._stderr.closed:
            return ""
        self._stderr.seek(0)
        return self._stderr.read()[-2000:].decode(errors="replace")

    def end(self) -> None:
        # Who waits in another thread hears of a shutdown, and not of a close.
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        self.control.close()
        self._stderr.close()


def _identity(user: str | None) -> dict[str, Any]:
    """What makes a process another user's, and a member of no group but that user's."""
    import pwd

    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


_SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _bare_environment(folder: Path) -> dict[str, str]:
    """An environment that tells a submission nothing of the machine but where programs are."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "USER": "student",
        "IPYTHONDIR": str(folder / "ipython"),
        "MPLCONFIGDIR": str(folder / "matplotlib"),
        **_SINGLE_THREADED,
    }


def _longest(limits: dict[str, Any]) -> float:
    """A bound on one submission: what it may use, its last cell, and the judge's own work."""
    return float(
        limits["total_seconds"] + WAITING * limits["cell_seconds"] + GRACE_SECONDS + OVERHEAD_SECONDS
    )
