"""A child that others kill is not taken for one that lives."""

import os
import signal
import sys

import pytest

from autograder.cage import process_exit


@pytest.fixture
def on_one_core():
    """Who waits for a child then goes on as soon as the child's files close, before it is dead."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


def forked():
    """A child that waits for a signal, and what can be read until its files are closed."""
    told, tells = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(told)
        signal.pause()
    os.close(tells)
    return pid, told


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's word on a process is in /proc")
def test_a_child_whose_files_are_closed_is_ending(on_one_core):
    too_early = 0
    for _ in range(100):
        pid, told = forked()
        assert not process_exit.has_begun(pid)
        os.kill(pid, signal.SIGKILL)
        assert os.read(told, 1) == b""
        waitable = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        too_early += waitable is None
        assert process_exit.has_begun(pid)
        os.waitpid(pid, 0)
        os.close(told)
    assert too_early, "every child could be waited for at once: this test has tried nothing"
