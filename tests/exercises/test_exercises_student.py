"""`check(softmax)`, as a student calls it in the notebook."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import autograder
from autograder import student
from autograder.checking import explanation
from autograder.exercises import UnknownExerciseError, find, names, of_assignment


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@pytest.mark.slow
def test_it_prints_and_returns_the_report(capsys):
    report = autograder.check(softmax)
    assert report.passed
    assert report.score == 3.0
    assert capsys.readouterr().out.startswith("softmax: 3 of 3 points")


@pytest.mark.slow
def test_a_function_of_another_name(capsys):
    def my_version(x, axis=-1):
        return softmax(x, axis)

    assert autograder.check(my_version, "softmax").passed
    assert autograder.check(my_version, "ch02_qkv/softmax").passed
    with pytest.raises(UnknownExerciseError, match=r"my_version.*softmax"):
        autograder.check(my_version)


@pytest.mark.slow
def test_a_blank_one(capsys):
    def attention_scores(query, key):
        raise NotImplementedError()

    report = autograder.check(attention_scores)
    assert report.score == 0
    assert "Not written yet" in capsys.readouterr().out


def test_the_reference_package_is_no_answer(capsys):
    from tfcore import ops

    def softmax(x, axis=-1):
        return ops.softmax(x, axis)

    report = autograder.check(softmax)
    assert report.status == "forbidden"
    assert "tfcore" in report.forbidden


def layer_norm(x, weight, bias, eps=1e-5):
    return torch.nn.LayerNorm(x.shape[-1], eps)(x) * weight + bias


@pytest.mark.slow
def test_a_forbidden_call_is_told_as_it_was_written(capsys):
    report = autograder.check(layer_norm)
    assert report.status == "forbidden"
    assert report.message.startswith(
        "`torch.nn.LayerNorm` calls `torch.nn.functional.layer_norm`, which this"
    )
    namespace = {"check": autograder.check, "torch": torch, "nn": torch.nn, "In": [""]}
    source = "def layer_norm(x, weight, bias, eps=1e-5):\n    return nn.LayerNorm(x.shape[-1])(x)"
    namespace["In"].append(source)
    exec(f"{source}\nreport = check(layer_norm)", namespace)
    assert namespace["report"].message == report.message


def test_an_interrupt_stops_the_check(capsys):
    """As often as the function is called, and with the threads put back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    calls = []

    def softmax(x, axis=-1):
        calls.append(torch.get_num_threads())
        if len(calls) == 3:
            raise KeyboardInterrupt
        return x

    with pytest.raises(KeyboardInterrupt, match="stopped"):
        autograder.check(softmax)
    assert calls == [1, 1, 1]
    assert torch.get_num_threads() == 2
    assert not capsys.readouterr().out
    torch.set_num_threads(threads)


@pytest.fixture
def hurried(monkeypatch):
    """A limit that a test can wait for, and a look at whether all is put back."""
    monkeypatch.setattr(student, "CALL_SECONDS", 0.2)
    before = signal.getsignal(signal.SIGPROF)
    yield
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def endless(x, axis=-1):
    while True:
        pass


def endless_in_spite_of_errors(x, axis=-1):
    while True:
        try:
            endless(x)
        except Exception:
            continue


def stopped_once(x, axis=-1):
    try:
        endless(x)
    except BaseException:
        endless(x)


@pytest.mark.slow
@pytest.mark.parametrize("function", [endless, endless_in_spite_of_errors, stopped_once])
def test_an_endless_loop_is_stopped(function, hurried, capsys):
    report = autograder.check(function, "softmax")
    assert (report.status, report.score) == ("stopped", 0)
    assert "did not come back in time" in capsys.readouterr().out


@pytest.mark.slow
def test_a_loop_that_ends_in_some_cases_alone(hurried, capsys):
    report = autograder.check(lambda x, axis=-1: softmax(x, axis) if axis == -1 else endless(x), "softmax")
    assert report.status == "stopped"


