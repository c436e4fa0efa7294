"""The cage around submissions: its tiers, what each needs, and which of them this machine holds.

A: its own name spaces with no network and a read-only root (bubblewrap), and the walls of B.
B: Landlock around files, a filter of system calls (libseccomp), limits. No privilege is needed.
C: no walls of ours, but a container without network whose root cannot be written.
D: limits on time, memory and output only.

What holds is found from the inside; see `autograder.cage.self_test`. C and D hold nothing back of what lies
in the same container or account, so they are used only by who says so.
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
"""What is a part of /usr, or stands in its place."""
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
"""What a submission may see of the course's own packages: tasks to train on, and the cage's own code."""
METERS = "testing/meters.py"


@dataclass(frozen=True)
class Held:
    """The tier that was found to hold, and for each stronger one what is missing."""

    tier: str
    missing: dict[str, str]


class CageError(RuntimeError):
    """A tier that was promised does not hold."""


@cache
def strongest() -> Held:
    """The strongest tier that holds on this machine now, tried from the inside."""
    missing: dict[str, str] = {}
    for tier in SAFE:
        if lacking := _lacking(tier):
            missing[tier] = lacking
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="autograder-") as folder, secret() as target:
                facts = _probed(tier, Path(folder), target)
            require(tier, facts)
        except CageError as error:
            missing[tier] = str(error)
        else:
            return Held(tier, missing)
    if not _alone():
        missing["C"] = "this is no container without network whose root is read-only"
    return Held("D" if "C" in missing else "C", missing)


def required(allow_unsafe: bool, held: Held | None = None) -> str:
    """The tier to grade at: what is held where grading happens, here by default.

    Raises:
        BadInputError: it is C or D, and nobody said that this is meant.
    """
    held = held or strongest()
    if held.tier in SAFE or allow_unsafe:
        return held.tier
    why = "; ".join(f"tier {tier}: {what}" for tier, what in held.missing.items() if tier in SAFE)
    raise BadInputError(
        f"this machine cannot wall submissions off (tier {held.tier}). What is missing, {why}. Their code "
        "could read and change what you can. `autograder doctor` says how to get walls; if you trust "
        "everybody, or this machine holds nothing of worth, add --allow-unsafe."
    )


def require(tier: str, facts: dict[str, Any]) -> None:
    """Holds what was found from the inside against what the tier promises.

    Raises:
        CageError: something is open that should be shut.
    """
    opened = [f"{name} ({what})" for name, what in facts["got"].items() if what]
    if tier == "A":
        opened += [f"shares {space}" for space in SPACES if facts["spaces"][space] == _space(space)]
        opened += ["the root can be written"] * facts["root_writable"]
        opened += ["the grader's files are there"] * facts["sees_target"]
    if opened:
        raise CageError(f"the walls do not hold: {', '.join(opened)}")


def _space(name: str) -> str:
    return os.readlink(f"/proc/self/ns/{name}")


def _lacking(tier: str) -> str:
    """What is not there that this tier is made of."""
    if sys.platform != "linux":
        return "needs Linux"
    lacking = []
    if not landlock.version():
        lacking.append("Landlock (Linux 5.13 or later, and not switched off)")
    if _filter() is None:
        lacking.append("libseccomp (Debian: apt install libseccomp2) and pyseccomp (pip)")
    if tier == "A" and not shutil.which("bwrap"):
        lacking.append("bubblewrap (Debian: apt install bubblewrap)")
    return ", ".join(lacking)


def _alone() -> bool:
    """Whether this process sits in a container with no network but its own and a root that is read-only."""
    try:
        return {name for _, name in socket.if_nameindex()} <= {"lo"} and not os.access("/", os.W_OK)
    except OSError:
        return False


@contextlib.contextmanager
def secret() -> Iterator[dict[str, Any]]:
    """A target for attempts: a file of this process's own, and sockets on which it listens."""
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


def _probed(tier: str, folder: Path, target: dict[str, Any]) -> dict[str, Any]:
    script = Path(cage.__file__).parent / "self_test.py"
    told = json.dumps(config(tier, folder) | {"target": target})
    command = [*bubblewrap(tier, folder), sys.executable, "-I", str(script), told]
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
    """What a zygote is told about the walls that its children step behind."""
    if tier not in SAFE:
        return {"readable": None, "writable": [], "filter": None, "folder": str(folder)}
    program = _filter()
    assert program
    return {
        "readable": [*readable(), str(folder / "matplotlib")],
        "writable": [str(folder / "home")],
        "filter": base64.b64encode(program).decode(),
        "folder": str(folder),
    }


@cache
def _filter() -> bytes | None:
    return syscalls.program()


@cache
def readable() -> tuple[str, ...]:
    """The files and folders that a zygote and its children need, and none of the course's own besides."""
    prefixes = [f"{prefix}/{part}" for prefix in (sys.prefix, sys.base_prefix) for part in OF_A_PREFIX]
    prefixes += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages = {name: Path(str(find_spec(name).origin)).parent for name in OPEN_TO_STUDENTS}  # type: ignore[union-attr]
    shut = [package.resolve() for package in packages.values()]
    needed = [Path(path) for path in (*SYSTEM, *LINKED, *SETTINGS, *prefixes)]
    paths = [one for path in needed if path.exists() for one in _without(path, shut)]
    for name, package in packages.items():
        paths += [package / part for part in OPEN_TO_STUDENTS[name]]
    paths.append(packages["tfcore"] / METERS)
    return tuple(dict.fromkeys(form for path in paths for form in (str(path), str(path.resolve()))))


def _without(path: Path, shut: list[Path]) -> Iterator[Path]:
    """The path, or of a folder that holds something shut the parts that do not."""
    real = path.resolve()
    if any(real == one or one in real.parents for one in shut):
        return
    if not any(real in one.parents for one in shut):
        yield path
        return
    for part in path.iterdir():
        yield from _without(part, shut)


def bubblewrap(tier: str, folder: Path) -> list[str]:
    """The command in front of the zygote's that puts it into name spaces of its own; none for tier B."""
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
