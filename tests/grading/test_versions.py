"""A fix of an exercise concerns what runs through it, and nothing else; what it changes is told."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scratch import AS_GRADED, ASSIGNMENT, FULL, ROOT, SEED, graded, hand_in

from autograder import exercises
from autograder.exercises import names_tested_by
from autograder.release import versions
from autograder.reports.sections import section_of

MOVED_TO = "ch08_serving"

ALL_THAT_RUNS = """
import sys
sys.path.insert(0, {root!r})
import autograder.grading.judge, autograder.grading.pair
from autograder import exercises
exercises.find({name!r}).reference
ours = [m for name, m in sys.modules.items() if name.split(".")[0] in ("autograder", "tfcore")]
print(*[module.__file__ for module in ours if module.__file__])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ch02_qkv/softmax", "ch08_kv_cache/generate_cached", "ch11_capstone/TinyGPT"]
)
def test_all_that_an_exercise_imports_is_in_its_version(name):
    code = ALL_THAT_RUNS.format(root=str(ROOT), name=name)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ran_through = {Path(path) for path in ran.stdout.split()}
    known = versions.core_files() | versions.files_imported_by(exercises.modules_of(name))
    left_out = {path for path in ran_through - known if path.is_absolute() and path.name != "__init__.py"}
    not_of_verdicts = versions.files_imported_by(["autograder.student"])  # what `import autograder` brings
    assert not left_out - not_of_verdicts
    assert Path(sys.modules[exercises.find(name).__class__.__module__].__file__) in known


def test_exercises_share_no_more_than_they_must():
    softmax, rms_norm = (
        versions.files_imported_by(exercises.modules_of(n)) - versions.core_files()
        for n in ("ch02_qkv/softmax", "ch06_blocks/rms_norm")
    )
    assert ROOT / "tfcore" / "ops.py" in softmax - rms_norm
    assert not any("class_report" in path.name or "cli" in path.name for path in versions.core_files())


@pytest.mark.slow
def test_an_exercise_that_moved_after_the_release_is_graded(course):
    """The release is older than the course: it tests `PagedCache` in an assignment that no longer has it."""
    paths = (ROOT / "solutions" / name / f"{name}.ipynb" for name in (ASSIGNMENT, MOVED_TO))
    old, new = (json.loads(path.read_text()) for path in paths)
    cells = {cell["metadata"].get("nbgrader", {}).get("grade_id"): cell for cell in new["cells"]}
    answer, test = cells["PagedCache_answer"], cells["PagedCache"]
    answer["source"] = ["import torch\n", *answer["source"]]
    old["cells"] += [answer, test]
    (course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").write_text(json.dumps(old))
    hand_in(course, "ada", old)
    (ada,) = graded(course).graded
    everything = FULL + exercises.find("PagedCache").points
    assert (ada.score, ada.max_score) == (everything, everything)
    assert names_tested_by(old, ASSIGNMENT) == [*exercises.names_of(ASSIGNMENT), f"{MOVED_TO}/PagedCache"]
    assert section_of(f"{ASSIGNMENT}/PagedCache") == section_of(f"{MOVED_TO}/PagedCache")


@pytest.fixture
def copy_of_ours(tmp_path):
    """The packages in a folder of one's own, to be changed."""
    for name in ("autograder", "tfcore"):
        shutil.copytree(ROOT / name, tmp_path / "ours" / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "ours"


def grade(ours, course):
    """Grades with the packages there; tells what the command tells."""
    where = ["--course", str(course), "--submissions", str(course / "submitted")]
    how = ["--seed", str(SEED), "--workers", "1", "--json", *AS_GRADED]
    ran = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "grade", *where, *how],
        cwd=ours,
        env={**os.environ, "PYTHONPATH": str(ours)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


NEVER_TWICE = """
import time
def soft_lookup(*args, **kwargs):
    raise ValueError(f"asked at {time.time_ns()}")
"""


@pytest.mark.slow
def test_a_fix_grades_again_what_it_concerns_and_tells_what_it_changed(copy_of_ours, course, students):
    """`softmax` is made to ask for small scores alone: who left out the maximum gains points for it."""
    notebook = json.loads(json.dumps(students["mistake-01"][0]))
    answers = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("solution")]
    (cell,) = [c for c in answers if c["metadata"]["nbgrader"]["grade_id"] == "soft_lookup_answer"]
    cell["source"] = NEVER_TWICE
    hand_in(course, "ada", notebook)
    solution = json.loads((course / "solutions" / "ch03_scaling" / "ch03_scaling.ipynb").read_text())
    hand_in(course, "bob", solution, "ch03_scaling")
    first = grade(copy_of_ours, course)
    assert (first["graded"], first["changes"]) == (2, [])

    file = copy_of_ours / "autograder" / "exercises" / ASSIGNMENT / "softmax.py"
    text = file.read_text()
    assert "1e4" in text
    file.write_text(text.replace("1e4", "1e0").replace("10_000 +", "1 +"))
    again = grade(copy_of_ours, course)
    assert (again["graded"], again["unchanged"]) == (1, 1)
    (change,) = again["changes"]
    assert (change["student"], change["exercise"], change["same_notebook"]) == ("ada", "softmax", True)
    assert change["after"] > change["before"]

    verdicts = (course / ".autograder" / "verdicts" / f"{ASSIGNMENT}.jsonl").read_text().splitlines()
    before, after = (json.loads(line)["verdict"]["cells"] for line in verdicts)
    assert "asked at" in json.dumps(after)
    assert [cell for cell in after if cell["grade_id"] != "softmax"] == [
        cell for cell in before if cell["grade_id"] != "softmax"
    ]
