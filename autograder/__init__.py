"""Checks and grades the exercises of *Transformers from first principles*.

A notebook needs one name from here: ``from autograder import check``.
"""

from autograder.student import check

__all__ = ["check"]
