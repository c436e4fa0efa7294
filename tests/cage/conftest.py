"""Grading with the pair of processes that serves all tests."""

import json

import pytest
from small_course import LIMITS, SEED, released

from autograder.grading.pair import file_task, notebook_task
from autograder.grading.session import Limits


@pytest.fixture(scope="session")
def grade_file(pair):
    """Grades the text of a Python file as an answer to ch02_qkv/softmax; returns the verdict."""

    def grade(source: str, limits: Limits = LIMITS):
        return pair.grade(file_task("ch02_qkv/softmax", source.encode(), False, SEED, limits))

    return grade


@pytest.fixture(scope="session")
def grade_notebook(pair):
    """Grades a submitted notebook, given as JSON data or bytes; returns the verdict."""

    def grade(notebook, limits: Limits = LIMITS, release=None):
        data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
        against = json.dumps(release or released()).encode()
        return pair.grade(notebook_task("ch02_qkv", against, data, SEED, limits))

    return grade
