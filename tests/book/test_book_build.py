"""``book/build.py`` fails on a failing cell and on a warning, every time, and does no needless work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import build
import pytest
import without_models
import yaml
from book_paths import ROOT

pytestmark = pytest.mark.slow

HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
# Page

"""
CODE = "from tfcore import answer\nfrom tfwidgets.draws import drawn\nprint(answer, drawn)"
CELL = f"```{{code-cell}} python\n{CODE}\n```\n"


@pytest.fixture
def scratch(tmp_path: Path, cut_fonts: Path) -> Path:
    """A book of one page that runs and one that does not, with the engine of ours."""
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / "fonts").symlink_to(cut_fonts)
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    del config["bibtex_bibfiles"]
    settings = config["sphinx"]["config"]
    settings["extensions"].remove("sphinxcontrib.bibtex")
    config["sphinx"]["config"] = {key: settings[key] for key in settings if not key.startswith("bibtex")}
    (tmp_path / "_config.yml").write_text(yaml.safe_dump(config))
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / name, tmp_path)
    book = tmp_path / "book"
    for folder in ("_ext", "_static", "_templates"):
        shutil.copytree(ROOT / "book" / folder, book / folder)
    (book / "tfwidgets").mkdir()
    shutil.copy(ROOT / "book" / "tfwidgets" / "__init__.py", book / "tfwidgets")
    (book / "tfwidgets" / "draws.py").write_text("drawn = 'seven'\n")
    (book / "_toc.yml").write_text("format: jb-book\nroot: book/index\nchapters:\n- file: book/words\n")
    (book / "words.md").write_text("# Words\n")
    (book / "index.md").write_text(HEAD + CELL)
    (tmp_path / "tfcore").mkdir()
    (tmp_path / "tfcore" / "__init__.py").write_text("answer = 'forty-two'\n")
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    return tmp_path


