"""The house in order: imports run one way, and the map of `autograder` names every room."""

import ast
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import autograder

ROOT = Path(__file__).resolve().parent.parent
KNOWS_NOTHING_OF = {
    "tfcore": {"autograder", "tfwidgets", "tfbook", "nbgrader"},
    "autograder": {"tfwidgets", "tfbook", "build", "pdf"},
    "autograder/cage": {"autograder", "nbgrader"},
    "book/tfwidgets": {"autograder", "tfbook", "nbgrader"},
}


def imported(source: str) -> set[str]:
    """The packages that some code names in its import statements, those inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("folder", KNOWS_NOTHING_OF)
def test_imports_run_one_way(folder):
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    for file in files:
        assert not imported(file.read_text("utf8")) & KNOWS_NOTHING_OF[folder], file


def test_the_map_names_every_room():
    assert autograder.__doc__
    named = set(re.findall(r"`(\w+)`", autograder.__doc__))
    rooms = {module.name for module in pkgutil.iter_modules(autograder.__path__)}
    assert rooms - {"__main__"} <= named, f"not on the map: {rooms - named}"
    folders = {path.parent.name for path in Path(autograder.__path__[0]).glob("*/*") if path.suffix != ".pyc"}
    assert named <= rooms | folders | {"check"}, f"on the map, but not there: {named - rooms - folders}"


def test_what_a_notebook_imports_knows_nothing_of_grading():
    """Nor of the hidden seed: what `check` loads is what a student's bundle holds."""
    script = "import sys; from autograder import check; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name for name in run.stdout.split() if name.startswith("autograder")}
    assert "autograder.student" in loaded
    assert not {
        name for name in loaded if re.match(r"autograder\.(grading|attacks|verify|files|samples)", name)
    }
