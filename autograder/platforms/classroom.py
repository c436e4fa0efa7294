"""Grades the notebook of a push to GitHub, and tells it in GitHub's words.

The action ``.github/actions/grade`` runs this. It grades as in Gradescope's container: every push meets fresh
cases, and there is no seed to steal. A student owns the repository and may change what it reports, so the
grades that count are made by the teacher, from a clone: `autograder collect`, then `autograder grade`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from autograder.platforms import gradescope
from autograder.release.audit import source


def graded(released: Path, handed_in: Path) -> gradescope.Results:
    """The results of a folder that holds a notebook, as Gradescope would get them.

    Args:
        released: the notebook that students got, ``<assignment>/<name>.ipynb``.
        handed_in: the folder.
    """
    with tempfile.TemporaryDirectory(prefix="classroom-") as name:
        base = Path(name)
        known = base / "source" / "released" / released.parent.name
        for folder in (known, base / "results"):
            folder.mkdir(parents=True)
        notebook = json.loads(released.read_bytes())
        for cell in notebook["cells"]:
            cell["source"] = source(cell)
        (known / released.name).write_text(json.dumps(notebook), "utf8")
        ours = shutil.ignore_patterns(".git", ".github")
        shutil.copytree(handed_in, base / "submission", symlinks=True, ignore=ours)
        gradescope.grade(base)
        results: gradescope.Results = json.loads((base / "results" / "results.json").read_bytes())
    return results


def points(results: gradescope.Results) -> tuple[float, float]:
    """What was earned, and what could be; answers that a person reads are in neither."""
    return results["score"], sum(test.get("max_score", 0) for test in results["tests"])


def notices(results: gradescope.Results) -> list[str]:
    """The annotations in which GitHub Classroom looks for points."""
    earned, most = points(results)
    return [
        f"::notice title=Autograding complete::Points {earned:g}/{most:g}",
        f'::notice title=Autograding report::{{"totalPoints": {earned:g}, "maxPoints": {most:g}}}',
    ]


def summary(results: gradescope.Results) -> str:
    """The page that GitHub shows for the run."""
    earned, most = points(results)
    shown = [test for test in results["tests"] if test["visibility"] == "visible"]
    said = [f"# {earned:g} of {most:g} points"]
    if "output" in results:
        said.append(f"```text\n{results['output']}\n```")
    return "\n\n".join([*said, *map(_exercise, shown)]) + "\n"


def _exercise(test: dict[str, Any]) -> str:
    of = f"{test['score']:g}/{test['max_score']:g}" if "score" in test else "read by a person"
    return f"<details><summary><b>{test['name']}</b>: {of}</summary>\n\n{test['output']}\n\n</details>"


def main(released: str, handed_in: str, page: str) -> None:
    """Grades, writes the summary at the end of the file `page` and prints the notices."""
    results = graded(Path(released), Path(handed_in))
    with Path(page).open("a", encoding="utf8") as file:
        file.write(summary(results))
    print("\n".join(notices(results)))


if __name__ == "__main__":
    main(*sys.argv[1:])
