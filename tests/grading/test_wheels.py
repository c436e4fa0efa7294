"""The wheels of tfcore and autograder work where this repository is not."""

import re
import sys
import zipfile
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scratch import ASSIGNMENT, ROOT, clean_python, hand_in, new_course, run

import tfcore
from autograder.course.errors import BadInputError
from autograder.grading import cages
from autograder.packages import wheels

NAMES = {wheel: f"transformers_from_first_principles_{wheel}" for wheel in ("tfcore", "autograder")}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Both wheels as `make wheels` makes them, by package."""
    folder = tmp_path_factory.mktemp("dist")
    told = run(Path(sys.executable), "-m", "autograder.packages.wheels", folder, cwd=folder)
    paths = [Path(line) for line in told.splitlines()]
    assert sorted(paths) == sorted(folder.iterdir())
    return {
        wheel: next(path for path in paths if path.name.startswith(name)) for wheel, name in NAMES.items()
    }


def inside(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def told(path):
    """What a wheel says of itself."""
    return message_from_bytes(next(d for name, d in inside(path).items() if name.endswith("/METADATA")))


def closure(needs, extras):
    """The installed packages that requirements come to, as lines of a requirements.txt."""
    found, waiting = set(), [(need, extras) for need in needs]
    while waiting:
        need, wanted = waiting.pop()
        holds = not need.marker or any(need.marker.evaluate({"extra": extra}) for extra in ("", *wanted))
        name = canonicalize_name(need.name)
        if holds and (name, need_extras := tuple(sorted(need.extras))) not in found:
            found.add((name, need_extras))
            waiting += [(Requirement(line), need_extras) for line in metadata.requires(name) or ()]
    return "".join(f"{name}=={metadata.version(name)}\n" for name, _ in sorted(found))


def needs(path):
    return [Requirement(line) for line in told(path).get_all("Requires-Dist")]


@pytest.mark.slow
def test_each_wheel_has_its_packages_and_the_one_version(made):
    for wheel, path in made.items():
        assert path.name == f"{NAMES[wheel]}-{tfcore.__version__}-py3-none-any.whl"
        assert told(path)["Version"] == tfcore.__version__
        tops = {name.split("/")[0] for name in inside(path)}
        assert tops == {*wheels.PACKAGES[wheel], f"{NAMES[wheel]}-{tfcore.__version__}.dist-info"}
        for licence in ("LICENSE", "LICENSE-TEXT"):
            (kept,) = [data for name, data in inside(path).items() if name.endswith(f"licenses/{licence}")]
            assert kept == (ROOT / licence).read_bytes()


@pytest.mark.slow
def test_tfcore_knows_nothing_of_the_autograder_which_needs_its_own_version(made):
    assert not [need for need in needs(made["tfcore"]) if re.search("extra|autograder", str(need))]
    for name, data in inside(made["tfcore"]).items():
        if name.endswith(".py"):
            assert not re.search(rb"^\s*(from|import) (autograder|tfwidgets)\b", data, re.M), name
    (always,) = [need for need in needs(made["autograder"]) if "extra" not in str(need.marker)]
    assert str(always) == f"transformers-from-first-principles-tfcore=={tfcore.__version__}"


@pytest.mark.slow
def test_every_file_that_git_has_of_the_packages_is_in_a_wheel(made):
    """What setuptools would make of pyproject.toml has the same files: Colab installs by that way."""
    from setuptools.config.pyprojecttoml import read_configuration

    shipped = {name for path in made.values() for name in inside(path) if ".dist-info/" not in name}
    extra = {f"autograder/packages/bundled/{name}" for name in wheels.FROM_ROOT}
    patterns = read_configuration(ROOT / "pyproject.toml")["tool"]["setuptools"]["package-data"]
    folders = {
        "tfcore": ROOT / "tfcore",
        "autograder": ROOT / "autograder",
        "tfwidgets": ROOT / "book/tfwidgets",
    }
    expected = set()
    for package, folder in folders.items():
        data = [path for pattern in patterns[package] for path in folder.glob(pattern)]
        for path in {*folder.rglob("*.py"), *data}:
            expected.add(f"{package}/{path.relative_to(folder).as_posix()}")
    assert shipped == expected | extra


@pytest.mark.slow
def test_tfcore_computes_where_nothing_else_is(made, tmp_path):
    lines = closure(needs(made["tfcore"]), ())
    assert "nbgrader" not in lines
    python = clean_python(tmp_path / "venv", lines)
    run(python, "-m", "pip", "install", made["tfcore"], cwd=tmp_path)
    program = """
