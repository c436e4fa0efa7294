"""Code that two students share is found whatever was done to hide it; what everybody writes is not."""

import ast
import builtins
import random
from functools import cache

import pytest

from autograder import exercises
from autograder.reports import plagiarism

ANSWER = """
def attend(query, key, value, mask=None):
    scale = np.sqrt(query.shape[-1])
    scores = np.einsum("...id,...jd->...ij", query, key) / scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    largest = np.maximum(scores.max(axis=-1, keepdims=True), -1e30)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return np.einsum("...ij,...jd->...id", weights, value), weights
"""
DISGUISED = '''
def attend(query, key, value, mask=None):
    """My own idea."""
    s = np.einsum(
        "...ab,...cb->...ac", query, key
    ) / np.sqrt(1)  # compare
    root = np.sqrt(query.shape[-2])
    s = np.einsum("...ab,...cb->...ac", query, key) / root
    if mask is not None:
        # hide
        s = np.where(mask, s, -np.inf)
    top = np.maximum(s.max(axis=-2, keepdims=True), -5e29)
    w = np.exp(s - top)
    z = w.sum(axis=-2, keepdims=True)
    print("here")
    w = np.divide(w, z, out=np.zeros_like(w), where=z > 1)
    return np.einsum("...xy,...yz->...xz", w, value), w
'''


def names_of(pairs):
    return [pair.students for pair in pairs]


@cache
def bank(assignment):
    """A class in which each student has everything right, each in a style of their own."""
    declared = exercises.of_assignment(assignment)
    return {
        f"style-{number}": {
            exercise.function_name: exercise.styles[number].pasted(exercise.function_name)
            for exercise in declared
            if number < len(exercise.styles)
        }
        for number in range(max(len(exercise.styles) for exercise in declared))
    }


def test_a_disguised_copy_is_found_among_others():
    others = {
        f"other-{number}": {"attend": style.pasted("attend")}
        for number, style in enumerate(exercises.find("scaled_dot_product_attention").styles)
    }
    handed_in = {**others, "ada": {"attend": ANSWER}, "bob": {"attend": DISGUISED}}
    (pair,) = plagiarism.find_pairs(handed_in)
    assert pair.students == ("ada", "bob")
    (shared,) = pair.exercises
    assert (shared.exercise, shared.fragments) == ("attend", pair.fragments)
    assert plagiarism.ALIKE <= shared.share < 1


class Renamed(ast.NodeTransformer):
    """Gives every name of the student's own another one."""

    def visit_Name(self, node):
        return ast.Name(self.other(node.id), node.ctx)

    def visit_arg(self, node):
        return ast.arg(self.other(node.arg))

    def visit_FunctionDef(self, node):
        node.name = self.other(node.name)
        return self.generic_visit(node)

    @staticmethod
    def other(name):
        return name if name in vars(builtins) or name == "self" else f"{name}_x"


@pytest.mark.parametrize("assignment", exercises.assignments())
def test_names_layout_and_order_of_statements_do_not_matter(assignment):
    for answers in list(bank(assignment).values())[:2]:
        for name, source in answers.items():
            tree = Renamed().visit(ast.parse(source))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    random.Random(0).shuffle(node.body)
            assert plagiarism.fragments(ast.unparse(tree)) == plagiarism.fragments(source), name


@pytest.mark.slow
@pytest.mark.parametrize("assignment", exercises.assignments())
def test_independent_styles_are_not_alike(assignment):
    handed_in = bank(assignment)
    assert plagiarism.find_pairs(handed_in) == []
    copied = max(
        handed_in.values(), key=lambda own: sum(len(plagiarism.fragments(code)) for code in own.values())
    )
    assert names_of(plagiarism.find_pairs({**handed_in, "zoe": copied}))[0][1] == "zoe"


def test_what_was_given_or_left_empty_is_not_alike():
    given = exercises.find("TransformerBlock").given_source
    assert len(plagiarism.fragments(given)) > plagiarism.ENOUGH
    blank = "def softmax(x, axis=-1):\n    raise NotImplementedError()\n"
    for code in (blank, "", "# nothing", "return (((", "%matplotlib inline"):
        assert plagiarism.find_pairs({"ada": {"softmax": code}, "bob": {"softmax": code}}) == []
    both = {"ada": {"block": given}, "bob": {"block": given}}
    assert plagiarism.find_pairs(both, given=[given]) == []
    assert names_of(plagiarism.find_pairs(both)) == [("ada", "bob")]


