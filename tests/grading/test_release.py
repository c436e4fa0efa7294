"""The students' notebooks: nothing given away, nothing overwritten, the same each time."""

import json
import subprocess

import pytest
from scratch import ASSIGNMENT, ROOT, hand_in, in_process, new_course, tree

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.packages import colab
from autograder.release import publish


def cells(path):
    return json.loads(path.read_text())["cells"]


def text(cell):
    return "".join(cell["source"])


@pytest.fixture
def notebook(course):
    return course / "notebooks" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"


@pytest.fixture
def solution(course):
    return course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"


def change(path, edit):
    """Edits a notebook's JSON in place."""
    notebook = json.loads(path.read_text())
    edit(notebook)
    path.write_text(json.dumps(notebook))


def solution_cell(notebook):
    return next(
        c
        for c in notebook["cells"]
        if c["metadata"].get("nbgrader", {}).get("grade_id", "").endswith("_answer")
    )


@pytest.mark.slow
def test_release_has_no_solutions_outputs_or_gradebook(course):
    assert in_process("release", cwd=course).exit_code == 0
    assert not (course / "gradebook.db").exists()
    for assignment in exercises.assignments():
        path = course / "notebooks" / assignment / f"{assignment}.ipynb"
        for cell in cells(path):
            assert not cell.get("outputs")
            assert "SOLUTION" not in text(cell)
            assert "MARK SCHEME" not in text(cell)
        graded = [c for c in cells(path) if c["metadata"].get("nbgrader", {}).get("grade")]
        assert {c["metadata"]["nbgrader"]["grade_id"] for c in graded} >= {
            e.function_name for e in exercises.of_assignment(assignment)
        }
        assert all("checksum" in c["metadata"]["nbgrader"] for c in graded)


@pytest.mark.slow
def test_each_assignment_has_the_points_that_are_declared(course):
    """Those of its exercises, and two or three for words."""
    in_process("release", cwd=course)
    for assignment in exercises.assignments():
        graded = {
            c["metadata"]["nbgrader"]["grade_id"]: c["metadata"]["nbgrader"]["points"]
            for c in cells(course / "notebooks" / assignment / f"{assignment}.ipynb")
            if c["metadata"].get("nbgrader", {}).get("grade")
        }
        for_words = sum(graded.values()) - sum(e.points for e in exercises.of_assignment(assignment))
        assert 2 <= for_words <= 3
        for exercise in exercises.of_assignment(assignment):
            assert graded[exercise.function_name] == exercise.points


@pytest.mark.slow
def test_same_source_gives_the_same_bytes(course, tmp_path):
    other = new_course(tmp_path / "other")
    for folder in (course, other):
        assert in_process("release", cwd=folder).exit_code == 0
    assert tree(course / "notebooks") == tree(other / "notebooks")


@pytest.mark.slow
def test_cell_ids_are_stable_and_unique(course, notebook):
    in_process("release", cwd=course)
    ids = [cell["id"] for cell in cells(notebook)]
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
def test_unchanged_release_writes_nothing(course):
    in_process("release", cwd=course)
    before = tree(course)
    again = in_process("release", "--json", cwd=course)
    assert {one["status"] for one in json.loads(again.stdout)} == {"unchanged"}
    assert tree(course) == before


@pytest.mark.slow
def test_changed_source_is_released_again(course, notebook, solution):
    in_process("release", cwd=course)
    change(solution, lambda nb: nb["cells"][0].update(source="# A new title"))
    done = json.loads(in_process("release", "--json", cwd=course).stdout)
    assert {one["assignment"]: one["status"] for one in done}[ASSIGNMENT] == "written"
    assert text(cells(notebook)[0]) == "# A new title"


@pytest.mark.slow
def test_somebodys_work_is_kept(course, notebook, solution):
    in_process("release", cwd=course)
    change(notebook, lambda nb: nb["cells"][0].update(source="my notes"))
    change(solution, lambda nb: nb["cells"][0].update(source="# A new title"))
    kept = in_process("release", ASSIGNMENT, "--json", cwd=course)
    assert json.loads(kept.stdout)[0]["status"] == "kept"
    assert kept.exit_code == 2
    assert text(cells(notebook)[0]) == "my notes"
    forced = in_process("release", ASSIGNMENT, "--force", "--json", cwd=course)
    assert json.loads(forced.stdout)[0]["status"] == "written"
    assert text(cells(notebook)[0]) == "# A new title"
    assert text(cells(notebook.with_name(f"{notebook.name}.orig"))[0]) == "my notes"
    change(notebook, lambda nb: nb["cells"][0].update(source="my second notes"))
    change(solution, lambda nb: nb["cells"][0].update(source="# A third title"))
    in_process("release", ASSIGNMENT, "--force", cwd=course)
    assert text(cells(notebook.with_name(f"{notebook.name}.orig"))[0]) == "my notes"
    assert text(cells(notebook.with_name(f"{notebook.name}.orig1"))[0]) == "my second notes"


@pytest.mark.slow
def test_who_goes_back_to_an_earlier_release_has_not_worked_in_it(course, notebook, solution):
    in_process("release", cwd=course)
    first = notebook.read_bytes()
    change(solution, lambda nb: nb["cells"][0].update(source="# Another title"))
    in_process("release", cwd=course)
    notebook.write_bytes(first)  # git checkout .
    change(solution, lambda nb: nb["cells"][0].update(source="# A third title"))
    again = in_process("release", ASSIGNMENT, "--json", cwd=course)
    assert json.loads(again.stdout)[0]["status"] == "written"
    assert text(cells(notebook)[0]) == "# A third title"


