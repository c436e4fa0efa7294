"""What commands print: results on stdout, progress and complaints on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autograder.commands.terminal import Terminal

out = Terminal()
err = Terminal(stderr=True)


def say(text: str) -> None:
    """Tells a person something, on stderr."""
    err.print(text, soft_wrap=True)


def plural(count: int, thing: str) -> str:
    """The count with its noun."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def print_json(data: Any, **how: Any) -> None:
    """Print JSON in ASCII, of which DEL alone is no text."""
    typer.echo(json.dumps(data, **how).replace("\x7f", r"\u007f"))


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, where a person watches it."""
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
