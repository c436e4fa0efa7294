"""What a tier promises is tried from the inside; where it does not hold, nothing is graded."""

import os
import resource
import sys
import tempfile
from pathlib import Path

import pytest
from small_course import LIMITS, RIGHT, SEED

from autograder.cage import limits, scratch_dir, self_test, walls
from autograder.cage.attempts import ATTEMPTS
from autograder.course.errors import BadInputError
from autograder.grading import cages
from autograder.grading.pair import Pair, PairError, file_task

HELD = [tier for tier in cages.SAFE if tier >= cages.strongest().tier]
ONLY_AS_ROOT = {"reads_the_memory", "traces", "copies_memory", "makes_a_namespace"}


def probed(tier):
    with tempfile.TemporaryDirectory() as folder, cages.secret() as target:
        return cages._run_self_test(tier, Path(folder), target)


@pytest.mark.skipif(sys.platform != "linux", reason="walls are made of Linux's parts")
def test_this_machine_holds_a_tier_at_which_strangers_may_be_graded():
    assert HELD, cages.strongest().missing


@pytest.mark.parametrize("tier", HELD)
def test_every_attempt_is_refused(tier):
    facts = probed(tier)
    assert list(facts["got"]) == [attempt.__name__ for attempt in ATTEMPTS]
    assert not any(facts["got"].values())
    cages.require(tier, facts)


@pytest.mark.slow
def test_without_walls_the_same_attempts_succeed():
    got = probed("D")["got"]
    assert {name for name, what in got.items() if not what} <= ONLY_AS_ROOT


@pytest.mark.skipif("A" not in HELD, reason="needs bubblewrap and name spaces")
@pytest.mark.parametrize(
    "change",
    [
        {"root_writable": True},
        {"sees_target": True},
        {"got": {"connects": "connected"}},
        {"spaces": {space: os.readlink(f"/proc/self/ns/{space}") for space in cages.SPACES}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_one_open_thing_is_enough(change):
    facts = probed("A")
    cages.require("A", facts)
    with pytest.raises(cages.CageError, match="the sandbox has gaps"):
        cages.require("A", facts | change)


@pytest.mark.slow
@pytest.mark.skipif("A" not in HELD, reason="needs bubblewrap and name spaces")
def test_a_promised_tier_that_does_not_hold_grades_nothing(tmp_path, monkeypatch):
    """A program that calls itself bubblewrap and walls nothing off is found out."""
    fake = tmp_path / "bwrap"
    fake.write_text(f'#!/bin/sh\nwhile [ "$1" != {sys.executable} ]; do shift; done\nexec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Pair("A") as pair, pytest.raises(PairError, match=r"should support tier A.*shares the user"):
        pair.grade(file_task("ch02_qkv/softmax", RIGHT.encode(), False, SEED, LIMITS))


@pytest.mark.parametrize(("lost", "tier"), [("bubblewrap", "B"), ("libseccomp", "D")])
def test_the_next_tier_is_taken_and_what_is_missing_told(monkeypatch, lost, tier):
    if lost == "bubblewrap":
        monkeypatch.setattr(cages.shutil, "which", lambda name: None)
    else:
        monkeypatch.setattr(cages.syscalls, "program", lambda: None)
    held = cages.strongest.__wrapped__()
    assert held.tier == tier
    assert lost in held.missing["A"]


def test_where_nothing_holds_grading_wants_to_be_told(monkeypatch):
    monkeypatch.setattr(cages, "strongest", lambda: cages.Held("D", {"A": "x", "B": "needs y"}))
    with pytest.raises(BadInputError, match=r"needs y.*--allow-unsafe"):
        cages.required(allow_unsafe=False)
    assert cages.required(allow_unsafe=True) == "D"


@pytest.mark.slow
def test_without_walls_it_grades_if_told_and_the_verdict_says_so():
    with Pair("D") as pair:
        verdict = pair.grade(file_task("ch02_qkv/softmax", RIGHT.encode(), False, SEED, LIMITS))
    assert (verdict.tier, verdict.score) == ("D", 3)


def test_the_course_is_not_among_what_can_be_read():
    course = Path(cages.__file__).resolve().parents[2]
    within = {
        Path(path).relative_to(course) for path in cages.readable() if Path(path).is_relative_to(course)
    }
    ours = {str(path) for path in within if path.parts[0] not in (".venv", "venv")}
    assert ours == {
        "tfcore/__init__.py",
        "tfcore/data",
        "tfcore/testing/meters.py",
        "autograder/__init__.py",
        "autograder/cage",
    }


def test_packages_that_lie_among_the_libraries_are_left_out(tmp_path):
    """As where the course was installed from a wheel."""
    for name in ("numpy", "autograder", "autograder/exercises", "tfcore"):
        (tmp_path / "lib" / name).mkdir(parents=True)
    shut = [tmp_path / "lib" / "autograder", tmp_path / "lib" / "tfcore"]
    assert list(cages._without(tmp_path, shut)) == [tmp_path / "lib" / "numpy"]


@pytest.mark.slow
def test_a_home_is_removed_however_deep_and_however_shut(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    here = os.open(home, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.mkdir("shut", 0, dir_fd=here)
    os.close(here)
    assert scratch_dir.is_full(home)
    scratch_dir.empty(home)
    assert not list(home.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("names", "full"), [(9_000, False), (11_000, True)])
def test_a_home_with_too_many_files_is_full(tmp_path, names, full):
    home = tmp_path / "home"
    home.mkdir()
    for i in range(names):
        (home / str(i)).touch()
    assert scratch_dir.is_full(home) is full


def test_a_link_out_of_a_home_is_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(kept)
    scratch_dir.empty(home)
    assert not list(home.iterdir())
    assert (kept / "file").read_text() == "kept"


def test_a_limit_that_cannot_be_set_is_no_wall(monkeypatch):
    """Without it a submission could take all of the machine's memory: rather nothing is graded."""

    def refuse(which, bounds):
        raise OSError("not here")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(OSError, match="could not be put up"):
        self_test.facts(walls.Walls(), {"path": "/nowhere"})


def test_a_limit_is_never_more_than_the_machine_allows():
    """A container may allow less than is asked for; that much less holds then."""
    inwards, outwards = os.pipe()
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        limits.lower(resource.RLIMIT_NOFILE, 128)
        os.write(outwards, str(resource.getrlimit(resource.RLIMIT_NOFILE)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(inwards, 100) == b"(64, 64)"
