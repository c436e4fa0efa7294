import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # as modules of doctests: they share one name
collect_ignore_glob += ["recipes/*"]  # what test_recipes.py puts elsewhere

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
os.environ.setdefault("AUTOGRADER_WORKERS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
"""pytest-xdist has a worker on each core, so no process computes or compiles on more than one."""

gc.set_threshold(50_000, 20, 100)  # a twentieth of the time of the tests is else spent looking for garbage

hypothesis.settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault
hypothesis.settings.load_profile("unhurried")

LONGEST = (
    "test_verify_and_doctor.py",
    "test_book_pages.py",
    "test_tfcore_compiled.py",
    "test_sample_class.py",
    "test_attacks.py",
    "test_recipes.py",
    "test_honest_class.py",
    "test_exercises_mutants.py",
    "test_tfcore_kill_table.py",
    "test_book_lean.py",
    "test_killed.py",
    "test_hub.py",
    "test_tfcore_zoo.py",
    "test_tfcore_end_to_end.py",
)
"""The longest files, in the order in which to begin them: a run in parallel should not end with one."""


SLOW_FIXTURES = {"html", "students", "pair"}
"""A built book, a class handed in and the processes that grade: seconds before the first test."""

SLOW_EXAMPLES = (
    "tfcore.zoo.load",
    "tfcore.viz.weights.heatmap",
    "tfcore.generate.compiled.CompiledDecoder",
    "tfcore.generate.compiled.PackedStep",
    "tfcore.generate.compiled.RecordedStep",
)
"""Examples in docstrings, which cannot be marked where they stand."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())) or item.name in SLOW_EXAMPLES:
            item.add_marker("slow")
    items.sort(key=lambda item: (*LONGEST, item.path.name).index(item.path.name))


@pytest.fixture(scope="session")
def pair() -> Iterator[Any]:
    """The pair of processes that grades, kept for all tests: starting one takes seconds."""
    from autograder.grading import cages
    from autograder.grading.pair import Pair

    with Pair(cages.strongest().tier) as pair:
        yield pair


@pytest.fixture(scope="session")
def do_without() -> Callable[[str, str], None]:
    """Skips a test for want of something, or fails it where ``REQUIRE`` names that thing, as in CI."""

    def want(thing: str, why: str) -> None:
        if thing in os.environ.get("REQUIRE", "").split(","):
            pytest.fail(why)
        pytest.skip(why)

    return want


@pytest.fixture(scope="session")
def chromium(do_without: Callable[[str, str], None]) -> str:
    """The path of Chromium. Without Chromium its tests are skipped, or fail under REQUIRE=browser."""
    from autograder.proof.doctor import find_chromium

    path = find_chromium()
    if path is None:
        do_without("browser", "no Chromium here: `apt-get install chromium-headless-shell`")
    return str(path)


@pytest.fixture(scope="session")
def launch() -> Iterator[Callable[[str, list[str]], Any]]:
    """Starts Chromium, from a path and with flags. A process can have one Playwright: all tests share it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield lambda path, flags: playwright.chromium.launch(executable_path=path, args=flags)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what a test recorded as its summary, also where it ran in another process."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, text in report.user_properties:
            if name == "summary" and report.when == "call":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)
