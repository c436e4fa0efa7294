"""Strangers' code meets the grader: what is right scores, what is not is told why, and nothing spreads."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from small_course import LIMITS, RIGHT, SEED, is_running

from autograder.checking.candidate import local
from autograder.grading import cages, judge, pair
from autograder.grading.executors import grade_all
from autograder.grading.pair import file_task
from autograder.grading.session import Limits


def one(verdict):
    assert verdict.status == "graded", verdict.note
    (cell,) = verdict.cells
    return cell.report


def test_a_right_answer_has_full_marks(grade_file):
    report = one(grade_file(RIGHT))
    assert report.passed
    assert report.score == report.max_score == 3


def test_a_mistake_is_named_and_costs_only_what_it_breaks(grade_file):
    report = one(grade_file(RIGHT.replace("x - x.max(axis=axis, keepdims=True)", "x")))
    assert report.diagnosis == "no_maximum"
    assert 0 < report.score < report.max_score


@pytest.mark.slow
def test_the_judge_hears_which_mistakes_were_made_before(monkeypatch):
    """So it computes what many failed reports need but once."""
    told, ask = [], pair._Process.ask

    def heard(self, tag, passed, order, seconds):
        told.extend([order["failed_before"]] if tag == b"G" else [])
        return ask(self, tag, passed, order, seconds)

    monkeypatch.setattr(pair._Process, "ask", heard)
    wrong = RIGHT.replace("x - x.max(axis=axis, keepdims=True)", "x")
    with pair.Pair(cages.strongest().tier) as both:
        tasks = [
            file_task("ch02_qkv/softmax", source.encode(), False, SEED, LIMITS)
            for source in (wrong, wrong, RIGHT, RIGHT)
        ]
        first, again, *_ = [both.grade(task) for task in tasks]
    assert [[mistake for _, mistake, _ in made] for made in told] == [[], ["no_maximum"], ["no_maximum"], []]
    assert first.cells == again.cells


def returning(expression, imports=""):
    return f"{imports}\ndef softmax(x, axis=-1):\n    return {expression}\n"


FORBIDDEN = {
    "in plain sight": returning("torch.softmax(torch.tensor(x), axis).numpy()", "import torch"),
    "the import itself": "from scipy.special import softmax",
    "by getattr": returning("getattr(torch, 'soft' + 'max')(torch.tensor(x), axis)", "import torch"),
    "by importlib": returning(
        "getattr(importlib.import_module('scipy.special'), 'soft' + 'max')(x, axis)", "import importlib"
    ),
    "as a method": returning("torch.tensor(x).softmax(axis).numpy()", "import torch"),
    "as a module": returning("nn.Softmax(axis)(tensor(x)).numpy()", "from torch import nn, tensor"),
    "our reference": "from tfcore.ops import softmax",
}


@pytest.mark.parametrize("source", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_the_library_call_that_is_the_exercise_is_told_as_such(grade_file, source):
    report = one(grade_file(source))
    assert report.status == "forbidden"
    assert report.forbidden
    assert report.score == 0


STOPPED = {
    "an endless loop": ("def softmax(x, axis=-1):\n    while True: pass", "in time"),
    "a process that ends": ("import os\ndef softmax(x, axis=-1):\n    os._exit(0)", "process ended"),
    "a crash": ("import ctypes\ndef softmax(x, axis=-1):\n    ctypes.string_at(1)", "process ended"),
    "a busy loop that swallows interrupts": (
        "def softmax(x, axis=-1):\n    while True:\n        try:\n            while True:\n"
        "                n = sum(range(999))\n        except BaseException:\n            n = 0",
        "did not stop at the limit",
    ),
    "a sleeper that swallows interrupts": (
        "import time\ndef softmax(x, axis=-1):\n    while True:\n        try:\n            time.sleep(60)\n"
        "        except BaseException:\n            time.sleep(1)",
        "did not stop at the limit",
    ),
}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        pytest.param(*row, id=name, marks=pytest.mark.slow if "swallows" in name else ())
        for name, row in STOPPED.items()
    ],
)
def test_what_does_not_come_back_is_ended_and_told(grade_file, source, told):
    report = one(grade_file(source))
    assert report.status == "stopped"
    assert told in report.note
    assert report.score == 0


def test_memory_is_limited_and_the_limit_told(grade_file):
    report = one(grade_file("import numpy as np\ndef softmax(x, axis=-1):\n    return np.ones(10**10)"))
    assert "MemoryError" in report.message


@pytest.mark.parametrize(
    "returned",
    [
        "None",
        "'text'",
        "object()",
        "[x]",
        "lambda: 0",
        "x.astype(object)",
        pytest.param("np.zeros(10**7 + 1)", marks=pytest.mark.slow),
        "nested()",
        "x * np.nan",
    ],
)
def test_any_returned_value_is_only_wrong(grade_file, returned):
    source = f"""
import numpy as np
def nested():
    value = []
    for _ in range(5000): value = [value]
    return value
