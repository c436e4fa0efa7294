"""What is handed on works in a clean folder by its requirements.txt, and gives nothing away."""

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from scratch import ASSIGNMENT, FEW, FULL, LIMITS, SEED, clean_python, hand_in, in_process, run

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading import cages
from autograder.grading.matching import MAX_BYTES
from autograder.grading.pair import Pair, notebook_task
from autograder.grading.rows import Row
from autograder.grading.verdict import Verdict
from autograder.packages import bundle_library, wheels
from autograder.platforms import bundles, gradescope
from autograder.proof.samples import make
from autograder.release import audit
from autograder.release.publish import notebooks
from autograder.reports import safe_html

pytestmark = pytest.mark.slow

VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
RESULTS = {
    "type": "object",
    "required": ["score", "tests"],
    "additionalProperties": False,
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "execution_time": {"type": "number"},
        "output": {"type": "string"},
        "output_format": FORMAT,
        "visibility": VISIBILITY,
        "stdout_visibility": VISIBILITY,
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "output"],
                "additionalProperties": False,
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "output": {"type": "string"},
                    "output_format": FORMAT,
                    "visibility": VISIBILITY,
                },
            },
        },
    },
}
"""What Gradescope's documentation says of results.json, as far as we use it."""


def shown(results):
    """What a student sees: the text over the tests, and the tests by name."""
    jsonschema.validate(results, RESULTS)
    tests = {t["name"]: t for t in results["tests"] if t["visibility"] == "visible"}
    return results.get("output", ""), tests


def hidden(results):
    """What only the instructor sees."""
    (one,) = [t["output"] for t in results["tests"] if t["visibility"] == "hidden"]
    return one


def unpacked(bundle, folder):
    """A bundle, unpacked as Gradescope does."""
    with zipfile.ZipFile(bundle) as archive:
        for about in archive.infolist():
            path = Path(archive.extract(about, folder))
            path.chmod(stat.S_IMODE(about.external_attr >> 16))
    return folder


def inside(bundle):
    """Everything in a bundle by its path, what is in its wheel too."""
    with zipfile.ZipFile(bundle) as archive:
        return audit.unpack({i.filename: archive.read(i) for i in archive.infolist()})


def made(kind, course, output, *names):
    done = in_process("bundle", kind, *names, "--output", output, cwd=course)
    assert done.exit_code == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def container(template, tmp_path_factory):
    """Gradescope's folders after setup.sh has run, with no way to this repository."""
    base = tmp_path_factory.mktemp("gradescope")
    unpacked(made("gradescope", template, base / "bundle.zip", ASSIGNMENT), base / "source")
    python = clean_python(base / "venv", (base / "source" / "requirements.txt").read_text())
    run(base / "source" / "setup.sh", cwd=base, AUTOGRADER_BASE=str(base), PYTHON=str(python))
    shutil.copy(base / "source" / "run_autograder", base)
    return base


def hand_to(base, files):
    """Grades what is handed in as Gradescope does, and gives the results."""
    shutil.rmtree(base / "submission", ignore_errors=True)
    shutil.rmtree(base / "results", ignore_errors=True)
    (base / "submission").mkdir()
    for name, data in files.items():
        path = base / "submission" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    run(base / "run_autograder", cwd=base, AUTOGRADER_BASE=str(base))
    return json.loads((base / "results" / "results.json").read_bytes())


def with_answer(released, grade_id, source):
    """The released notebook with one answer."""
    notebook = json.loads(released)
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id:
            cell["source"] = source
    return json.dumps(notebook).encode()


SPY = """
import os, sys
import numpy as np
base = "{base}"
got = []
for path in ("source/requirements.txt", "source/unfinished.json", "results/results.json",
             "submission/a.ipynb", "{site}/autograder/exercises/ch02_qkv/softmax.py", "{site}/tfcore/ops.py"):
    for mode in ("r", "r+", "w"):
        try:
            open(path if path.startswith("/") else os.path.join(base, path), mode)
            got.append((path, mode))
        except OSError:
            pass
for path in ("source", "results"):
    try:
        got.append(os.listdir(os.path.join(base, path)))
    except OSError:
        pass
try:
    os.kill(os.getppid(), 9)
    got.append("killed")
except OSError:
    pass
def softmax(x, axis=-1):
    raise RuntimeError(f"spied: {{got}}")
"""


