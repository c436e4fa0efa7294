"""Grade the notebook of a push to GitHub, and report the points in GitHub's formats.

The action ``.github/actions/grade`` runs this module. It grades as Gradescope's container does: every push
gets fresh cases, so a student cannot steal the seed. Students own their repositories and may change this
report, so the teacher grades a clone for the gradebook: `autograder collect`, then `autograder grade`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from autograder.platforms import gradescope


def points(results: gradescope.Results) -> tuple[float, float]:
    """Return (earned points, maximum points), without the answers that a person reads."""
    return results["score"], sum(test.get("max_score", 0) for test in results["tests"])


def notices(results: gradescope.Results) -> list[str]:
    """Return the annotations in which GitHub Classroom looks for points."""
    earned, most = points(results)
    return [
        f"::notice title=Autograding complete::Points {earned:g}/{most:g}",
        f'::notice title=Autograding report::{{"totalPoints": {earned:g}, "maxPoints": {most:g}}}',
    ]


def summary(results: gradescope.Results) -> str:
    """Return the summary page that GitHub shows for the run."""
    earned, most = points(results)
    shown = [test for test in results["tests"] if test["visibility"] == "visible"]
    parts = [f"# {earned:g} of {most:g} points"]
    if "output" in results:
        parts.append(f"```text\n{results['output']}\n```")
    return "\n\n".join([*parts, *map(_exercise_details, shown)]) + "\n"


def _exercise_details(test: dict[str, Any]) -> str:
    score = f"{test['score']:g}/{test['max_score']:g}" if "score" in test else "read by a person"
    return f"<details><summary><b>{test['name']}</b>: {score}</summary>\n\n{test['output']}\n\n</details>"


def main(released: str, handed_in: str, page: str) -> None:
    """Grade a submission, append its summary to the file `page` and print the notices."""
    results = gradescope.results_of(Path(released), Path(handed_in))
    with Path(page).open("a", encoding="utf8") as file:
        file.write(summary(results))
    print("\n".join(notices(results)))


if __name__ == "__main__":
    main(*sys.argv[1:])