def softmax(x, axis=-1):
    return {returned}
"""
    report = one(grade_file(source))
    assert report.status == "examined"
    assert report.score == 0
    assert "values differ" not in report.message


def test_an_object_that_equals_everything_earns_nothing(grade_file):
    source = """
class Yes:
    shape = ()
    def __eq__(self, other): return True
    def __array__(self, *args, **kwargs): return self
    def __getattr__(self, name): return lambda *a, **k: self
def softmax(x, axis=-1): return Yes()
"""
    assert one(grade_file(source)).score == 0


def test_a_patched_library_changes_no_score(grade_file):
    source = """
import numpy as np, torch, builtins
for name in ("allclose", "isclose", "array_equal", "isnan", "abs"):
    setattr(np, name, lambda *a, **k: True)
torch.allclose = lambda *a, **k: True
builtins.abs = lambda x: 0
def softmax(x, axis=-1): return np.zeros(x.shape)
"""
    assert one(grade_file(source)).score == 0


def test_the_child_holds_no_exercise_and_no_secret(grade_file):
    """Walks what the child's modules hold and prints what speaks of the grader; nothing may be found."""
    source = textwrap.dedent("""
        import os, sys
        tasks = ("tfcore.data", "tfcore.data.")  # to train on, open to all
        ours = [m for m in sys.modules if m.startswith(("tfcore.", "autograder."))]
        found = [m for m in ours if not m.startswith(tasks)]
        words = ("misconception", "no_maximum", "1729", "gradebook")
        todo, done = [vars(m) for m in list(sys.modules.values()) if hasattr(m, "__dict__")], set()
        while todo:
            names = todo.pop()
            if id(names) not in done:
                done.add(id(names))
                found += [k for k in list(names) if isinstance(k, str) and k in words[:2]]
                values = [v for v in list(names.values()) if isinstance(v, (dict, type, type(os.walk)))]
                todo += [v if isinstance(v, dict) else vars(v) for v in values]
        assert len(done) > 10_000, len(done)
        found += [f"{k}={v}" for k, v in os.environ.items() if any(w in v for w in words)]
        if found:
            raise RuntimeError(str(found))
    """)
    assert one(grade_file(source + RIGHT)).passed


def test_nothing_passes_from_one_submission_to_the_next(grade_file):
    leave = "import builtins, numpy, os\nbuiltins.mark = numpy.mark = 1\nopen('mark', 'w').write('1')\n"
    find = "import builtins, numpy, os\nassert not hasattr(builtins, 'mark') and not hasattr(numpy, 'mark')\n"
    find += "assert not os.listdir('.')\n"
    assert one(grade_file(leave + RIGHT)).passed
    assert one(grade_file(find + RIGHT)).passed


@pytest.mark.slow
def test_many_are_graded_at_once_and_each_has_its_own_verdict(pair):
    limits = Limits()
    sources = {"right": RIGHT, "wrong": RIGHT.replace("return e /", "return 2 * e /")}
    tasks = [
        (f"{name}{i}", file_task("ch02_qkv/softmax", source.encode(), False, i, limits))
        for i in range(3)
        for name, source in sources.items()
    ]
    got = dict(grade_all(tasks, pair.tier, "processes", workers=2))
    assert set(got) == {key for key, _ in tasks}
    assert all(one(verdict).passed == key.startswith("right") for key, verdict in got.items())


@pytest.mark.slow
def test_a_judge_that_is_killed_is_started_again(pair, grade_file):
    assert one(grade_file(RIGHT)).passed
    pair._judge._process.kill()
    pair._judge._process.wait()
    assert one(grade_file(RIGHT)).passed


@pytest.mark.slow
@pytest.mark.parametrize("which", ["_zygote", "_judge"])
def test_who_is_killed_while_it_starts_is_started_again(monkeypatch, which):
    wait, killed = pair._Process.wait_until_ready, []

    def killing(self):
        if self is getattr(both, which) and not killed:
            killed.append(self._process.pid)
            self._process.kill()
        return wait(self)

    monkeypatch.setattr(pair._Process, "wait_until_ready", killing)
    with pair.Pair(cages.strongest().tier) as both:
        assert one(both.grade(file_task("ch02_qkv/softmax", RIGHT.encode(), False, SEED, LIMITS))).passed
    assert killed


@pytest.mark.slow
def test_who_is_killed_while_it_starts_is_not_waited_for_though_a_child_of_its_lives(monkeypatch):
    """As bubblewrap's child does, which waits for the killed one to go on."""
    wrap, wait, killed = cages.bubblewrap, pair._Process.wait_until_ready, []

    def wrapped(tier, folder):
        return wrap(tier, folder) if killed else ["sh", "-c", "sleep 1000 & sleep 1000"]

    def killing(self):
        if not killed:
            killed.append(self._process.pid)
            time.sleep(0.5)
            self._process.kill()
        return wait(self)

    monkeypatch.setattr(pair._Process, "wait_until_ready", killing)
    tier = cages.strongest().tier
    monkeypatch.setattr(cages, "bubblewrap", wrapped)
    task = file_task("ch02_qkv/softmax", RIGHT.encode(), False, SEED, LIMITS)
    with pair.Pair(tier) as both, ThreadPoolExecutor(1) as pool:
        assert one(pool.submit(both.grade, task).result(timeout=60)).passed
    assert killed


