"""Describe an error of a student's code with the line that raised it."""

from __future__ import annotations

import linecache
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS = ("site-packages", str(Path(__file__).parent), str(Path("tfcore", "testing")))
"""Folders of code that is not the student's."""
FRAME = re.compile(r'File "(.+)", line (\d+)')


def kind(error: BaseException) -> str:
    """Return the name of an error's class, or "ValueError" for a class derived from ValueError."""
    return "ValueError" if isinstance(error, ValueError) else type(error).__name__


def describe_error(error: BaseException) -> str:
    """Return the error with the student's line that raised it: ``ValueError: ... (line 3: return x / s)``."""
    try:
        message = f"{type(error).__name__}: {error}".strip(": ")[:600]
    except Exception:
        return type(error).__name__
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno}: {(error.text or '').strip()[:120]})"
    frames = traceback.walk_tb(error.__traceback__)
    line = line_of([(frame.f_code.co_filename, number) for frame, number in frames])
    return f"{message} ({line})" if line else message


def differentiated_line(run: Callable[[], Any]) -> str:
    """Return the student's line whose gradient torch cannot compute, or an empty text if torch names none.

    Torch raises such an error after the student's code has ended, so the traceback has no line of it.

    Args:
        run: the call that raised the error; it is repeated while torch records the line of each operation.
    """
    import torch

    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        try:
            with torch.autograd.detect_anomaly(check_nan=False):
                run()
        except Exception:
            text = "\n".join(str(each.message) for each in recorded)
            return line_of([(name, int(number)) for name, number in FRAME.findall(text)])
    return ""


def line_of(frames: list[tuple[str, int]]) -> str:
    """Return the last of the lines that a student wrote, as ``line 3: return x / s``, or an empty text.

    Args:
        frames: file names with numbers of lines, the innermost call last.
    """
    for filename, number in reversed(frames):
        if any(folder in filename for folder in OURS):
            continue
        linecache.checkcache(filename)
        if line := linecache.getline(filename, number).strip():
            return f"line {number}: {line[:120]}"
    return ""
