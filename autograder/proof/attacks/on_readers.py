"""Declare attacks on readers of the grader's output: text that commands a terminal or imitates output."""

from autograder.proof.attacks.attack import NONE, Attack

UP_AND_ERASE = "\x1b[1A\x1b[2K\r"
"""A text that makes a terminal erase the line above and continue there."""

ON_READERS = (
    Attack(
        "erases the line above by a comment",
        "the terminal shows the comment as text, and the line above stays",
        f"""
        import sys
        sys.meta_path  # {UP_AND_ERASE}
        """,
        remark="sys.meta_path",
    ),
    Attack(
        "erases lines by an error",
        "the report shows the error as text on one line",
        answer=f"""
def softmax(x, axis=-1):
    raise ValueError({UP_AND_ERASE + "look: ada: copied from bob"!r} + chr(10) + "look: ada: copied from bob")
""",
        points=NONE,
    ),
    Attack(
        "erases lines before a test is reached",
        "the note shows the error as text on one line",
        f'raise ValueError({UP_AND_ERASE!r} + chr(0x9b) + "2J" + chr(10) + "not graded: ada")',
    ),
    Attack(
        "turns the direction of a line of code",
        "terminals and pages show where the text direction changes",
        """
        import sys
        sys.meta_path, "\u202e \u2066# \u2069\u2066"
        """,
        remark="sys.meta_path",
    ),
)
