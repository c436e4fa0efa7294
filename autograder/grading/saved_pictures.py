"""Keep the pictures of figures that a submitted notebook holds, since drawing takes most of a grader's time.

A cell of the notebook still runs, so that its errors are found and its names exist. If it shows a figure of
the same size and with as many axes as the saved picture, the child draws nothing, and the notebook keeps the
picture with a note below it. The picture is old if the student changed the cell and did not run it again. No
points depend on a picture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from autograder.cage.limits import IMAGE_CAP, OUTPUTS_CAP
from autograder.course.cells import text_of

Output = dict[str, Any]

NOTE = "This picture is from the notebook that was handed in. The grader has not drawn it again.\n"
_FIGURE = re.compile(r"<Figure size \d{1,5}x\d{1,5} with \d{1,3} Axes>")
"""The text that Jupyter saves with the picture of a figure."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\n]+=*\n?")


def find(outputs: Any) -> list[Output]:
    """Return the outputs of a submitted cell that are pictures of figures; the outputs may have any form."""
    found = list[Output]()
    for output in outputs[:OUTPUTS_CAP] if isinstance(outputs, list) else ():
        data = output.get("data") if isinstance(output, dict) else None
        if not isinstance(data, dict):
            continue
        text, picture = (text_of(data.get(kind)) for kind in ("text/plain", "image/png"))
        if _FIGURE.fullmatch(text) and len(picture) <= IMAGE_CAP and _BASE64.fullmatch(picture):
            shown = {"text/plain": text, "image/png": picture}
            found.append({"output_type": "display_data", "data": shown, "metadata": {}})
    return found


def texts(saved: Sequence[Output]) -> list[str]:
    """Return the texts of saved pictures. The child compares its figures with these texts."""
    return [output["data"]["text/plain"] for output in saved]


def fill_in(outputs: list[Output], saved: Sequence[Output]) -> list[Output]:
    """Return the outputs of a cell, with the saved pictures in place of the figures that were not drawn.

    Args:
        outputs: the outputs of the child, in which a figure without a picture has only a text.
        saved: the pictures of `find`, in the order in which the child got their texts.
    """
    waiting, filled = list(saved), list[Output]()
    for output in outputs:
        if waiting and output.get("data") == {"text/plain": texts(waiting)[0]}:
            filled += [waiting.pop(0), {"output_type": "stream", "name": "stdout", "text": NOTE}]
        else:
            filled.append(output)
    return filled