def run(scratch: Path, *options: str) -> tuple[int, str]:
    """Builds the scratch book: exit code, and all that was said."""
    command = [sys.executable, ROOT / "book" / "build.py", "--root", scratch, *options]
    environment = {
        "PYTHONPATH": f"{scratch}:{scratch / 'book'}",
        "PATH": "/usr/bin:/bin",
        "HOME": str(scratch),
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_from_clean_to_up_to_date(scratch: Path, html: Path) -> None:
    page, index = scratch / "_build" / "html" / "book" / "index.html", scratch / "book" / "index.md"
    code, said = run(scratch)
    assert code == 0, said
    assert "1 page executed" in said
    assert "forty-two" in page.read_text()

    code, said = run(scratch)
    assert code == 0
    assert "up to date" in said

    index.write_text(HEAD + "More words.\n\n" + CELL)
    code, said = run(scratch)
    assert code == 0
    assert "0 pages executed" in said
    assert "More words." in page.read_text()

    imported = (
        ("tfcore/__init__.py", "answer = 'forty-three'"),
        ("book/tfwidgets/draws.py", "drawn = 'eight'"),
    )
    for name, line in imported:
        before = build.Book(scratch).inputs()["code"]
        (scratch / name).write_text(f"{line}\n")
        assert build.Book(scratch).inputs()["code"] != before, f"a change of {name} is not seen"
    code, said = run(scratch)
    assert code == 0
    assert "1 page executed" in said, "the page was not executed again after its imports had changed"
    assert "forty-three eight" in page.read_text()

    (scratch / "tfcore" / "__init__.py").write_text(
        '"""What it is."""\n\nanswer = \'forty-three\'  # still\n'
    )
    code, said = run(scratch)
    assert code == 0
    assert "0 pages executed, 2 written" in said, (
        "a new docstring executed a page, or the reference was not written again"
    )


def test_a_failing_cell_fails_the_build_and_is_shown(scratch: Path, html: Path) -> None:
    cell = "```{code-cell} python\nassert 1 == 2, 'they differ'\n```\n"
    (scratch / "book" / "index.md").write_text(HEAD + cell)
    for _ in range(2):
        code, said = run(scratch)
        assert code == 1
        assert "book/index.md" in said
        assert "they differ" in said


def test_a_page_whose_head_cannot_be_read_is_named(scratch: Path, html: Path) -> None:
    head = HEAD.replace("---\n", "---\nsays: one: two\n", 1)
    (scratch / "book" / "index.md").write_text(head + CELL)
    code, said = run(scratch)
    assert code == 1
    assert "book: book/index.md cannot be read." in said
    assert "line 1, column 10" in said
    assert "Traceback" not in said


def test_a_warning_fails_the_build_every_time_until_it_is_mended(scratch: Path, html: Path) -> None:
    index = scratch / "book" / "index.md"
    index.write_text("# Page\n\n{ref}`nowhere`\n")
    for _ in range(2):
        code, said = run(scratch)
        assert code == 1
        assert "nowhere" in said
    index.write_text("# Page\n")
    code, said = run(scratch)
    assert code == 0, said


def test_python_that_warns_fails_the_build(scratch: Path, html: Path) -> None:
    cell = "```{code-cell} python\nimport warnings\nwarnings.warn('old')\n```\n"
    (scratch / "book" / "index.md").write_text(HEAD + cell)
    code, said = run(scratch)
    assert code == 1
    assert "stderr" in said


def test_a_number_that_is_no_longer_computed_fails_the_build(scratch: Path, html: Path) -> None:
    index, words = scratch / "book" / "index.md", scratch / "book" / "words.md"
    keeps = (
        "```{code-cell} python\nfrom myst_nb import glue\nglue('share', 0.4217, display=False)\n```\n"
        "Here {glue:text}`share:.2f`.\n"
    )
    index.write_text(HEAD + keeps)
    words.write_text("# Words\n\nThere {number}`index.share:.3f`.\n")
    code, said = run(scratch)
    assert code == 0, said
    assert "Here" in (scratch / "_build/html/book/index.html").read_text()
    assert ">0.422<" in (scratch / "_build/html/book/words.html").read_text()

    index.write_text(HEAD + keeps.replace("0.4217", "0.5391"))
    code, said = run(scratch)
    assert code == 0, said
    assert ">0.539<" in (scratch / "_build/html/book/words.html").read_text(), "the other page is stale"

    index.write_text(HEAD + keeps.replace("glue('share', 0.4217, display=False)", "pass"))
    code, said = run(scratch)
    assert code == 1
    assert "index.md" in said
    assert "keeps no number 'share'" in said


REAL = """
{heading}

A model says {{glue:text}}`real_word`.

```{{code-cell}} python
from myst_nb import glue
from tfcore.models_that_are_not_there import load
glue("real_word", load())
```

```text
## not a heading
```

### A part of it
{rest}
"""


def test_without_models_a_section_says_so_and_the_rest_is_built(scratch: Path, html: Path) -> None:
    index, words = scratch / "book" / "index.md", scratch / "book" / "words.md"
    real = REAL.format(heading=without_models.HEADING, rest="## What goes wrong\n\nThis stays.\n")
    index.write_text(HEAD + CELL + real)
    words.write_text("# Words\n\nIt is {number}`index.real_loss:.2f`.\n")
    code, said = run(scratch)
    assert code == 1
    assert "models_that_are_not_there" in said

    code, said = run(scratch, "--without-models")
    assert code == 0, said
    page = (scratch / "_build" / "html" / "book" / "index.html").read_text()
    for text in ("forty-two", "built without them", "This stays.", "In a real model"):
        assert text in page
    for text in ("real_word", "not a heading", "A part of it", "models_that_are_not_there"):
        assert text not in page
    assert "(not measured here)" in (scratch / "_build" / "html" / "book" / "words.html").read_text()
    code, said = run(scratch, "--without-models")
    assert "up to date" in said
    assert index.read_text() == HEAD + CELL + real