def test_gradescope_grades_in_a_clean_folder(container, students):
    notebook, expected = students["style-01"]
    results = hand_to(container, {"my work (1).ipynb": make.as_bytes(notebook)})
    said, tests = shown(results)
    assert not said
    assert results["score"] == sum(expected.values())
    assert {name: t["score"] for name, t in tests.items() if "score" in t} == expected
    assert {t["status"] for t in tests.values() if "score" in t} == {"passed"}
    assert "Your teacher marks this answer" in tests["explain_the_picture"]["output"]
    assert f"tier {cages.strongest().tier}" in hidden(results)


def test_gradescope_walls_a_submission_off(container, template):
    if cages.strongest().tier not in cages.SAFE:
        pytest.skip("this machine holds no walls")
    (released,) = notebooks(Course.at(template), ASSIGNMENT).values()
    site = next((container / "venv" / "lib").glob("python3*")) / "site-packages"
    spy = with_answer(released, "softmax_answer", SPY.format(base=container, site=site))
    before = {p: p.read_bytes() for p in (container / "source").rglob("*") if p.is_file()}
    results = hand_to(container, {"a.ipynb": spy})
    _, tests = shown(results)
    assert "spied: []" in tests["softmax"]["output"]
    assert results["score"] == 0
    assert before == {p: p.read_bytes() for p in (container / "source").rglob("*") if p.is_file()}


def test_gradescope_says_why_there_is_no_score(container):
    results = hand_to(container, {"a/<b>.ipynb": b"", "c.ipynb": b""})
    said, tests = shown(results)
    assert "2 notebooks were handed in (a/<b>.ipynb, c.ipynb), but only one can be graded" in said
    assert (results["score"], tests) == (0, {})


def test_gradescope_has_a_result_where_python_does_not_start(container):
    (container / "submission").mkdir(exist_ok=True)
    shutil.rmtree(container / "results", ignore_errors=True)
    with pytest.raises(AssertionError):
        run(container / "run_autograder", cwd=container, AUTOGRADER_BASE=str(container), PYTHON="/bin/false")
    said, _ = shown(json.loads((container / "results" / "results.json").read_bytes()))
    assert said == gradescope.UNFINISHED


@pytest.mark.parametrize(
    ("name", "make_it", "told"),
    [
        ("a.ipynb", lambda path: path.symlink_to("/etc/passwd"), "is a link"),
        ("a.ipynb", os.mkfifo, "is a link or a special file"),
        ("a.ipynb", lambda path: os.truncate(path.open("w").name, MAX_BYTES + 1), "at most"),
        (".ipynb_checkpoints/a.ipynb", lambda path: path.write_text("{}"), "No notebook"),
        ("__MACOSX/._a.ipynb", lambda path: path.write_text("{}"), "No notebook"),
        ("a.txt", lambda path: path.write_text("{}"), "No notebook"),
    ],
)
def test_what_cannot_be_graded_is_told_without_starting_anything(tmp_path, monkeypatch, name, make_it, told):
    monkeypatch.setattr(cages, "strongest", lambda: pytest.fail("it was graded"))
    path = tmp_path / "submission" / name
    path.parent.mkdir(parents=True)
    make_it(path)
    said, _ = shown(graded_in(tmp_path))
    assert told in said


def graded_in(base):
    """The results for what lies in a base folder whose grader knows one released notebook."""
    released = base / "source" / "released" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    released.parent.mkdir(parents=True)
    released.write_text("{}")
    gradescope.grade(base)
    return json.loads((base / "results" / "results.json").read_bytes())


def test_of_several_notebooks_the_one_of_the_right_name_counts(tmp_path, monkeypatch):
    def fail_to_read(path):
        raise ValueError(f"read {path}")

    monkeypatch.setattr(gradescope, "_read_notebook", fail_to_read)
    for name in ("other.ipynb", f"deep/{ASSIGNMENT}.ipynb"):
        (tmp_path / "submission" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "submission" / name).write_text("{}")
    results = graded_in(tmp_path)
    assert shown(results)[0] == gradescope.OURS
    assert f"read {tmp_path}/submission/deep/{ASSIGNMENT}.ipynb" in hidden(results)


