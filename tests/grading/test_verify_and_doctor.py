"""`autograder verify` proves the grader; `autograder doctor` says what the machine gives."""

import ast
import json
import os
import re
import subprocess
import sys
import time

import psutil
import pytest
from scratch import ASSIGNMENT, ROOT, command, in_process, tree

from autograder import exercises
from autograder.checking.declaration import Answer
from autograder.grading import cages
from autograder.proof import kill_matrix, verify
from autograder.proof.verify import Entry, Notebook, Proof, checked, entries, try_notebooks

KEYS = [
    "exercises",
    "misconceptions",
    "rejected",
    "diagnosed",
    "styles",
    "accepted",
    "solution_score",
    "max_score",
    "blank_score",
    "matrix",
]


WHOLE = bool(os.environ.get("WHOLE"))
"""`make test-all` verifies all exercises and grades all answers in the cage. `make test` verifies those that
changed lately and a third of the others, drawn by the commit, and grades a few answers of each there."""

CAGED = 3
"""The number of mistakes, and of right answers, of an exercise that `make test` grades in the cage."""

PAGE = ROOT / "book" / "kill_matrix.md"


@pytest.mark.slow
def test_verify_holds(course, tmp_path):
    before, page = tree(course), tmp_path / "kill_matrix.md"
    chosen = {*changed_lately(), *a_third()}
    names = [name for name in exercises.names() if WHOLE or name in chosen]
    how = ["--page", page] if WHOLE else ["--caged", CAGED, *names]
    done = command("verify", "--json", *how, cwd=course, timeout=2400)
    assert tree(course) == before
    told = json.loads(done.stdout)
    answers = [answer for table in told["matrix"] for answer in table["answers"]]
    named = [answer["named"][0] == answer["name"] or not answer["is_misconception"] for answer in answers]
    astray = [
        a
        for a, right in zip(answers, named, strict=True)
        if not (right and a["as_expected"] and a["weighed"])
    ]
    assert not astray, json.dumps(astray, indent=1)
    assert done.returncode == 0, {key: told[key] for key in KEYS if key != "matrix"}
    assert list(told) == KEYS
    assert told["exercises"] == len(names)
    assert told["rejected"] == told["misconceptions"] >= 5 * told["exercises"]
    assert told["accepted"] == told["styles"] >= 3 * told["exercises"]
    assert told["diagnosed"] >= 0.95 * told["misconceptions"]
    assert told["solution_score"] == told["max_score"]
    assert (told["max_score"] > 0) is WHOLE, "the notebooks of whole assignments are graded too"
    assert told["blank_score"] == 0
    assert [table["exercise"] for table in told["matrix"]] == names
    for table in told["matrix"]:
        in_the_cage = [answer["is_misconception"] for answer in table["answers"] if len(answer["named"]) == 2]
        assert {*in_the_cage} == {True, False}, table["exercise"]
        assert len(in_the_cage) == (len(table["answers"]) if WHOLE else 2 * CAGED), table["exercise"]
        for answer in table["answers"]:
            assert len(answer["fails"]) == len(table["criteria"])
            assert any(answer["fails"]) is answer["is_misconception"], answer["name"]
    assert {
        (table["exercise"], answer["name"]): tuple(answer["fails"])
        for table in told["matrix"]
        for answer in table["answers"]
        if answer["is_misconception"]
    }.items() <= on_the_page().items(), "out of step: autograder verify --page book/kill_matrix.md"
    if WHOLE:
        assert page.read_text("utf8") == PAGE.read_text("utf8")


