"""Another id for a student: everything goes along, and an interrupted run can be repeated."""

import json
import os
import shutil

import pytest
from classroom import FIRST, SECOND, add_work, new_class, opened, rows
from scratch import in_process, tree

from autograder.course.class_file import ClassFile
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.course.lock import MOVE
from autograder.grading import gradebook
from autograder.roster import move


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Ada has a replaced version, a mark by hand, a comment, more time, a group, a bad notebook."""
    folder = new_class(tmp_path_factory.mktemp("move") / "course", {("ada", FIRST): 8, ("bob", FIRST): 2})
    with opened(folder) as book:
        ada = book.find_student("ada")
        ada.first_name, ada.last_name, ada.email = "Ada", "Lovelace", "ada@uni.de"
        book.find_grade("explain", FIRST, FIRST, "ada").manual_score = 4.5
        book.find_comment("explain", FIRST, FIRST, "ada").manual_comment = "well said"
        book.db.commit()
    state = folder / ".autograder"
    (state / "replaced" / FIRST / "ada").mkdir(parents=True)
    (state / "replaced" / FIRST / "ada" / "old.ipynb").write_text("the version before")
    (state / "problems").mkdir()
    (state / "problems" / f"{SECOND}.json").write_text('{"ada": "not JSON", "bob": "empty"}')
    (state / "collected").mkdir()
    (state / "collected" / f"{FIRST}.json").write_text('{"ada": {"order": 2}, "bob": {"order": 1}}')
    (state / "feedback.json").write_text(
        json.dumps({f"ada/{FIRST}/{FIRST}": "1", f"bob/{FIRST}/{FIRST}": "2"})
    )
    for path in (folder / "variants/ada" / FIRST / "x.ipynb", state / f"variants/ada/{FIRST}.md"):
        path.parent.mkdir(parents=True)
        path.write_text("other numbers")
    here = ClassFile.read(Course.at(folder))
    here.set_groups("ada", ("Monday",))
    here.set_extension("ada", SECOND, 3)
    here.write()
    return folder


@pytest.fixture
def course(made, tmp_path):
    return shutil.copytree(made, tmp_path / "course")


def of(folder, student):
    """All that is kept about a student, with the id left out."""
    named = {path: what for path, what in tree(folder).items() if f"/{student}/" in f"/{path}/"}
    files = {path.replace(student, "ID"): what for path, what in named.items()}
    records = [
        {
            key.replace(student, "ID"): what
            for key, what in json.loads(path.read_text()).items()
            if student in key
        }
        for name in ("collected", "problems")
        for path in sorted((folder / ".autograder" / name).glob("*.json"))
    ]
    here = ClassFile.read(Course.at(folder))
    with opened(folder) as book:
        person = next((s.to_dict() for s in book.students if s.id == student), {"id": student})
        ids = {
            submission.id: [(n.id, [g.id for g in n.grades]) for n in submission.notebooks]
            for submission in book.db.query(gradebook.api.SubmittedAssignment)
            if submission.student_id == student
        }
    person.pop("id")
    points = {
        row.assignment: (row.scores, row.comments, row.late_penalty)
        for assignment in (FIRST, SECOND)
        for row in gradebook.read(Course.at(folder), assignment)
        if row.student == student
    }
    return files, records, here.groups(student), here.extensions(student), person, ids, points


def mentions(folder, student):
    return [path for path in tree(folder) if f"/{student}/" in f"/{path}/"]


@pytest.mark.slow
def test_a_rename_carries_everything_along(course):
    before, bob = of(course, "ada"), of(course, "bob")
    assert before[-1][FIRST][0]["explain"] == 4.5
    done = in_process("rename", "ada", "lovelace01", cwd=course)
    assert done.exit_code == 0, done.stderr
    assert f"ada is now lovelace01, with {FIRST}" in done.stdout
    assert of(course, "lovelace01") == before
    assert of(course, "bob") == bob
    assert mentions(course, "ada") == []
    assert "ada" not in rows(course)
    assert "ada/" not in (course / ".autograder" / "feedback.json").read_text()


@pytest.mark.slow
def test_feedback_is_named_only_where_there_are_pages(course):
    done = in_process("rename", "ada", "lovelace01", cwd=course)
    assert "Run autograder feedback" in done.stderr
    shutil.rmtree(course / "feedback")
    done = in_process("rename", "lovelace01", "ada", cwd=course)
    assert done.exit_code == 0
    assert "Run autograder feedback" not in done.stderr


@pytest.mark.slow
def test_there_and_back_is_nothing(course):
    before = of(course, "ada")
    for old, new in (("ada", "x"), ("x", "ada")):
        move.rename(Course.at(course), old, new)
    assert of(course, "ada") == before


@pytest.mark.slow
@pytest.mark.parametrize("winner", ["ada", "bob"])
def test_a_merge_needs_to_know_whose_work_counts(course, winner):
    add_work(course, "ada", SECOND, 6)
    before, alone = tree(course), {name: of(course, name)[-1] for name in ("ada", "bob")}
    done = in_process("merge", "ada", "bob", cwd=course)
    assert done.exit_code == 2
    assert f"both have work for {FIRST}" in done.stderr
    assert {name: what for name, what in tree(course).items() if not name.endswith("lock")} == before
    assert in_process("merge", "ada", "bob", "--wins", winner, cwd=course).exit_code == 0
    after = of(course, "bob")
    assert after[-1] == {FIRST: alone[winner][FIRST], SECOND: alone["ada"][SECOND]}
    assert set(rows(course)) == {"bob"}
    assert after[1][0] == {"ID": {"order": {"ada": 2, "bob": 1}[winner]}}
    assert after[2:4] == (("Monday",), {SECOND: 3})
    assert after[4]["email"] == "ada@uni.de"
    text = (course / "submitted" / "bob" / FIRST / f"{FIRST}.ipynb").read_text()
    assert f"{winner} {FIRST}" in text
    aside = [path.read_text() for path in (course / ".autograder" / "replaced" / FIRST / "bob").iterdir()]
    loser = {"ada": "bob", "bob": "ada"}[winner]
    assert any(f"{loser} {FIRST}" in text for text in aside)
    assert "the version before" in aside
    assert mentions(course, "ada") == []


@pytest.mark.slow
def test_more_time_of_the_id_that_stays_counts_for_the_work_that_comes(course):
    in_process("late", "--percent", "10", cwd=course)
    in_process("extension", "ada", SECOND, "3", cwd=course)
    add_work(course, "bob", SECOND, 6, "2026-03-10 18:00:00 UTC")
    with gradebook.opened(Course.at(course)) as writer:
        writer.penalise(SECOND, "bob")
    assert rows(course, SECOND)["bob"].late_penalty == pytest.approx(1.2)
    done = in_process("merge", "bob", "ada", "--wins", "ada", cwd=course)
    assert f"the late penalty of {SECOND} was 1.2 and is now 0" in done.stderr
    assert rows(course, SECOND)["ada"].total == 6


def test_a_late_rule_that_fails_leaves_no_move_unfinished(course, monkeypatch):
    """A rule of the teacher's own may not know the new id."""
    with monkeypatch.context() as patched:
        patched.setattr(move.extensions, "penalise", lambda writer, submissions: {}["lovelace01"])
        with pytest.raises(KeyError):
            move.rename(Course.at(course), "ada", "lovelace01")
    assert not (course / ".autograder" / MOVE).exists()
    assert "lovelace01" in rows(course)


