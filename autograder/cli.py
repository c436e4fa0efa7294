"""The command line: ``autograder release``, ``grade``, ``feedback`` and the rest.

Results go to stdout, progress and complaints to stderr. A command ends with 0 when all is well, with 1 when a
check did not pass, and with 2 when something it was given cannot be used. What a command needs is imported
when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from typer.core import TyperGroup
except ModuleNotFoundError as error:
    raise SystemExit(
        f"autograder needs {error.name}: install its wheel with [grade] after the name."
    ) from None

import tfcore
from autograder.commands import tables
from autograder.commands.terminal import Terminal, escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.course.visible import visible
from autograder.course.workers import MOST_WORKERS

NOT_PASSED = 1
BAD_INPUT = 2
STOPPED = 130

out = Terminal()
err = Terminal(stderr=True)


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


Assignments = Annotated[
    list[str] | None,
    typer.Argument(help="Such as ch02_qkv; all, if none is named.", show_default=False),
]
CourseFolder = Annotated[
    Path,
    typer.Option(
        "--course", help="The course's folder, the one with nbgrader_config.py.", show_default="here"
    ),
]
Gradebook = Annotated[
    str | None,
    typer.Option(
        "--db",
        help="The gradebook's address: sqlite:///FILE, or postgresql://USER@HOST/DATABASE with the password "
        "in ~/.pgpass.",
        show_default="as in nbgrader_config.py",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
AllowUnsafe = Annotated[
    bool, typer.Option("--allow-unsafe", help="Grade also where no walls hold; see `autograder doctor`.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        help="How many at once; by default one for each core.",
        min=1,
        max=MOST_WORKERS,
        envvar="AUTOGRADER_WORKERS",
    ),
]


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


def _examples(*lines: str) -> str:
    """Examples for the end of a command's help, one a line."""
    return "[bold]Examples[/]\n\n" + "\n\n".join(f"  $ {line}" for line in lines)


@app.command(
    epilog=_examples(
        "autograder release",
        "autograder release ch02_qkv ch03_scaling",
        "autograder release --variant spring --variant autumn",
    )
)
def release(
    assignments: Assignments = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace notebooks that somebody worked in; a copy is kept as *.orig."),
    ] = False,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", help="A student or class that gets other numbers, in variants/NAME/."),
    ] = None,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Makes the students' notebooks from the solutions; only what changed is written.

    Ends with 2 if one was kept because somebody worked in it.

    With --variant the release goes to variants/NAME/ instead, with other numbers in the worked examples and
    the written questions; the answers that go with them are put in .autograder/variants/NAME/.
    """
    from autograder.release.publish import give_variants, publish

    here = Course.at(course)
    if variant:
        folders = give_variants(here, here.chosen(assignments or []), variant)
        paths = [str(folder.relative_to(here.root)) for folder in folders]
        if as_json:
            print_json(paths)
        else:
            for path in paths:
                out.print(path, soft_wrap=True)
        return
    done = publish(here, here.chosen(assignments or []), force)
    if as_json:
        print_json(
            [{"assignment": d.assignment, "status": d.status, "files": d.files, "note": d.note} for d in done]
        )
    else:
        for one in done:
            colour = {"written": "green", "unchanged": "dim", "kept": "yellow"}[one.status]
            note = f": {one.note}" if one.note else ""
            beside = [name for name in one.files if not name.endswith(".ipynb")]
            files = f" (with {', '.join(beside)})" if beside else ""
            out.print(f"{one.assignment}  [{colour}]{one.status}[/]{escape(files + note)}", soft_wrap=True)
    if any(one.status == "kept" for one in done):
        raise typer.Exit(2)


@app.command(epilog=_examples("autograder audit", "autograder audit variants/spring bundle.zip"))
def audit(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders or zip files; notebooks/ if left out.")
    ] = None,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Looks for what a student must not get: solutions, mark schemes, hidden cases, the secret seed.

    Ends with 1 if something is found.
    """
    from autograder.release.audit import of_folder

    here = Course.at(course)
    found = [f"{path}/{leak}" for path in paths or [here.notebooks] for leak in of_folder(here, path)]
    if as_json:
        print_json(found)
    for leak in [] if as_json else found:
        out.print(f"[bold red]✗[/] {escape(leak)}", soft_wrap=True)
    if not found and not as_json:
        out.print("Nothing is given away.")
    raise typer.Exit(NOT_PASSED if found else 0)


