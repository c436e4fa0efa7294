"""Replace programs, threads, workers and compilers, which the walls refuse, by stubs for honest notebooks.

The stubs protect nothing. They let a cell go on after a line that installs a package or starts a worker;
without them each such line would end its cell, and the student would lose the answer in it.
"""

from __future__ import annotations

import concurrent.futures
import faulthandler
import functools
import io
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from torch.utils.data import DataLoader

NOT_RUN = "commands are not run while your work is graded"
LINE_MAGICS = ("conda", "mamba", "micromamba", "uv", "pip")
CELL_MAGICS = ("bash", "sh", "script", "python3", "python", "perl", "ruby", "system", "sx")


class Done:
    """A stub for a program: it counts as finished without an error and without output."""

    def __init__(
        self, args: Any, *others: Any, text: Any = None, encoding: Any = None, **options: Any
    ) -> None:
        self.args, self.pid, self.returncode = args, 0, 0
        plain = text or encoding or options.get("universal_newlines")
        self._output: Any = "" if plain else b""
        self.stdout, self.stderr = ((io.StringIO() if plain else io.BytesIO()) for _ in range(2))
        self.stdin = io.StringIO() if plain else io.BytesIO()

    def __enter__(self) -> Done:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def communicate(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return self._output, self._output

    def wait(self, timeout: float | None = None) -> int:
        return 0

    poll = wait

    def kill(self) -> None:
        pass

    terminate = kill


def _run_now(thread: threading.Thread) -> None:
    """Run a thread's function in this thread, and refuse daemon threads, which may run for ever."""
    if thread.daemon:
        raise RuntimeError("can't start new thread: your work is graded in a single thread")
    vars(thread)["_started"].set()
    try:
        thread.run()
    finally:
        vars(thread)["_is_stopped"] = True
        vars(thread)["_tstate_lock"] = None


def _call_now(
    pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> concurrent.futures.Future[Any]:
    """Call the function and return a future with its result."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    try:
        future.set_result(function(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def _without_workers(make: Callable[..., None]) -> Callable[..., None]:
    """Return a DataLoader's ``__init__`` that starts no workers."""

    @functools.wraps(make)
    def init(self: Any, dataset: Any, *args: Any, **options: Any) -> None:
        options |= {"num_workers": 0}
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "pin_memory"):
            options.pop(name, None)
        make(self, dataset, *args[:4], **options)

    return init


def _uncompiled(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stub for one of torch's compilers; it leaves the code as it is, so that it can be watched."""

    @functools.wraps(compiler)
    def uncompiled(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        return model if model is not None else lambda function: function

    return uncompiled


def _not_run(line: str, cell: str = "") -> None:
    print(NOT_RUN)


def install(shell: InteractiveShell) -> None:
    """Install all stubs in the zygote, before any child is forked."""
    import torch._decomp.decompositions_for_jvp  # needs the real torch.jit while it is imported

    vars(subprocess)["Popen"] = Done
    vars(faulthandler)["enable"] = lambda *args, **kwargs: None
    vars(shutil)["copymode"] = vars(shutil)["copystat"] = lambda *args, **kwargs: None
    setattr(threading.Thread, "start", _run_now)  # noqa: B010
    setattr(concurrent.futures.ThreadPoolExecutor, "submit", _call_now)  # noqa: B010
    setattr(DataLoader, "__init__", _without_workers(DataLoader.__init__))  # noqa: B010
    for module, names in ((torch, ("compile",)), (torch.jit, ("script", "trace"))):
        for name in names:
            vars(module)[name] = _uncompiled(vars(module)[name])
    vars(torch)["set_num_threads"] = functools.wraps(torch.set_num_threads)(lambda count: None)
    for name in LINE_MAGICS:
        shell.magics_manager.magics["line"][name] = _not_run
    for name in CELL_MAGICS:
        shell.magics_manager.magics["cell"][name] = _not_run
