"""CONTRIBUTING.md's recipes, performed: each in a copy of the repository, with the commands that it names.

The recipes build on one another, as a contributor's work does: the copy gets a chapter, an exercise for it, a
mistake in that, and so on. The steps are in `recipe_steps.py`, the files that they add in
``tests/recipes``. The copy's book is the new chapter, the claims and what they need, since a whole book takes
minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from recipe_steps import MISTAKES, PAGE, ROOT, STEPS, append, attempt, small, write

from autograder.grading import cages

RECIPES = dict(
    re.findall(
        r"^\*\*(.+?)\.\*\*(.+?)(?=^\*\*|\Z)", (ROOT / "CONTRIBUTING.md").read_text("utf8"), re.M | re.S
    )
)
"""The text of each recipe by its heading."""

pytestmark = pytest.mark.slow


def the_test_of(recipe: str) -> str:
    return "test_" + recipe.lower().replace(" ", "_")


def test_every_recipe_is_short_and_has_its_test() -> None:
    assert len(RECIPES) >= 8
    assert [recipe for recipe in RECIPES if the_test_of(recipe) not in globals()] == []
    assert [recipe for recipe, text in RECIPES.items() if len(text.strip().splitlines()) >= 10] == []


# --- the copy, and what runs in it


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository to which every recipe has added something."""
    copy = tmp_path_factory.mktemp("recipes") / "course"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    if (ROOT / "node_modules").exists():  # or book/build.py installs them
        (copy / "node_modules").symlink_to(ROOT / "node_modules")
    for step in STEPS:
        step(copy)
    small(copy)
    return copy


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in the copy, with the copy's packages and not those that are installed."""
    paths = os.pathsep.join(map(str, (copy, copy / "book")))
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=600,
        env={**outer, "PYTHONPATH": paths, "COLUMNS": "200"},
    )


