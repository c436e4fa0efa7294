"""Choose the tier of the cage around submissions: find the strongest tier of this machine and configure it.

A: separate name spaces without a network and with a read-only root (bubblewrap), and the walls of B.
B: Landlock around files, a filter of system calls (libseccomp), limits. B needs no privilege.
C: only limits, but in a container without a network and with a read-only root.
D: only limits on time, memory and output.

A test inside the cage finds whether the walls of a tier hold; see `autograder.cage.self_test`. Tiers C and D
do not protect files in the same container or account, so they are used only with ``--allow-unsafe``.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autograder import cage
from autograder.cage import landlock, syscalls
from autograder.cage.scratch_dir import MOST_BYTES
from autograder.cage.self_test import SPACES
from autograder.course.errors import BadInputError

SAFE = "AB"
PROBE_SECONDS = 60

SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/bin", "/usr/share/fonts", "/usr/share/zoneinfo")
LINKED = ("/bin", "/lib", "/lib64", "/lib32")
"""Folders that are links into /usr or, on some systems, folders of their own."""
OF_A_PREFIX = ("bin", "lib", "lib64", "pyvenv.cfg")
SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/fonts",
    "/etc/localtime",
    "/etc/mime.types",
    "/var/cache/fontconfig",
    "/sys/devices/system/cpu",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)
OPEN_TO_STUDENTS = {"tfcore": ("__init__.py", "data"), "autograder": ("__init__.py", "cage")}
"""The parts of the course's own packages that a submission may read: training data and the cage's code."""
METERS = "testing/meters.py"


@dataclass(frozen=True)
class Held:
    """The strongest tier that holds on a machine, and the missing requirements of each stronger tier."""

    tier: str
    missing: dict[str, str]


class CageError(RuntimeError):
    """The error that the walls of a tier do not hold."""


@cache
def strongest() -> Held:
    """Return the strongest tier whose walls hold on this machine, as a test inside the cage finds."""
    missing: dict[str, str] = {}
    for tier in SAFE:
        if requirements := _missing_requirements(tier):
            missing[tier] = requirements
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="autograder-") as folder, secret() as target:
                facts = _run_self_test(tier, Path(folder), target)
            require(tier, facts)
        except CageError as error:
            missing[tier] = str(error)
        else:
            return Held(tier, missing)
    if not _is_locked_container():
        missing["C"] = "this is not a container without a network and with a read-only root"
    return Held("D" if "C" in missing else "C", missing)


def required(allow_unsafe: bool, held: Held | None = None) -> str:
    """Return the tier to grade at.

    Args:
        allow_unsafe: accept also tiers C and D.
        held: the tier of the machine that grades; by default of this machine.

    Raises:
        BadInputError: the tier is C or D and `allow_unsafe` is not given.
    """
    held = held or strongest()
    if held.tier in SAFE or allow_unsafe:
        return held.tier
    why = "; ".join(f"tier {tier}: {what}" for tier, what in held.missing.items() if tier in SAFE)
    raise BadInputError(
        f"no sandbox works on this machine (tier {held.tier}). Obstacles: {why}. The code "
        "of a submission could read and change all files that you can. `autograder doctor` explains how to "
        "get one; if you trust all students, or this machine holds nothing of value, add --allow-unsafe."
    )


def require(tier: str, facts: dict[str, Any]) -> None:
    """Compare the facts that the self test found with the walls that the tier promises.

    Raises:
        CageError: something is open that the tier should close.
    """
    opened = [f"{name} ({what})" for name, what in facts["got"].items() if what]
    if tier == "A":
        shared = [
            space for space in SPACES if facts["spaces"][space] == os.readlink(f"/proc/self/ns/{space}")
        ]
        opened += [f"it shares the {space} namespace" for space in shared]
        opened += ["it can write to the root folder"] * facts["root_writable"]
        opened += ["it sees the grader's files"] * facts["sees_target"]
    if opened:
        raise CageError(f"the sandbox has gaps: {', '.join(opened)}")


def _missing_requirements(tier: str) -> str:
    """Return the missing requirements of this tier."""
    if sys.platform != "linux":
        return "needs Linux"
    missing = []
    if not landlock.version():
        missing.append("Landlock (Linux 5.13 or later, and not switched off)")
    if syscalls.program() is None:
        missing.append("libseccomp (Debian: apt install libseccomp2) and pyseccomp (pip)")
    if tier == "A" and not shutil.which("bwrap"):
        missing.append("bubblewrap (Debian: apt install bubblewrap)")
    return ", ".join(missing)


def _is_locked_container() -> bool:
    """Return whether this process has no network but loopback and a read-only root."""
    try:
        return {name for _, name in socket.if_nameindex()} <= {"lo"} and not os.access("/", os.W_OK)
    except OSError:
        return False


@contextlib.contextmanager
def secret() -> Iterator[dict[str, Any]]:
    """Yield a target that a cage must protect: a file of this process, and sockets on which it listens."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="autograder-secret-"))
        path = Path(folder, "secret")
        path.write_text("secret")
        by_port = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        by_name = stack.enter_context(socket.socket(socket.AF_UNIX))
        by_name.bind(f"{folder}/socket")
        by_name.listen()
        yield {
            "path": str(path),
            "pid": os.getpid(),
            "port": by_port.getsockname()[1],
            "socket": f"{folder}/socket",
        }


