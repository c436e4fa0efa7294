"""What an honest notebook finds in place of what the walls refuse: programs, threads, workers, compilers.

Nothing here protects anything. A cell that installs a package or starts a worker goes on, and so the lines
after it run; without these each such line would end its cell, and cost the answer that stands in it.
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
    """A program that was not run, and is taken for one that ended well and said nothing."""

    def __init__(
        self, args: Any, *others: Any, text: Any = None, encoding: Any = None, **options: Any
    ) -> None:
        self.args, self.pid, self.returncode = args, 0, 0
        plain = text or encoding or options.get("universal_newlines")
        self._said: Any = "" if plain else b""
        self.stdout, self.stderr = ((io.StringIO() if plain else io.BytesIO()) for _ in range(2))
        self.stdin = io.StringIO() if plain else io.BytesIO()

    def __enter__(self) -> Done:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def communicate(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return self._said, self._said

    def wait(self, timeout: float | None = None) -> int:
        return 0

    poll = wait

    def kill(self) -> None:
        pass

    terminate = kill


def _at_once(thread: threading.Thread) -> None:
    """Runs a thread's function where another thread would be started; what runs for ever is refused."""
    if thread.daemon:
        raise RuntimeError("can't start new thread: work is graded in one")
    vars(thread)["_started"].set()
    try:
        thread.run()
    finally:
        vars(thread)["_is_stopped"] = True
        vars(thread)["_tstate_lock"] = None


def _submitted(
    pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> concurrent.futures.Future[Any]:
    """The future of a call that has been made already."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    try:
        future.set_result(function(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def _without_workers(make: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(make)
    def init(self: Any, dataset: Any, *args: Any, **options: Any) -> None:
        options |= {"num_workers": 0}
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "pin_memory"):
            options.pop(name, None)
        make(self, dataset, *args[:4], **options)

    return init


def _as_it_is(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """In place of one of torch's compilers: the code as it is, which can be watched."""

    @functools.wraps(compiler)
    def uncompiled(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        return model if model is not None else lambda function: function

    return uncompiled


def _not_run(line: str, cell: str = "") -> None:
    print(NOT_RUN)


def put_up(shell: InteractiveShell) -> None:
    """Puts all of them in their places, in the zygote, before any child is forked."""
    import torch._decomp.decompositions_for_jvp  # takes programs of torch.jit while it is imported

    vars(subprocess)["Popen"] = Done
    vars(faulthandler)["enable"] = lambda *args, **kwargs: None
    vars(shutil)["copymode"] = vars(shutil)["copystat"] = lambda *args, **kwargs: None
    setattr(threading.Thread, "start", _at_once)  # noqa: B010
    setattr(concurrent.futures.ThreadPoolExecutor, "submit", _submitted)  # noqa: B010
    setattr(DataLoader, "__init__", _without_workers(DataLoader.__init__))  # noqa: B010
    for module, names in ((torch, ("compile",)), (torch.jit, ("script", "trace"))):
        for name in names:
            vars(module)[name] = _as_it_is(vars(module)[name])
    vars(torch)["set_num_threads"] = functools.wraps(torch.set_num_threads)(lambda count: None)
    for name in LINE_MAGICS:
        shell.magics_manager.magics["line"][name] = _not_run
    for name in CELL_MAGICS:
        shell.magics_manager.magics["cell"][name] = _not_run
