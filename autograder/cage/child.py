"""Run one submission in its process: run its cells, call its functions, and answer on the wire."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import itertools
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")

import matplotlib.pyplot  # noqa: F401  once for all children
import numpy as np
import torch
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from . import (  # noqa: F401  once for all children
    calling,
    devices,
    errors,
    language_models,
    meters,
    probes,
    profiler_guard,
    read_counter,
    remote_objects,
    saved_figures,
    stubs,
    undefined_casts,
    wire,
)
from .limits import IMAGE_CAP, OUTPUTS_CAP, WAITING

LAST_SECONDS = 1.0
"""The processor seconds that interrupted code has left to return."""
TEXT_CAP = 64 << 10
CLOCKS = (signal.SIGALRM, signal.SIGPROF)
SHOWN = ("text/plain", "image/png", "image/jpeg")


class Capped(io.TextIOBase):
    """A text stream that keeps the first part of its text and counts the rest."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.room = TEXT_CAP
        self.dropped = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.room:
            self.kept.append(text[: self.room])
        self.dropped += max(0, len(text) - self.room)
        self.room -= min(self.room, len(text))
        return len(text)

    def text(self) -> str:
        cut = f"\n... {self.dropped:,} more characters were cut\n" if self.dropped else ""
        return "".join(self.kept) + cut


class Shell(InteractiveShell):
    """A shell without a screen, where ``%matplotlib inline`` and similar magics neither act nor fail."""

    def enable_gui(self, gui: Any = None) -> None:
        pass

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        """Print no traceback: nobody reads it here, and after an endless recursion it takes seconds."""

    showsyntaxerror = showindentationerror = showtraceback

    def ask_exit(self) -> None:
        """Ignore `exit`, so that the other cells are still graded."""

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        """Keep no second copy of the printed text, which could fill the memory."""
        yield

    def system(self, cmd: str) -> None:
        """Run no command such as ``!pip install ...``, but report it as finished."""
        print(stubs.NOT_RUN)

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> list[str]:
        """Return no output, since the command is not run."""
        return []


def make_shell() -> InteractiveShell:
    """Make the shell that every child inherits, without history and its thread."""
    torch.set_num_threads(1)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.banner1 = ""
    shell: InteractiveShell = Shell.instance(config=config)
    torch.rand(8).half()  # torch must look up the processor before the walls are up
    profiler_guard.note_switches()
    stubs.install(shell)
    _work_once(shell)
    return shell


def _work_once(shell: InteractiveShell) -> None:
    """Run a cell and a call, so that imports of a first run are done before any submission."""
    _run(shell, np.frombuffer(b"None", np.uint8), limit=60)
    calling.call(lambda x: x + 1, [torch.ones(2)], {}, forbidden=["torch.softmax"])


def serve(sock: socket.socket, shell: InteractiveShell) -> None:
    """Answer orders until the judge closes the wire."""
    global _judge
    _judge = sock
    remote_objects.send_request = _ask
    for which in CLOCKS:
        signal.signal(which, _time_up)
    operations: dict[str, Callable[..., dict[str, Any]]] = {"run": _run, "call": _call}
    while True:
        try:
            order = wire.receive(sock)
        except wire.Closed:
            return
        try:
            reply = operations[order.pop("op")](shell, **order)
        except calling.TimeUp:
            reply = {"error": "TimeUp", "message": "the time limit passed"}
        try:
            wire.send(sock, reply)
        except wire.WireError as error:
            wire.send(
                sock, {"error": "Unsendable", "message": f"what your code returned cannot be read: {error}"}
            )


_armed = False
_warned = False
_judge: socket.socket | None = None


