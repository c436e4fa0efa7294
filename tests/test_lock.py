"""requirements.txt is what was tested: it is made of pyproject.toml, and it is what is installed here."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tfcore

ROOT = Path(tfcore.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.txt").read_text()
PINS = [Requirement(line.split("  #")[0]) for line in LOCK.splitlines() if not line.startswith("#")]
VERSIONS = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in PINS}
DECLARED = [
    Requirement(line)
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for line in group
]


def test_every_line_pins_one_version_and_names_no_host():
    assert len(PINS) > 150
    assert len(PINS) == len(VERSIONS), "a package has two versions"
    for pin in PINS:
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), f"{pin}: expected one public version"
        assert pin.url is None
    assert "://" not in LOCK
    assert not re.search(r"^-", LOCK, re.M), "an option of pip, such as an index"


@pytest.mark.parametrize("wanted", DECLARED, ids=str)
def test_what_is_declared_is_pinned_at_a_version_that_fits(wanted):
    assert VERSIONS[canonicalize_name(wanted.name)] in wanted.specifier


def test_what_is_pinned_is_installed_at_that_version():
    here = default_environment()
    expected = {
        canonicalize_name(pin.name): VERSIONS[canonicalize_name(pin.name)]
        for pin in PINS
        if pin.marker is None or pin.marker.evaluate(here)
    }
    installed = {name: metadata.version(name).split("+")[0] for name in expected}  # a CPU build: 2.13.0+cpu
    assert installed == expected


def test_nothing_is_pinned_that_nothing_needs():
    """Each line says after ``# via`` who asks for it: pyproject.toml, or what has a line of its own."""
    for line in LOCK.splitlines():
        if not line.startswith("#"):
            asking = line.split("# via ")[1].split(", ")
            assert any(name.endswith("(pyproject.toml)") or name in VERSIONS for name in asking), line


def test_a_cuda_build_of_torch_brings_its_own_libraries():
    assert not [name for name in VERSIONS if name.startswith(("nvidia-", "cuda-")) or name == "triton"]
