"""One pair of processes for all tests of the cage, and a small released notebook to submit."""

import json
import textwrap

import pytest

from autograder.grading.pair import Pair, file_task, notebook_task
from autograder.grading.session import Limits

LIMITS = Limits(cell_seconds=2, call_seconds=1, memory_bytes=1 << 30)
SEED = 1729

RIGHT = textwrap.dedent("""
    import numpy as np

    def softmax(x, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)
""")


@pytest.fixture(scope="session")
def pair():
    with Pair() as pair:
        yield pair


@pytest.fixture(scope="session")
def grade_file(pair):
    """Grades the text of a Python file as an answer to ch02_qkv/softmax; returns the verdict."""

    def grade(source: str, limits: Limits = LIMITS):
        return pair.grade(file_task("ch02_qkv/softmax", source.encode(), False, SEED, limits))

    return grade


def cell(kind, source, **nbgrader):
    marks = {"nbgrader": {"schema_version": 3, **nbgrader}} if nbgrader else {}
    code = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "source": source, "metadata": marks, **code}


def answer_cell(source):
    return cell("code", source, grade_id="softmax_answer", solution=True, grade=False, locked=False)


def released():
    """The released notebook: imports, an answer, its test, a written question."""
    return {
        "cells": [
            cell("markdown", "# Softmax"),
            cell("code", "import numpy as np"),
            answer_cell("def softmax(x, axis=-1):\n    raise NotImplementedError()"),
            cell(
                "code",
                "check(softmax).score",
                grade_id="softmax",
                grade=True,
                solution=False,
                locked=True,
                points=3,
            ),
            cell(
                "markdown",
                "YOUR ANSWER HERE",
                grade_id="explain",
                grade=True,
                solution=True,
                locked=False,
                points=3,
            ),
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@pytest.fixture(scope="session")
def grade_notebook(pair):
    """Grades a submitted notebook, given as JSON data or bytes; returns the verdict."""

    def grade(notebook, limits: Limits = LIMITS):
        data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
        return pair.grade(notebook_task("ch02_qkv", json.dumps(released()).encode(), data, SEED, limits))

    return grade