@pytest.mark.parametrize("target", ["elsewhere", "gone"])
def test_files_that_are_no_work_and_links_do_not_stop_a_merge(course, target):
    """A file manager leaves a file in both folders; the work that does not count is a link."""
    for student in ("ada", "bob"):
        (course / "submitted" / student / ".DS_Store").write_text(student)
        (course / "submitted" / student / ".ipynb_checkpoints").mkdir()
        (course / "submitted" / student / ".ipynb_checkpoints" / "x.ipynb").write_text(student)
    (course / "elsewhere").mkdir()
    (course / "elsewhere" / "x").write_text("of somebody else")
    shutil.rmtree(course / "submitted" / "ada" / FIRST)
    (course / "submitted" / "ada" / FIRST).symlink_to(course / target)
    done = in_process("merge", "ada", "bob", cwd=course)
    assert f"both have work for {FIRST}." in " ".join(done.stderr.split())
    assert in_process("merge", "ada", "bob", "--wins", "bob", cwd=course).exit_code == 0
    assert mentions(course, "ada") == []
    assert (course / "elsewhere" / "x").read_text() == "of somebody else"
    assert (course / ".autograder" / "replaced" / FIRST / "bob" / f"ada-{FIRST}").is_symlink()
    assert {path.read_text() for path in (course / "submitted" / "bob").glob("*.DS_Store")} == {"ada", "bob"}
    names = {path.name for path in (course / "submitted" / "bob").iterdir()}
    assert {name for name in names if not name.startswith(".")} == {FIRST}  # hidden folders stay hidden


@pytest.mark.parametrize("command", ["merge", "rename"])
def test_two_ids_with_the_same_folder_are_refused(course, command):
    """As macOS has one folder for Ada and ada: to set one version aside would take the only one away."""
    (course / "submitted" / "adá").symlink_to("ada")
    (course / "submitted" / "bob.old").symlink_to("nowhere")
    before = tree(course)
    done = in_process(command, "ada", "adá", cwd=course)
    assert done.exit_code == 2
    assert "ada and adá are the same folder on this disk" in done.stderr
    assert {name: what for name, what in tree(course).items() if not name.endswith("lock")} == before


@pytest.mark.parametrize("loser", ["ada", "bob"])
def test_a_problem_of_work_that_does_not_count_goes_with_it(course, loser):
    """The records about its file that could not be graded, and about the graded version, are removed."""
    state, winner = course / ".autograder", {"ada": "bob", "bob": "ada"}[loser]
    (state / "problems" / f"{FIRST}.json").write_text(json.dumps({loser: "not JSON"}))
    (state / "tried").mkdir()
    (state / "tried" / f"{FIRST}.json").write_text(json.dumps({f"{loser}/{FIRST}": "1"}))
    move.merge(Course.at(course), "ada", "bob", wins=winner)
    for name in ("problems", "tried"):
        assert json.loads((state / name / f"{FIRST}.json").read_text()) == {}
    assert json.loads((state / "problems" / f"{SECOND}.json").read_text()) == {"bob": "empty"}