@app.command(
    epilog=_examples(
        "autograder collect ch02_qkv submissions.zip",
        "autograder collect ch02_qkv ~/Downloads/attention-classroom --from github",
    )
)
def collect(
    assignment: Annotated[str, typer.Argument(help="Such as ch02_qkv.", show_default=False)],
    source: Annotated[
        Path, typer.Argument(help="A zip archive as the platform gives it, or a folder.", show_default=False)
    ],
    platform: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="canvas, moodle, gradescope, github, exchange (nbgrader's) or folder.",
            show_default="recognised",
        ),
    ] = None,
    submissions: Annotated[
        Path, typer.Option("--submissions", "-s", help="Where the notebooks are put.")
    ] = Path("submitted"),
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Brings a platform's archive of submissions into the folder that is graded.

    A notebook that is replaced by a newer one is kept in .autograder/replaced/. Ends with 2 if something
    could not be taken.
    """
    from autograder.platforms.collect import collect as take

    here = Course.at(course)
    (assignment,) = here.chosen([assignment])
    done = take(here, assignment, source, submissions, platform)
    if as_json:
        print_json(done.as_dict())
    else:
        counts = (("new", done.written), ("replaced", done.replaced), ("unchanged", done.unchanged))
        told = ", ".join(f"{len(students)} {what}" for what, students in counts)
        out.print(f"{told}, from {done.platform}, in {escape(str(submissions))}/", soft_wrap=True)
        for remark in done.remarks:
            say(f"[yellow]look:[/] {escape(remark)}")
        for problem in done.problems:
            say(f"[bold red]not taken:[/] {escape(problem)}")
    raise typer.Exit(BAD_INPUT if done.problems else 0)


@app.command(
    epilog=_examples(
        "autograder grade --submissions submitted",
        "autograder grade ch02_qkv --submissions inbox --workers 8 --cell-limit 10",
        "autograder grade --course ~/course --submissions ~/inbox --json > graded.json",
    )
)
def grade(
    assignments: Assignments = None,
    submissions: Annotated[
        Path, typer.Option("--submissions", "-s", help="Holds <student>/<assignment>/<notebook>.ipynb.")
    ] = Path("submitted"),
    executor: Annotated[
        str,
        typer.Option(
            help="processes: several at once; local: one after another, to look into a fault; dask: on the "
            "cluster whose scheduler DASK_SCHEDULER_ADDRESS names."
        ),
    ] = "processes",
    workers: Workers = None,
    cell_limit: Annotated[float, typer.Option(help="Seconds that one cell may take.", min=0.1)] = 30.0,
    memory: Annotated[int, typer.Option(help="Memory that one submission may take, in MiB.", min=64)] = 2048,
    seed: Annotated[
        int | None, typer.Option(help="Draws the hidden cases; by default the course's own secret.", min=0)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Grade again what was graded before.")] = False,
    allow_unsafe: AllowUnsafe = False,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Grades submissions into nbgrader's gradebook and writes autograded/.

    What was graded before and has not changed is not graded again. A submission that cannot be read is
    listed, the others are graded, and the command ends with 2.
    """
    from autograder.grading import batch
    from autograder.grading.session import Limits

    limits = Limits(
        cell_seconds=cell_limit, call_seconds=min(cell_limit, Limits.call_seconds), memory_bytes=memory << 20
    )
    with progress("grading") as told:
        done = batch.grade(
            Course.at(course, db),
            assignments or [],
            submissions,
            executor=executor,
            workers=workers,
            limits=limits,
            seed=seed,
            force=force,
            allow_unsafe=allow_unsafe,
            progress=told,
        )
    if as_json:
        print_json(done.as_dict())
    else:
        tables.batch(done, out, err)
    if done.problems or done.unwritten:
        raise typer.Exit(BAD_INPUT)


