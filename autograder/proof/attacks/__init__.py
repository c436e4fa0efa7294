"""Declare the attacks of hostile submissions; the tests grade all of them at every tier.

An attack is a row in one of this package's files: a cell before the answers of an otherwise right notebook,
or an answer, or a change to the notebook itself. An attack must not earn points that its functions do not
deserve, read a secret, change a file or harm anybody. An attack whose text touches the grader's machinery
leaves a remark. A cheat can win the points of a function that works but was not written by hand; the rows
with `WORKS` show how.
"""

from __future__ import annotations

from autograder.proof.attacks.attack import EARNED, EITHER, FULL, NONE, WORKS, Attack
from autograder.proof.attacks.on_calls import ON_CALLS
from autograder.proof.attacks.on_files import ON_FILES
from autograder.proof.attacks.on_notebooks import ON_NOTEBOOKS
from autograder.proof.attacks.on_points import ON_POINTS
from autograder.proof.attacks.on_processes import ON_PROCESSES
from autograder.proof.attacks.on_readers import ON_READERS
from autograder.proof.attacks.on_resources import ON_RESOURCES

ATTACKS = (
    *ON_FILES,
    *ON_PROCESSES,
    *ON_RESOURCES,
    *ON_POINTS,
    *ON_CALLS,
    *ON_NOTEBOOKS,
    *ON_READERS,
)

__all__ = ["ATTACKS", "EARNED", "EITHER", "FULL", "NONE", "WORKS", "Attack"]
