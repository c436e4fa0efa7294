"""`check(softmax)`, as a student calls it in the notebook."""

import numpy as np
import pytest
import torch

import autograder
from autograder import checking
from autograder.exercises import UnknownExerciseError, find, names, of_assignment


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def test_it_prints_and_returns_the_report(capsys):
    report = autograder.check(softmax)
    assert report.passed
    assert report.score == 3.0
    assert capsys.readouterr().out.startswith("softmax: 3 of 3 points")


def test_a_function_of_another_name(capsys):
    def my_version(x, axis=-1):
        return softmax(x, axis)

    assert autograder.check(my_version, "softmax").passed
    assert autograder.check(my_version, "ch02_qkv/softmax").passed
    with pytest.raises(UnknownExerciseError, match=r"my_version.*softmax"):
        autograder.check(my_version)


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


def test_an_interrupt_while_a_failure_is_explained(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "shrunk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        autograder.check(lambda x, axis=-1: x, "softmax")


def test_the_catalogue():
    assert [e.name for e in of_assignment("ch02_qkv")] == [n for n in names() if n.startswith("ch02")]
    with pytest.raises(UnknownExerciseError, match="ch99"):
        of_assignment("ch99")
    assert find("softmax") is find("ch02_qkv/softmax")