@app.command(epilog=_examples("autograder feedback", "autograder feedback ch02_qkv --force"))
def feedback(
    assignments: Assignments = None,
    force: Annotated[bool, typer.Option("--force", help="Make every page again.")] = False,
    workers: Workers = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Writes a page of feedback for each graded notebook; only what changed is made again."""
    from autograder.reports.feedback import give

    here = Course.at(course, db)
    with progress("feedback") as told:
        done = give(here, here.chosen(assignments or []), workers=workers, force=force, progress=told)
    if as_json:
        files = [str(path.relative_to(here.root)) for path in done.written]
        print_json(
            {
                "written": files,
                "unchanged": len(done.unchanged),
                "missing": done.missing,
                "unwritten": done.unwritten,
            }
        )
    else:
        made = plural(len(done.written), "page")
        out.print(f"{made} written, {len(done.unchanged)} unchanged, in {here.feedback.name}/")
    for remark in done.missing:
        say(f"[yellow]note:[/] {escape(remark)}")
    for where in done.unwritten:
        say(f"[bold red]not written:[/] {escape(where)}")
    if done.unwritten:
        say("The other pages are made. Give yourself permission to write there, then run this again.")
        raise typer.Exit(BAD_INPUT)


@app.command(epilog=_examples("autograder report", "autograder report ch02_qkv --json"))
def report(
    assignments: Assignments = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Shows the class at a glance and writes reports/<assignment>.html."""
    from autograder.reports import class_page, class_report

    here = Course.at(course, db)
    chosen = here.chosen(assignments or [])
    made = [class_report.of(here, name) for name in _graded(here, chosen, bool(assignments))]
    paths = [class_page.write(here, one) for one in made]
    if as_json:
        print_json([one.as_dict() for one in made])
        return
    for one, path in zip(made, paths, strict=True):
        tables.overview(one, out)
        out.print(f"[dim]{escape(str(path))}[/]\n", soft_wrap=True)


def _graded(course: Course, chosen: list[str], named: bool) -> list[str]:
    """The assignments that have grades, unless they were asked for by name."""
    from autograder.grading import gradebook

    graded = chosen if named else [name for name in chosen if gradebook.read(course, name)]
    if not graded:
        raise BadInputError("nothing is graded yet. Run: autograder grade --submissions DIR")
    return graded


@app.command(
    epilog=_examples(
        "autograder export --output grades.csv",
        "autograder export ch02_qkv --format canvas --into gradebook.csv --output upload.csv",
    )
)
def export(
    assignments: Assignments = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="csv for a spreadsheet; canvas or moodle with --into; gradescope for a results.json of each "
            "student in the folder --output.",
        ),
    ] = "csv",
    into: Annotated[
        Path | None,
        typer.Option(
            help="The file that the platform gave, to be filled: Canvas's exported gradebook, Moodle's "
            "grading worksheet. It is only read."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; stdout by default.")] = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
) -> None:
    """Prints the grades as a table: a line for each student and assignment.

    Who could not be graded has a line without points; the last column says why. A platform's file is given
    back with the grades of those whom it names.
    """
    from autograder.course.files import require_writable, write_atomically
    from autograder.platforms import export as exporting

    here = Course.at(course, db)
    if format == "gradescope":
        if output is None or output.is_file():
            raise BadInputError("--format gradescope writes into a folder. Name one with --output.")
        files, notes = exporting.results(here, here.chosen(assignments or []), output)
        say(f"{plural(len(files), 'file')} in {escape(str(output))}")
        for note in notes:
            say(f"[yellow]note:[/] {escape(note)}")
        return
    text, notes = exporting.table(here, here.chosen(assignments or []), format, into)
    if output is None:
        typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    else:
        if output.is_dir():
            raise BadInputError(f"{output} is a folder. Name a file to write.")
        if not output.parent.exists():
            raise BadInputError(f"there is no folder {output.parent}. Make it, or name a file in another.")
        require_writable(output.parent)
        write_atomically(output, text.encode())
        say(f"{plural(len(text.splitlines()) - 1, 'line')} in {escape(str(output))}")
    for note in notes:
        say(f"[yellow]note:[/] {escape(note)}")


@app.command(
    epilog=_examples(
        "autograder bundle gradescope ch02_qkv --output autograder.zip",
        "autograder bundle classroom ch02_qkv",
        "autograder bundle student ch02_qkv ch03_scaling",
        "autograder bundle all",
    )
)
def bundle(
    kind: Annotated[
        str,
        typer.Argument(help="gradescope, classroom, student, instructor, or all.", show_default=False),
    ],
    assignments: Assignments = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file, for one bundle; bundles/NAME.zip by default."),
    ] = None,
    index: Annotated[
        str,
        typer.Option(
            "--extra-index-url",
            help="pip's option, written into the bundle: such as the CPU index that PyTorch's Get started "
            "page gives, without which Linux takes gigabytes of CUDA libraries.",
        ),
    ] = "",
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Makes zip files to hand on: for Gradescope, for GitHub Classroom, for students, for a colleague.

    No bundle holds a seed, a grade or anything of a student. Only a bundle is overwritten.
    """
    from autograder.platforms import bundles

    here = Course.at(course)
    if kind not in bundles.KINDS:
        raise BadInputError(f"no bundle is called {kind!r}. There are: {', '.join(bundles.KINDS)}.")
    made = bundles.KINDS[kind](here, here.chosen(assignments or []), index)
    paths = bundles.write(here, made, output)
    if as_json:
        print_json([str(path) for path in paths])
    elif kind == "all":
        out.print(f"{plural(len(paths), 'bundle')} in {escape(str(paths[0].parent))}/", soft_wrap=True)
    else:
        for path in paths:
            out.print(f"{escape(str(path))} ({path.stat().st_size >> 10} KiB)", soft_wrap=True)


@app.command(
    epilog=_examples(
        "autograder verify ch02_qkv",
        "autograder verify --json > proof.json",
        "autograder verify ch02_qkv/softmax --mutants 200 --seed 1",
    )
)
def verify(
    assignments: Assignments = None,
    mutants: Annotated[
        int | None,
        typer.Option(
            help="Grades so many right answers with one fault each, instead of the bank. A single exercise "
            "such as ch02_qkv/softmax may then be named as well.",
            min=1,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Draws the hidden cases, and the mutants. The default for cases is the course's own seed, "
            "if it has one; for mutants it is 0.",
            min=0,
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--page", help="Writes the kill matrix, or the figures of the mutants, as a page."),
    ] = None,
    workers: Workers = None,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Proves that the grader is right: each mistake rejected and named, each right style accepted.

    Ends with 1 unless every misconception is rejected and named to a student, every style accepted,
    every solution notebook has full marks and every blank one none. With --mutants it ends with 1 if a mutant
    is accepted that the reviewed list does not explain.
    """
    if mutants is not None:
        _verify_mutants(assignments or [], mutants, seed or 0, page, workers, as_json)
    from autograder import exercises
    from autograder.course.files import read_seed, write_if_changed
    from autograder.proof import kill_matrix
    from autograder.proof.verify import HIDDEN_SEED, Proof, try_all, try_notebooks
    from autograder.release import publish

    here = Course.at(course)
    drawn = read_seed(here.state)
    hidden = seed if seed is not None else HIDDEN_SEED if drawn is None else drawn
    proof = Proof()
    chosen = assignments or list(exercises.assignments())
    if unknown := [name for name in chosen if name not in exercises.assignments()]:
        raise BadInputError(
            f"no assignment is called {unknown[0]!r}. There are: {', '.join(exercises.assignments())}."
        )
    names = [exercise.name for assignment in chosen for exercise in exercises.of_assignment(assignment)]
    with progress("verifying the bank") as told:
        proof.entries = try_all(names, hidden, told, workers)
    pairs = {
        assignment: [
            ((here.solutions / assignment / f"{name}.ipynb").read_bytes(), released)
            for name, released in (
                publish.notebooks(here, assignment) if assignment in here.assignments else {}
            ).items()
        ]
        for assignment in chosen
    }
    proof.notebooks = list(try_notebooks(pairs, hidden, workers))
    if page:
        write_if_changed(page, kill_matrix.page(proof).encode())
    if as_json:
        print_json({**proof.as_dict(), "matrix": proof.matrix()})
    else:
        tables.proof(proof, out)
    raise typer.Exit(0 if proof.holds else NOT_PASSED)


def _verify_mutants(
    chosen: list[str], number: int, seed: int, page: Path | None, workers: int | None, as_json: bool
) -> None:
    from autograder.course.files import write_if_changed
    from autograder.proof.mutation import pages, trials

    names = trials.chosen_exercises(chosen)
    with progress("grading mutants") as told:
        tried = trials.try_mutants(names, number, seed, told, workers)
    if page:
        write_if_changed(page, pages.page(tried, number, seed).encode())
    if as_json:
        print_json(trials.as_dict(tried))
    else:
        tables.mutants(tried, out)
    raise typer.Exit(NOT_PASSED if any(one.fails_the_run for one in tried) else 0)


@app.command(epilog=_examples("autograder doctor", "autograder doctor --json"))
def doctor(course: CourseFolder = Path(), as_json: Json = False) -> None:
    """Says what this machine gives the course and what it lacks. Ends with 1 if something will not work."""
    from autograder.proof import doctor as examining

    try:
        here = Course.at(course)
    except BadInputError:
        here = None
    findings = examining.examine(here)
    well = all(finding.level != "problem" for finding in findings)
    if as_json:
        from autograder.grading import cages

        told = [{"what": f.what, "level": f.level, "says": f.says} for f in findings]
        print_json({"ok": well, "tier": cages.strongest().tier, "findings": told}, indent=1)
    else:
        marks = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "problem": "[bold red]✗[/]"}
        for finding in findings:
            out.print(
                f"{marks[finding.level]} [bold]{finding.what}[/]: {escape(finding.says)}", soft_wrap=True
            )
    raise typer.Exit(0 if well else NOT_PASSED)


