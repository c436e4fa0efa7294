"""Take a percentage off late work for each day, as a plugin that nbgrader's own commands use too.

`autograder late` writes the rule into `nbgrader_config.json`, which nbgrader reads after
`nbgrader_config.py`. So plain ``nbgrader autograde`` takes off the same points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float

from autograder.course.class_file import MOST_DAYS
from autograder.course.errors import BadInputError
from autograder.course.files import read_if_there, write_atomically
from autograder.course.layout import CONFIG, SETTINGS, Course
from autograder.grading.rows import Row

DAY = 86400


@dataclass(frozen=True)
class LateRule:
    """What late work costs.

    Args:
        percent: the percentage of the points of the work that each day begun costs.
        grace: the days after the due date that cost nothing; counting begins after them.
    """

    percent: float = 0.0
    grace: float = 0.0

    def penalty(self, score: float, seconds: float) -> float:
        """Return the points that work loses, at most all of them.

        >>> LateRule(percent=10, grace=1).penalty(20, seconds=2.5 * DAY)
        4.0
        """
        days = math.ceil(max(0.0, seconds - self.grace * DAY) / DAY)
        return score * min(1.0, self.percent * days / 100)

    def __str__(self) -> str:
        if not self.percent:
            return "late work loses no points"
        after = f"; the first {_days(self.grace)} cost nothing" if self.grace else ""
        return f"late work loses {self.percent:g}% of its points for each day begun{after}"


def _days(days: float) -> str:
    return "24 hours" if days == 1 else f"{days:g} days"


class LatePenalty(LateSubmissionPlugin):
    """The rule as nbgrader's plugin; without a percentage, `penalty_method` of nbgrader's own holds."""

    percent = Float(0.0, help="The percentage that each day begun costs.").tag(config=True)
    grace = Float(0.0, help="The days after the due date that cost nothing.").tag(config=True)

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        """Return the points that a notebook loses, or None for no penalty."""
        if not self.percent:
            return super().late_submission_penalty(student_id, score, total_seconds_late)
        return LateRule(self.percent, self.grace).penalty(score, total_seconds_late) or None


PLUGIN = f"{LatePenalty.__module__}.{LatePenalty.__qualname__}"


def read_rule(course: Course) -> LateRule:
    """Return the rule of a course."""
    settings = course.config.get(LatePenalty.__name__, {})
    return LateRule(float(settings.get("percent", 0.0)), float(settings.get("grace", 0.0)))


def describe(course: Course, rule: LateRule) -> str:
    """Return what late work costs: by the rule or, without a percentage, by nbgrader's own configuration."""
    plugin = course.config.get("AssignLatePenalties", {}).get("plugin_class", PLUGIN)
    method = course.config.get("LateSubmissionPlugin", {}).get("penalty_method", "none")
    if plugin != PLUGIN:
        return f"{CONFIG} has a plugin of its own for late work: {plugin}"
    if not rule.percent and method != "none":
        return f"late work gets zero points (penalty_method {method!r} in {CONFIG})"
    return str(rule)


def count_stale(course: Course, rows: Iterable[Row]) -> int:
    """Count the late penalties that do not fit the points, as after marking by hand."""
    if course.config.get("AssignLatePenalties", {}).get("plugin_class", PLUGIN) != PLUGIN:
        return 0
    rule, count = LatePenalty(config=course.config), 0
    for row in rows:
        score, due = sum(row.scores.values()), None
        if row.late_seconds:
            due = rule.late_submission_penalty(row.student, score, row.late_seconds)
        count += abs((due or 0.0) - row.late_penalty) > 1e-6
    return count


def write_rule(course: Course, rule: LateRule) -> Course:
    """Write the rule into the course's settings, and return the course with them.

    Raises:
        BadInputError: a number is out of range, or `nbgrader_config.py` has another rule.
    """
    if not 0 <= rule.percent <= 100 or not 0 <= rule.grace <= MOST_DAYS:
        raise BadInputError(
            f"expected 0 to 100 percent and 0 to {MOST_DAYS} days, got {rule.percent:g} and {rule.grace:g}."
        )
    own = course.python_config()
    other = own.get("AssignLatePenalties", {}).get("plugin_class", PLUGIN)
    method = own.get("LateSubmissionPlugin", {}).get("penalty_method", "none")
    if other != PLUGIN or (method != "none" and (rule.percent or rule.grace)):
        line = f"plugin {other!r}" if other != PLUGIN else f"penalty_method {method!r}"
        raise BadInputError(
            f"{course.root / CONFIG} has a rule for late work already, the {line}. Delete that line first; "
            "then this rule replaces it."
        )
    course.config  # noqa: B018  # refuses settings that cannot be read
    settings: dict[str, Any] = json.loads(read_if_there(course.root / SETTINGS) or b"{}")
    settings.setdefault("AssignLatePenalties", {})["plugin_class"] = PLUGIN
    settings[LatePenalty.__name__] = {"percent": rule.percent, "grace": rule.grace}
    write_atomically(course.root / SETTINGS, json.dumps(settings, indent=2).encode() + b"\n")
    return Course(course.root, course.db)
