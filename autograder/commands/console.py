"""Print the output of commands: results on stdout; progress, notes and errors on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autograder.commands.terminal import Terminal

out = Terminal()
err = Terminal(stderr=True)


def say(text: str) -> None:
    """Print a text for a person on stderr."""
    err.print(text, soft_wrap=True)


def plural(number: int, thing: str, things: str = "") -> str:
    """Return the number with its noun, in the plural unless the number is 1."""
    return f"{number} {thing if number == 1 else things or f'{thing}s'}"


def as_json_text(data: Any, **options: Any) -> str:
    """Return data as a line of JSON in ASCII; escape DEL too, which `json` leaves as it is."""
    return json.dumps(data, **options).replace("\x7f", r"\u007f") + "\n"


def print_json(data: Any, **options: Any) -> None:
    """Print data as JSON for programs."""
    typer.echo(as_json_text(data, **options), nl=False)


INTERVAL = 10.0
"""The seconds between two lines of progress where stderr is not a terminal."""


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr how far a long command is; yield a function for (done, total).

    On a terminal the progress is a bar. Elsewhere, as in the log of a server, it is a line every ten seconds.
    """
    if err.is_terminal:
        columns = TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=err, transient=True) as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    counts: list[int] = []

    def update(done: int, total: int) -> None:
        counts[:] = done, total

    ended = Event()
    thread = Thread(target=print_progress, args=(title, counts, ended.wait), daemon=True)
    thread.start()
    try:
        yield update
    finally:
        ended.set()
        thread.join()


def print_progress(title: str, counts: list[int], wait: Callable[[float], bool]) -> None:
    """Print a line about the progress every ten seconds.

    Args:
        title: the name of the work.
        counts: the numbers (done, total), which change meanwhile; empty as long as they are unknown.
        wait: waits for some seconds, and returns whether the command has ended.
    """
    for ticks in count(1):
        if wait(INTERVAL):
            return
        done = f" {counts[0]} of {counts[1]}," if counts else ""
        say(f"{title}:{done} {ticks * INTERVAL:.0f} s")
