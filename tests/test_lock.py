"""requirements.txt is what was tested: it is made of pyproject.toml, and it is what is installed here."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_house import imported

import tfcore
from autograder.course.layout import Course
from autograder.packages import bundle_library

ROOT = Path(tfcore.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.txt").read_text()
PINS = [Requirement(line.split("  #")[0]) for line in LOCK.splitlines() if not line.startswith("#")]
PYTHONS = [f"3.{minor}" for minor in range(*map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"])))]


def versions(pins, **environment):
    """The version of each package that the pins name, for machines like this one or as described."""
    here = default_environment() | environment
    found = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
    named = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in found}
    assert len(named) == len(found), "a package has two versions"
    return named


NAMES = {canonicalize_name(pin.name) for pin in PINS}
DECLARED = [
    Requirement(line)
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for line in group
]


def test_every_line_pins_one_version_and_names_no_host():
    assert len(PINS) > 150
    for python in PYTHONS:
        assert len(versions(PINS, python_version=python, python_full_version=f"{python}.0")) > 150
    for pin in PINS:
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), f"{pin}: expected one public version"
        assert pin.url is None
    assert "://" not in LOCK
    assert not re.search(r"^-", LOCK, re.M), "an option of pip, such as an index"


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("wanted", DECLARED, ids=str)
def test_what_is_declared_is_pinned_at_a_version_that_fits(wanted, python):
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    if wanted.marker is None or wanted.marker.evaluate(default_environment() | environment):
        assert versions(PINS, **environment)[canonicalize_name(wanted.name)] in wanted.specifier


@pytest.mark.slow
def test_what_is_pinned_is_installed_at_that_version():
    expected = versions(PINS)
    installed = {name: metadata.version(name).split("+")[0] for name in expected}  # a CPU build: 2.13.0+cpu
    assert installed == expected


def test_nothing_is_pinned_that_nothing_needs():
    """Each line says after ``# via`` who asks for it: pyproject.toml, or what has a line of its own."""
    for line in LOCK.splitlines():
        if not line.startswith("#"):
            asking = line.split("# via ")[1].split(", ")
            assert any(name.endswith("(pyproject.toml)") or name in NAMES for name in asking), line


def test_a_cuda_build_of_torch_brings_its_own_libraries():
    assert not [name for name in NAMES if name.startswith(("nvidia-", "cuda-")) or name == "triton"]


def test_a_bundle_has_the_version_of_torch_for_each_python():
    expected = [str(pin) for pin in PINS if pin.name == "torch"]
    bundled = bundle_library.pinned(Course.at(ROOT), ()).splitlines()
    assert len(expected) == 2
    assert [str(Requirement(line)) for line in bundled if line.startswith("torch==")] == expected


FOR = {
    "tfcore": {"notebook"},
    "autograder": {"grade"},
    "autograder/grading/executors.py": {"grade", "cluster"},
    "autograder/platforms/clusters": {"cluster"},
    "autograder/platforms/hub": {"hub"},
    "book": {"book"},
    "book/tfwidgets": {"notebook"},
    "book/guide_console.py": {"grade"},
    "tests": set(PROJECT["optional-dependencies"]),
    "benchmarks": set(PROJECT["optional-dependencies"]),
}
"""The optional dependencies that a folder may import from; a file in two of them counts in the deeper one."""
FOREIGN = {
    "pip": "is in every virtual environment",
    "triton": "comes with a CUDA build of torch",
    "litgpt": "one of the libraries that benchmarks/tfcore.py compares with, where it is installed",
    "llama_cpp": "compiles for minutes; benchmarks/real.py compares with it where it is installed",
    "kubernetes_validate": "a test does without it",
}
"""Packages that are imported where they are and declared nowhere, each with the reason."""

OURS = ("tfcore", "autograder", "tfwidgets", "tfbook", "cage")


def modules_of(folder):
    """The Python files of a folder but for those of a deeper one in `FOR`."""
    deeper = [ROOT / other for other in FOR if other.startswith(f"{folder}/")]
    files = [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py"))
    return [file for file in files if not any(file.is_relative_to(other) for other in deeper)]


def own_names(folder):
    """What code in a folder may import that is no library: packages, and the scripts in reach."""
    scripts = [*ROOT.glob("book/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    packaged = folder.startswith(("tfcore", "autograder"))
    return {*OURS, *(() if packaged else [path.stem for path in scripts])}


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOR)
def test_what_is_imported_is_declared(folder):
    """A package that another one brings today may be gone with its next version."""
    optional = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in FOR[folder] for line in optional[extra])]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    brought_by = metadata.packages_distributions()
    known = sys.stdlib_module_names | own_names(folder) | FOREIGN.keys()
    missing = {}
    assert modules_of(folder)
    for file in modules_of(folder):
        for name in imported(file.read_text("utf8")) - known:
            if not {canonicalize_name(package) for package in brought_by.get(name, [name])} & declared:
                missing.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert not missing, f"declare in pyproject.toml, under {sorted(FOR[folder])}"


@pytest.mark.slow
def test_no_reason_is_given_for_what_is_declared_or_not_imported():
    files = [file for folder in FOR for file in modules_of(folder)]
    assert set().union(*(imported(file.read_text("utf8")) for file in files)) >= FOREIGN.keys()
    declared = {canonicalize_name(wanted.name) for wanted in DECLARED}
    assert not {canonicalize_name(name) for name in FOREIGN} & declared
