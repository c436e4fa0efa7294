"""Check the ids of students: an id becomes the name of a folder, a part of addresses and text in pages."""

from __future__ import annotations

import re
import unicodedata

from autograder.course.errors import BadInputError

LONGEST = 128
"""The most bytes of an id; nbgrader's gradebook stores at most this many characters."""
MARKS = "._+@='’,()· "
"""Characters that an id may have besides letters, digits and dashes, as in names and e-mail addresses."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")
"""Letters and marks that are invisible."""
RULE = (
    f"an id has letters, digits, dashes, spaces inside it and {' '.join(MARKS.strip())}; it does not begin "
    f"with a dot or a dash, and it has at most {LONGEST} bytes"
)


def is_valid(student: str) -> bool:
    """Return whether a text can be a student's id.

    >>> is_valid("zoë.o'neill+a@uni.de"), is_valid("王小明_1234"), is_valid('q";alert(1);"'), is_valid("../x")
    (True, True, False, False)
    """
    kinds = [unicodedata.category(character) for character in student]
    return (
        student.strip() == student != ""
        and not _INVISIBLE.search(student)
        and all(
            kind[0] in "LMN" or kind == "Pd" or c in MARKS for kind, c in zip(kinds, student, strict=True)
        )
        and not (student.startswith(".") or kinds[0] == "Pd")
        and len(student.encode()) <= LONGEST
    )


def require_valid(student: str) -> str:
    """Return the student's id unchanged if it is valid.

    Raises:
        BadInputError: the id breaks `RULE`.
    """
    if not is_valid(student):
        raise BadInputError(f"{student!r} cannot be a student's id: {RULE}.")
    return student
