"""The reference says all that there is in tfcore."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from book_paths import ROOT

import tfcore

PAGES = sorted((ROOT / "book").glob("api_*.md"))
LISTED = [
    name
    for page in PAGES
    for name in re.findall(r"^(?:tfcore|autograder)\.[\w.]+$", page.read_text("utf8"), re.M)
]
TABLES = (
    "tfcore.io.families.",
    "tfcore.attention.triton_kernels",
)  # names of weights; code that only Triton reads


def test_every_module_of_tfcore_is_listed_once() -> None:
    modules = [m.name for m in pkgutil.walk_packages(tfcore.__path__, "tfcore.") if not m.ispkg]
    expected = sorted(name for name in modules if not name.startswith(TABLES))
    assert sorted(name for name in LISTED if name.startswith("tfcore.")) == expected


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_public_function_has_an_entry(page: Path, html: Path) -> None:
    built = (html / "book" / f"{page.stem}.html").read_text("utf8")
    for name in re.findall(r"^(?:tfcore|autograder)\.[\w.]+$", page.read_text("utf8"), re.M):
        module = importlib.import_module(name)
        for public, thing in vars(module).items():
            if (
                not public.startswith("_")
                and getattr(thing, "__module__", None) == name
                and callable(thing)
                and thing.__doc__
            ):
                assert f'id="{name}.{public}"' in built, f"{name}.{public}"


@pytest.mark.slow
def test_no_dollar_is_left_of_the_mathematics(html: Path) -> None:
    for page in PAGES:
        built = (html / "book" / f"{page.stem}.html").read_text("utf8")
        article = re.sub(
            r"<pre>.*?</pre>|<annotation.*?</annotation>",
            "",
            built.split("<article", 1)[1].split("</article>")[0],
            flags=re.S,
        )
        assert "$" not in article, page.name
