"""The examples in the autograder's docstrings; pytest collects those of tfcore itself."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import autograder

FOLDER = Path(autograder.__file__).parent
SHOWING = [path for path in sorted(FOLDER.rglob("*.py")) if re.search(r"^ *>>> ", path.read_text(), re.M)]


@pytest.mark.parametrize("path", SHOWING, ids=lambda path: path.stem)
def test_examples_say_what_comes_out(path):
    name = ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    module = importlib.import_module(name.removesuffix(".__init__"))
    failed, tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0