def test_results_of_verdicts(template, students, pair):
    (released,) = notebooks(Course.at(template), ASSIGNMENT).values()
    for name in ("style-02", "mistake-01", "blank", "script-in-the-answer"):
        notebook, expected = students[name]
        task = notebook_task(ASSIGNMENT, released, make.as_bytes(notebook), SEED, LIMITS)
        verdict = pair.grade(task)
        results = gradescope.results(verdict, "tier X")
        _, tests = shown(results)
        assert {n: t["score"] for n, t in tests.items() if "score" in t} == expected
        assert results["score"] == sum(expected.values())
        assert "tier X" in hidden(results)
        for test in tests.values():
            assert safe_html.clean(test["output"]).count("&lt;") == test["output"].count("&lt;")
            assert not BeautifulSoup(test["output"], "html.parser").find_all(["script", "img", "iframe"])


@pytest.mark.parametrize("status", ["unreadable", "failed"])
def test_results_of_what_was_not_graded(status):
    results = gradescope.results(Verdict(status, note="it is <b>none</b>; ask for it again"), "told")
    said, tests = shown(results)
    assert (results["score"], tests) == (0, {})
    assert "ask for" not in said
    assert ("it is <b>none</b>" in said) == (status == "unreadable")
    assert results["output_format"] == "text"
    assert "told" in hidden(results)


def test_export_writes_results_with_a_teachers_marks(few, tmp_path):
    book = Gradebook(Course.at(few).db_url)
    grade = book.find_grade("explain_the_picture", ASSIGNMENT, ASSIGNMENT, "style-01")
    grade.manual_score, grade.needs_manual_grade = 2, False
    comment = book.find_comment("explain_the_picture", ASSIGNMENT, ASSIGNMENT, "style-01")
    comment.manual_comment = "<b>good</b>"
    book.db.commit()
    book.close()
    asked = ("export", ASSIGNMENT, "--format", "gradescope", "--output", tmp_path / "results")
    for _ in range(2):
        assert in_process(*asked, cwd=few).exit_code == 0
    assert {path.parts[-3] for path in (tmp_path / "results").rglob("results.json")} == set(FEW)
    path = tmp_path / "results" / "style-01" / ASSIGNMENT / "results.json"
    results = json.loads(path.read_bytes())
    _, tests = shown(results)
    assert results["score"] == FULL + 2
    assert tests["explain_the_picture"]["score"] == 2
    assert "&lt;b&gt;good" in tests["explain_the_picture"]["output"]
    assert "3 of 3 points" in tests["softmax"]["output"]
    path = tmp_path / "results" / "mistake-01" / ASSIGNMENT / "results.json"
    _, tests = shown(json.loads(path.read_bytes()))
    assert "score" not in tests["explain_the_picture"]
    (tmp_path / "results" / "thesis.txt").write_text("a year's work")
    for folder in (tmp_path / "results", tmp_path / "results" / "thesis.txt"):
        assert in_process(*asked[:-1], folder, cwd=few).exit_code == 2
    assert in_process(*asked[:-2], cwd=few).exit_code == 2
    assert (tmp_path / "results" / "thesis.txt").read_text() == "a year's work"


def test_a_late_penalty_is_in_the_score_and_told():
    row = Row("ada", ASSIGNMENT, {"softmax": 3.0}, {"softmax": 3.0}, late_penalty=1.0)
    results = gradescope.of_gradebook(row, {})
    assert results["score"] == 2
    assert shown(results)[0] == "Late penalty: 1 point."


def test_a_comment_of_a_teacher_is_text():
    made = gradescope.entry("explain", 3, 2, None, "<script>alert(1)</script>")
    assert made["output"] == "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"