@pytest.mark.slow
def test_a_check_within_a_check(hurried, monkeypatch, capsys):
    """The inner one is stopped, and the outer one is limited still."""
    monkeypatch.setattr(student, "CALL_SECONDS", 2)  # what the inner one does before its call counts here
    told = []

    def softmax(x, axis=-1):
        monkeypatch.setattr(student, "CALL_SECONDS", 0.2)
        told.append(autograder.check(endless, "softmax").status)
        endless(x)

    assert autograder.check(softmax).status == "stopped"
    assert told == ["stopped"]


@pytest.mark.slow
def test_a_timer_goes_on_where_it_was(capsys):
    fired = []
    before = signal.signal(signal.SIGPROF, lambda *args: fired.append(True))
    signal.setitimer(signal.ITIMER_PROF, 500, 7)
    try:
        autograder.check(softmax)
        left, interval = signal.setitimer(signal.ITIMER_PROF, 0)
        assert left == pytest.approx(500, abs=5)
        assert interval == pytest.approx(7, abs=0.1)
        assert not fired
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_waiting_costs_no_time(hurried, capsys):
    """A busy machine, or a laptop that was closed."""
    waited = []

    def slept(x, axis=-1):
        if not waited:
            waited.append(time.sleep(0.4))
        return softmax(x, axis)

    assert autograder.check(slept, "softmax").passed


def test_outside_the_main_thread_there_is_no_limit(capsys):
    reports = []
    thread = threading.Thread(target=lambda: reports.append(autograder.check(softmax, "softmax")))
    thread.start()
    thread.join()
    assert reports[0].passed


def test_an_interrupt_while_a_failure_is_explained(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(explanation, "shrink_case", interrupted)
    with pytest.raises(KeyboardInterrupt):
        autograder.check(lambda x, axis=-1: x, "softmax")


def test_the_catalogue():
    assert [e.name for e in of_assignment("ch02_qkv")] == [n for n in names() if n.startswith("ch02")]
    with pytest.raises(UnknownExerciseError, match="ch99"):
        of_assignment("ch99")
    assert find("softmax") is find("ch02_qkv/softmax")


BESIDE_TORCH = """
import sys
import numpy as np
import autograder

def softmax(x, axis=-1):
    import torch
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)

assert "torch" not in sys.modules
assert autograder.check(softmax).passed

def softmax(x, axis=-1):
    import torch
    return torch.nn.functional.softmax(torch.from_numpy(x), dim=axis).numpy()

assert autograder.check(softmax).forbidden

def softmax(x, axis=-1):
    import scipy.special
    hidden = {"__name__": "scipy.hidden", "s": scipy.special, "x": x, "axis": axis}
    exec("y = getattr(s, 'soft' + 'max')(x, axis=axis)", hidden)
    return hidden["y"]

assert autograder.check(softmax).forbidden

def softmax(x, axis=-1):
    import torch
    vars(torch).update(x=x, axis=axis)
    exec("y = nn.functional.softmax(from_numpy(x), dim=axis).numpy()", vars(torch))
    return torch.y

assert autograder.check(softmax).forbidden
"""


@pytest.mark.slow
def test_what_a_library_calls_while_it_is_imported_is_no_call_of_the_student():
    done = subprocess.run([sys.executable, "-c", BESIDE_TORCH], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def attention_scores(query, key):
    raise NotImplementedError()


def test_a_function_that_is_written_and_calls_one_that_is_not(capsys):
    def soft_lookup(query, keys, values, temperature):
        return attention_scores(query, keys) @ values

    report = autograder.check(soft_lookup)
    assert report.message == "It calls your `attention_scores`, which is not written yet: write that first."


def test_whole_numbers_are_named_and_not_taken_for_a_broken_rule():
    def softmax(x, axis=-1):
        e = np.zeros_like(x)
        e[...] = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    report = str(autograder.check(softmax))
    assert "Integer scores lose the fractions of exp" in report
    assert "adding 1 to every score" not in report


def test_a_result_of_the_wrong_type_alone_has_no_wrong_factor():
    def shift_matrix(k, d_model):
        from tfcore.sinusoids import shift_matrix as right

        return torch.from_numpy(np.asarray(right(k, d_model))).float()

    assert "1 times what it should be" not in str(student._examined(find("shift_matrix"), shift_matrix))
