"""The house in order: imports run one way, `autograder`'s map names every room, nothing is too long."""

import ast
import graphlib
import re
import subprocess
import sys
import sysconfig
from importlib.machinery import PathFinder
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


@pytest.mark.slow
@pytest.mark.parametrize("folder", KNOWS_NOTHING_OF)
def test_imports_run_one_way(folder):
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    for file in files:
        assert not imported(file.read_text("utf8")) & KNOWS_NOTHING_OF[folder], file


ROOMS = (
    "cli",
    "commands",
    "reports",
    "platforms",
    "roster",
    "proof",
    "grading",
    "release",
    "student",
    "exercises",
    "checking",
    "reading",
    "cage",
    "packages",
    "course",
)
"""The rooms of `autograder`, from the roof down: a room imports only from those after it."""


def modules(package: str) -> dict[str, Path]:
    """The modules of a package by their dotted names."""
    found = {}
    for file in (ROOT / package).rglob("*.py"):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = file
    return found


def arrows(package: str, lazily: bool = True) -> set[tuple[str, str]]:
    """Pairs of modules of a package of which one imports the other, `lazily` those inside functions too."""
    known = modules(package)
    found = set()
    for name, file in known.items():
        here = name if file.name == "__init__.py" else name.rpartition(".")[0]
        tree = ast.parse(file.read_text("utf8"))
        for node in ast.walk(tree) if lazily else tree.body:
            targets = []
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = here.split(".")[: len(here.split(".")) - node.level + 1]
                base = ".".join([*(above if node.level else []), *([node.module] if node.module else [])])
                inside = [f"{base}.{alias.name}" for alias in node.names]
                targets = [each if each in known else base for each in inside]
            found |= {(name, target) for target in targets if target in known and target != name}
    return found


def room(module: str) -> str:
    """The room of one of `autograder`'s modules; the package itself is what a student imports."""
    return module.split(".")[1] if "." in module else "student"


def circle(pairs: set[tuple[str, str]]) -> list[str]:
    """A circle among the arrows, or nothing."""
    after: dict[str, set[str]] = {}
    for one, other in pairs:
        after.setdefault(one, set()).add(other)
    sorter = graphlib.TopologicalSorter(after)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_has_its_room():
    outside = {name.split(".")[1] for name in modules("autograder") if "." in name} - set(ROOMS)
    assert not outside, f"put these into a room: {outside}"
    doors = {path.stem for path in (ROOT / "autograder").glob("*.py")}
    assert doors == {"__init__", "cli", "student"}


@pytest.mark.parametrize("name", ROOMS)
def test_no_room_hides_a_library(name):
    """The cage begins with `autograder`'s folder on its path; a room called packaging hides one."""
    libraries = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
    assert PathFinder.find_spec("packaging", libraries)
    assert PathFinder.find_spec(name, libraries) is None


@pytest.mark.slow
def test_arrows_run_down():
    up = [
        (one, other)
        for one, other in arrows("autograder")
        if ROOMS.index(room(one)) > ROOMS.index(room(other))
    ]
    assert not up


@pytest.mark.slow
@pytest.mark.parametrize("package", ["autograder", "tfcore"])
def test_no_circle_of_modules(package):
    assert circle({(one, other) for one, other in arrows(package, lazily=False) if other not in one}) == []


@pytest.mark.slow
def test_no_circle_of_tfcores_folders():
    """Its files at the top count as rooms of their own."""
    between = {
        (one.split(".")[1], other.split(".")[1])
        for one, other in arrows("tfcore")
        if "." in one and "." in other and one.split(".")[1] != other.split(".")[1]
    }
    assert between
    assert circle(between) == []


@pytest.mark.slow
def test_a_circle_and_an_arrow_up_would_be_seen():
    assert circle({("a", "b"), ("b", "c"), ("c", "a")})
    assert ("autograder.student", "autograder.checking.candidate") in arrows("autograder")
    assert ("autograder.cage.calling", "autograder.cage.probes") in arrows("autograder")