def test_a_student_works_with_the_bundle_alone(template, students, tmp_path):
    folder = unpacked(made("student", template, tmp_path / "s.zip", ASSIGNMENT), tmp_path / "work")
    python = clean_python(tmp_path / "venv", (folder / "requirements.txt").read_text())
    run(python, "-m", "pip", "install", "-r", "requirements.txt", cwd=folder)
    released = folder / "notebooks" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    (own,) = notebooks(Course.at(template), ASSIGNMENT).values()
    assert [c["metadata"] for c in json.loads(released.read_bytes())["cells"]] == [
        c["metadata"] for c in json.loads(own)["cells"]
    ]
    released.write_bytes(make.as_bytes(students["mistake-01"][0]))
    run(python, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", released, cwd=folder)
    outputs = [out for c in json.loads(released.read_bytes())["cells"] for out in c.get("outputs", ())]
    told = "".join("".join(out.get("text", "")) for out in outputs)
    for exercise in exercises.of_assignment(ASSIGNMENT):
        assert f"{exercise.function_name}: " in told
    assert "exp overflows for large scores" in told
    assert any("application/vnd.jupyter.widget-view+json" in out.get("data", {}) for out in outputs)
    where = run(python, "-c", "import autograder, tfcore, tfwidgets; print(autograder.__file__)", cwd=folder)
    assert where.startswith(str(tmp_path / "venv"))


def test_a_colleague_teaches_with_the_bundle_alone(few, students, tmp_path):
    folder = unpacked(made("instructor", few, tmp_path / "i.zip", ASSIGNMENT), tmp_path / "elsewhere")
    python = clean_python(tmp_path / "venv", (folder / "requirements.txt").read_text())
    run(python, "-m", "pip", "install", "-r", "requirements.txt", cwd=folder)
    alembic = python.with_name("alembic")  # as pip makes it from alembic's entry point
    alembic.write_text(f"#!{python}\nfrom alembic.config import main\nmain()\n")
    alembic.chmod(0o755)
    grader = python.with_name("autograder")
    path = f"{grader.parent}:/usr/bin:/bin"
    first = folder / "notebooks" / ASSIGNMENT
    before = {p: p.read_bytes() for p in first.iterdir()}
    shutil.rmtree(folder / "notebooks")
    run(grader, "release", ASSIGNMENT, cwd=folder, PATH=path)
    assert before == {p: p.read_bytes() for p in first.iterdir()}
    notebook, expected = students["mistake-01"]
    hand_in(folder, "somebody", notebook)
    unsafe = [] if cages.strongest().tier in cages.SAFE else ["--allow-unsafe"]
    told = run(grader, "grade", ASSIGNMENT, "--json", *unsafe, cwd=folder, PATH=path)
    (one,) = json.loads(told)["submissions"]
    assert one["score"] == sum(expected.values())
    assert (folder / ".autograder" / "seed").read_text() != (few / ".autograder" / "seed").read_text()
    again = run(grader, "bundle", "gradescope", ASSIGNMENT, cwd=folder, PATH=path)
    assert "bundles/gradescope-" in again


def test_an_instructors_bundle_holds_nothing_of_this_class(few, tmp_path):
    config = few / "nbgrader_config.py"
    address, name = '"postgresql://me:' + 'sesame@host/grades"', "c.CourseDirectory.db_url"
    set_it = f"{name}: str = {address}\nif 1: {name} = {address}\n{name} += str()  # {address}\n"
    by_a_call = f"setattr(c.CourseDirectory, 'db_url', {address}); c.NbGrader.other = 'kept'\n"
    config.write_text(config.read_text() + set_it + by_a_call)
    (few / "solutions" / ASSIGNMENT / ".ipynb_checkpoints").mkdir()
    (few / "solutions" / ASSIGNMENT / ".ipynb_checkpoints" / "old.ipynb").write_text("{}")
    files = inside(made("instructor", few, tmp_path / "i.zip"))
    everything = b"\n".join(files.values())
    for secret in (str(SEED), "sesame", "style-01", "2026-03-01 18:00:00"):
        assert secret.encode() not in b"\n".join(
            data for path, data in files.items() if ".whl/" not in path or secret != "style-01"
        ), secret
    assert not [path for path in files if "db" in path.split(".") or "checkpoints" in path]
    assert b"BEGIN MARK SCHEME" in everything
    assert b"c.NbGrader.other = 'kept'" in files["nbgrader_config.py"]
    compile(files["nbgrader_config.py"], "nbgrader_config.py", "exec")
    for name in ("guides/instructor_guide.md", f"mark_schemes/{ASSIGNMENT}.md", "README.md"):
        assert name in files


def test_a_password_in_another_place_refuses_an_instructors_bundle(few, tmp_path):
    config = few / "nbgrader_config.py"
    config.write_text(f"{config.read_text()}url = 'pg://me:secret@host/grades'\n")
    refused = in_process("bundle", "instructor", "--output", tmp_path / "i.zip", cwd=few)
    assert (refused.exit_code, list(tmp_path.glob("*.zip"))) == (2, [])
    assert "holds an address with a password" in refused.stderr


def test_a_students_bundle_gives_nothing_away(few, tmp_path):
    bundle = made("student", few, tmp_path / "s.zip")
    assert in_process("audit", bundle, cwd=few).exit_code == 0
    files = inside(bundle)
    assert not [path for path in files if "solutions" in path or "/grading/" in path or "/attacks/" in path]
    assert {path.split("/")[1] for path in files if path.startswith("notebooks/")} == set(
        Course.at(few).assignments
    )
    whole = made("instructor", few, tmp_path / "i.zip")
    told = in_process("audit", whole, cwd=few).stdout
    assert "the solution of" in told


def test_the_same_course_gives_the_same_bytes(template, tmp_path):
    both = {"gradescope": [], "student": [], "instructor": []}
    for _ in range(2):
        wheels.build_both.cache_clear()
        bundle_library.student_wheels.cache_clear()
        for kind, made_before in both.items():
            made_before.append(made(kind, template, tmp_path / "bundle.zip", ASSIGNMENT).read_bytes())
            os.utime(tmp_path / "bundle.zip", (0, 0))
    assert [kind for kind, (one, other) in both.items() if one != other] == []


def test_all_bundles_at_once(template, tmp_path):
    course = Path(shutil.copytree(template, tmp_path / "course"))
    done = in_process("bundle", "all", cwd=course)
    assert done.exit_code == 0
    written = {path.name for path in (course / "bundles").iterdir()}
    assert written == {f"gradescope-{name}.zip" for name in exercises.assignments()} | {
        "student.zip",
        "instructor.zip",
    }
    assert f"{len(written)} bundles" in done.stdout
    with zipfile.ZipFile(course / "bundles" / f"gradescope-{ASSIGNMENT}.zip") as archive:
        modes = {i.filename: stat.S_IMODE(i.external_attr >> 16) for i in archive.infolist()}
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert modes["requirements.txt"] == 0o644


def test_only_a_bundle_is_overwritten(template, tmp_path):
    mine = tmp_path / "mine.zip"
    with zipfile.ZipFile(mine, "w") as archive:
        archive.writestr("thesis.txt", "a year's work")
    for path, told in (
        (mine, "not a bundle that was made here"),
        (tmp_path, "is a folder"),
        (tmp_path / "nowhere" / "a.zip", "there is no folder"),
    ):
        done = in_process("bundle", "student", ASSIGNMENT, "--output", path, cwd=template)
        assert done.exit_code == 2
        assert told in " ".join(done.stderr.split())
    with zipfile.ZipFile(mine) as archive:
        assert archive.read("thesis.txt") == b"a year's work"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.zip"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("everything",), "no bundle is called 'everything'. The bundles are: gradescope, classroom"),
        (("gradescope", "ch99"), "no assignment is called 'ch99'"),
        (("gradescope", "--output", "a.zip"), "names one file, but there are"),
    ],
)
def test_what_cannot_be_bundled_is_told(template, arguments, told):
    done = in_process("bundle", *arguments, cwd=template)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())