@pytest.mark.slow
def test_what_git_brought_is_nobodys_work_unless_an_answer_is_in_it(course, notebook, solution):
    def commit():
        for command in (["init", "-q"], ["add", str(notebook)], [*AS_SOMEBODY, "commit", "-qm", "pulled"]):
            subprocess.run(["git", *command], cwd=notebook.parent, check=True)

    in_process("release", cwd=course)
    change(notebook, lambda nb: nb["cells"][0].update(source="# A colleague's title"))
    commit()
    change(solution, lambda nb: nb["cells"][0].update(source="# A new title"))
    pulled = in_process("release", ASSIGNMENT, "--json", cwd=course)
    assert json.loads(pulled.stdout)[0]["status"] == "written"
    change(notebook, lambda nb: solution_cell(nb).update(source="def softmax(x, axis=-1):\n    return x"))
    commit()
    change(solution, lambda nb: nb["cells"][0].update(source="# A title"))
    kept = in_process("release", ASSIGNMENT, "--json", cwd=course)
    assert json.loads(kept.stdout)[0]["status"] == "kept"


AS_SOMEBODY = ("-c", "user.name=a", "-c", "user.email=a@b.c")


@pytest.mark.slow
def test_work_is_recognised_without_a_record(course, notebook, solution):
    """As in a fresh clone, where nothing tells what was released before."""
    in_process("release", cwd=course)
    for record in (course / ".autograder" / "releases").iterdir():
        record.unlink()
    change(notebook, lambda nb: solution_cell(nb).update(source="def softmax(x, axis=-1):\n    return x"))
    change(solution, lambda nb: nb["cells"][0].update(source="# A new title"))
    kept = in_process("release", ASSIGNMENT, "--json", cwd=course)
    assert json.loads(kept.stdout)[0]["status"] == "kept"


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["", "[]", '{"x'])
def test_a_damaged_record_of_releases_is_written_again(course, notebook, solution, damaged):
    in_process("release", cwd=course)
    record = course / ".autograder" / "releases" / f"{ASSIGNMENT}.json"
    complete = record.read_text()
    record.write_text(damaged)
    assert in_process("release", ASSIGNMENT, cwd=course).exit_code == 0
    assert record.read_text() == complete


def without_cache(course):
    return {name: what for name, what in tree(course).items() if "/released" not in name}


def refuses(course, *words):
    before = without_cache(course)
    refused = in_process("release", cwd=course)
    assert refused.exit_code == 2
    assert not refused.stdout
    told = " ".join(refused.stderr.split())
    for word in words:
        assert word in told
    assert "Traceback" not in told
    assert without_cache(course) == before


def test_a_solution_in_another_cell_is_refused(course, solution):
    def leak(notebook):
        notebook["cells"][0]["source"] = text(solution_cell(notebook))
        notebook["cells"][0]["source"] = (
            notebook["cells"][0]["source"].replace("### BEGIN SOLUTION", "").replace("### END SOLUTION", "")
        )

    change(solution, leak)
    refuses(course, "would give away", "a cell has the same text")


def test_solution_markers_outside_an_answer_are_refused(course, solution):
    def leak(notebook):
        plain = next(
            c for c in notebook["cells"] if c["cell_type"] == "code" and not c["metadata"].get("nbgrader")
        )
        plain["source"] = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION"

    change(solution, leak)
    refuses(course, "Solution region detected in a non-solution cell")


def test_a_test_cell_of_no_exercise_is_refused(course, solution):
    def add_test(notebook):
        marks = {"grade": True, "solution": False, "locked": True, "points": 1, "schema_version": 3}
        test = {
            "cell_type": "code",
            "id": "mine",
            "source": "assert True",
            "outputs": [],
            "execution_count": None,
        }
        test["metadata"] = {"nbgrader": marks | {"task": False, "grade_id": "my_test"}}
        notebook["cells"].append(test)

    change(solution, add_test)
    refuses(course, "has a test cell 'my_test', but no exercise has this name", "graded by a person")
    hand_in(course, "ada", solution.read_bytes())
    graded = in_process("grade", ASSIGNMENT, "--submissions", course / "submitted", cwd=course)
    assert graded.exit_code == 2
    assert "has a test cell 'my_test', but no exercise has this name" in " ".join(graded.stderr.split())


def test_a_rubric_beside_the_notebook_is_refused(course, solution):
    solution.with_name("rubric.md").write_text("three points for ...")
    refuses(course, "would give away ch02_qkv/rubric.md", "Move it out")


def test_a_broken_solution_is_refused(course, solution):
    solution.write_text("{ not json")
    refuses(course, "is not a notebook")


def test_data_beside_the_notebook_is_released_too(course, solution):
    solution.with_name("words.txt").write_text("the cat sat")
    done = in_process("release", ASSIGNMENT, cwd=course)
    assert "words.txt" in done.stdout
    assert (course / "notebooks" / ASSIGNMENT / "words.txt").read_text() == "the cat sat"


@pytest.mark.slow
def test_the_repositorys_own_release_is_up_to_date():
    """What students get from the repository is what its solutions give."""
    course = Course.at(ROOT)
    for assignment in course.assignments:
        for name, data in publish.make_release(course, assignment).items():
            path = course.notebooks / assignment / name
            if not path.exists():
                pytest.skip("the notebooks are not released here")
            assert path.read_bytes() == data, f"run: autograder release {assignment}"


def test_unknown_assignment(course):
    with pytest.raises(BadInputError, match="no assignment is called 'ch99'"):
        Course.at(course).chosen(["ch99"])


def test_a_model_of_no_such_name_adds_no_package():
    notebook = {"cells": [{"cell_type": "code", "source": '# zoo.load("typo")'}]}
    first = colab.insert_first_cell(Course.at(ROOT), notebook)["cells"][0]
    assert first == colab.first_cell(Course.at(ROOT))