def test_the_map_names_every_room():
    assert autograder.__doc__
    listed = re.findall(r"^- `(\w+)`|\. `(commands)`: ", autograder.__doc__, re.MULTILINE)
    assert tuple(one or other for one, other in listed) == ROOMS


@pytest.mark.slow
def test_what_a_notebook_imports_knows_nothing_of_grading():
    """Nor of the hidden seed: what `check` loads is what a student's bundle holds."""
    script = "import sys; from autograder import check; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name for name in run.stdout.split() if name.startswith("autograder")}
    assert "autograder.student" in loaded
    assert not {
        name
        for name in loaded
        if re.match(r"autograder\.(commands|reports|platforms|roster|proof|grading|release|packages)", name)
    }


LONGEST_FILE, LONGEST_FUNCTION = 500, 70  # lines
LONGER_FILES = {
    "autograder/exercises/ch04_multi_head/MultiHeadAttention_mistakes.py": (
        "one class in which people make more mistakes than in any other exercise, each with its hint"
    ),
}
"""Banks of mistakes that may be longer, with the reason; two at most."""


def python_files() -> list[Path]:
    """The repository's own files of Python."""
    folders = ("autograder", "benchmarks", "book", "tests", "tfcore")
    return [*ROOT.glob("*.py"), *(file for folder in folders for file in (ROOT / folder).rglob("*.py"))]


def lengths(source: str) -> dict[str, int]:
    """The number of lines of each function of a source, decorators left out, by its name and first line."""
    return {
        f"{node.name}:{node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_file_is_too_long():
    counted = {
        file.relative_to(ROOT).as_posix(): len(file.read_text("utf8").splitlines()) for file in python_files()
    }
    assert len(counted) > 100
    longer = {name: lines for name, lines in counted.items() if lines > LONGEST_FILE}
    assert longer.keys() <= LONGER_FILES.keys(), longer
    assert LONGER_FILES.keys() <= longer.keys(), "short enough by now: take it off the list"
    assert len(LONGER_FILES) <= 2
    assert all(name.endswith("_mistakes.py") for name in LONGER_FILES)


@pytest.mark.slow
def test_no_function_is_too_long():
    longer = {
        f"{file.relative_to(ROOT)}:{name}": lines
        for file in python_files()
        for name, lines in lengths(file.read_text("utf8")).items()
        if lines > LONGEST_FUNCTION
    }
    assert not longer


def test_a_long_function_would_be_seen():
    body = "        pass\n" * LONGEST_FUNCTION
    source = f"class Room:\n    @property\n    def long(self):\n{body}\nasync def short():\n    pass\n"
    assert lengths(source) == {"long:3": LONGEST_FUNCTION + 1, "short:75": 2}


def meant_lines(file):
    """The lines of a script without blank ones and without imports, which need not differ."""
    text = file.read_text("utf8")
    imports = set()
    if file.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports |= set(range(node.lineno, node.end_lineno + 1))
    return [line.strip() for n, line in enumerate(text.splitlines(), 1) if line.strip() and n not in imports]


@pytest.mark.slow
def test_no_twelve_lines_are_written_twice():
    """The banks are left out: a mistake is a whole function, nearly equal to another."""
    places = {}
    for folder in ("tfcore", "autograder", "book"):
        files = (path for kind in ("py", "js") for path in sorted((ROOT / folder).rglob(f"*.{kind}")))
        for file in files:
            if file.stem.endswith(("_mistakes", "_styles")) or "_build" in file.parts:
                continue
            lines = meant_lines(file)
            for start in range(len(lines) - 11):
                places.setdefault(tuple(lines[start : start + 12]), set()).add(file.name)
    twice = {(lines[0], *sorted(names)) for lines, names in places.items() if len(names) > 1}
    assert not twice, "put what is equal into a leaf that both import"