def _time_up(signum: int, frame: Any) -> None:
    """Interrupt the running code; if it has swallowed a first interrupt, end the process."""
    global _warned
    if not _armed:
        return
    if _warned and _judge:
        wire.send(_judge, {"stubborn": True})
        os._exit(0)
    _warned = True
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.setitimer(signal.ITIMER_PROF, LAST_SECONDS)
    raise calling.TimeUp("the time limit passed")


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Limit the processor time in the block, and loosely the clock time: a busy machine costs no points."""
    global _armed, _warned
    _armed, _warned = True, False
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)
    try:
        yield
    finally:
        _armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _run(
    shell: InteractiveShell, source: np.ndarray, limit: float, saved: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a cell and return its error, if any, and its outputs in notebook format, cut to size.

    The figures with the texts in `saved` are not drawn.
    """
    out, err = Capped(), Capped()
    shown: list[dict[str, Any]] = []
    publisher, stdout, stderr = shell.display_pub, sys.stdout, sys.stderr
    pub = CapturingDisplayPublisher()
    shell.display_pub = pub
    shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=pub.outputs)
    sys.stdout, sys.stderr = out, err
    error: BaseException | None = None
    try:
        with _limited(limit), saved_figures.undrawn(shell, saved):
            error = _run_on(shell, source.tobytes().decode())
    except BaseException as raised:  # IPython itself may raise too, on a cell that it cannot handle
        error = raised
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        shell.display_pub = publisher
    for name, stream in (("stdout", out), ("stderr", err)):
        if stream.kept:
            shown.append({"output_type": "stream", "name": name, "text": stream.text()})
    for output in pub.outputs[:OUTPUTS_CAP]:
        data = {kind: value for kind, value in output["data"].items() if kind in SHOWN}
        shown.append({"output_type": "display_data", "data": _cut_data(data), "metadata": {}})
    return {
        "error": type(error).__name__ if error else None,
        "message": errors.describe_error(error) if error else "",
        "outputs": shown,
    }


def _run_on(shell: InteractiveShell, source: str) -> BaseException | None:
    """Run a cell; if an import or a magic fails, which may work on other machines, run the code after it too.

    Returns:
        The first error.
    """
    first: BaseException | None = None
    rest: str | None = source
    while rest is not None:
        result = shell.run_cell(rest, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        first = first or error
        rest = _code_after_failed_import(shell, rest, error)
    return first


def _code_after_failed_import(
    shell: InteractiveShell, source: str, error: BaseException | None
) -> str | None:
    """Return the code after the top-level import or magic that raised the error, or None."""
    place = error.__traceback__ if isinstance(error, Exception) else None
    while place and place.tb_frame.f_globals is not shell.user_ns:
        place = place.tb_next
    if place is None:
        return None
    text = shell.transform_cell(source)
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for statement, after in itertools.pairwise(statements):
        if statement.lineno <= place.tb_lineno <= (statement.end_lineno or 0):
            missing = isinstance(
                statement, ast.Import | ast.ImportFrom
            ) or "get_ipython().run_" in ast.unparse(statement)
            return _text_from(text, after) if missing else None
    return None


def _text_from(text: str, statement: ast.stmt) -> str:
    """Return the text from a statement on, with its decorators."""
    first = min([statement, *getattr(statement, "decorator_list", ())], key=lambda node: node.lineno)
    start = 0 if first is not statement else statement.col_offset
    lines = text.splitlines(keepends=True)[first.lineno - 1 :]
    return "".join([lines[0].encode()[start:].decode(), *lines[1:]])


def _cut_data(data: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for kind, value in data.items():
        if kind == "text/plain":
            kept[kind] = str(value)[:TEXT_CAP]
        elif isinstance(value, str | bytes) and len(value) <= IMAGE_CAP:
            raw = value.encode() if isinstance(value, str) else base64.b64encode(value)
            kept[kind] = np.frombuffer(raw, np.uint8)
    return kept


def _call(
    shell: InteractiveShell,
    name: str,
    args: list[Any],
    kwargs: dict[str, Any],
    forbidden: list[str],
    probe: str,
    metered: bool,
    limit: float,
) -> dict[str, Any]:
    """Call the student's function `name`; report the error "Undefined" if it does not exist."""
    function = shell.user_ns.get(name)
    if not callable(function):
        return {"error": "Undefined", "message": f"no function is called {name}"}
    with _limited(limit):
        return calling.call(function, args, kwargs, forbidden, probe, metered, _pack_result)


def _pack_result(value: Any) -> wire.Packed:
    try:
        return wire.Packed(value)
    except wire.WireError as error:
        raise probes.Unsendable(f"what your code returned cannot be read: {error}") from error


def _ask(handle: int, attribute: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Send the judge a request for one of its objects, in the middle of a call, and return the answer."""
    assert _judge
    request = {"ask": handle, "attribute": attribute, "args": args, "kwargs": kwargs}
    signal.pthread_sigmask(signal.SIG_BLOCK, CLOCKS)  # a partial frame would break the wire
    try:
        with remote_objects.unobserved():
            wire.send(_judge, request)
            reply = wire.receive(_judge)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, CLOCKS)
    return remote_objects.read_answer(reply)
