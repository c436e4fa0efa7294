"""`autograder verify --mutants`: the faults that it makes, and the truth of its figures."""

import ast
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from exercise_bank import SAMPLE, examination
from typer.testing import CliRunner

from autograder import exercises
from autograder.cage.probes import NONE
from autograder.checking.examination import Examination
from autograder.cli import app
from autograder.proof.mutation import pages, trials
from autograder.proof.mutation.operators import Mutant, edited, edits, mutants_of, sample
from autograder.proof.mutation.trials import Tried, equivalent, figures, grade, grade_one
from autograder.proof.mutation.truth import near
from autograder.student import PUBLIC_SEED

ROOT = Path(__file__).parents[2]
SOFTMAX = "ch02_qkv/softmax"
RIGHT = """def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""


def mutants_in(body: str, head: str = "def f(a, b=2):") -> dict[str, set[str]]:
    """The mutants of a function by their kinds, without the head where it is the same."""
    source = head + "\n" + "\n".join(f"    {line}" for line in body.splitlines())
    tree, found = ast.parse(source), {}
    for edit in edits(tree, {}):
        if (after := edited(tree, edit)) is not None:
            lines = after.removeprefix(f"{head}\n").splitlines()
            text = "\n".join(line.removeprefix("    ") for line in lines)
            found.setdefault(edit[0], set()).add(text)
    assert all(source not in own for own in found.values())
    return found


@pytest.mark.parametrize(
    ("body", "kind", "made"),
    [
        ("return a + b", "operator", "return a - b"),
        ("return a / b", "operator", "return a * b"),
        ("a += b", "operator", "a -= b"),
        ("return a and b", "operator", "return a or b"),
        ("return a < b", "comparison", "return a <= b"),
        ("return a < b", "comparison", "return a > b"),
        ("return a is b", "comparison", "return a is not b"),
        ("return a.max(-1)", "function", "return a.min(-1)"),
        ("return np.triu(a)", "function", "return np.tril(a)"),
        ("return np.zeros(3)", "function", "return np.empty(3)"),
        ("return sum(a)", "function", "return mean(a)"),
        ("return a.sum(-1)", "axis", "return a.sum(-2)"),
        ("return a.sum(0)", "axis", "return a.sum(1)"),
        ("return a.sum(1)", "sign", "return a.sum(-1)"),
        ("return a.sum(-1)", "sign", "return a.sum(1)"),
        ("return a + 1e-05", "constant", "return a + 0.0"),
        ("return a + 1e-05", "constant", "return a + 2e-05"),
        ("return a * 7", "constant", "return a * 14"),
        ("return a.fill(True)", "constant", "return a.fill(False)"),
        ("return float('-inf')", "constant", "return float('inf')"),
        ("return einsum('ij,jk->ik', a)", "constant", "return einsum('ij,jk->ki', a)"),
        ("return a[b]", "index", "return a[b + 1]"),
        ("return a[:b]", "slice", "return a[:b - 1]"),
        ("return a[:b]", "slice", "return a[1:b]"),
        ("return a[b:]", "slice", "return a[b:-1]"),
        ("return a[b:]", "slice", "return a[:]"),
        ("return range(a)", "range", "return range(a - 1)"),
        ("return range(a)", "range", "return range(1, a)"),
        ("return a + a", "name", "return a + b"),
        ("c = a\nreturn c", "name", "c = a\nreturn b"),
        ("return lambda c: c", "name", "return lambda c: a"),
        ("return a + b * 3", "term", "return a + b"),
        ("return a + b * 3", "term", "return b * 3"),
        ("a += b", "term", "a = b"),
        ("a = a + b", "in place", "a += b"),
        ("return a - b", "order", "return b - a"),
        ("return f(a, b)", "order", "return f(b, a)"),
        ("return (a, b)", "order", "return (b, a)"),
        ("a = b\nreturn a", "line", "return a"),
        ("if a:\n    b = 1\nreturn b", "line", "return b"),
        ("a = b\nb = a\nreturn a", "order of lines", "b = a\na = b\nreturn a"),
        ("return a.to(b)", "cast", "return a"),
        ("return np.asarray(a)", "cast", "return a"),
        ("return a.clone()", "cast", "return a"),
        ("return np.exp(a)", "call", "return a"),
        ("return a.T", "call", "return a"),
        ("if a:\n    b = 1\nreturn b", "condition", "b = 1\nreturn b"),
        ("return a if b else -a", "condition", "return a"),
        ("return a and b", "condition", "return b"),
        ("return [c for c in a if c]", "condition", "return [c for c in a]"),
        ("return not a", "sign", "return a"),
        ("return a.sum(keepdims=True)", "keepdim", "return a.sum()"),
        ("return torch.ones(2, device=a)", "device", "return torch.ones(2)"),
        ("return torch.ones(2, device=a)", "device", "return torch.ones(2, device='cpu')"),
        ("return torch.ones(2, dtype=a)", "dtype", "return torch.ones(2, dtype=torch.float32)"),
        ("return a.sum(axis=b)", "argument", "return a.sum()"),
    ],
)
def test_each_kind_of_fault_is_made(body, kind, made):
    found = mutants_in(body)
    assert made in found[kind], found.get(kind)


def test_a_default_is_changed():
    assert "def f(a, b=3):\nreturn a" in mutants_in("return a")["axis"]
    assert "def f(a, b=False):\nreturn a" in mutants_in("return a", "def f(a, b=True):")["constant"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return 'text'", "constant"),
        ("raise ValueError(f'{a} is not {b + 1}')", "operator"),
        ("c: tuple[a, 3] = b\nreturn c", "order"),
        ("return zip(a, b, strict=True)", "argument"),
        ("return zip(a, b, strict=True)", "constant"),
        ("return max(a, b)", "order"),
        ("return a.swapaxes(1, 2)", "order"),
        ("return a", "line"),
        ("c = a + 1\nd = b + 1\nreturn c + d", "order of lines"),
        ("if a:\n    raise ValueError\nc = b\nreturn c", "order of lines"),
        ("c = a\nc = c + b\nreturn c", "in place"),
    ],
)
def test_what_says_nothing_about_the_answer_is_left_alone(body, kind):
    assert kind not in mutants_in(body)


def test_attributes_of_a_class_are_exchanged_for_each_other():
    head = "class A:\n\n    def __init__(self, a):"
    found = mutants_in("    self.b, self.c, d = (a, 1, 2)\n    self.e = self.b", head)["name"]
    assert "    self.b, self.c, d = (a, 1, 2)\n    self.e = self.c" in found
    assert "    self.b, self.c, d = (a, 1, 2)\n    self.e = d" not in found
    assert "    self.b, self.c, d = (d, 1, 2)\n    self.e = self.b" in found


def test_layers_that_draw_their_weights_have_an_order():
    swapped = "b = nn.Linear(1, 2)\na = nn.Linear(3, 4)"
    assert swapped in mutants_in("a = nn.Linear(3, 4)\nb = nn.Linear(1, 2)")["order of lines"]


def flat(source: str) -> str:
    return " ; ".join(map(str.strip, source.splitlines()))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_mutants_are_single_and_different(name):
    """Each changes its style in one place only, and no two of them are the same text."""
    exercise = exercises.find(name)
    made = list(islice(mutants_of(exercise, 3), 400))
    assert len({mutant.source for mutant in made}) == len(made) > 100
    assert len({mutant.kind for mutant in made}) > 10
    styles = {
        style.name: ast.unparse(ast.parse(style.source(exercise.function_name))) for style in exercise.styles
    }
    for mutant in made[:200]:
        before, after = re.sub(r"^\d+: ", "", mutant.change).split(" -> ", 1)
        flat, changed = (
            " ; ".join(map(str.strip, t.splitlines())) for t in (styles[mutant.style], mutant.source)
        )
        assert before in flat
        assert after in changed
        assert mutant.source not in styles.values()


@pytest.mark.slow
def test_the_seed_draws_the_sample():
    names = [SOFTMAX, "ch08_kv_cache/KVCache", "ch06_blocks/rms_norm"]
    drawn = sample(names, 60, 4)
    assert drawn == sample(names, 60, 4)
    assert drawn[:21] == sample(names, 21, 4)
    assert drawn != sample(names, 60, 5)
    assert [sum(mutant.exercise == name for mutant in drawn) for name in names] == [20, 20, 20]


@pytest.mark.slow
def test_a_change_of_one_style_leaves_the_mutants_of_others():
    exercise = exercises.find("ch06_blocks/rms_norm")
    fewer = replace(exercise, styles=exercise.styles[1:])
    kept = [m for m in mutants_of(exercise, 4) if m.style != exercise.styles[0].name and m.kind == "name"]
    assert kept == [m for m in mutants_of(fewer, 4) if m.kind == "name"]


@pytest.mark.slow
def test_a_mutant_has_what_a_student_has():
    mutant = next(mutants_of(exercises.find("ch11_capstone/TinyGPT"), 1))
    names = mutant.function().__init__.__globals__
    assert {"torch", "nn", "Block"} <= names.keys()
    assert not {"EXERCISE", "Case", "tfcore", "lesson", "facts"} & names.keys()


def planted(source: str, change: str = "right -> planted") -> Mutant:
    return Mutant(SOFTMAX, "textbook", "planted", change, source)


def tried(source: str) -> Tried:
    return grade_one(examination(SOFTMAX, PUBLIC_SEED), planted(source), seconds=4)


def run(monkeypatch, made: list[Tried], *args: str):
    monkeypatch.setattr(trials, "try_mutants", lambda *given: made)
    return CliRunner().invoke(app, ["verify", "--mutants", str(len(made)), *args])


@pytest.mark.slow
def test_a_mutant_that_is_wrongly_accepted_fails_the_run(monkeypatch):
    accepted = tried(RIGHT)
    assert accepted.accepted
    done = run(monkeypatch, [accepted])
    assert done.exit_code == 1
    assert "accepted: ch02_qkv/softmax, textbook: right -> planted" in done.stdout
    monkeypatch.setattr(trials, "equivalent", lambda: {accepted.mutant.key: "it is the style itself"})
    assert run(monkeypatch, [accepted]).exit_code == 0


def test_a_grader_that_fails_is_no_rejection(monkeypatch):
    def fail(*args, **kwargs):
        raise KeyError("layers")

    monkeypatch.setattr(Examination, "report_on", fail)
    failed = tried(RIGHT)
    assert "KeyError: 'layers'" in failed.grader_failed
    done = run(monkeypatch, [failed], "--json")
    assert done.exit_code == 1
    (shown,) = json.loads(done.stdout)["concerns"]
    assert shown["concern"] == "the grader failed"


@pytest.mark.slow
def test_a_false_diagnosis_is_counted(monkeypatch):
    """Each mistake of the bank, as a mutant, is truly named by its own name, and falsely by any other."""
    exercise, own = exercises.find(SOFTMAX), Examination.report_on
    mistakes = [m.name for m in exercise.misconceptions]
    for place, mistake in enumerate(exercise.misconceptions):
        for name in (mistake.name, mistakes[place - 1], f"{mistake.name} or {mistakes[place - 1]}"):

            def named(self, candidate, shrinking, name=name):
                report = own(self, candidate, shrinking)
                criteria = [
                    replace(c, failure=c.failure and replace(c.failure, misconception=name))
                    for c in report.criteria
                ]
                return replace(report, criteria=tuple(criteria))

            monkeypatch.setattr(Examination, "report_on", named)
            one = tried(mistake.source("softmax"))
            assert one.named == tuple(name.split(" or "))
            assert list(one.unlike) == [other for other in one.named if other != mistake.name], name
            counted = figures([one])
            assert (counted["named"], counted["truly_named"]) == (1, int(name == mistake.name))


@pytest.mark.slow
def test_a_mutant_cannot_end_or_hold_up_the_run(capfd):
    sources = [
        "def softmax(x, axis=-1):\n    while True:\n        x = x + 1\n",
        "def softmax(x, axis=-1):\n    import os\n    os.write(1, b'loud')\n    os._exit(3)\n",
        "def softmax(x, axis=-1):\n    return np.ones((10**6, 10**6)) + [0] * 10**12\n",
        "def softmax(x, axis=-1):\n    def again(n):\n        return again(n + 1) + 1\n    return again(0)\n",
        "softmax = missing\n",
        RIGHT,
    ]
    begun = time.process_time()
    done = grade(SOFTMAX, [planted(source) for source in sources], seed=6)
    assert [one.report.status for one in done] == [
        "stopped",
        "stopped",
        "examined",
        "examined",
        "missing",
        "examined",
    ]
    assert [one.accepted for one in done] == [False] * 5 + [True]
    assert not capfd.readouterr().out, "a program reads what this command prints"
    assert time.process_time() - begun < 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "bare"),
    [
        ("expected 0.25 at [0, 1], got -1.5e-07", True),
        ("expected 4620, got 0", True),
        ("expected True at [2], got False", True),
        ("`stats` (result 1 of 2): expected -inf at [0], got nan", True),
        ("in `weight`: expected 1 at [0], got 2", True),
        ("at step 3: result 2 of 2: expected 1 at [0], got 2", True),
        ("the gradient with respect to `x`: expected 0 at [0, 0], got 0.410798", True),
        ("expected shape (3, 1), got shape (1, 3)", False),
        ("expected 0.333333 at [0], got 0.333333313 (rounded to float32?)", False),
        ("your code raised ValueError: no (line 3: return x)", False),
        ("`x` was changed in place: it had 3 at [0], now 4", False),
        ("expected a ValueError to be raised here; your code returned 3", False),
    ],
)
def test_bare_is_a_difference_of_two_numbers(fault, bare):
    failed = tried(RIGHT.replace("np.exp(x", "np.exp(2 * x"))
    (first, *rest) = failed.report.criteria
    failure = replace(first.failure, fault=fault, broken=None, misconception=None)
    report = replace(failed.report, criteria=(replace(first, failure=failure), *rest))
    one = Tried(failed.mutant, report)
    assert one.bare is bare
    assert figures([one])["with_a_cause"] == (not bare)
    assert not Tried(failed.mutant, report, named=("mean_subtracted",)).bare


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1.0, 1.0 + 1e-7, True),
        (1.0, 1.1, False),
        (100.0, 100.00001, True),
        (np.nan, np.nan, True),
        (np.inf, np.inf, True),
        (1.0, np.inf, False),
        (np.inf, -np.inf, False),
        (np.zeros(3), np.zeros((3, 1)), False),
        ([1, 2], (1, 2), True),
        ([1, 2], [1, 2, 3], False),
        ({"a": 1}, {"b": 1}, False),
        (None, None, True),
        (None, 0.0, False),
        ("a", "a", True),
        (np.zeros(2), torch.zeros(2), False),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64), False),
        (torch.zeros(2), torch.zeros(2, device="meta"), False),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16), True),
    ],
)
def test_outcomes_that_are_the_same(one, other, same):
    assert near(one, other, 1e-6) is same
    assert near([{"k": one}], [{"k": other}], 1e-6) is same


def test_no_gradient_is_a_gradient_of_zeros():
    assert near({"x": NONE}, {"x": torch.zeros(2)}, 1e-6)
    assert not near({"x": NONE}, {"x": torch.ones(2)}, 1e-6)
    assert near({"x": NONE}, {"x": NONE}, 1e-6)


@pytest.mark.slow
def test_every_row_of_the_reviewed_list_can_still_be_made():
    assert equivalent(), "the list is read"
    for (name, style, change), reason in equivalent().items():
        exercise = exercises.find(name)
        (source,) = (s.source(exercise.function_name) for s in exercise.styles if s.name == style)
        before, after = re.sub(r"^\d+: ", "", change).split(" -> ", 1)
        assert f" ; {before} ; " in f" ; {flat(ast.unparse(ast.parse(source)))} ; ", (name, style, change)
        assert after != before
        assert re.fullmatch(r"[A-Z`].*\.", reason), reason


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--mutants", "0"], "--mutants"),
        (["--mutants", "many"], "--mutants"),
        (["ch02_qvk", "--mutants", "5"], "assignment is called 'ch02_qvk'. The names are: ch01"),
        (["ch02_qkv/max", "--mutants", "5"], "'ch02_qkv/max'. The names are: ch02_qkv/softmax"),
        (["ch02_qvk"], "assignment is called 'ch02_qvk'. The names are: ch01"),
        (["ch02_qkv/softmax", "--page", "matrix.md"], "--page needs whole assignments"),
    ],
)
def test_what_cannot_be_used_is_refused(given, said):
    done = CliRunner().invoke(app, ["verify", *given, "--course", str(ROOT)])
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


def test_the_page_of_the_book_has_its_form():
    committed = (ROOT / "book" / "mutants.md").read_text("utf8")
    number, seed = re.search(
        r"`autograder verify --mutants (\d+) --seed (\d+) --page book/mutants.md`", committed
    ).groups()
    figures = {name: dict(not_listed=0) for name in [*exercises.assignments(), "all"]}
    columns = pages.GRADED, pages.EXPLAINED
    rows = [row for row in committed.splitlines() if re.match(r"\| (\[|\*\*)", row)]
    halves = rows[: len(figures)], rows[len(figures) :]
    for keys, half in zip(columns, halves, strict=True):
        for counts, row in zip(figures.values(), half, strict=True):
            cells = [int(cell.replace(",", "")) for cell in re.findall(r" ([\d,]+) (?=\|)", row)]
            counts.update(zip(keys, cells, strict=True))
    assert committed == pages.page(figures, int(number), int(seed))
    *parts, whole = figures.values()
    assert whole == {key: sum(part[key] for part in parts) for key in whole}
    assert whole["mutants"] == whole["rejected"] + whole["accepted"]
    assert whole["rejected"] == sum(whole[key] for key in ("named", "with_a_cause", "bare"))


@pytest.mark.slow
def test_a_sample_of_mutants_is_rejected_and_truly_named():
    """Slow: it grades a few mutants of each exercise. The figures of 5,000 are in the book."""
    command = [sys.executable, "-m", "autograder.cli", "verify", "--mutants", "156", "--seed", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    report = json.loads(done.stdout)
    unlisted = [(one["exercise"], one["style"], one["change"]) for one in report["concerns"]]
    assert done.returncode == 0, unlisted
    counted = report["figures"]["all"]
    assert counted["mutants"] == 156
    assert counted["not_listed"] == 0
    assert counted["named"] - counted["truly_named"] <= 0.02 * counted["named"], unlisted
    assert counted["with_a_cause"] >= 0.8 * (counted["with_a_cause"] + counted["bare"])
    assert set(report["figures"]) == {*exercises.assignments(), "all"}
