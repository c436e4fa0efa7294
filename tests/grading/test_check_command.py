"""`autograder check`: one function in plain files, a line each, for people who work outside notebooks."""

import json
from contextlib import nullcontext

import pytest
from scratch import command, in_process

from autograder import exercises
from autograder.grading import plain_files
from autograder.proof.samples.notebooks import worth

KEYS = ["exercise", "file", "passed", "score", "max_score", "diagnosis", "forbidden", "message"]
SOFTMAX = exercises.find("softmax")
RIGHT = SOFTMAX.styles[0].pasted("softmax")
MISTAKEN = SOFTMAX.misconceptions[0].pasted("softmax")
FORBIDDEN = (
    "import scipy.special as sp\n\nsoftmax = lambda x, axis=-1: getattr(sp, 'soft' + 'max')(x, axis=axis)\n"
)
ALIASED = "from scipy.special import softmax as s\n\ndef softmax(x, axis=-1):\n    return s(x, axis=axis)\n"
FILES = {
    "right": RIGHT,
    "mistaken": MISTAKEN,
    "aliased": ALIASED,
    "hidden": FORBIDDEN,
    "own_reference": "from tfcore.ops import softmax\n",
    "syntax_error": "def softmax(x, axis=-1)\n    return x\n",
    "missing": "def soft_max(x):\n    return x\n",
    "blank": "def softmax(x, axis=-1):\n    raise NotImplementedError()\n",
    "endless": "def softmax(x, axis=-1):\n    while True:\n        pass\n",
    "endless_module": "while True:\n    pass\n",
    "exit": "import os\n\ndef softmax(x, axis=-1):\n    os._exit(0)\n",
    "exit_module": "import sys\nsys.exit(0)\n",
    "prints": RIGHT.replace("    return", "    print('noise' * 1000)\n    return", 1),
    "no_array": "def softmax(x, axis=-1):\n    return 'weights'\n",
}
SAYS = {
    "right": "Right.",
    "prints": "Right.",
    "mistaken": SOFTMAX.misconceptions[0].says,
    "aliased": "is what this exercise asks you to write",
    "hidden": "is what this exercise asks you to write",
    "own_reference": "is what this exercise asks you to write",
    "syntax_error": "SyntaxError",
    "missing": "Your code defines `soft_max`: give it the name `softmax`.",
    "blank": "Not written yet",
    "endless": "did not come back in time",
    "endless_module": "softmax",
    "exit": "process",
    "exit_module": "softmax",
    "no_array": "expected",
}


def as_notebook(source):
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


@pytest.fixture(scope="module", params=[".py", ".ipynb"])
def checked(request, tmp_path_factory):
    """All files graded by one command: the process, and the lines by name."""
    folder = tmp_path_factory.mktemp("plain")
    for name, source in FILES.items():
        text = as_notebook(source) if request.param == ".ipynb" else source
        (folder / f"{name}{request.param}").write_text(text)
    files = [f"{name}{request.param}" for name in FILES]
    done = command("check", "ch02_qkv/softmax", *files, "--json", "--call-limit", 1, cwd=folder)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["file"] for line in lines] == files, done.stderr
    return done, dict(zip(FILES, lines, strict=True))


@pytest.mark.slow
def test_each_line_is_as_promised(checked):
    _, lines = checked
    for line in lines.values():
        assert list(line) == KEYS
        assert line["exercise"] == "ch02_qkv/softmax"
        assert type(line["passed"]) is bool
        assert line["max_score"] == 3
        assert isinstance(line["message"], str)
        assert line["message"]


@pytest.mark.slow
def test_verdicts(checked):
    done, lines = checked
    assert done.returncode == 1
    assert {name for name, line in lines.items() if line["passed"]} == {"right", "prints"}
    assert {name: line["score"] for name, line in lines.items() if line["score"]} == {
        "right": 3.0,
        "prints": 3.0,
        "mistaken": worth(SOFTMAX, SOFTMAX.misconceptions[0]),
    }
    assert {name: line["diagnosis"] for name, line in lines.items() if line["diagnosis"]} == {
        "mistaken": "no_maximum"
    }


@pytest.mark.slow
def test_forbidden_calls_are_named(checked):
    _, lines = checked
    found = {name: line["forbidden"] for name, line in lines.items() if line["forbidden"]}
    assert set(found) == {"aliased", "hidden", "own_reference"}
    assert found["aliased"] == "scipy.special.softmax"
    assert found["hidden"].startswith("scipy.")
    assert found["own_reference"].startswith("tfcore.")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_messages(checked, name):
    _, lines = checked
    assert SAYS[name] in lines[name]["message"]


@pytest.fixture
def kept(pair, monkeypatch):
    """`check` with the pair of processes that serves all tests."""
    monkeypatch.setattr(plain_files, "Pair", lambda tier: nullcontext(pair))


def test_short_name_and_exit_code_of_a_pass(tmp_path, kept):
    (tmp_path / "mine.py").write_text(RIGHT)
    done = in_process("check", "softmax", tmp_path / "mine.py", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["exercise"] == "ch02_qkv/softmax"


@pytest.mark.slow
def test_for_a_person(tmp_path, kept):
    (tmp_path / "mine.py").write_text(MISTAKEN)
    done = in_process("check", "softmax", tmp_path / "mine.py")
    assert done.exit_code == 1
    assert f"softmax: {worth(SOFTMAX, SOFTMAX.misconceptions[0]):g} of 3 points" in done.stdout
    assert "exp overflows" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("ch02_qkv/softmin", "mine.py"), "no exercise is called 'ch02_qkv/softmin'"),
        (("softmax", "nowhere.py"), "cannot be read"),
        (("softmax", "mine.py", "nowhere.py"), "cannot be read"),
        (("softmax", "broken.ipynb"), "is not a notebook"),
        (("softmax", "mine.py", "broken.ipynb"), "is not a notebook"),
        (("softmax", "latin.py"), "is not Python in UTF-8"),
        (("softmax", "mine.txt"), "expected a .py or .ipynb file"),
        (("softmax", "folder.py"), "cannot be read"),
        (("softmax",), "Missing argument"),
        ((), "Missing argument"),
        (("softmax", "mine.py", "--call-limit", "soon"), "Invalid value"),
    ],
)
def test_bad_input_is_refused_before_anything_is_graded(tmp_path, monkeypatch, args, says):
    (tmp_path / "mine.py").write_text(RIGHT)
    (tmp_path / "mine.txt").write_text(RIGHT)
    (tmp_path / "broken.ipynb").write_text("{")
    (tmp_path / "latin.py").write_bytes("# caf\xe9".encode("latin-1"))
    (tmp_path / "folder.py").mkdir()
    monkeypatch.chdir(tmp_path)
    done = in_process("check", *args)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
