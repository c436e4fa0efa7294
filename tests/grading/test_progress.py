"""Progress where output is no terminal: a line every ten seconds, in the log of a server or of CI."""

import subprocess
import sys
import threading
import time

import pytest

from autograder.commands import console

CODE = """
import time
from autograder.commands import console
console.INTERVAL = 0.02
with console.progress("grading") as show:
    show(3, 200)
    time.sleep(0.3)
print("done")
"""


def a_clock(steps):
    """Waits in no time: does a step at each wait, and ends after the last; remembers how long it was told."""
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) > len(steps):
            return True
        steps[len(waits) - 1]()
        return False

    return wait, waits


def test_a_line_every_ten_seconds(capsys):
    counts = []
    steps = (lambda: None, lambda: counts.extend((0, 200)), lambda: counts.__setitem__(0, 40))
    wait, waits = a_clock(steps)
    console.print_progress("grading", counts, wait)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == ["grading: 10 s", "grading: 0 of 200, 20 s", "grading: 40 of 200, 30 s"]
    assert set(waits) == {10.0}


def test_a_short_command_prints_none(capsys):
    threads = threading.active_count()
    started = time.monotonic()
    with console.progress("feedback") as show:
        show(1, 2)
    assert time.monotonic() - started < 5
    assert threading.active_count() == threads
    assert capsys.readouterr() == ("", "")


def test_an_error_ends_it():
    threads = threading.active_count()
    with pytest.raises(ValueError, match="stop"), console.progress("feedback"):
        raise ValueError("stop")
    assert threading.active_count() == threads


@pytest.mark.slow
def test_lines_go_to_stderr_while_the_command_works():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
    lines = done.stderr.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("grading: 3 of 200, ") for line in lines)
