"""A habit: what turns the solved notebook of an assignment into somebody else's."""

from collections.abc import Callable
from dataclasses import dataclass, field

from autograder.proof.samples.notebooks import answer_cell

SEPARATOR = "\n---\n"


def code(source):
    """A code cell of the student's own."""
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}


def cells(text):
    """The cells of a text, between lines of three dashes."""
    return [code(part.strip("\n")) for part in text.split(SEPARATOR)] if text.strip() else []


@dataclass(frozen=True)
class Habit:
    """One person's way of working.

    Args:
        name: the habit.
        assignment: in whose solved notebook it is tried.
        first: cells behind the cell of imports.
        answers: by exercise; of several cells the last takes the place of the answer.
        last: cells at the end.
        change: what else is done to the notebook.
        afterwards: what is done when everything has been checked, and just before it is handed in.
    """

    name: str
    assignment: str
    first: str = ""
    answers: dict[str, str] = field(default_factory=dict)
    last: str = ""
    change: Callable = lambda notebook: None
    afterwards: Callable = lambda notebook: None

    def handed_in(self, notebook):
        """The notebook, as this person hands it in."""
        self.afterwards(notebook := self.written(notebook))
        return notebook

    def written(self, notebook):
        """The notebook, as this person writes it and runs it from top to bottom."""
        place = next(i for i, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code")
        notebook["cells"][place + 1 : place + 1] = cells(self.first)
        for name, text in self.answers.items():
            *before, own = cells(text)
            answer = answer_cell(notebook, name)
            answer["source"] = own["source"]
            place = next(i for i, cell in enumerate(notebook["cells"]) if cell is answer)
            notebook["cells"][place:place] = before
        notebook["cells"] += cells(self.last)
        self.change(notebook)
        return notebook


def answers_of(notebook):
    """The cells in which functions are answered."""
    marked = [(cell, cell["metadata"].get("nbgrader", {})) for cell in notebook["cells"]]
    return [cell for cell, marks in marked if marks.get("solution") and cell["cell_type"] == "code"]
