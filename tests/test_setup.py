"""How `make` sets the course up: which versions of Python it accepts, and which build of torch it takes.

PyTorch's index and PyPI are folders here, served from this machine, with wheels that hold nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pip
import pytest
import yaml
from uv import find_uv_bin

from autograder.proof import doctor

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FIRST, AFTER = map(int, re.findall(r"3\.(\d+)", PYPROJECT["project"]["requires-python"]))
RANGE = f"3.{FIRST} to 3.{AFTER - 1}"
VERSIONS = [f"3.{minor}" for minor in range(FIRST, AFTER)]
TORCH = "2.13.0"
PINS = f"""\
torch=={TORCH} ; python_version >= '3'  # via course
torch==9.9 ; python_version < '3'  # via course
other==1.0
"""
COPIED = ("Makefile", "pyproject.toml")


# Which Python


@pytest.mark.parametrize(
    "path",
    [
        "Makefile",
        "README.md",
        "book/how_to_use.md",
        "autograder/packages/bundled/instructor.md",
        "autograder/packages/bundled/setup.sh",
        "autograder/packages/bundled/student.md",
    ],
)
def test_the_guides_name_the_versions_of_python_that_pyproject_accepts(path: str) -> None:
    assert re.findall(r"Python\s(3\.\d+ to 3\.\d+)", (ROOT / path).read_text()) == [RANGE]


def test_the_workflow_tests_every_version_of_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    assert [job["strategy"]["matrix"]["python"] for job in jobs.values()] == [VERSIONS, VERSIONS]


def test_a_container_of_gradescope_takes_any_of_them() -> None:
    script = (ROOT / "autograder/packages/bundled/setup.sh").read_text()
    (tried,) = re.findall(r"for version in (.*) none; do", script)
    assert sorted(tried.split()) == VERSIONS


def test_types_are_checked_for_the_oldest() -> None:
    assert PYPROJECT["tool"]["mypy"]["python_version"] == VERSIONS[0]


@pytest.mark.parametrize("minor", [FIRST - 1, FIRST, AFTER - 1, AFTER])
def test_the_doctor_accepts_the_same_versions(minor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, minor, 1))
        found = doctor._python()
    assert (found.what, found.level) == ("Python", "ok" if FIRST <= minor < AFTER else "problem")


PRETENDED = f"""#!/bin/sh
test "$1" = -c || exit 1
exec {sys.executable} -c 'import sys; sys.version_info = (3, MINOR, 0); exec(sys.argv[1])' "$2"
"""


@pytest.mark.parametrize("minor", [9, FIRST - 1, FIRST, AFTER - 1, AFTER])
def test_make_refuses_other_versions_and_says_which_it_takes(tmp_path: Path, minor: int) -> None:
    for name in COPIED:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "requirements.txt").touch()
    python = tmp_path / "python"
    python.write_text(PRETENDED.replace("MINOR", str(minor)))
    python.chmod(0o755)
    done = subprocess.run(
        ["make", f"PYTHON={python}", "setup"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    fits = FIRST <= minor < AFTER
    assert ("Setting up .venv" in done.stdout) is fits, done.stderr
    assert (f"This course needs Python {RANGE}; {sys.executable} is 3.{minor}." in done.stderr) is not fits


# Which torch


def as_wheel(folder: Path, name: str, version: str) -> None:
    """Write a wheel that holds nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


