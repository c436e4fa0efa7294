"""What a student writes is shown as text: it erases, colours and forges no line of a teacher's terminal."""

import copy
import json
import re
import unicodedata

import pytest
from rich.table import Table
from rich.text import Text
from scratch import AS_GRADED, ASSIGNMENT, command, graded, hand_in, in_process

from autograder.commands.terminal import Terminal, escape
from autograder.course.errors import BadInputError
from autograder.course.visible import one_line, visible
from autograder.proof.attacks import Attack
from autograder.proof.attacks.on_readers import ON_READERS, UP_AND_ERASE
from autograder.proof.samples.notebooks import add_cell, answer_cell
from autograder.student import check

HOSTILE = {
    "erases the line above": UP_AND_ERASE,
    "erases by a C1 control": "\x9b1A\x9b2K",
    "clears the screen": "\x1b[2J\x1b[H",
    "rings and goes back": "\x07\x08\x08\x08",
    "returns to the beginning": "\r",
    "deletes": "\x7f",
    "sets the title": "\x1b]0;owned\x07",
    "links elsewhere": "\x1b]8;;http://example.org\x1b\\here",
    "writes from right to left": "\u202edetcefrep\u202c",
    "isolates": "\u2066\u2067\u2068\u2069",
    "marks a direction": "\u200e\u200f\u061c",
    "has no width": "\u200b\u200c\u200d\u2060\ufeff",
    "ends a line": "\x0b\x0c\x1c\x85\u2028\u2029",
    "is half a pair": "\ud800",
    "is a tag": "\U000e0041",
}
ALL = "".join(HOSTILE.values())


