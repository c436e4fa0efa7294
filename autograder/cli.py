"""Run the command line: ``autograder release``, ``grade``, ``feedback`` and the other commands.

Results go to stdout; progress, notes and errors to stderr. A command exits with status 0 if all is well, 1 if
a check did not pass, and 2 if its input cannot be used. Each command imports its modules when it runs, so
that ``--help`` prints at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Annotated, Any

try:
    import rich  # noqa: F401
    import typer
    from typer.core import TyperGroup
except ModuleNotFoundError as error:
    raise SystemExit(f"autograder needs {error.name}: install its wheel with the extra [grade].") from None

import tfcore
from autograder.commands import (
    adopt,
    audit,
    bundle,
    check,
    collect,
    doctor,
    export,
    extension,
    feedback,
    forget,
    grade,
    group,
    late,
    merge,
    release,
    rename,
    report,
    roster,
    simulate,
    status,
    verify,
)
from autograder.commands.console import say
from autograder.commands.options import BAD_INPUT
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError

STOPPED = 130
gc.set_threshold(50_000)  # by default, garbage collection takes a tenth of the time of a short command
atexit.register(gc.freeze)  # else Python searches all objects again as it ends, for another tenth


class _Commands(TyperGroup):
    """A group of commands that reports bad input as one message and exits with status 2."""

    def invoke(self, ctx: Any) -> Any:
        from autograder.course import without_servers  # noqa: F401  before a command imports nbgrader

        try:
            return super().invoke(ctx)
        except BadInputError as error:
            say(f"[bold red]error:[/] {escape(str(error))}")
        except BrokenPipeError:  # nobody reads the rest of the output, as behind `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit() from None
        except OSError as error:
            path = f" ({error.filename})" if error.filename else ""
            message = escape(f"{error.strerror or error}{path}")
            say(f"[bold red]error:[/] {message}. The finished work is kept; put this right and try again.")
        except RuntimeError as error:
            from autograder.grading.pair import PairError

            if not isinstance(error, PairError):
                raise
            message = "\n".join(map(escape, str(error).splitlines()))
            say(f"[bold red]error:[/] the grader does not start on this machine: {message}")
        except KeyboardInterrupt:
            is_grade = ctx.invoked_subcommand == "grade"
            kept = "graded submissions are kept" if is_grade else "finished work is kept"
            say(f"stopped; {kept}. Run the command again.")
            raise typer.Exit(STOPPED) from None
        raise typer.Exit(BAD_INPUT)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Release, grade and explain the notebooks of [bold]Transformers from first principles[/].",
    epilog="Exit codes: 0 all is well, 1 a check did not pass, 2 the input cannot be used, "
    "130 stopped with Ctrl-C.",
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"autograder {tfcore.__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


PANELS = {
    "Commands to prepare a course": (doctor, release, audit, bundle, simulate, adopt),
    "Commands to grade a class": (status, collect, grade, feedback, report, export),
    "Commands about students": (group, extension, late, rename, merge, forget, roster),
    "Commands to try the grader": (check, verify),
}
"""The modules of the commands by the panel of `autograder --help` that lists them."""

for panel, modules in PANELS.items():
    for module in modules:
        name = module.__name__.rpartition(".")[2]
        command = getattr(module, name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(epilog=module.EPILOG, rich_help_panel=panel)(command)


if __name__ == "__main__":
    app()
