"""The course's packages as two wheels, ``tfcore`` and ``autograder``, for bundles and for `make wheels`.

The distributions are called after the project, since PyPI has an ``autograder`` of somebody else. The second
needs the first at its own version; the first knows nothing of the second.
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

PROJECT = "transformers-from-first-principles"
PACKAGES = {"tfcore": ("tfcore",), "autograder": ("autograder", "tfwidgets")}
"""The packages in each wheel."""
NOT_IN_WHEELS = ("book", "test")
"""Optional dependencies that only the repository has; the wheel ``autograder`` has the others."""
LICENCES = ("LICENSE", "LICENSE-TEXT")
GUIDES = ("instructor_guide.md", "student_guide.md", "how_to_use.md")
BUNDLED = Path(__file__).parent / "bundled"
ROOT = Path(__file__).parents[2]
"""The repository, where this is not installed."""
FROM_ROOT = {name: name for name in ("pyproject.toml", "requirements.txt", *LICENCES)} | {
    f"guides/{name}": f"book/{name}" for name in GUIDES
}
"""Files of the repository that bundles are made of, by their place in ``bundled``, where a wheel has them."""


def packed(files: Files, comment: bytes = b"") -> bytes:
    """A zip file that is the same each time: in order, without the time of day. Scripts can be run."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = comment
        for path, data in sorted(files.items()):
            about = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
            about.create_system = 3  # Unix, where permissions count
            about.external_attr = (stat.S_IFREG | (0o755 if data.startswith(b"#!") else 0o644)) << 16
            archive.writestr(about, data, zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def sources(wheel: str) -> Files:
    """The files of a wheel's packages, as they lie in site-packages."""
    _project()
    files: Files = {}
    for name in PACKAGES[wheel]:
        found = find_spec(name)
        if found is None or found.origin is None:
            raise BadInputError(f"the package {name} is not installed. Run: make setup")
        folder = Path(found.origin).parent
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
    """The files that bundles are made of besides the packages, by their place in ``bundled``."""
    in_repository = (ROOT / "pyproject.toml").is_file()
    return {name: ROOT / place if in_repository else BUNDLED / name for name, place in FROM_ROOT.items()}


def of(wheel: str, files: Files, with_commands: bool = False) -> Files:
    """Build a wheel of the files with uv, without a network, and return it by its name.

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
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise BadInputError(f"uv cannot build the wheel {wheel}: {done.stderr.strip()}")
        (made,) = Path(folder, "dist").glob("*.whl")
        return {made.name: made.read_bytes()}


def _pyproject(wheel: str, with_commands: bool) -> str:
    """Return the pyproject.toml of a wheel: ``<wheel>.toml`` with what the project's own says."""
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
    """Return the lines of a TOML table; its strings and lists of strings look as in JSON."""
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


@cache
def _project() -> dict[str, Any]:
    """Return what pyproject.toml says of the project.

    Raises:
        BadInputError: it is not here.
    """
    path = resources()["pyproject.toml"]
    if not path.is_file():
        raise BadInputError(
            f"{ROOT} is neither the repository nor installed from its two wheels, which say what they "
            "need. Run this in the repository, or install those."
        )
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return found


def needs(extras: tuple[str, ...] = ()) -> list[Requirement]:
    """Return what the course's packages need, with these groups of optional dependencies."""
    project = _project()
    optional = [line for extra in extras for line in project["optional-dependencies"][extra]]
    return [Requirement(line) for line in (*project["dependencies"], *optional)]


def both() -> Files:
    """Both wheels with all that their packages have, by name."""
    return of("tfcore", sources("tfcore")) | of("autograder", sources("autograder"), with_commands=True)


if __name__ == "__main__":
    for wheel_name, content in both().items():
        write_atomically(Path(sys.argv[1], wheel_name), content)
        print(Path(sys.argv[1], wheel_name))
