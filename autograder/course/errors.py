"""The one error that a person can put right: something from outside that cannot be used."""

from __future__ import annotations

from autograder.course.visible import visible


class BadInputError(Exception):
    """Says what was expected, what came, and what to do. The command line prints it and exits with 2."""

    def __str__(self) -> str:
        return visible(super().__str__())
