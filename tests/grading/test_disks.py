"""Disks that are really full or read-only, and locked databases: a clean stop, and nothing lost."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import time

import pytest
from scratch import AS_GRADED, ASSIGNMENT, FEW, SEED, in_process, tree
from test_bad_input import read_only, refuses

from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.grading.executors import EXECUTORS
from autograder.grading.store import VerdictStore

SIZE = 24 << 20
STEP = 24 << 10
GRADE = ("grade", "--executor", "known", "--seed", SEED, *AS_GRADED, "--submissions")


@pytest.fixture(autouse=True)
def _known(few_template):
    """An executor that looks the verdicts up: how they come about is not what is tested here."""
    with VerdictStore(few_template / ".autograder" / "verdicts" / f"{ASSIGNMENT}.jsonl") as store:
        EXECUTORS["known"] = lambda tasks, tier, workers: ((key, store[key]) for key, _ in tasks)
        yield
        del EXECUTORS["known"]


class Disk:
    """A small disk of its own."""

    def __init__(self, folder):
        self.folder = folder
        self._filling = folder / "filling"

    def fill(self, room):
        """Leaves so many bytes."""
        free = shutil.disk_usage(self.folder).free
        with self._filling.open("ab") as file:
            file.write(bytes(max(0, free - room)))

    def make_room(self):
        self._filling.unlink(missing_ok=True)

    def remount(self, how):
        subprocess.run(["mount", "-o", f"remount,{how}", self.folder], check=True)


@pytest.fixture
def disk(tmp_path, do_without):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        do_without("disks", "only root can make a small disk, where mounting is allowed")
    yield Disk(folder)
    subprocess.run(["umount", "--lazy", folder], check=True)


def stopped(done):
    """The command ended as told: with 2, a sentence about the disk, and no traceback."""
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2, done.stdout + told
    assert "Traceback" not in told
    assert "No space left on device" in told or "disk is full" in told, told


def held(course):
    """What a run has left: verdicts, rows of the gradebook, graded notebooks."""
    path, here = course / ".autograder" / "verdicts" / f"{ASSIGNMENT}.jsonl", Course.at(course)
    lines = path.read_bytes().splitlines() if path.exists() else []
    return (
        sum(line.startswith(b'{"key": ') and line.endswith(b"}") for line in lines),
        len(gradebook.read(here, ASSIGNMENT)) if gradebook.exists(here) else 0,
        len(list((course / "autograded").rglob("*.ipynb"))),
    )


@pytest.mark.slow
def test_a_full_disk_at_every_stage_of_grading(disk, template, few_template):
    course = disk.folder / "course"
    shutil.copytree(template, course)
    shutil.copytree(few_template / "submitted", course / "submitted")
    room, seen = 0, []
    while True:
        disk.fill(room)
        done = in_process(*GRADE, course / "submitted", cwd=course)
        disk.make_room()
        if done.exit_code == 0:
            break
        stopped(done)
        seen.append(held(course))
        assert seen[-1][1] in (0, len(FEW))  # all points are entered, or none
        room += STEP
    assert any(verdicts < len(FEW) for verdicts, _, _ in seen)
    assert any(verdicts == len(FEW) and not rows for verdicts, rows, _ in seen)
    assert any(rows and notebooks < len(FEW) for _, rows, notebooks in seen)
    assert held(course) == (len(FEW),) * 3
    assert gradebook.read(Course.at(course), ASSIGNMENT) == gradebook.read(
        Course.at(few_template), ASSIGNMENT
    )
    assert tree(course / "autograded") == tree(few_template / "autograded")


@pytest.mark.slow
def test_a_full_disk_while_feedback_is_written(disk, few):
    course = disk.folder / "course"
    shutil.copytree(few, course)
    assert in_process("feedback", cwd=few).exit_code == 0
    whole = tree(few / "feedback")
    page = max(path.stat().st_size for path in (few / "feedback").rglob("*.html"))
    disk.fill(2 * page)
    stopped(in_process("feedback", cwd=course))
    made = tree(course / "feedback")
    assert made.items() < whole.items()
    assert any(path.endswith(".html") for path in made)
    disk.make_room()
    assert in_process("feedback", cwd=course).exit_code == 0
    assert tree(course / "feedback") == whole


@pytest.mark.slow
def test_a_full_disk_changes_no_export(disk, few):
    output = disk.folder / "grades.csv"
    output.write_text("of last week")
    disk.fill(0)
    stopped(in_process("export", "--output", output, cwd=few))
    assert output.read_text() == "of last week"
    assert sorted(path.name for path in disk.folder.iterdir()) == ["filling", "grades.csv"]


@pytest.mark.slow
def test_a_gradebook_on_a_read_only_disk_is_read(disk, few):
    address = f"sqlite:///{disk.folder / 'gradebook.db'}"
    shutil.move(few / "gradebook.db", disk.folder)
    disk.remount("ro")
    refuses(few, *GRADE, few / "submitted", "--db", address, says=["must be writable", "Read-only"])
    assert in_process("export", "--db", address, cwd=few).stdout.count(ASSIGNMENT) >= len(FEW)
    disk.remount("rw")
    assert in_process(*GRADE, few / "submitted", "--db", address, cwd=few).exit_code == 0


@pytest.mark.parametrize("args", [(*GRADE, "submitted"), ("feedback",)])
def test_a_read_only_memory(few, args):
    args = [few / a if a == "submitted" else a for a in args]
    with read_only(few / ".autograder"):
        refuses(few, *args, says=["must be writable", "permission"])


@pytest.mark.slow
def test_submissions_may_be_read_only(few):
    shutil.rmtree(few / ".autograder" / "verdicts")
    with read_only(few / "submitted"):
        done = in_process(*GRADE, few / "submitted", cwd=few)
    assert done.exit_code == 0, done.stderr


@pytest.mark.slow
def test_graded_notebooks_on_a_disk_that_turns_read_only(few, disk, monkeypatch):
    """Points are entered, each folder is told, and the next run writes what is missing."""
    from autograder.grading import written

    whole = tree(few / "autograded")
    shutil.rmtree(few / "autograded")
    (disk.folder / "autograded").mkdir()
    (few / "autograded").symlink_to(disk.folder / "autograded")
    write = written.write

    def turn(*args):
        write(*args)
        disk.remount("ro")

    with monkeypatch.context() as patch:
        patch.setattr(written, "write", turn)
        done = in_process(*GRADE, few / "submitted", cwd=few)
    assert done.exit_code == 2
    assert done.stderr.count("Read-only file system") == len(FEW) - 1
    disk.remount("rw")
    assert in_process(*GRADE, few / "submitted", cwd=few).exit_code == 0
    assert tree(disk.folder / "autograded") == whole


@pytest.mark.slow
def test_a_locked_gradebook_is_told_soon(few):
    with contextlib.closing(sqlite3.connect(few / "gradebook.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # others may read
        started = time.monotonic()
        refuses(
            few, *(*GRADE, few / "submitted"), says=["locked by another program", "wait until it has ended"]
        )
        assert time.monotonic() - started < 30
        other.execute("ROLLBACK")
        other.execute("BEGIN EXCLUSIVE")
        for args in ((*GRADE, few / "submitted"), ("feedback",), ("report", ASSIGNMENT)):
            started = time.monotonic()
            refuses(few, *args, says=["locked by another program", "wait until it has ended"])
            assert time.monotonic() - started < 30
    assert in_process(*GRADE, few / "submitted", cwd=few).exit_code == 0
