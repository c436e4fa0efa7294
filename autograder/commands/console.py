"""Print the output of commands: results on stdout; progress, notes and errors on stderr."""

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
    """Print a text for a person on stderr."""
    err.print(text, soft_wrap=True)


def plural(count: int, thing: str) -> str:
    """Return the count with its noun, in the plural unless the count is 1."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def print_json(data: Any, **options: Any) -> None:
    """Print data as JSON in ASCII, with DEL, which `json` does not escape, escaped as well."""
    typer.echo(json.dumps(data, **options).replace("\x7f", r"\u007f"))


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr if stderr is a terminal; yield a function for (done, total)."""
    columns = TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
