"""The course's packages as two wheels, ``tfcore`` and ``autograder``: for bundles, and for `make wheels`.

The distributions are called after the project, since PyPI has an ``autograder`` of somebody else. The second
needs the first at its own version; the first knows nothing of the second.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import stat
import sys
import tomllib
import zipfile
from email import message_from_string
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement

import tfcore
from autograder.course.errors import BadInputError
from autograder.course.files import Files, write_atomically

PROJECT = "transformers-from-first-principles"
PACKAGES = {"tfcore": ("tfcore",), "autograder": ("autograder", "tfwidgets")}
"""The packages in each wheel."""
NOT_IN_WHEELS = ("book", "test")
"""Optional dependencies that only the repository has; the wheel ``autograder`` has the others."""
COMMANDS = "entry_points.txt"
GUIDES = ("instructor_guide.md", "student_guide.md", "how_to_use.md")
BUNDLED = Path(__file__).parent / "bundled"
ROOT = Path(__file__).parents[2]
"""The repository, where this is not installed."""
FROM_ROOT = {"requirements.txt": "requirements.txt", **{f"guides/{name}": f"book/{name}" for name in GUIDES}}
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
    return {name: ROOT / place if _project() else BUNDLED / name for name, place in FROM_ROOT.items()}


def of(wheel: str, files: Files, with_commands: bool = False) -> Files:
    """A wheel of the files, by its name."""
    name = f"{re.sub(r'[-_.]+', '_', f'{PROJECT}-{wheel}')}-{tfcore.__version__}"
    told = _described(wheel) | {
        "WHEEL": "Wheel-Version: 1.0\nGenerator: autograder\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    }
    if not with_commands:
        told.pop(COMMANDS, None)
    files = files | {f"{name}.dist-info/{part}": text.encode() for part, text in told.items()}
    record = f"{name}.dist-info/RECORD"
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in sorted(files.items())]
    files[record] = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    return {f"{name}-py3-none-any.whl": packed(files)}


def _described(wheel: str) -> dict[str, str]:
    """What a wheel says of itself, by file: as pyproject.toml has it, or as it is installed."""
    if not (project := _project()):
        try:
            about = metadata.distribution(f"{PROJECT}-{wheel}")
        except metadata.PackageNotFoundError as error:
            raise BadInputError(
                f"{ROOT} is neither the repository nor installed from its two wheels, which say what they "
                "need. Run this in the repository, or install those."
            ) from error
        licences = [f"licenses/{path}" for path in about.metadata.get_all("License-File") or ()]
        found = {part: about.read_text(part) for part in ("METADATA", COMMANDS, *licences)}
        return {part: text for part, text in found.items() if text}
    if wheel == "tfcore":
        extras: dict[str, list[str]] = {}
        needed = list(project["dependencies"])
    else:
        extras = {k: v for k, v in project["optional-dependencies"].items() if k not in NOT_IN_WHEELS}
        needed = [f"{PROJECT}-tfcore=={tfcore.__version__}"]
        needed += [_for(extra, line) for extra, lines in extras.items() for line in lines]
    lines = [
        ("Metadata-Version", "2.4"),
        ("Name", f"{PROJECT}-{wheel}"),
        ("Version", tfcore.__version__),
        ("Summary", f"The package {wheel} of the course Transformers from first principles"),
        ("License-Expression", project["license"]),
        *(("License-File", path) for path in project["license-files"]),
        ("Requires-Python", project["requires-python"]),
        *(("Requires-Dist", line) for line in needed),
        *(("Provides-Extra", extra) for extra in extras),
    ]
    commands = "".join(f"{name} = {place}\n" for name, place in project["scripts"].items())
    return {
        "METADATA": "".join(f"{key}: {value}\n" for key, value in lines),
        **{f"licenses/{path}": (ROOT / path).read_text() for path in project["license-files"]},
        **({COMMANDS: f"[console_scripts]\n{commands}"} if wheel == "autograder" else {}),
    }


def _for(extra: str, line: str) -> str:
    """A requirement that holds for an extra only."""
    wanted = Requirement(line)
    wanted.marker = Marker(
        f'({wanted.marker}) and extra == "{extra}"' if wanted.marker else f'extra == "{extra}"'
    )
    return str(wanted)


@cache
def _project() -> dict[str, Any]:
    """What pyproject.toml says of the project; nothing where the packages are installed from wheels."""
    path = ROOT / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"] if path.is_file() else {}
    return found


def needs() -> list[Requirement]:
    """What both wheels ask for, but for each other."""
    told = [message_from_string(_described(wheel)["METADATA"]) for wheel in PACKAGES]
    asked = [Requirement(line) for one in told for line in one.get_all("Requires-Dist") or ()]
    return [one for one in asked if not one.name.startswith(PROJECT)]


def both() -> Files:
    """Both wheels with all that their packages have, by name."""
    return of("tfcore", sources("tfcore")) | of("autograder", sources("autograder"), with_commands=True)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    for wheel_name, content in both().items():
        write_atomically(Path(sys.argv[1], wheel_name), content)
        print(Path(sys.argv[1], wheel_name))