@app.command(
    epilog=_examples(
        "autograder simulate ch02_qkv --students 200 --seed 1",
        "autograder collect ch02_qkv simulated/ch02_qkv",
    )
)
def simulate(
    assignments: Assignments = None,
    students: Annotated[int, typer.Option(help="How many hand in.", min=1, max=10_000)] = 200,
    seed: Annotated[
        int, typer.Option(help="Draws the class; the same seed makes the same class.", min=0)
    ] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")] = Path("simulated"),
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Makes up a class to try a term with: honest, mistaken, partial, broken and hostile students.

    The folder holds what they hand in, for `collect`, and truth.json: who has what, and how many have each
    mistake. Hostile notebooks are real attacks. Grade them only where `doctor` finds tier A or B.
    """
    from autograder.proof.samples import simulate as simulating

    here = Course.at(course)
    chosen = here.chosen(assignments or [])
    with progress("simulating") as told:
        truth = simulating.simulate(here, chosen, output, students, seed, told)
    if as_json:
        print_json(truth)
        return
    for assignment, about in truth["assignments"].items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in about["kinds"].items())
        out.print(f"{assignment}: {kinds}; {about['late']} after {about['due']}", soft_wrap=True)
    out.print(
        f"What they hand in is in {escape(str(output))}/, the truth in truth.json there.", soft_wrap=True
    )


@app.command(
    epilog=_examples(
        "autograder check ch02_qkv/softmax mine.py yours.py",
        "autograder check ch02_qkv/softmax handed_in/*.ipynb --json",
    )
)
def check(
    exercise: Annotated[
        str, typer.Argument(help="Such as ch02_qkv/softmax, or softmax.", show_default=False)
    ],
    files: Annotated[list[Path], typer.Argument(help="Python files or notebooks.", show_default=False)],
    seed: Annotated[
        int | None,
        typer.Option(help="Draws the hidden cases; by default the course's own, else at random.", min=0),
    ] = None,
    call_limit: Annotated[float, typer.Option(help="Seconds that one call may take.", min=0.1)] = 5.0,
    allow_unsafe: AllowUnsafe = False,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Grades one function in plain files by the hidden cases; needs no course, gradebook or nbgrader.

    With --json it prints one line a file as soon as that file is graded. Ends with 1 if one did not pass.
    """
    from autograder.course.files import read_seed
    from autograder.grading.plain_files import check as grade_files
    from autograder.grading.session import Limits

    if seed is None:
        seed = read_seed(Course(course).state)
    limits = Limits(call_seconds=call_limit, cell_seconds=max(call_limit, 10.0))
    passed = True
    for one in grade_files(exercise, files, seed, limits, allow_unsafe):
        passed &= one.passed
        if as_json:
            print_json(one.as_dict())
        else:
            out.print(f"[bold]{escape(one.file)}[/]", soft_wrap=True)
            out.print(str(one.report), markup=False, soft_wrap=True, style="green" if one.passed else None)
    raise typer.Exit(0 if passed else NOT_PASSED)


if __name__ == "__main__":
    app()