def a_third() -> list[str]:
    """Return every third exercise. The commit draws the first."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    return list(exercises.names())[int(head.strip() or "0", 16) % 3 :: 3]


def on_the_page() -> dict[tuple[str, str], tuple[bool, ...]]:
    """Return for each mistake, as (exercise, name), which criteria reject it by the page of the book."""
    found = {}
    section = r"^\(mistakes-(\w+)\)=\n(.*?)(?=^\(mistakes-|\Z)"
    table = r"^:::\{dropdown\} `(\w+)`(.*?)^:::$"
    row = rf"^\| `(\w+)` .*?((?: \| [ {kill_matrix.FAILS}])+) \|$"
    for assignment, tables in re.findall(section, PAGE.read_text("utf8"), re.M | re.S):
        for exercise, rows in re.findall(table, tables, re.M | re.S):
            for name, marks in re.findall(row, rows, re.M):
                fails = tuple(mark == kill_matrix.FAILS for mark in marks.split(" | ")[1:])
                found[f"{assignment}/{exercise}", name] = fails
    return found


def test_the_page_has_the_words_of_the_bank():
    """The marks in its tables are taken as they are: `test_verify_holds` computes those."""
    fails = on_the_page()
    told = [
        Entry(
            exercise.name,
            answer.name,
            is_misconception=(wrong := answer in exercise.misconceptions),
            as_expected=True,
            diagnosed=wrong,
            named=(answer.name if wrong else None,),
            says=answer.says,
            fails=fails.pop((exercise.name, answer.name), ()),
        )
        for exercise in map(exercises.find, exercises.names())
        for answer in exercise.answers
    ]
    assert not fails
    assert kill_matrix.page(Proof(told)) == PAGE.read_text("utf8"), (
        "out of step: autograder verify --page book/kill_matrix.md"
    )


def changed_lately() -> list[str]:
    """Return the exercises whose code changed in the last ten commits or since, or all without that history.

    Commits of merged branches count one by one. A commit that only improves sentences changes no bank.
    """
    folder = ROOT / "autograder" / "exercises"

    def git(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True)

    if git("rev-parse", "--verify", "--quiet", "HEAD~10").returncode:
        return list(exercises.names())
    listed = set()
    for what in (
        ["log", "-10", "--format=", "--name-only", "--relative"],
        ["diff", "HEAD", "--name-only", "--relative"],
        ["ls-files", "--others", "--exclude-standard"],
    ):
        listed |= set(git(*what, "--", ".").stdout.splitlines())
    now = {path: (folder / path).read_text("utf8") if (folder / path).exists() else "" for path in listed}
    return of_files(
        [path for path in listed if not same_code(git("show", f"HEAD~10:./{path}").stdout, now[path])]
    )


def same_code(before: str, after: str) -> bool:
    """Return whether two texts of a module differ in nothing but comments, spaces and sentences."""

    def sentence(value: object) -> bool:
        return isinstance(value, str) and (
            value.endswith(".") or (" " in value and "->" not in value and "=" not in value)
        )

    class Sentences(ast.NodeTransformer):
        def visit_Dict(self, node: ast.Dict) -> ast.Dict:
            return node  # the edits of a mistake

        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.Constant("") if sentence(node.value) else node

    first, second = (ast.dump(Sentences().visit(ast.parse(text))) for text in (before, after))
    return first == second


def of_files(changed: list[str]) -> list[str]:
    """Return the exercises that files of the bank declare; a file of an assignment counts for all of its own.

    Files that all assignments share are the grader's, as `make test-all` is for.
    """
    found = set()
    for path in filter(lambda path: "/" in path, changed):
        assignment, _, file = path.rpartition("/")
        declared = [name for name in exercises.names() if name.startswith(assignment)]
        own = [
            name for name in declared if re.match(rf"{name.rpartition('/')[2]}(_mistakes|_styles)?\.", file)
        ]
        found |= {*(own or declared)}
    return sorted(found, key=exercises.names().index)


def test_a_shared_file_changes_all_exercises_of_its_assignment():
    ch02 = [name for name in exercises.names() if name.startswith("ch02")]
    assert of_files(["ch02_qkv/softmax_mistakes.py"]) == of_files(["ch02_qkv/softmax.py"]) == [ch02[0]]
    assert of_files(["ch02_qkv/__init__.py"]) == ch02
    assert of_files(["__init__.py"]) == []
    assert of_files([]) == []


def test_other_sentences_are_no_other_bank():
    path = ROOT / "autograder" / "exercises" / "ch06_blocks" / "DecoderBlock_mistakes.py"
    text = path.read_text("utf8")
    hint = "cross_attention reads x a second time. Pass the memory as its second argument."
    assert same_code(text, text.replace(hint, "Let cross_attention read the memory.") + "# a comment\n")
    assert not same_code(text, text.replace('"mask=memory_mask"', '"mask=mask"'))
    assert not same_code(text, text.replace('"memory, self.norm_cross(x)"', '"memory, x"'))
    assert same_code('Criterion("one way: right", 1)', 'Criterion("one way: all are right", 1)')
    assert not same_code('Criterion("one way: right", 1)', 'Criterion("one way: right", 2)')
    assert same_code('f"there are {n} rows; two"', 'f"it has {n} rows; two"')
    assert not same_code('f"there are {n} rows"', 'f"there are {m} rows"')
    assert not same_code('rearrange(x, "b (h d) -> b h d")', 'rearrange(x, "b (d h) -> b h d")')
    assert not same_code("", text)


def test_the_sample_in_the_cage_is_drawn_by_the_seed():
    softmax = exercises.find("ch02_qkv/softmax")
    assert verify.drawn(softmax, None, 1) == [*softmax.misconceptions, *softmax.styles]
    drawn = {seed: verify.drawn(softmax, 2, seed) for seed in (1, 2)}
    assert drawn[1] == verify.drawn(softmax, 2, 1) != drawn[2]
    assert [answer in softmax.misconceptions for answer in drawn[1]] == [True, True, False, False]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process of its parent's end")
def test_the_page_keeps_what_was_not_tried():
    before = PAGE.read_text("utf8")
    assert kill_matrix.page(Proof([]), before) == before
    name = "ch03_scaling/softmax_jacobian"
    made = {"is_misconception": True, "as_expected": True, "diagnosed": True, "named": ("one",)}
    after = kill_matrix.page(Proof([Entry(name, "one", says="Do this.", fails=(True,), **made)]), before)
    assert "| [Chapter 3: the scaling proof](mistakes-ch03_scaling) | 1 of 1 | 1 | 0 of 0 |" in after
    assert ":::{dropdown} `softmax_jacobian`: 1 mistake\n" in after
    assert "Return the matrix of dp\\_i/dx\\_j for the softmax weights" in after
    assert "| `one` Do this. | ✗ |" in after
    of_others = re.compile(r"(?s)^\(mistakes-ch03.*?(?=^\(mistakes)|^\| (?:\*\*all|\[Chapter 3:).*?\n", re.M)
    assert of_others.sub("", after) == of_others.sub("", before)


@pytest.mark.slow
def test_nothing_of_a_killed_verify_lives_on(course):
    command = [sys.executable, "-m", "autograder.cli", "verify", ASSIGNMENT]
    started = subprocess.Popen(command, cwd=course, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = []
    while not any("spawn_main" in " ".join(child.cmdline()) for child in children):
        assert started.poll() is None
        children = psutil.Process(started.pid).children(recursive=True)
        time.sleep(0.05)
    started.kill()
    started.wait()
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert gone
    assert not alive


def with_bank(exercise, misconceptions=(), styles=()):
    """The exercise with another bank."""
    import dataclasses

    return dataclasses.replace(exercise, misconceptions=list(misconceptions), styles=list(styles))


def tried(exercise):
    """What becomes of its bank under two seeds."""
    return list(entries(exercise, checked(exercise, 1), checked(exercise, 2)))


@pytest.mark.slow
def test_a_right_answer_among_the_mistakes_is_caught():
    softmax = exercises.find("softmax")
    wrong = with_bank(softmax, misconceptions=[softmax.styles[0]])
    (entry,) = tried(wrong)
    assert not entry.as_expected
    assert not Proof([entry]).holds


@pytest.mark.slow
def test_a_mistake_among_the_styles_is_caught():
    softmax = exercises.find("softmax")
    (entry,) = tried(with_bank(softmax, styles=[softmax.misconceptions[0]]))
    assert not entry.as_expected
    assert not Proof([entry]).holds


@pytest.mark.slow
def test_two_mistakes_that_nothing_tells_apart_are_rejected_but_do_not_hold():
    softmax = exercises.find("softmax")
    first = softmax.misconceptions[0]
    twin = Answer("twin", "says otherwise", first.function)
    both = tried(with_bank(softmax, misconceptions=[first, twin]))
    assert [entry.as_expected for entry in both] == [True, True]
    assert not any(entry.diagnosed for entry in both)
    assert Proof(both).as_dict()["diagnosed"] == 0
    assert not Proof(both).holds
    assert Proof(tried(with_bank(softmax, misconceptions=[first]))).holds


@pytest.mark.parametrize(
    ("notebook", "holds"),
    [
        (Notebook("a", 17, 0, 17), True),
        (Notebook("a", 16, 0, 17), False),
        (Notebook("a", 17, 1, 17), False),
        (Notebook("a", 0, 0, 0), False),
        (Notebook("a", 17, 0, 17, "it was not graded"), False),
    ],
)
def test_notebooks_count(notebook, holds):
    entry = Entry("a/b", "c", True, True, True, ("c", "c"))
    assert Proof([entry], [notebook]).holds is holds


@pytest.mark.slow
def test_a_wrong_solution_ends_with_1(course, monkeypatch):
    """Though the whole bank is as it should be, which here is only said."""
    good = Entry(f"{ASSIGNMENT}/softmax", "exp", False, True, False, (None, None))
    monkeypatch.setattr(verify, "try_all", lambda *args: [good])
    path = course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "softmax_answer":
            cell["source"] = (
                "def softmax(x, axis=-1):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION"
            )
    path.write_text(json.dumps(notebook))
    done = in_process("verify", ASSIGNMENT, "--workers", 1, cwd=course)
    assert done.exit_code == 1
    assert re.search(r"✗ ch02_qkv: the solution has [\d.]+ of 17 points, the blank notebook 0", done.stdout)
    assert "Not everything is as expected." in done.stdout


@pytest.mark.slow
def test_a_mistake_that_is_not_named_comes_with_what_the_report_said():
    softmax = exercises.find("ch02_qkv/softmax")
    reports = verify.checked(softmax, 1)
    another = reports[1:] + reports[:1]
    first, *_ = verify.entries(softmax, reports, another)
    assert first.messages == ("", reports[1].message)
    assert reports[1].message


def test_a_missing_notebook_does_not_hold():
    (missing,) = try_notebooks({"ch03_scaling": []}, seed=1)
    assert missing.note == "it has no notebook"
    assert not missing.as_expected


@pytest.mark.slow
def test_doctor(course):
    done = in_process("doctor", "--json", cwd=course)
    told = json.loads(done.stdout)
    assert list(told) == ["ok", "tier", "findings"]
    findings = {finding["what"]: finding for finding in told["findings"]}
    assert {"Python", "packages", "disk", "gradebook", "browser", "isolation"} <= set(findings)
    assert told["tier"] == cages.strongest().tier
    assert findings["gradebook"]["says"].startswith("none yet")
    assert told["ok"] is (done.exit_code == 0) is True


@pytest.mark.slow
def test_doctor_says_plainly_that_there_are_no_walls_and_how_to_get_them(course, without_walls):
    done = in_process("doctor", cwd=course)
    said = " ".join(done.stdout.split())
    assert done.exit_code == 1
    assert "tier D: no sandbox: a submission can read and change every file that you can" in said
    assert "apt install libseccomp2" in said


@pytest.mark.slow
def test_doctor_tells_of_a_grader_that_does_not_start_behind_its_walls(course, monkeypatch):
    assert cages.strongest().tier in cages.SAFE
    monkeypatch.setattr(cages, "bubblewrap", lambda tier, folder: ["false"])
    done = in_process("doctor", "--json", cwd=course)
    assert done.exit_code == 1
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert findings["isolation"]["level"] == "ok"
    assert findings["grader"]["level"] == "problem"
    assert "the zygote did not start" in findings["grader"]["says"]


@pytest.mark.slow
def test_doctor_tells_of_a_course_that_cannot_be_written(course, monkeypatch):
    usual = os.access
    monkeypatch.setattr(os, "access", lambda path, how: (path, how) != (course, os.W_OK) and usual(path, how))
    done = in_process("doctor", cwd=course)
    assert done.exit_code == 1
    assert "cannot be written, so nothing can be graded" in " ".join(done.stdout.split())


def test_doctor_outside_a_course(tmp_path):
    done = in_process("doctor", cwd=tmp_path)
    assert done.exit_code == 1
    assert "no nbgrader_config.py here" in done.stdout


@pytest.mark.slow
def test_doctor_finds_a_spoilt_gradebook_and_missing_packages(course):
    (course / "gradebook.db").write_text("dear diary " * 500)
    (course / "requirements.txt").write_text(
        "numpy==0.0.1\nnosuchpackage==1.0 ; sys_platform != 'amiga'  # via toys\n"
        "another==1.0 ; sys_platform == 'amiga'  # via toys\n"
    )
    done = in_process("doctor", "--json", cwd=course)
    assert done.exit_code == 1
    findings = {(f["what"], f["level"]): f["says"] for f in json.loads(done.stdout)["findings"]}
    assert "cannot be opened" in findings["gradebook", "problem"]
    assert findings["packages missing", "problem"] == "nosuchpackage==1.0. Run: make setup"
    assert "tested: 0.0.1" in findings["packages", "note"]


@pytest.mark.slow
def test_help_has_examples():
    for name in ("release", "grade", "feedback", "report", "export", "verify", "doctor", "check"):
        done = in_process(name, "--help")
        assert done.exit_code == 0
        assert "Examples" in done.stdout
        assert f"$ autograder {name}" in done.stdout


@pytest.mark.slow
def test_light_start():
    """--help imports neither torch nor nbgrader."""
    import subprocess
    import sys

    code = "import autograder.cli, sys; print({'torch', 'nbgrader', 'matplotlib'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_a_command_imports_nbgrader_without_its_server_which_still_works():
    code = (
        "import sys; from autograder.course.without_servers import EXTENSIONS; import nbgrader.api\n"
        "print({*EXTENSIONS} & {*sys.modules}, 'jupyter_server' in sys.modules)\n"
        "from nbgrader.server_extensions.formgrader import load_jupyter_server_extension as load; print(load)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("set() False\n<function load_jupyter_server_extension at ")