class Quiet(SimpleHTTPRequestHandler):
    """Serve a folder, whose listings are pages of an index, and note what was asked for."""

    asked: list[str]

    def log_message(self, format: str, *args: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A host's address, with `pypi/`, `pytorch/` and `outdated/`, and the paths that it was asked for."""
    as_wheel(tmp_path / "pypi" / "torch", "torch", TORCH)
    as_wheel(tmp_path / "pypi" / "other", "other", "1.0")
    as_wheel(tmp_path / "pytorch" / "torch", "torch", f"{TORCH}+cpu")
    as_wheel(tmp_path / "pytorch" / "other", "other", "1.0+cpu")
    as_wheel(tmp_path / "outdated" / "torch", "torch", "1.0+cpu")
    handler = type("Handler", (Quiet,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler.asked
        server.shutdown()
        thread.join()


def course(folder: Path, system: str = "Linux", *programs: str) -> tuple[Path, dict[str, str]]:
    """A folder with the Makefile, a lock and a new .venv; an environment of few programs."""
    bin_, here = folder / "bin", folder / "course"
    bin_.mkdir()
    here.mkdir()
    for name in COPIED:
        shutil.copy(ROOT / name, here)
    (here / "requirements.txt").write_text(PINS)
    venv.create(here / ".venv", with_pip=False, symlinks=True)
    (site,) = (here / ".venv" / "lib").glob("python3*/site-packages")
    (site / "pip").symlink_to(Path(pip.__file__).parent)
    for name in ("make", "sed", "grep", "timeout"):
        (bin_ / name).symlink_to(shutil.which(name) or name)
    for name in ("uname", *programs):
        (bin_ / name).write_text(f"#!/bin/sh\necho {system}\n")
        (bin_ / name).chmod(0o755)
    return here, {"PATH": str(bin_), "HOME": str(folder), "PIP_CONFIG_FILE": os.devnull}


def set_up(here: Path, environment: dict[str, str], **variables: object) -> tuple[str, str]:
    """Install what is pinned, as `make setup` does: the version of torch that came, and what was said."""
    told = {"NVIDIA_DRIVER": here / "no_driver", **variables}
    done = subprocess.run(
        ["make", "--no-print-directory", "libraries", *(f"{name}={value}" for name, value in told.items())],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (torch,) = (here / ".venv").rglob("torch-*.dist-info")
    (other,) = (here / ".venv").rglob("other-*.dist-info")
    assert other.name == "other-1.0.dist-info"
    return torch.name.removeprefix("torch-").removesuffix(".dist-info"), done.stdout


@pytest.mark.slow
def test_without_a_driver_torch_alone_comes_from_the_index_of_cpu_builds(
    tmp_path: Path, hosts: tuple[str, list[str]]
) -> None:
    address, asked = hosts
    here, environment = course(tmp_path)
    environment["PIP_INDEX_URL"] = f"{address}/pypi"
    assert set_up(here, environment, TORCH_INDEX=f"{address}/pytorch") == (f"{TORCH}+cpu", "")
    assert {path.split("/")[2] for path in asked if path.startswith("/pytorch/")} == {"torch"}
    asked.clear()
    assert set_up(here, environment, TORCH_INDEX=f"{address}/pytorch") == (f"{TORCH}+cpu", "")
    assert not asked, "what is installed is looked for again"


@pytest.mark.slow
@pytest.mark.parametrize("index", ["http://127.0.0.1:9", "http://nowhere.invalid", "{address}/outdated"])
def test_where_the_index_does_not_offer_it_the_usual_build_comes_with_a_sentence(
    tmp_path: Path, hosts: tuple[str, list[str]], index: str
) -> None:
    address, _ = hosts
    index = index.format(address=address)
    here, environment = course(tmp_path)
    version, said = set_up(here, environment | {"PIP_INDEX_URL": f"{address}/pypi"}, TORCH_INDEX=index)
    assert version == TORCH
    assert said.startswith(f"{index} does not offer torch's CPU build here.")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_file_on_this_disk_needs_no_index(tmp_path: Path, hosts: tuple[str, list[str]]) -> None:
    address, _ = hosts
    here, environment = course(tmp_path)
    environment |= {"PIP_INDEX_URL": f"{address}/pypi", "PIP_FIND_LINKS": str(tmp_path / "pytorch" / "torch")}
    assert set_up(here, environment, TORCH_INDEX="http://127.0.0.1:9") == (f"{TORCH}+cpu", "")


@pytest.mark.slow
@pytest.mark.parametrize("uv_has_an_index", [True, False])
def test_uv_installs_the_rest_and_pip_where_uv_cannot(
    tmp_path: Path, hosts: tuple[str, list[str]], uv_has_an_index: bool
) -> None:
    """Here pip has no index, only the files on this disk; `other` is one of them where uv has none either."""
    address, asked = hosts
    here, environment = course(tmp_path)
    (here / "requirements.txt").write_text(f"{PINS}uv==1.0 # via course\n")
    (here / ".venv" / "bin" / "uv").symlink_to(find_uv_bin())
    as_wheel(tmp_path / "disk", "uv", "1.0")
    as_wheel(tmp_path / "disk", "torch", f"{TORCH}+cpu")
    if uv_has_an_index:
        as_wheel(tmp_path / "pypi" / "uv", "uv", "1.0")
    else:
        as_wheel(tmp_path / "disk", "other", "1.0")
    index = f"{address}/pypi" if uv_has_an_index else "http://127.0.0.1:9"
    environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "disk"), "UV_DEFAULT_INDEX": index}
    version, said = set_up(here, environment)
    assert version == f"{TORCH}+cpu"
    assert said == (
        "" if uv_has_an_index else "uv cannot install the libraries here. pip does, which takes longer.\n"
    )
    assert ("/pypi/other/" in asked) is uv_has_an_index


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "driver"),
    [(("Darwin",), "none"), (("Linux", "nvidia-smi"), "none"), (("Linux",), "pypi")],
    ids=["macOS", "WSL", "driver"],
)
def test_on_other_machines_the_usual_build_comes(
    tmp_path: Path, hosts: tuple[str, list[str]], machine: tuple[str, ...], driver: str
) -> None:
    address, asked = hosts
    here, environment = course(tmp_path, *machine)
    environment["PIP_INDEX_URL"] = f"{address}/pypi"
    told = {"TORCH_INDEX": f"{address}/pytorch", "NVIDIA_DRIVER": tmp_path / driver}
    assert set_up(here, environment, **told) == (TORCH, "")
    assert not [path for path in asked if path.startswith("/pytorch/")]
