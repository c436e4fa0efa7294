"""The audit sees each thing that a student must not get, wherever somebody has put it."""

import json
import zipfile

import numpy as np
import pytest
from scratch import ASSIGNMENT, in_process, tree

from autograder import exercises
from autograder.course.files import read_seed
from autograder.course.layout import Course
from autograder.release import publish

SEED = 8_675_309_042


@pytest.fixture
def released(course):
    """A course with a secret seed, and its notebooks released."""
    (course / ".autograder").mkdir(exist_ok=True)
    (course / ".autograder" / "seed").write_text(str(SEED))
    assert in_process("release", ASSIGNMENT, cwd=course).exit_code == 0
    return course


def add_cell(path, source, **more):
    notebook = json.loads(path.read_text())
    cell = {"cell_type": "code", "id": "planted", "metadata": {}, "source": source, "outputs": []}
    notebook["cells"].append({**cell, "execution_count": None, **more})
    path.write_text(json.dumps(notebook))


def solution_of(course, grade_id):
    path = course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    for cell in json.loads(path.read_text())["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id:
            return "".join(cell["source"])
    raise LookupError(grade_id)


def a_solution(course, folder):
    text = (
        solution_of(course, "softmax_answer")
        .replace("### BEGIN SOLUTION", "")
        .replace("### END SOLUTION", "")
    )
    add_cell(folder / f"{ASSIGNMENT}.ipynb", text)


def a_copy_of_the_solution_under_another_name(course, folder):
    solution = (course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_bytes()
    (folder / "old.json").write_bytes(solution)


def a_copy_beside_it(course, folder):
    solution = (course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_bytes()
    (folder / f"{ASSIGNMENT}.ipynb.orig").write_bytes(solution)


def a_zip_in_capitals(course, folder):
    with zipfile.ZipFile(folder / "DATA.ZIP", "w") as archive:
        archive.write(course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", "X.IPYNB")


def solution_markers(course, folder):
    add_cell(folder / f"{ASSIGNMENT}.ipynb", "### BEGIN SOLUTION\nx = 1\n### END SOLUTION")


def a_mark_scheme(course, folder):
    text = solution_of(course, "explain_the_picture")
    start, end = text.index("One point for each part"), text.index("=== END MARK SCHEME")
    add_cell(folder / f"{ASSIGNMENT}.ipynb", text[start:end], cell_type="markdown")


def a_hidden_test(course, folder):
    add_cell(folder / f"{ASSIGNMENT}.ipynb", "### BEGIN HIDDEN TESTS\nassert softmax\n### END HIDDEN TESTS")


def a_hidden_case(course, folder):
    drawn = next(cases for _, cases in exercises.find("attention_scores").draw(SEED))
    add_cell(folder / f"{ASSIGNMENT}.ipynb", f"query = np.array({np.round(drawn[0].args[0], 8).tolist()})")


def the_secret_seed(course, folder):
    add_cell(folder / f"{ASSIGNMENT}.ipynb", f"rng = np.random.default_rng({SEED})")


def the_secret_seed_in_a_text_file(course, folder):
    (folder / "hints.txt").write_text(f"the seed is {SEED}.")


def a_rubric(course, folder):
    (folder / "rubric.md").write_text("three points for ...")


def the_solution_notebook(course, folder):
    source = course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    (folder / "worked.ipynb").write_bytes(source.read_bytes())


def the_graders_folder(course, folder):
    (folder / ".autograder").mkdir()
    (folder / ".autograder" / "verdicts.json").write_text("{}")


def the_gradebook(course, folder):
    (folder / "gradebook.db").write_bytes(b"SQLite format 3\0")


def outputs(course, folder):
    shown = {"output_type": "stream", "name": "stdout", "text": "0.125"}
    add_cell(folder / f"{ASSIGNMENT}.ipynb", "softmax(x)", outputs=[shown])


def the_graders_modules(course, folder):
    add_cell(folder / f"{ASSIGNMENT}.ipynb", "from autograder.exercises import find")


def the_numbers_of_other_variants(course, folder):
    add_cell(folder / f"{ASSIGNMENT}.ipynb", "<!-- varies a\n1 | 2\n-->", cell_type="markdown")


PLANTED = (
    a_solution,
    solution_markers,
    a_mark_scheme,
    a_hidden_test,
    a_hidden_case,
    the_secret_seed,
    the_secret_seed_in_a_text_file,
    a_rubric,
    the_solution_notebook,
    a_copy_of_the_solution_under_another_name,
    a_copy_beside_it,
    a_zip_in_capitals,
    the_graders_folder,
    the_gradebook,
    outputs,
    the_graders_modules,
    the_numbers_of_other_variants,
)


@pytest.mark.slow
def test_what_is_released_gives_nothing_away(released):
    done = in_process("audit", cwd=released)
    assert done.exit_code == 0, done.stdout
    assert "No secret was found" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_is_planted_is_found(released, plant):
    plant(released, released / "notebooks" / ASSIGNMENT)
    done = in_process("audit", "--json", cwd=released)
    assert done.exit_code == 1
    assert json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_it_is_found_in_a_bundle_too(released, tmp_path, plant):
    folder = released / "notebooks" / ASSIGNMENT
    plant(released, folder)
    bundle = tmp_path / "bundle.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, f"course/{ASSIGNMENT}/{path.relative_to(folder)}")
    assert in_process("audit", str(bundle), cwd=released).exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize("plant", [a_rubric, the_secret_seed_in_a_text_file, the_gradebook])
def test_the_release_refuses_what_lies_beside_the_source(released, plant):
    plant(released, released / "solutions" / ASSIGNMENT)
    before = tree(released / "notebooks")
    done = in_process("release", "--force", cwd=released)
    assert done.exit_code == 2
    assert "would give away" in done.stderr
    assert tree(released / "notebooks") == before


@pytest.mark.slow
@pytest.mark.parametrize("plant", [the_secret_seed, a_hidden_case, the_graders_modules])
def test_the_release_refuses_what_stands_in_the_source(released, plant):
    folder = released / "solutions" / ASSIGNMENT
    plant(released, folder)
    before = tree(released / "notebooks")
    assert in_process("release", "--force", cwd=released).exit_code == 2
    assert tree(released / "notebooks") == before


def test_linked_folders_are_searched_too(course, tmp_path):
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "ch").symlink_to(course / "solutions", target_is_directory=True)
    (tmp_path / "share" / "again").symlink_to(tmp_path / "share", target_is_directory=True)
    done = in_process("audit", str(tmp_path / "share"), cwd=course)
    assert done.exit_code == 1
    assert f"ch/{ASSIGNMENT}/{ASSIGNMENT}.ipynb: it gives away" in " ".join(done.stdout.split())


def test_a_course_without_a_seed_and_what_is_no_bundle(course, tmp_path):
    assert read_seed(Course.at(course).state) is None
    assert in_process("release", ASSIGNMENT, cwd=course).exit_code == 0
    assert in_process("audit", cwd=course).exit_code == 0
    damaged = tmp_path / "folder" / "bundle.zip"
    damaged.parent.mkdir()
    with zipfile.ZipFile(damaged, "w") as archive:
        archive.writestr("notes.txt", "a note " * 99)
    data = damaged.read_bytes()
    for broken in (b"no zip", data.replace(b"a note a note", b"a note b note"), _locked(data)):
        damaged.write_bytes(broken)
        for path in (damaged, damaged.parent)[: 1 if broken == b"no zip" else 2]:
            done = in_process("audit", str(path), cwd=course)
            assert done.exit_code == 2
            assert "cannot be searched" in done.stderr


NO_NOTEBOOKS = ('{"cells": ["x"], "nbformat": 4}', "[]", '{"cells": 1}', "{}")


def test_what_is_no_notebook_is_named(course, tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "notes.txt").write_text("a note")
    (course / "solutions" / "ch00_notes").mkdir()
    for number, text in enumerate((*NO_NOTEBOOKS, '{"cells": [{"metadata": null}, {}]}')):
        (course / "solutions" / "ch00_notes" / f"{number}.ipynb").write_text(text)
    for number, text in enumerate(NO_NOTEBOOKS):
        (tmp_path / "given" / f"{number}.ipynb").write_text(text)
    done = in_process("audit", str(tmp_path / "given"), "--json", cwd=course)
    assert done.exit_code == 1, done.stderr
    why = "it is not a notebook, so it cannot be checked. Remove it."
    assert json.loads(done.stdout) == [
        f"{tmp_path}/given/{number}.ipynb: {why}" for number in range(len(NO_NOTEBOOKS))
    ]


def _locked(data):
    """The archive as if it had a password: the flag of its two headers."""
    at = data.index(b"PK\x01\x02") + 8
    return data[:6] + b"\x01" + data[7:at] + b"\x01" + data[at + 1 :]


@pytest.mark.slow
def test_a_few_drawn_numbers_may_stand_somewhere_by_chance(released):
    drawn = next(cases for _, cases in exercises.find("attention_scores").draw(SEED))
    numbers = np.round(drawn[0].args[0].ravel()[:2], 8).tolist()
    add_cell(
        released / "notebooks" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb",
        f"x = {[*numbers, 0.12345678, 3.14159265]}",
    )
    assert in_process("audit", cwd=released).exit_code == 0


def test_released_files_are_those_that_were_audited(released):
    files = publish.make_release(Course.at(released), ASSIGNMENT)
    assert tree(released / "notebooks" / ASSIGNMENT).keys() == set(files)