def hidden(text):
    """The characters of a text that show nothing, but for line feeds."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"]


@pytest.mark.parametrize("attempt", HOSTILE.values(), ids=HOSTILE)
def test_what_hides_is_written_as_its_escape(attempt):
    shown = one_line(f"before{attempt}after")
    written = "".join(ascii(c)[1:-1] if hidden(c) else c for c in attempt)
    assert shown == f"before{written}after"
    assert written != attempt


@pytest.mark.parametrize(
    "text", ["Zoë Müller", "王小明", "עברית", "क्षि", "a\u00a0b", "😀 \\n [x]", "a\n\tb", ""]
)
def test_what_shows_stays_as_it_is(text):
    assert visible(text) == text


def test_a_line_stays_one_line():
    assert one_line("a\nnot graded: bob\tb") == r"a\nnot graded: bob\tb"


def printed(capsys, show):
    """What reaches the terminal, without the styles that are ours."""
    show(Terminal(force_terminal=True, width=400, legacy_windows=False))
    return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)


def in_a_table(cell):
    table = Table(cell, title=cell)
    table.add_row(cell)
    return table


@pytest.mark.parametrize(
    "show",
    [
        lambda to: to.print(f"[red]look[/]: {escape(ALL)}"),
        lambda to: to.print(ALL, markup=False, soft_wrap=True),
        lambda to: to.print(in_a_table(ALL)),
        lambda to: to.print(Text(ALL)),
        lambda to: to.print([ALL]),
        lambda to: to.rule(ALL),
    ],
)
def test_a_terminal_prints_no_control_but_its_own(capsys, show):
    text = printed(capsys, show)
    assert not hidden(text)
    assert r"\x1b[1A" in text


def test_markup_of_a_student_is_text(capsys):
    text = printed(
        capsys, lambda to: to.print(f"[red]look[/]: {escape('[bold]x[/] [link=file:///]y :bomb:')}")
    )
    assert text == "look: [bold]x[/] [link=file:///]y :bomb:\n"


def test_an_error_is_shown_as_text():
    assert not hidden(str(BadInputError(f"{ALL} cannot be used")))


@pytest.mark.slow
def test_check_in_the_notebook_prints_text(capsys):
    def softmax(x, axis=-1):
        raise ValueError(ALL)

    check(softmax)
    text = capsys.readouterr().out
    assert not hidden(text)
    assert r"\x1b[1A" in text


def attempted(notebook, attack):
    """The notebook with an attack in it."""
    notebook = copy.deepcopy(notebook)
    if attack.answer:
        answer_cell(notebook, "softmax")["source"] = attack.answer
    if attack.cell:
        add_cell(notebook, 1, attack.cell_source)
    return notebook


def erasing(notebook):
    """A notebook that tries to erase lines wherever its words can come up."""
    notebook = attempted(notebook, EVERYWHERE)
    add_cell(notebook, 1, f"raise ValueError({ALL!r})")
    return notebook


EVERYWHERE = Attack(
    "erases everywhere",
    "all of it is text",
    f"import sys; sys.meta_path  # {UP_AND_ERASE}\u202e",
    answer=f"def softmax(x, axis=-1):\n    raise ValueError({ALL!r} + 'first\\nada: 17 of 17')\n",
)


@pytest.fixture
def with_an_eraser(course, students):
    """A graded course: a student whose submission is unreadable, and after it one that erases lines."""
    hand_in(course, "ada", b"{")
    hand_in(course, "bob", erasing(students["style-01"][0]))
    hand_in(course, f"eve{UP_AND_ERASE}", students["blank"][0])
    (course / "submitted" / "carl" / ASSIGNMENT).mkdir(parents=True)
    (course / "submitted" / "carl" / ASSIGNMENT / f"x{UP_AND_ERASE}\nlook: zoe.ipynb").write_text("{}")
    return course


@pytest.mark.slow
def test_nobody_erases_the_line_of_another(with_an_eraser, students):
    for number, attack in enumerate(ON_READERS):
        hand_in(with_an_eraser, f"dan-{number}", attempted(students["style-01"][0], attack))
    printed = ""
    for args in (("grade", "--submissions", "submitted", *AS_GRADED), ("report",), ("export",)):
        done = command(*args, cwd=with_an_eraser)
        printed += done.stdout + done.stderr
        assert "ada" in done.stdout + done.stderr
    assert not hidden(printed), [line for line in printed.splitlines() if hidden(line)]
    assert "not graded: ada" in printed
    assert not re.search(r"^(look: (zoe|ada: copied)|not graded: ada$)", printed, re.MULTILINE)
    assert printed.count(r"\x1b[1A\x1b[2K") >= 6
    assert r"\u202e \u2066# \u2069\u2066" in printed


@pytest.mark.slow
def test_json_is_ascii(with_an_eraser):
    done = in_process("grade", "--submissions", with_an_eraser / "submitted", "--json", cwd=with_an_eraser)
    assert done.stdout.isascii()
    assert not hidden(done.stdout)
    assert "\\u001b" in done.stdout
    assert {one["student"] for one in json.loads(done.stdout)["submissions"]} == {"bob"}


@pytest.mark.slow
def test_check_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"mine{UP_AND_ERASE}.py"
    (tmp_path / name).write_text(f"def softmax(x, axis=-1):\n    raise ValueError({ALL!r} + '\\nother.py')\n")
    done = in_process("check", "softmax", name)
    assert not hidden(done.stdout)
    assert r"mine\x1b[1A" in done.stdout
    assert "\nother.py" not in done.stdout


def test_names_of_the_command_line_are_text(course):
    done = in_process("grade", f"ch{UP_AND_ERASE}", "--submissions", course, cwd=course)
    assert done.exit_code == 2
    assert not hidden(done.stderr)


@pytest.mark.slow
def test_pages_show_what_turns_the_direction(course, students):
    hand_in(course, "bob", erasing(students["style-01"][0]))
    graded(course)
    assert in_process("report", cwd=course).exit_code == 0
    assert in_process("feedback", cwd=course).exit_code == 0
    page = (course / "reports" / f"{ASSIGNMENT}.html").read_text()
    assert not hidden(page)