def test_an_index_is_written_where_it_is_asked_for(template, tmp_path):
    asked = ("--extra-index-url", "https://index.example/cpu")
    in_process("bundle", "student", ASSIGNMENT, *asked, "--output", tmp_path / "s.zip", cwd=template)
    lines = inside(tmp_path / "s.zip")["requirements.txt"].decode().splitlines()
    assert lines[0] == "--extra-index-url https://index.example/cpu"
    assert lines[-1].endswith(".whl")


def test_a_version_that_was_not_tested_is_missed(course):
    (course / "requirements.txt").write_text("numpy==2.4.6\n")
    with pytest.raises(BadInputError, match=r"lacks .*torch"):
        bundles.of_gradescope(Course.at(course), ASSIGNMENT)


def test_without_walls_a_submission_is_nobody(template):
    if os.geteuid() != 0 or not reached_by_nobody():
        pytest.skip("submissions cannot run as somebody else here")
    (released,) = notebooks(Course.at(template), ASSIGNMENT).values()
    spy = """
import os
def softmax(x, axis=-1):
    raise RuntimeError(f"user {os.getuid()} {os.getgroups()}")
"""
    task = notebook_task(ASSIGNMENT, released, with_answer(released, "softmax_answer", spy), SEED, LIMITS)
    with Pair("D", gradescope.UNPRIVILEGED) as lone:
        report = lone.grade(task).cells[0].report
    assert f"user {pwd.getpwnam(gradescope.UNPRIVILEGED).pw_uid} []" in report.message


def reached_by_nobody():
    """Whether everybody on this machine may run this Python and read its packages."""
    who = {"user": gradescope.UNPRIVILEGED, "group": pwd.getpwnam(gradescope.UNPRIVILEGED).pw_gid}
    try:
        return subprocess.run([sys.executable, "-c", "import autograder"], **who).returncode == 0
    except PermissionError:
        return False
