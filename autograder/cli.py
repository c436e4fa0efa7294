"""The command line: ``autograder release``, ``grade``, ``feedback`` and the rest.

Results go to stdout, progress and complaints to stderr. A command ends with 0 when all is well, with 1 when a
check did not pass, and with 2 when something it was given cannot be used. What a command needs is imported
when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

from typing import Annotated, Any

try:
    import rich  # noqa: F401
    import typer
    from typer.core import TyperGroup
except ModuleNotFoundError as error:
    raise SystemExit(
        f"autograder needs {error.name}: install its wheel with [grade] after the name."
    ) from None

import tfcore
from autograder.commands import (
    audit,
    bundle,
    check,
    collect,
    doctor,
    export,
    feedback,
    grade,
    release,
    report,
    simulate,
    verify,
)
from autograder.commands.console import say
from autograder.commands.options import BAD_INPUT
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError

STOPPED = 130


class _Commands(TyperGroup):
    """Turns bad input into one message and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BadInputError as error:
            say(f"[bold red]error:[/] {escape(str(error))}")
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            what = escape(f"{error.strerror or error}{where}")
            say(f"[bold red]error:[/] {what}. What was finished is kept; put this right and run it again.")
        except RuntimeError as error:
            from autograder.grading.pair import PairError

            if not isinstance(error, PairError):
                raise
            why = "\n".join(map(escape, str(error).splitlines()))
            say(f"[bold red]error:[/] the grader does not start on this machine: {why}")
        except KeyboardInterrupt:
            of_grade = ctx.invoked_subcommand == "grade"
            kept = "what was graded is remembered" if of_grade else "what was finished is kept"
            say(f"stopped; {kept}, run it again")
            raise typer.Exit(STOPPED) from None
        raise typer.Exit(BAD_INPUT)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Releases, grades and explains the notebooks of [bold]Transformers from first principles[/].",
    epilog="Exit codes: 0 all is well, 1 a check did not pass, 2 something given cannot be used.",
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"autograder {tfcore.__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for module in (
    release,
    audit,
    collect,
    grade,
    feedback,
    report,
    export,
    bundle,
    verify,
    doctor,
    simulate,
    check,
):
    app.command(epilog=module.EPILOG)(getattr(module, module.__name__.rpartition(".")[2]))


if __name__ == "__main__":
    app()