@pytest.mark.slow
def test_what_the_winner_never_had_does_not_stay(course):
    """Bob's newer work is not graded yet: Ada's points and page do not pass for his."""
    shutil.rmtree(course / "autograded" / "bob")
    shutil.rmtree(course / "feedback" / "bob")
    with opened(course) as book:
        book.remove_submission(FIRST, "bob")
    move.merge(Course.at(course), "bob", "ada", wins="bob")
    assert rows(course) == {}
    assert not (course / "autograded" / "ada" / FIRST).exists()
    assert f"bob {FIRST}" in (course / "submitted" / "ada" / FIRST / f"{FIRST}.ipynb").read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("rename", "adda", "x"), "Did you mean ada?"),
        (("rename", "ada", "bob"), "the id bob is taken"),
        (("rename", "ada", "../x"), "cannot be a student's id"),
        (("rename", "ada", "ada"), "same id"),
        (("merge", "ada", "nobody"), "autograder rename ada nobody"),
        (("merge", "ada", "no body"), "autograder rename ada 'no body'"),
        (("merge", "ada", "bob", "--wins", "carl"), "--wins names"),
    ],
)
def test_what_cannot_be_moved_is_refused(course, args, message):
    before = tree(course)
    done = in_process(*args, cwd=course)
    assert done.exit_code == 2
    assert message in done.stderr
    assert {name: what for name, what in tree(course).items() if not name.endswith("lock")} == before


@pytest.mark.slow
def test_a_run_that_is_interrupted_anywhere_is_finished_by_the_same_command(made, tmp_path, monkeypatch):
    """Stopped before each of its changes in turn; at the end nothing tells it from an undisturbed run."""
    undisturbed = shutil.copytree(made, tmp_path / "undisturbed")
    moved = move.merge(Course.at(undisturbed), "ada", "bob", wins="ada")
    stops = 0
    while True:
        folder = shutil.copytree(made, tmp_path / f"stop{stops}")
        left = [stops]

        def or_stop(change, left=left):
            def stopping(*args, **how):
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                return change(*args, **how)

            return stopping

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", or_stop(os.rename))
            patched.setattr(os, "replace", or_stop(os.replace))
            patched.setattr(shutil, "rmtree", or_stop(shutil.rmtree))
            try:
                move.merge(Course.at(folder), "ada", "bob", wins="ada")
                break
            except KeyboardInterrupt:
                pass
        if (folder / ".autograder" / MOVE).exists():
            with pytest.raises(BadInputError, match="was interrupted"):
                move.rename(Course.at(folder), "bob", "x")
        assert move.merge(Course.at(folder), "ada", "bob", wins="ada") == moved
        kept = [
            {n: w for n, w in tree(at).items() if "gradebook.db" not in n} for at in (folder, undisturbed)
        ]
        assert kept[0] == kept[1]
        assert of(folder, "bob")[4:] == of(undisturbed, "bob")[4:]
        shutil.rmtree(folder)
        stops += 1
    assert stops > 8


@pytest.mark.parametrize(
    "command",
    [
        ("grade", FIRST),
        ("collect", FIRST, "submitted"),
        ("adopt",),
        ("forget", "bob", "--yes"),
        ("rename", "bob", "x"),
    ],
    ids=lambda command: command[0],
)
def test_nothing_works_on_while_an_id_is_half_moved(course, command, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(move, "_move_folders", lambda course, plan: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move.rename(Course.at(course), "ada", "lovelace01")
    before = tree(course)
    done = in_process(*command, cwd=course)
    assert done.exit_code == 2, done.output
    assert "Finish that first: autograder merge ada lovelace01" in " ".join(done.stderr.split())
    assert "merge ada lovelace01" in " ".join(in_process("status", cwd=course).stderr.split())
    after = {name: what for name, what in tree(course).items() if "/released" not in name}
    assert after == before


def test_a_merge_into_an_id_removes_the_points_of_work_that_does_not_count(course):
    """The winner's work was never graded: its id is not in the gradebook."""
    (course / "submitted" / "eve" / FIRST).mkdir(parents=True)
    (course / "submitted" / "eve" / FIRST / f"{FIRST}.ipynb").write_text("eve")
    move.merge(Course.at(course), "eve", "ada", wins="eve")
    assert (course / "submitted" / "ada" / FIRST / f"{FIRST}.ipynb").read_text() == "eve"
    assert rows(course).keys() == {"bob"}


@pytest.mark.slow
def test_reports_follow(course):
    in_process("report", FIRST, cwd=course)
    page = course / "reports" / f"{FIRST}.html"
    assert ">ada<" in page.read_text()
    in_process("rename", "ada", "lovelace01", cwd=course)
    assert ">ada<" not in page.read_text()
    assert ">lovelace01<" in page.read_text()