import doctest, importlib.util, tfcore, tfcore.masks, tfcore.ops, torch
from tfcore.attention import attention
assert importlib.util.find_spec("autograder") is None
ones = torch.ones(1, 1, 4, 8)
print(torch.allclose(attention(ones, ones, 3 * ones), 3 * ones))
print([tuple(doctest.testmod(module)) for module in (tfcore, tfcore.ops, tfcore.masks)])
print(tfcore.__version__, tfcore.__file__)
"""
    right, doctests, where = run(python, "-I", "-c", program, cwd=tmp_path).splitlines()
    assert right == "True"
    assert all(failed == 0 and tried > 0 for failed, tried in eval(doctests))
    version, file = where.split()
    assert (version, Path(file).is_relative_to(tmp_path)) == (tfcore.__version__, True)


@pytest.mark.slow
def test_a_course_elsewhere_is_graded_end_to_end(made, students, tmp_path):
    asked = [
        need
        for path in made.values()
        for need in needs(path)
        if need.name != NAMES["tfcore"].replace("_", "-")
    ]
    python = clean_python(tmp_path / "venv", closure(asked, ("grade",)))
    run(python, "-m", "pip", "install", made["tfcore"], f"{made['autograder']}[grade]", cwd=tmp_path)
    assert "No broken requirements" in run(python, "-m", "pip", "check", cwd=tmp_path)
    alembic = python.with_name("alembic")  # as pip makes it from alembic's entry point
    alembic.write_text(f"#!{python}\nfrom alembic.config import main\nmain()\n")
    alembic.chmod(0o755)
    grader, path = python.with_name("autograder"), f"{python.parent}:/usr/bin:/bin"
    assert run(grader, "--version", cwd=tmp_path) == f"autograder {tfcore.__version__}\n"
    assert "Commands" in run(grader, "--help", cwd=tmp_path)
    course = new_course(tmp_path / "course")
    run(grader, "doctor", cwd=course, PATH=path)
    run(grader, "release", ASSIGNMENT, cwd=course, PATH=path)
    notebook, expected = students["mistake-01"]
    hand_in(course, "somebody", notebook)
    unsafe = [] if cages.strongest().tier in cages.SAFE else ["--allow-unsafe"]
    run(grader, "grade", ASSIGNMENT, *unsafe, cwd=course, PATH=path)
    run(grader, "feedback", ASSIGNMENT, cwd=course, PATH=path)
    (page,) = (course / "feedback").rglob("*.html")
    assert "exp overflows for large scores" in page.read_text()
    run(grader, "report", ASSIGNMENT, cwd=course, PATH=path)
    assert (course / "reports" / f"{ASSIGNMENT}.html").is_file()
    grades = run(grader, "export", ASSIGNMENT, cwd=course, PATH=path)
    assert re.search(rf"somebody,{ASSIGNMENT}.*\b{sum(expected.values()):g}\b", grades)
    for kind in ("gradescope", "student", "instructor"):
        run(grader, "bundle", kind, ASSIGNMENT, cwd=course, PATH=path)
    mine = inside(course / "bundles" / "instructor.zip")
    assert {path.name: mine[path.name] for path in made.values()} == {
        path.name: path.read_bytes() for path in made.values()
    }
    guide = "guides/instructor_guide.md"
    assert mine[guide] == inside(made["autograder"])[f"autograder/packages/bundled/{guide}"]


def test_where_both_are_installed_as_one_no_wheel_can_be_made(monkeypatch, tmp_path):
    """As in Colab, where pip installs the repository itself."""
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    wheels._project.cache_clear()
    with pytest.raises(BadInputError, match="neither the repository nor installed from its two wheels"):
        wheels.build_both.__wrapped__()
