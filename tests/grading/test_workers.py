"""How many are graded at once: what is asked for, else what this process may use."""

import json
import os
import subprocess
import sys

import psutil
import pytest
from scratch import in_process

from autograder.course import workers
from autograder.grading.executors import EXECUTORS
from autograder.grading.verdict import Verdict


@pytest.fixture
def asked(monkeypatch):
    """What an executor is told, by name."""
    told = []

    def kept(tasks, tier, workers):
        told.append(workers)
        return iter(())

    monkeypatch.setitem(EXECUTORS, "kept", kept)
    monkeypatch.delenv("AUTOGRADER_WORKERS", raising=False)
    return told


def grade(course, *options):
    in_process("grade", "--executor", "kept", "--submissions", course / "submitted", *options, cwd=course)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux can give a process fewer cores")
def test_a_process_that_may_use_one_core_has_one_worker(few, asked):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert workers.cores() == 1
        grade(few, "--force")
    finally:
        os.sched_setaffinity(0, before)
    assert asked == [1]
    assert workers.cores() == len(before)


def test_the_environment_says_how_many_and_the_option_has_the_last_word(few, asked, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_WORKERS", "3")
    grade(few, "--force")
    grade(few, "--force", "--workers", "5")
    assert asked == [3, 5]


POOL = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from autograder.course.workers import end_with_parent, processes_with

if __name__ == "__main__":
    with ProcessPoolExecutor(2, processes_with(["json"]), end_with_parent) as pool:
        print(*pool.map(abs, [1]), flush=True)
        pool.map(time.sleep, [600, 600])
        print("asleep", flush=True)
        time.sleep(600)
"""


def test_a_pool_is_forked_from_the_server_that_was_started_before(tmp_path):
    script = tmp_path / "early.py"
    script.write_text(
        "import psutil\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from autograder.course.workers import processes_with, start_server\n"
        "if __name__ == '__main__':\n"
        "    start_server(['json'])\n"
        "    before = {child.pid for child in psutil.Process().children()}\n"
        "    with ProcessPoolExecutor(1, processes_with(['json'])) as pool:\n"
        "        print(pool.submit(abs, -1).result(), len(before))\n"
        "        print(before == {child.pid for child in psutil.Process().children()})\n"
    )
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["1", "2", "True"]  # the server, and the tracker of resources


@pytest.mark.slow
def test_no_process_of_a_pool_outlives_a_killed_command(tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "1\n"
        assert command.stdout.readline() == "asleep\n"
        children = psutil.Process(command.pid).children(recursive=True)
        assert len(children) >= 3
        command.kill()
    assert psutil.wait_procs(children, timeout=20)[1] == []


@pytest.mark.parametrize(
    ("note", "line"),
    [
        ("its process was killed", "its process was killed."),
        (
            "the grader itself failed:\nTraceback\n  ...\nValueError: no.",
            "the grader itself failed: ValueError: no.",
        ),
    ],
)
def test_a_failed_submission_is_one_line(few, monkeypatch, note, line):
    def fail(tasks, tier, workers):
        return ((key, Verdict("failed", note=note)) for key, _ in tasks)

    monkeypatch.setitem(EXECUTORS, "fail", fail)
    done = in_process(
        *("grade", "--executor", "fail", "--force", "--submissions", few / "submitted", "--json"), cwd=few
    )
    assert {problem["what"] for problem in json.loads(done.stdout)["problems"]} == {
        f"{line} Grade again, or report this fault"
    }
