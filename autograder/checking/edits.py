"""Make a wrong answer from an accepted style by a few edits of its text."""

from __future__ import annotations

import linecache
import sys
from types import ModuleType

from autograder.checking.declaration import Answer, Exercise, Function, Gravity


def wrong(
    exercise: Exercise,
    style: Function,
    name: str,
    hint: str,
    edits: dict[str, str],
    gravity: Gravity = "fault",
) -> Function:
    r"""Declare a mistake of an exercise: an accepted style with a few edits in its text.

    Args:
        exercise: the exercise; the mistake is added to its declaration.
        style: the accepted style.
        name: the mistake's name.
        hint: the sentence that a student with this mistake should read.
        edits: parts of the style's text, each with its replacement; each part occurs exactly once.
        gravity: how much the mistake costs; see `Gravity`.

    Raises:
        ValueError: a part does not occur exactly once in the style's text.
    """
    (answer,) = (each for each in exercise.styles if each.function is style)
    text = answer.source(name)
    for before, after in edits.items():
        if (count := text.count(before)) != 1:
            raise ValueError(
                f"the mistake {name!r} edits {before!r}, which occurs {count} times in the style "
                f"{answer.name!r}. Give a part that occurs exactly once."
            )
        text = text.replace(before, after)
    function: Function = vars(_module(style.__module__, name, text))[name]
    exercise.misconceptions.append(Answer(name, hint, function, gravity))
    return function


def _module(style: str, name: str, text: str) -> ModuleType:
    """Run `text` in a new module with all names of the style's module, and show its source to `inspect`."""
    module = ModuleType(f"{style}.{name}")
    file = f"<{module.__name__}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    vars(module).update(
        {key: value for key, value in vars(sys.modules[style]).items() if not key.startswith("__")}
    )
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    return module
