"""A small released notebook, a right answer, and limits that suit a test."""

import textwrap
from pathlib import Path

from autograder.grading.session import Limits

LIMITS = Limits(cell_seconds=2, call_seconds=1, memory_bytes=1 << 30)
SEED = 1729

RIGHT = textwrap.dedent("""
    import numpy as np

    def softmax(x, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)
""")


def cell(kind, source, **nbgrader):
    marks = {"nbgrader": {"schema_version": 3, **nbgrader}} if nbgrader else {}
    code = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "source": source, "metadata": marks, **code}


def answer_cell(source, function="softmax"):
    return cell("code", source, grade_id=f"{function}_answer", solution=True, grade=False, locked=False)


def released(function="softmax"):
    """The released notebook: imports, an answer, its test, a written question."""
    return {
        "cells": [
            cell("markdown", "# Softmax"),
            cell("code", "import numpy as np"),
            answer_cell(f"def {function}(x, axis=-1):\n    raise NotImplementedError()", function),
            cell(
                "code",
                f"check({function}).score",
                grade_id=function,
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


def is_running(pid):
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        return "Z (zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
