"""Checks and grades the exercises of *Transformers from first principles*.

A notebook needs one name from here: ``from autograder import check``. Everything else lies in a room, and a
room imports only from the rooms below it in this list:

- `cli`: the commands' door. `commands`: a module for each of them
- `reports`: what people read of a graded class, from one student's feedback to the class report
- `platforms`: the way in (`collect`) and out (`export`, bundles), nbgrader, a hub, clusters
- `proof`: that the grader is right: `verify`, mutants, attacks, classes made up, `doctor`
- `grading`: strangers' notebooks, one (`judge`, `pair`), then a class (`batch`), up to the gradebook
- `release`: from the solutions to the students' notebooks
- `student`: what `check` does in a notebook
- `exercises`: every exercise with its mistakes and accepted styles
- `checking`: one answer: `declaration`, `examination`, `oracle`, `diagnosis`, `explanation`, `report`
- `reading`: what is read off a submission's text
- `cage`: all that runs beside a stranger's code. It imports nothing of the rest
- `packages`: wheels and what is bundled
- `course`: a course's folders and files, and what all rooms need
"""

from autograder.student import check

__all__ = ["check"]
