"""Check and grade the exercises of *Transformers from first principles*.

A notebook needs two names from this package at most, ``from autograder import bring, check``. All other code
is in the folders and files of this list. Each of them imports only from entries below it:

- `cli`: the entry point of the commands. `commands`: one module for each command
- `reports`: the pages and tables about a graded class, from one student's feedback to the class report
- `platforms`: collecting work (`collect`), exporting grades (`export`), bundles, nbgrader, a hub, clusters
- `roster`: who is in the class, who has not handed in, and everything about one student
- `proof`: tests of the grader itself: `verify`, mutants, attacks, simulated classes, `doctor`
- `grading`: grading one notebook (`judge`, `pair`), then a class (`batch`), and the gradebook
- `release`: making the students' notebooks from the solutions
- `student`: the functions `check` and `bring` for notebooks
- `exercises`: every exercise with its mistakes and accepted styles
- `checking`: one answer: `declaration`, `examination`, `oracle`, `diagnosis`, `explanation`, `report`
- `reading`: searching a submission's source code
- `cage`: running a submission in its own process; it imports no other part of the package
- `packages`: building wheels and the other parts of bundles
- `course`: a course's folders and files, and helpers for all other parts
"""

from autograder.student import bring, check

__all__ = ["bring", "check"]
