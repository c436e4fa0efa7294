"""Build the course's packages as two wheels, ``tfcore`` and ``autograder``, for bundles and `make wheels`.

The distributions are named after the project, since PyPI has another ``autograder``. The wheel ``autograder``
depends on ``tfcore`` at the same version; ``tfcore`` does not depend on ``autograder``.
"""

from __future__ import annotations

import io
import json
import stat
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

from packaging.requirements import Requirement
from uv import find_uv_bin

import tfcore
from autograder.course.errors import BadInputError
from autograder.course.files import Files, write_atomically

PACKAGES = {"tfcore": ("tfcore",), "autograder": ("autograder", "tfwidgets")}
"""The packages in each wheel."""
NOT_IN_WHEELS = ("book", "test")
"""Groups of optional dependencies of the repository alone; the wheel ``autograder`` has the others."""
LICENCES = ("LICENSE", "LICENSE-TEXT")
GUIDES = ("instructor_guide.md", "student_guide.md", "how_to_use.md")
BUNDLED = Path(__file__).parent / "bundled"
ROOT = Path(__file__).parents[2]
"""The repository, unless this module is installed from a wheel."""
FROM_ROOT = {name: name for name in ("pyproject.toml", "requirements.txt", *LICENCES)} | {
    f"guides/{name}": f"book/{name}" for name in GUIDES
}
"""Files of the repository for bundles, by their path in ``bundled``, the folder for them in a wheel."""


def pack_zip(files: Files, comment: bytes = b"") -> bytes:
    """Return a reproducible zip file: its files are sorted and have a fixed time; scripts are executable."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = comment
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # Unix, where permissions count
            entry.external_attr = (stat.S_IFREG | (0o755 if data.startswith(b"#!") else 0o644)) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def sources(wheel: str) -> Files:
    """Return the files of a wheel's packages, with their paths in site-packages."""
    _project()
    files: Files = {}
    for name in PACKAGES[wheel]:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise BadInputError(f"the package {name} is not installed. Run: make setup")
        folder = Path(spec.origin).parent
        files |= {
            f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")
        }
    if wheel == "autograder":
        files |= {
            f"autograder/packages/bundled/{name}": path.read_bytes() for name, path in resources().items()
        }
    return files


def resources() -> dict[str, Path]:
    """Return where the files of `FROM_ROOT` are on this machine, by their path in ``bundled``."""
    in_repository = (ROOT / "pyproject.toml").is_file()
    return {name: ROOT / place if in_repository else BUNDLED / name for name, place in FROM_ROOT.items()}


def build(wheel: str, files: Files, with_commands: bool = False) -> Files:
    """Build a wheel from the files with uv, without a network, and return it by its file name.

    Raises:
        BadInputError: uv cannot build it.
    """
    files = files | {name: resources()[name].read_bytes() for name in LICENCES}
    files["pyproject.toml"] = _pyproject(wheel, with_commands).encode()
    with TemporaryDirectory() as folder:
        for path, data in files.items():
            write_atomically(Path(folder, path), data, 0o777 if data.startswith(b"#!") else 0o666)
        options = ["--wheel", "--offline", "--no-config", "--no-cache", "--python", sys.executable]
        command = [find_uv_bin(), "build", *options, "--out-dir", "dist", "."]
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if process.returncode:
            raise BadInputError(f"uv cannot build the wheel {wheel}: {process.stderr.strip()}")
        (wheel_file,) = Path(folder, "dist").glob("*.whl")
        return {wheel_file.name: wheel_file.read_bytes()}


def _pyproject(wheel: str, with_commands: bool) -> str:
    """Return the pyproject.toml of a wheel: ``<wheel>.toml``, filled in from the project's pyproject.toml."""
    project = _project()
    optional = project["optional-dependencies"]
    facts = {
        "uv": metadata.version("uv"),
        "version": tfcore.__version__,
        "license": project["license"],
        "python": project["requires-python"],
        "dependencies": json.dumps(project["dependencies"]),
        "optional": _table({name: lines for name, lines in optional.items() if name not in NOT_IN_WHEELS}),
        "scripts": _table(project["scripts"] if with_commands else {}),
    }
    return Template((Path(__file__).with_name(f"{wheel}.toml")).read_text()).substitute(facts)


def _table(values: dict[str, Any]) -> str:
    """Return the lines of a TOML table; its strings and lists of strings are written as in JSON."""
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


@cache
def _project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml.

    Raises:
        BadInputError: the file is missing.
    """
    path = resources()["pyproject.toml"]
    if not path.is_file():
        raise BadInputError(
            f"{ROOT} is neither the repository nor installed from its two wheels, which list their "
            "dependencies. Run this in the repository, or install the two wheels."
        )
    project: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return project


def requirements(extras: tuple[str, ...] = ()) -> list[Requirement]:
    """Return the dependencies of the course's packages, with these groups of optional dependencies."""
    project = _project()
    optional = [line for extra in extras for line in project["optional-dependencies"][extra]]
    return [Requirement(line) for line in (*project["dependencies"], *optional)]


@cache
def build_both() -> Files:
    """Build both wheels with all files of their packages, and return them by file name."""
    tfcore_wheel = build("tfcore", sources("tfcore"))
    return tfcore_wheel | build("autograder", sources("autograder"), with_commands=True)


if __name__ == "__main__":
    for wheel_name, content in build_both().items():
        write_atomically(Path(sys.argv[1], wheel_name), content)
        print(Path(sys.argv[1], wheel_name))
