"""What hostile submissions attempt, declared one shape each; the tests grade all of them at every tier.

An attack is a row in one of this package's files: a cell that stands before the answers of an otherwise right
notebook, or an answer, or a change to the notebook itself. Whatever it attempts, it may gain no point, learn
nothing, change no file and hold nobody else up.
"""

from __future__ import annotations

from autograder.attacks.attack import EARNED, EITHER, FULL, NONE, Attack
from autograder.attacks.on_files import ON_FILES
from autograder.attacks.on_notebooks import ON_NOTEBOOKS
from autograder.attacks.on_points import ON_POINTS
from autograder.attacks.on_processes import ON_PROCESSES
from autograder.attacks.on_resources import ON_RESOURCES

ATTACKS = (*ON_FILES, *ON_PROCESSES, *ON_RESOURCES, *ON_POINTS, *ON_NOTEBOOKS)

__all__ = ["ATTACKS", "EARNED", "EITHER", "FULL", "NONE", "Attack"]
