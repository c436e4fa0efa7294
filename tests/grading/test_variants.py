"""Variants give other numbers to other students, the same to the same, and to the teacher the answers."""

import json

import pytest
from scratch import ASSIGNMENT, in_process, tree

from autograder.course.errors import BadInputError
from autograder.course.variants import apply_variant, read

CELL = """For $d_k = 64$ the variance is 320, and 64.5 is another number, as is 164.

<!-- varies question-c
64 | 100 | 144
320 | 500 | 720
-->"""
WHERE = "ch03_scaling explain"
SEEDS = [f"student-{n}" for n in range(40)]


def test_without_a_variant_the_cell_stands_as_it_is():
    assert apply_variant(CELL, WHERE, None) == CELL.partition("\n\n<!--")[0]


def test_numbers_are_replaced_together_and_only_where_they_stand_alone():
    told = {apply_variant(CELL, WHERE, seed) for seed in SEEDS}
    assert told == {
        "For $d_k = 100$ the variance is 500, and 64.5 is another number, as is 164.",
        "For $d_k = 144$ the variance is 720, and 64.5 is another number, as is 164.",
    }


def test_the_same_name_varies_alike_in_every_cell_and_another_by_itself():
    scheme = "(c) 320\n<!-- varies question-c\n320 | 500 | 720\n-->"
    other = "(d) 1\n<!-- varies question-d\n1 | 2 | 3\n-->"
    pairs = set()
    for seed in SEEDS:
        question = apply_variant(CELL, WHERE, seed)
        answer = apply_variant(scheme, "ch03_scaling scheme", seed)
        assert answer.split()[1] in question
        pairs.add((answer, apply_variant(other, WHERE, seed)))
    assert len(pairs) > 3


def test_two_rows_may_change_places():
    text = "1 and 2\n<!-- varies a\n1 | 2\n2 | 1\n-->"
    assert {apply_variant(text, WHERE, seed) for seed in SEEDS} == {"2 and 1"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("64\n<!-- varies\n64 | 100\n-->", "varies NAME"),
        ("64\n<!-- varies a\n64\n-->", "rows such as"),
        ("64\n<!-- varies a\n-->", "rows such as"),
        ("64 1\n<!-- varies a\n64 | 100\n1 | 2 | 3\n-->", "has 3 columns, the first 2"),
        ("640\n<!-- varies a\n64 | 100\n-->", "is not in the cell"),
        ("64\n<!-- varies a\n64 | 100", "does not end"),
    ],
)
def test_a_comment_that_cannot_be_meant_is_refused(text, says):
    with pytest.raises(BadInputError, match=says):
        read(text, WHERE)


@pytest.fixture
def varying(course):
    """A course whose second notebook has a question that varies."""
    path = course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["id"] == "softmax-idea":
            cell["source"] = (
                f"The code is 4711.\n\n{source}\n\n<!-- varies code\n4711 | 4712 | 4713 | 4714\n-->"
            )
        if cell["id"] == "explain-the-picture":
            cell["source"] = f"{source}\n\nFor 4711.\n\n<!-- varies code\n4711 | 4712 | 4713 | 4714\n-->"
    path.write_text(json.dumps(notebook))
    return course


def code_in(path):
    text = path.read_text()
    assert "<!-- varies" not in text
    (found,) = {code for code in ("4711", "4712", "4713", "4714") if code in text}
    return found


@pytest.mark.slow
def test_each_student_gets_a_notebook_and_the_teacher_its_answers(varying):
    names = [f"s{n}" for n in range(8)]
    options = [option for name in names for option in ("--variant", name)]
    before = tree(varying / "notebooks")
    assert in_process("release", ASSIGNMENT, *options, cwd=varying).exit_code == 0
    assert tree(varying / "notebooks") == before
    codes = {}
    for name in names:
        folder = varying / "variants" / name / ASSIGNMENT
        codes[name] = code_in(folder / f"{ASSIGNMENT}.ipynb")
        assert codes[name] == code_in(varying / ".autograder" / "variants" / name / f"{ASSIGNMENT}.md")
        assert in_process("audit", str(folder.parent), cwd=varying).exit_code == 0
    assert len(set(codes.values())) > 1
    made = tree(varying / "variants")
    assert in_process("release", ASSIGNMENT, *options, cwd=varying).exit_code == 0
    assert tree(varying / "variants") == made


def test_a_variant_has_the_same_tests(varying):
    assert in_process("release", ASSIGNMENT, "--variant", "spring", cwd=varying).exit_code == 0
    assert in_process("release", ASSIGNMENT, cwd=varying).exit_code == 0
    plain, other = (
        json.loads((folder / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_text())["cells"]
        for folder in (varying / "notebooks", varying / "variants" / "spring")
    )
    graded = [[c for c in cells if "nbgrader" in c["metadata"]] for cells in (plain, other)]
    assert graded[0] == graded[1]


def test_a_name_that_is_no_folders_is_refused(varying):
    for name in ("../up", "a/b", ""):
        done = in_process("release", "--variant", name, cwd=varying)
        assert done.exit_code == 2
        assert "cannot be a variant's name" in " ".join(done.stderr.split())
    assert not (varying / "variants").exists()


def test_the_repositorys_own_variations_can_be_read():
    """Each notebook has a worked example or a question with other numbers, and what varies stands there."""
    from scratch import ROOT

    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        found = []
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "markdown":
                _, variations = read("".join(cell["source"]), f"{path.stem} {cell['id']}")
                found += variations
        assert found, path.stem
        assert any(len(variation.rows[0]) >= 3 for variation in found), path.stem
