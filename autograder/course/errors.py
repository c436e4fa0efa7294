"""Define the error for input that cannot be used and that a person can correct."""

from __future__ import annotations

from autograder.course.visible import visible


class BadInputError(Exception):
    """An error whose message states the expected input, the actual input and the remedy.

    The command line prints the message and exits with status 2.
    """

    def __str__(self) -> str:
        return visible(super().__str__())