@pytest.mark.slow
@pytest.mark.parametrize("when", ["starting", "grading"])
def test_a_pair_that_is_closed_lets_go_of_who_waits_for_it(monkeypatch, when):
    """As where one of several pairs has failed: the others end at once, and start nothing more."""
    reached, wait, ask = threading.Event(), pair._Process.wait_until_ready, pair._Process.ask

    def starting(self):
        if when == "starting":
            reached.set()
        return wait(self)

    def grading(self, tag, *rest):
        if tag == b"G":
            reached.set()
        return ask(self, tag, *rest)

    monkeypatch.setattr(pair._Process, "wait_until_ready", starting)
    monkeypatch.setattr(pair._Process, "ask", grading)
    both = pair.Pair(cages.strongest().tier)
    endless = file_task("ch02_qkv/softmax", b"while True: pass", False, SEED, Limits(cell_seconds=300))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(both.grade, endless)
        assert reached.wait(60)
        both.close()
        with pytest.raises(pair.PairError):
            waiting.result(timeout=30)
    assert (both._zygote, both._judge, both._folder) == (None, None, None)


def test_no_descriptor_is_kept_from_one_submission_to_the_next(pair, grade_file):
    grade_file(RIGHT)
    held = len(os.listdir(f"/proc/{pair._zygote._process.pid}/fd"))
    for _ in range(3):
        grade_file(RIGHT)
    assert len(os.listdir(f"/proc/{pair._zygote._process.pid}/fd")) == held


@pytest.mark.slow
def test_both_processes_end_and_leave_nothing_when_the_driver_is_killed(pair):
    driver = """
import os, sys
from small_course import LIMITS, RIGHT
from autograder.grading.pair import Pair, file_task
pair = Pair(sys.argv[1])
pair.grade(file_task("softmax", RIGHT.encode(), False, 1, LIMITS))
print(pair._zygote._process.pid, pair._judge._process.pid, pair._folder, flush=True)
os.kill(os.getpid(), 9)
"""
    run = subprocess.run(
        [sys.executable, "-c", driver, pair.tier], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    *pids, folder = run.stdout.split()
    assert len(pids) == 2
    for _ in range(100):
        if not any(is_running(int(pid)) for pid in pids) and not Path(folder).exists():
            return
        time.sleep(0.1)
    raise AssertionError("a process or its folder is left behind")


@pytest.mark.slow
def test_a_submission_pays_for_no_import_but_its_own():
    """What judging needs, a fork of the judge finds there."""
    source = """
        import sys
        from autograder import exercises
        from autograder.checking.candidate import local
        from autograder.checking.examination import Examination
        from autograder.grading import judge

        judge.warm_up()
        judge._prepare("ch02_qkv", 1, False)
        before = set(sys.modules)
        assert "torch" not in before
        for exercise in exercises.of_assignment("ch02_qkv"):
            for mistake in exercise.misconceptions[:2]:
                assert not Examination(exercise, 1).report_on(local(mistake.function)).passed
        print(*sorted(set(sys.modules) - before))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=True
    )
    assert not done.stdout.split()


@pytest.mark.slow
def test_a_judge_imports_torch_where_it_is_used():
    """Most of its start and of its memory, for nothing in the first chapters."""
    with pair.Pair(cages.strongest().tier) as fresh:

        def has_torch(source):
            one(fresh.grade(file_task("ch02_qkv/softmax", source.encode(), False, SEED, LIMITS)))
            return "libtorch" in Path(f"/proc/{fresh._judge._process.pid}/maps").read_text()

        assert not has_torch(RIGHT)
        assert has_torch(f"import torch\n{RIGHT}")


def test_right_results_are_computed_before_the_forks(monkeypatch):
    judge._prepare("ch02_qkv/softmax", SEED, torch=False)
    examination = judge.examination("ch02_qkv/softmax", SEED)
    monkeypatch.setattr(examination.oracle, "observed", lambda *args: pytest.fail("computed in a fork"))
    assert examination.report_on(local(examination.exercise.reference)).passed


def test_what_many_failed_reports_need_is_computed_once():
    failed, seed = Counter(), SEED + 1
    oracle = judge.examination("ch02_qkv/softmax", seed).oracle
    made = [("ch02_qkv/softmax", "no_maximum", oracle.drawn[1][0].says)]
    for _ in range(judge.FREQUENT - 1):
        judge._learn(made, seed, failed)
    assert not oracle._mistaken
    judge._learn(made, seed, failed)
    assert {name for name, *_ in oracle._mistaken} == {m.name for m in oracle.exercise.misconceptions}