def command(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(copy, "-m", "autograder.cli", *arguments)


def outcomes(copy: Path, *arguments: str) -> dict[str, list[str]]:
    """Runs tests in the copy: for each outcome, the names of the tests that had it."""
    done = run(copy, "-m", "pytest", "-rA", "--tb=short", "-p", "no:cacheprovider", *arguments)
    found: dict[str, list[str]] = {"PASSED": [], "FAILED": [], "ERROR": [], "SKIPPED": []}
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (.+?)(?: - .*)?$", done.stdout, re.M):
        found[outcome].append(name.rpartition("::")[2])
    assert any(found.values()), done.stdout + done.stderr
    return {**found, "said": [done.stdout]}


@pytest.fixture(scope="module")
def released(grown: Path) -> Path:
    """The copy with the new notebooks as students get them."""
    done = command(grown, "release", "ch03_scaling", "ch12_sharpening")
    assert done.returncode == 0, done.stdout + done.stderr
    return grown


@pytest.fixture(scope="module")
def proof(released: Path) -> dict[str, Any]:
    """What ``autograder verify`` finds in the copy; it has written the page of the book as well.

    The grader itself has graded the solution, the blank notebook and a few answers of each exercise.
    """
    return verified(released, "ch03_scaling", "--caged", "1", "--page", "book/kill_matrix.md")


@pytest.fixture(scope="module")
def answers(proof: dict[str, Any], released: Path) -> dict[str, dict[str, Any]]:
    """The answers of the new exercise's bank, all of them also graded in the cage, by their names."""
    (table,) = verified(released, "ch03_scaling/sharpen")["matrix"]
    return {answer["name"]: answer for answer in table["answers"]}


def verified(copy: Path, *arguments: str) -> dict[str, Any]:
    done = command(copy, "verify", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def built(released: Path) -> Path:
    """The copy with its book built."""
    done = run(released, "book/build.py")
    assert done.returncode == 0, done.stdout + done.stderr
    return released


def page(copy: Path, name: str) -> BeautifulSoup:
    return BeautifulSoup((copy / "_build/html/book" / f"{name}.html").read_text("utf8"), "html.parser")


@pytest.fixture(scope="module")
def spoilt(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another copy, in which a test does a recipe wrongly."""
    copy = tmp_path_factory.mktemp("spoilt") / "course"
    return Path(shutil.copytree(built, copy, symlinks=True))


def test_the_copy_runs_its_own_code(grown: Path) -> None:
    code = "import autograder, tfbook, tfcore, tfwidgets; print(autograder, tfbook, tfcore, tfwidgets)"
    done = run(grown, "-c", f"import sys; sys.path.append('book/_ext'); {code}")
    assert done.stdout.count(str(grown / "")) == 4, done.stdout + done.stderr
    assert str(ROOT / "") not in done.stdout


# --- what comes of it


def test_a_chapter(built: Path) -> None:
    chapter = page(built, "12_sharpening")
    assert chapter.select_one("article h1").get_text().startswith("12. Sharpening")
    assert chapter.find("figure", id="fig-sharpened").img["alt"].startswith("A curve that rises")
    assert chapter.select_one("a.reference[href='#fig-sharpened']").text == "Figure\N{NO-BREAK SPACE}12.1"
    assert chapter.find(class_="pasted-text").get_text() == "0.533"
    assert "ch12_sharpening.ipynb" in str(chapter.find(class_="tf-launch"))
    assert "Vaswani" in page(built, "bibliography").get_text()
    for linking in (page(built, "claims").find(class_="bd-sidebar-primary"), page(built, "index").table):
        links = {link["href"] for link in linking.find_all("a")}
        assert {"12_sharpening.html", "notebook_12_sharpening.html"} <= links


def test_a_fork(released: Path, built: Path) -> None:
    notebook = (released / "notebooks/ch12_sharpening/ch12_sharpening.ipynb").read_text("utf8")
    assert "git+https://github.com/ada/attention@main" in notebook
    links = [link["href"] for link in page(built, "12_sharpening").find(class_="tf-launch").find_all("a")]
    assert any(
        "colab" in link and "ada/attention/blob/main/notebooks/ch12_sharpening" in link for link in links
    )
    assert "your_name" not in notebook + " ".join(links)


def test_an_exercise(released: Path, proof: dict[str, Any]) -> None:
    assert proof["exercises"] == 6
    assert proof["solution_score"] == proof["max_score"] == 20, "17 points as before, and 3"
    assert proof["blank_score"] == 0
    files = ["tests/exercises/test_exercises_declarations.py", "tests/book/test_book_api.py"]
    found = outcomes(released, *files, "-k", "sharpen and not ch12 or ch03_scaling or every_module")
    assert (found["FAILED"], found["ERROR"], found["SKIPPED"]) == ([], [], []), found["said"][0]
    rules = {"test_every_module_of_tfcore_is_listed_once"}
    rules |= {f"test_a_notebook_runs_from_top_to_bottom[{kind}-ch03_scaling]" for kind in ("solved", "blank")}
    assert rules <= {*found["PASSED"]}
    student = json.loads((released / "notebooks/ch03_scaling/ch03_scaling.ipynb").read_text("utf8"))
    sources = {cell["id"]: "".join(cell["source"]) for cell in student["cells"]}
    assert sources["sharpen-idea"] == "## 6. Sharper"
    assert "NotImplementedError" in sources["sharpen-answer"]
    assert "raised" not in sources["sharpen-answer"]
    assert sources["sharpen-check"] == "check(sharpen).score"
    order = [cell["id"] for cell in student["cells"]]
    assert order.index("sharpen-help") == order.index("sharpen-check") + 1
    assert "| 6. `sharpen` | 3 | 10 | easy |\n| 7. In words | 3 | 20 | medium |" in sources["title"]
    assert "About 110 minutes" in sources["title"]
    assert sources["explain-question"].startswith("## 7. In words (3 points, graded by a person)")
    marks = [cell["metadata"].get("nbgrader", {}) for cell in student["cells"]]
    assert sum(mark["points"] for mark in marks if mark.get("grade")) == 23


def test_a_misconception(answers: dict[str, dict[str, Any]]) -> None:
    found = answers["a_root"]
    assert found["is_misconception"]
    assert found["as_expected"], "rejected by check, and by the grader in its cage"
    assert found["diagnosed"]
    assert found["fails"] == [True, True, False]


def test_an_accepted_style(answers: dict[str, dict[str, Any]]) -> None:
    found = answers["relative"]
    assert not found["is_misconception"]
    assert found["as_expected"]
    assert not any(found["fails"])


def test_a_probe(answers: dict[str, dict[str, Any]]) -> None:
    """The first criterion sees nothing of this mistake but through the probe."""
    assert answers["changed_in_place"]["fails"] == [True, False, True]
    assert answers["changed_in_place"]["as_expected"]
    assert answers["textbook"]["as_expected"]


def test_the_kill_matrix(released: Path, proof: dict[str, Any]) -> None:
    text = (released / "book" / "kill_matrix.md").read_text("utf8")
    assert "| `a_root` You take a root" in text
    assert "relative to the largest weight" in text
    assert "(mistakes-ch04_multi_head)=" in text, "the rest of the page stays as it is"
    done = command(released, "verify", "ch03_scaling/sharpen", "--mutants", "20", "--seed", "1", "--json")
    assert json.loads(done.stdout)["figures"]["all"]["mutants"] == 20, done.stderr


def test_a_variation(released: Path) -> None:
    done = command(released, "release", "ch12_sharpening", "--variant", "spring")
    assert done.returncode == 0, done.stdout + done.stderr
    name = "ch12_sharpening/ch12_sharpening.ipynb"
    plain, other = (
        (released / folder / name).read_text("utf8") for folder in ("notebooks", "variants/spring")
    )
    assert "0.75 and 0.25 are squared" in plain
    assert "0.8 and 0.2 are squared" in other
    assert "<!-- varies" not in plain + other


def test_a_quiz_question(built: Path) -> None:
    quiz = page(built, "12_sharpening").find(class_="tf-quiz")
    assert "What does a power of 0 make" in quiz.get_text()
    options = quiz.find_all("details")
    assert ["tf-right" in option["class"] for option in options] == [True, False]
    assert "Right. Each weight to the power 0 is 1." in " ".join(options[0].get_text(" ").split())


def test_a_prediction(built: Path) -> None:
    asked = page(built, "12_sharpening").find(class_="tf-predict")
    assert [choice.get_text(strip=True) for choice in asked.select(".tf-choices label")] == ["yes", "no"]
    assert asked.find("details").find(class_="tf-answer").get_text(strip=True) == "It does."
    assert asked.find("textarea")


def test_a_claim(built: Path) -> None:
    (claim,) = page(built, "claims").find_all(class_="tf-claim")
    assert "Squared weights attend to one key only." in claim.get_text()
    assert "tf-does-not-hold" in claim["class"]
    assert claim.find(class_="pasted-text").get_text() == "0.533"
    found = outcomes(built, "tests/book/test_book_claims.py", "-k", "names_its_experiment")
    assert (len(found["PASSED"]), found["FAILED"]) == (1, []), found["said"][0]


@pytest.mark.browser
def test_a_widget(built: Path, do_without: Callable[[str, str], None]) -> None:
    mounted = page(built, "12_sharpening").find(attrs={"data-widget": "sharpness"})
    assert json.loads(mounted["data-initial"])["power"] == 2
    files = ["tests/book/test_book_widgets.py", "tests/book/test_book_tfwidgets.py"]
    found = outcomes(built, *files, "-k", "sharpness or ch12_sharpening")
    if found["SKIPPED"]:
        do_without("browser", found["said"][0])
    assert (found["FAILED"], found["ERROR"]) == ([], []), found["said"][0]
    driven = {"test_by_mouse[sharpness]", "test_by_keyboard[sharpness]", "test_by_finger[sharpness]"}
    assert driven | {"test_a_notebook_shows_the_widget_of_its_chapter[ch12_sharpening]"} <= {*found["PASSED"]}


@pytest.mark.skipif(sys.platform != "linux", reason="walls are made of Linux's parts")
def test_an_attack(grown: Path) -> None:
    table = "ON_FILES = (\n"
    lie = """    Attack("tells its own port", "nothing is told", "print('GOT', TARGET['port'])"),\n"""
    write(grown, "autograder/proof/attacks/on_files.py", table, table + lie)
    files = ["tests/cage/test_attacks.py", "tests/cage/test_cages.py"]
    chosen = "groups or (tells and port) or every_attempt or without_walls_the_same"
    found = outcomes(grown, *files, "-k", chosen)
    tiers = [tier for tier in cages.SAFE if tier >= cages.strongest().tier]
    assert {*found["PASSED"]} == {
        "test_without_walls_the_same_attempts_succeed",
        *(f"test_every_attempt_is_refused[{tier}]" for tier in tiers),
        *(f"test_nothing_comes_of_it[{tier}-reads the groups of accounts]" for tier in tiers),
    }, found["said"][0]
    assert {*found["FAILED"]} == {f"test_nothing_comes_of_it[{tier}-tells its own port]" for tier in tiers}


def test_a_fault(grown: Path) -> None:
    found = outcomes(grown, "tests/tfcore/test_tfcore_kill_table.py", "-k", "every_mutant")
    (said,) = found["said"]
    assert re.search(r"heads in the opposite order +copies of a key head lie side by side", said)
    assert re.search(r"the columns sharpened +SURVIVES", said), "no check looks at the new function"
    assert found["FAILED"] == ["test_every_mutant_is_caught"]


def test_a_family_of_checkpoints(grown: Path) -> None:
    files = [f"tests/tfcore/test_tfcore_{name}.py" for name in ("parity", "io", "presets")]
    found = outcomes(grown, *files, "-k", "openai-gpt or cover_each_other")
    assert (found["FAILED"], found["ERROR"], found["SKIPPED"]) == ([], [], []), found["said"][0]
    tested = {name.partition("[")[0] for name in found["PASSED"]}
    assert {
        "test_output",
        "test_padding",
        "test_cached",
        "test_presets_and_families_cover_each_other",
    } <= tested


def test_a_platform(grown: Path) -> None:
    found = outcomes(grown, "tests/grading/test_platforms.py", "-k", "abacus or has_its_archive")
    assert (found["FAILED"], found["ERROR"], found["SKIPPED"]) == ([], [], []), found["said"][0]
    assert "test_every_format_has_its_archive" in found["PASSED"]
    assert any("everybody_taken" in name and "[abacus]" in name for name in found["PASSED"])


def test_a_dependency(grown: Path) -> None:
    found = outcomes(grown, "tests/test_lock.py", "-k", "declared and fits")
    pinned = {name for name in found["PASSED"] if "[Pygments>=2-" in name}
    assert pinned, found["said"][0]
    assert len(found["FAILED"]) == len(pinned), "one for each Python"
    assert all("[no-such-package>=1-" in name for name in found["FAILED"])


# --- done wrongly


def test_a_mistake_that_no_case_tells_from_another_does_not_verify(spoilt: Path) -> None:
    twin = """

@EXERCISE.misconception("Another hint for what is told already: use the power that was passed.")
def twin(weights, power=2.0):
    return weights**2 / (weights**2).sum(axis=-1, keepdims=True)
"""
    append(spoilt, MISTAKES, twin)
    alone = 'ORDER = ("sharpen",)\n'  # the chapter's other exercises take a minute
    (spoilt / "autograder/exercises/ch03_scaling/__init__.py").write_text(alone, "utf8")
    done = command(spoilt, "verify", "ch03_scaling")
    assert done.returncode == 1, done.stderr
    assert "twin gets the hint of power_ignored" in done.stdout
    assert "Not everything is as expected." in done.stdout


def test_what_is_wrong_in_a_page_is_told(spoilt: Path) -> None:
    write(spoilt, PAGE, "    right: true\n", "")
    write(
        spoilt,
        PAGE,
        "    alt: A curve that rises from one quarter at power 0 towards 1 at power 8.\n",
        "    width: 300\n",
    )
    write(spoilt, "book/tfwidgets/sharpness.py", "def picture(", "def drawing(")
    claims = (spoilt / "book/claims.md").read_text("utf8")
    block = claims[claims.index("```{claim}") :]
    without_verdict = block.replace("verdict: does not hold\n", "")
    unknown = block.replace("largest_squared", "largest_cubed")
    append(spoilt, "book/claims.md", f"\n{without_verdict}\n{unknown}")
    done = run(spoilt, "book/build.py")
    assert done.returncode == 1
    for told in (
        "a picture has no alternative text",
        "'What does a power of 0 make of the weights?' has no right option",
        "sharpness.py does not define picture",
        "a claim has the entries claim, verdict, found, tested, said",
        "12_sharpening keeps no number 'largest_cubed'",
    ):
        assert told in done.stdout, done.stdout + done.stderr


def test_a_chapter_that_is_not_there_is_told(spoilt: Path) -> None:
    write(spoilt, "book/_toc.yml", "book/12_sharpening", "book/12_sharpning")
    done = run(spoilt, "book/build.py")
    assert done.returncode == 1
    assert "12_sharpning.md is in book/_toc.yml and does not exist" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="walls are made of Linux's parts")
def test_what_code_can_do_opens_the_walls(spoilt: Path) -> None:
    attempt(spoilt, "adds_two_numbers", "1 + 1")
    told = json.loads(command(spoilt, "doctor", "--json").stdout)
    assert told["tier"] == "D"
    assert "adds_two_numbers (2)" in str(told["findings"])