def test_a_statement_of_ten_words_has_three_fragments():
    assert plagiarism.LENGTH == 8
    assert len(plagiarism.fragments("y = x - x.max(axis=1)")) == 3


def test_one_short_answer_in_common_is_no_evidence():
    same = exercises.find("ch02_qkv/softmax").styles[0].pasted("softmax")
    assert plagiarism.fragments(same)
    assert plagiarism.find_pairs({"ada": {"softmax": same}, "bob": {"softmax": same}}) == []


@pytest.mark.parametrize(("copies", "students", "pairs"), [(2, 10, 1), (3, 10, 3), (4, 10, 0), (4, 200, 6)])
def test_what_many_wrote_does_not_count(copies, students, pairs):
    handed_in = {f"student-{n:02d}": {"attend": ANSWER if n < copies else ""} for n in range(students)}
    assert len(plagiarism.find_pairs(handed_in)) == pairs


def test_a_student_who_left_exercises_out_is_compared_in_the_others():
    whole = bank("ch08_kv_cache")["style-0"]
    half = dict(list(whole.items())[:4])
    (pair,) = plagiarism.find_pairs({"ada": whole, "bob": half})
    assert {shared.exercise for shared in pair.exercises} <= set(half)
    assert all(shared.share == 1 for shared in pair.exercises)


@pytest.mark.slow
def test_a_large_class_is_compared_by_what_is_rare(monkeypatch):
    """Each answer is read once, and the pairs looked at grow with the fragments, not with their square."""
    read, looked = [], []

    def fragments(source, real=plagiarism.fragments):
        read.append(source)
        return real(source)

    def combinations(students, size, real=plagiarism.combinations):
        found = list(real(students, size))
        looked.extend(found)
        return found

    monkeypatch.setattr(plagiarism, "fragments", fragments)
    monkeypatch.setattr(plagiarism, "combinations", combinations)
    common = [style.pasted("f") for style in exercises.find("wkv").styles]
    rare = [style.pasted("f") for name in exercises.names() for style in exercises.find(name).styles]
    draw = random.Random(0)
    handed_in = {
        f"student-{n}": {f"exercise-{m}": draw.choice(rare if n % 5 == 0 else common) for m in range(8)}
        for n in range(300)
    }
    plagiarism.find_pairs(handed_in)
    assert len(read) == 300 * 8
    size = {code: len(plagiarism.fragments(code)) for code in {*common, *rare}}
    written = sum(size[code] for own in handed_in.values() for code in own.values())
    assert 0 < len(looked) <= written * (plagiarism.common_from(300) - 1) / 2


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "-" * 5000 + "1",
        "x = " + "(" * 300 + ")" * 300,
        "x = " + "+".join(["1"] * 3000),
        "".join(f"x = a.b{n}(c.d{n}, e.f{n}) + g\n" for n in range(5000)),
        "if x:\n" + "".join(" " * n + "if x:\n" for n in range(1, 150)),
        "x = '\x00'",
        "x = '\\d' is 1",
        "\ud800",
    ],
)
def test_odd_code_is_read_or_left_out(code):
    assert len(plagiarism.fragments(code)) < 20_000


def test_the_answers_are_the_code_of_solution_cells():
    def cell(kind, grade_id, source="x = 1", **marks):
        nbgrader = {"grade_id": grade_id, "solution": False, "grade": False, **marks}
        return {"cell_type": kind, "source": source, "metadata": {"nbgrader": nbgrader}}

    cells = [
        cell("code", "softmax_answer", solution=True),
        cell("code", "softmax", grade=True),
        cell("markdown", "explain", solution=True, grade=True),
        cell("code", "listed_answer", source=["x\n", "y"], solution=True),
        {"cell_type": "code", "source": "mine", "metadata": {}},
    ]
    assert plagiarism.answers_in({"cells": cells}) == {"softmax": "x = 1", "listed": "x\ny"}
    assert plagiarism.answers_in({}) == {}
