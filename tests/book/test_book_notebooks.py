"""Numbers that a notebook shares with its chapter are the same: the code of the chapter computes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from book_paths import ROOT

SHARED = [  # notebook, the chapter's name of the number, how the notebook writes it
    ("ch01_rnn_bottleneck", "hand_left", ".3f"),
    ("ch10_beyond_attention", "keep_linear", ",.0f"),
    ("ch11_capstone", "num_sentences", ",.0f"),
    ("ch11_capstone", "floor", ".3f"),
    ("ch11_capstone", "floor_held", ".3f"),
]


def sentences(notebook: str) -> str:
    """The text of a notebook's source: its story, its questions and their mark schemes."""
    source = json.loads((ROOT / "solutions" / notebook / f"{notebook}.ipynb").read_bytes())
    return "\n".join("".join(cell["source"]) for cell in source["cells"] if cell["cell_type"] == "markdown")


@pytest.mark.slow
@pytest.mark.parametrize(("notebook", "name", "form"), SHARED)
def test_a_number_of_the_chapter_is_that_of_its_notebook(
    html: Path, notebook: str, name: str, form: str
) -> None:
    numbers = json.loads((html.parent / "numbers.json").read_text("utf8"))
    computed = format(numbers[notebook.removeprefix("ch")][name], form)
    assert computed in sentences(notebook), (
        f"{name} is {computed} in the chapter, and {notebook} does not say so"
    )
