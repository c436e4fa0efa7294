"""A chapter can be read in an hour: so many words of prose at most, and so many lines of code in sight."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from book_paths import ROOT

CHAPTERS = sorted((ROOT / "book").glob("[0-9][0-9]_*.md"))
MOST_WORDS, MOST_LINES = 4500, 220
LONGEST_NAME = 45  # letters of a fold's name, which on a phone has one line
FOLD = re.compile(r'code_prompt_show: "?([^"}\n]+)|\{dropdown\} (.+)')

FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
CODE_CELL = re.compile(r"^```\{code-cell\}.*?^```\s*$", re.S | re.M)
ASKED_OR_DRAWN = re.compile(r"^```\{(?:quiz|anywidget)\}.*?^```\s*$", re.S | re.M)
FORMULA = re.compile(r"\$\$.*?\$\$(?: \(.*?\))?|\$[^$]*\$", re.S)
ROLE = re.compile(r"\{[a-z:]+\}`[^`]*`")
DIRECTIVE_LINE = re.compile(r"^(?::::|```).*$|^:[a-z-]+:.*$", re.M)
FOLDED = re.compile(r"hide-input|hide-cell|remove-cell|remove-input")
OPTIONS = re.compile(r"---\n.*?^---\n|(?::[a-z]+:[^\n]*\n)*", re.S | re.M)


def words_of_prose(page: str) -> int:
    """Count the words of paragraphs, lists, tables, proofs and folded text; a number or a link is one word.

    Code cells with their captions, formulas, quizzes and widgets are not prose.
    """
    text = CODE_CELL.sub("", FRONT_MATTER.sub("", page))
    text = ROLE.sub("x", FORMULA.sub("", ASKED_OR_DRAWN.sub("", text)))
    return sum(bool(re.search("[A-Za-z]", word)) for word in DIRECTIVE_LINE.sub("", text).split())


def visible_lines(page: str) -> int:
    """Count the lines of code that a reader sees without opening anything; blank lines do not count."""
    count = 0
    for cell in CODE_CELL.findall(page):
        body = cell.split("\n", 1)[1].rsplit("```", 1)[0]
        options = match[0] if (match := OPTIONS.match(body)) else ""
        if not FOLDED.search(options):
            count += sum(bool(line.strip()) for line in body[len(options) :].splitlines())
    return count


PAGE = """---
chapter: 1
---
# A title

Three more words, $x$ and {glue:text}`y:.2f`.

:::{dropdown} Folded
Two words.
:::

```{code-cell} python
one = 1

two = 2
```

```{code-cell} python
:tags: [hide-input]
three = 3
```

```{code-cell} python
:tags: [remove-output]
four = 4
```

```{quiz}
question: Is this counted?
```
"""


def test_words_and_lines_are_counted_as_a_reader_meets_them() -> None:
    assert words_of_prose(PAGE) == 9
    assert visible_lines(PAGE) == 3


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_is_not_too_long(chapter: Path) -> None:
    page = chapter.read_text("utf8")
    assert words_of_prose(page) <= MOST_WORDS, "cut what is second-best"
    assert visible_lines(page) <= MOST_LINES, "fold plumbing away with the tag hide-input"


def test_the_name_of_a_fold_is_short() -> None:
    names = [code or text for page in CHAPTERS for code, text in FOLD.findall(page.read_text("utf8"))]
    assert len(names) > 100
    assert [name for name in names if len(name) > LONGEST_NAME] == []