def _run_self_test(tier: str, folder: Path, target: dict[str, Any]) -> dict[str, Any]:
    script = Path(cage.__file__).parent / "self_test.py"
    settings = json.dumps(config(tier, folder) | {"target": target})
    command = [*bubblewrap(tier, folder), sys.executable, "-I", str(script), settings]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_SECONDS, stdin=subprocess.DEVNULL
        )
        facts: dict[str, Any] = json.loads(run.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CageError(f"it does not start: {error}") from error
    except ValueError as error:
        lines = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        raise CageError(f"it does not start: {lines[-1][:300]}") from error
    return facts


def config(tier: str, folder: Path) -> dict[str, Any]:
    """Return the settings for a zygote: the walls that its children put up around themselves."""
    if tier not in SAFE:
        return {"readable": None, "writable": [], "filter": None, "folder": str(folder)}
    program = syscalls.program()
    assert program
    return {
        "readable": [*readable(), str(folder / "matplotlib")],
        "writable": [str(folder / "home")],
        "filter": base64.b64encode(program).decode(),
        "folder": str(folder),
    }


@cache
def readable() -> tuple[str, ...]:
    """Return the files and folders that a zygote and its children need, without the rest of the course."""
    prefixes = [f"{prefix}/{part}" for prefix in (sys.prefix, sys.base_prefix) for part in OF_A_PREFIX]
    prefixes += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages = {name: Path(str(find_spec(name).origin)).parent for name in OPEN_TO_STUDENTS}  # type: ignore[union-attr]
    closed = [package.resolve() for package in packages.values()]
    needed = [Path(path) for path in (*SYSTEM, *LINKED, *SETTINGS, *prefixes)]
    paths = [part for path in needed if path.exists() for part in _without(path, closed)]
    for name, package in packages.items():
        paths += [package / part for part in OPEN_TO_STUDENTS[name]]
    paths.append(packages["tfcore"] / METERS)
    return tuple(dict.fromkeys(form for path in paths for form in (str(path), str(path.resolve()))))


def _without(path: Path, closed: list[Path]) -> Iterator[Path]:
    """Yield the path or, if a closed folder is inside it, its parts without the closed folder."""
    real = path.resolve()
    if any(real == folder or folder in real.parents for folder in closed):
        return
    if not any(real in folder.parents for folder in closed):
        yield path
        return
    for part in path.iterdir():
        yield from _without(part, closed)


def bubblewrap(tier: str, folder: Path) -> list[str]:
    """Return the command that runs the zygote in separate name spaces for tier A; else an empty list."""
    if tier != "A":
        return []
    command = ["bwrap", "--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    command += ["--disable-userns", "--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"]
    command += ["--dev", "/dev", "--proc", "/proc"]
    for path in readable():
        if not path.startswith(("/dev", "/proc")):
            command += ["--ro-bind-try", path, path]
    command += ["--size", str(MOST_BYTES), "--tmpfs", str(folder)]
    return [*command, "--remount-ro", "/", "--chdir", str(folder)]
