"""Find the parts of a course in its folder, which contains nbgrader's configuration."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course.errors import BadInputError

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

CONFIG = "nbgrader_config.py"
SETTINGS = "nbgrader_config.json"
"""The file beside `CONFIG` that nbgrader reads after it, and that a program can write."""


@dataclass(frozen=True)
class Course:
    """A course: its folder, with the other folders that nbgrader's configuration names."""

    root: Path
    db: str = field(default="", repr=False)
    """The gradebook's address, if it differs from the address in the configuration."""

    @classmethod
    def at(cls, folder: Path, db: str | None = None) -> Course:
        """Return the course in a folder.

        Args:
            folder: the folder with nbgrader's configuration.
            db: the gradebook's address, if it differs from the address in the configuration.

        Raises:
            BadInputError: the folder is not a course.
        """
        root = folder.resolve()
        if not (root / CONFIG).is_file():
            raise BadInputError(
                f"{root} is not a course: it has no {CONFIG}. Run this in the folder of the course, or name "
                "that folder with --course."
            )
        return cls(root, db or "")

    @property
    def config(self) -> Any:
        """A copy of nbgrader's configuration for this course, since nbgrader changes the object."""
        return copy.deepcopy(self._config)

    @cached_property
    def _config(self) -> Any:
        from traitlets.config import JSONFileConfigLoader

        config = self.python_config()
        if (self.root / SETTINGS).is_file():
            try:
                config.merge(JSONFileConfigLoader(SETTINGS, path=str(self.root)).load_config())
            except Exception as error:
                raise BadInputError(
                    f"{self.root / SETTINGS} cannot be read: {error!r}. Correct that file, or delete it."
                ) from error
        return config

    def python_config(self) -> Any:
        """Return nbgrader's configuration without what a program has written into `SETTINGS`."""
        from traitlets.config import PyFileConfigLoader

        try:
            return PyFileConfigLoader(CONFIG, path=str(self.root)).load_config()
        except Exception as error:
            raise BadInputError(
                f"{self.root / CONFIG} cannot be read: {error!r}. Correct that file."
            ) from error

    def folder(self, name: str, default: str) -> Path:
        """Return one of nbgrader's folders, such as ``source_directory``."""
        return self.root / str(self._config.get("CourseDirectory", {}).get(name, default))

    @property
    def solutions(self) -> Path:
        return self.folder("source_directory", "source")

    @property
    def notebooks(self) -> Path:
        return self.folder("release_directory", "release")

    @property
    def autograded(self) -> Path:
        return self.folder("autograded_directory", "autograded")

    @property
    def feedback(self) -> Path:
        return self.folder("feedback_directory", "feedback")

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def state(self) -> Path:
        """The folder of the grader's own data: the secret seed, the verdicts and the progress of grading."""
        return self.root / ".autograder"

    def shown(self, path: Path) -> str:
        """Return a path for messages: from the course's folder, if it is inside."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)

    def make_private(self) -> None:
        """Make the folder `state`, which only its owner may read."""
        self.state.mkdir(mode=0o700, exist_ok=True)

    @cached_property
    def db_url(self) -> str:
        """The gradebook's complete address; see `autograder.course.databases`."""
        from autograder.course import databases

        given = self.db or self._config.get("CourseDirectory", {}).get("db_url", "")
        return databases.complete_address(str(given or "sqlite:///gradebook.db"), self.root)

    @property
    def db_file(self) -> Path | None:
        """The gradebook's file, or None if the gradebook is on a server."""
        from sqlalchemy import make_url

        url = make_url(self.db_url)
        return Path(str(url.database)) if url.drivername == "sqlite" else None

    @cached_property
    def assignments(self) -> tuple[str, ...]:
        """The assignments with a solution notebook, in order."""
        names = {path.parent.name for path in self.solutions.glob("*/*.ipynb")}
        return tuple(sorted(name for name in names if not name.startswith(".")))

    def chosen(self, names: list[str]) -> list[str]:
        """Return the assignments with these names, or all assignments if `names` is empty.

        Raises:
            BadInputError: a name is not the name of an assignment, or the course has no assignments.
        """
        if not self.assignments:
            raise BadInputError(
                f"{self.solutions} holds no assignment: expected <assignment>/<notebook>.ipynb."
            )
        for name in names:
            if name not in self.assignments:
                raise BadInputError(
                    f"no assignment is called {name!r}. The assignments are: {', '.join(self.assignments)}."
                )
        return [name for name in self.assignments if not names or name in names]

    def coursedir(self) -> CourseDirectory:
        """Return nbgrader's own object for this course."""
        from nbgrader.coursedir import CourseDirectory

        return CourseDirectory(config=self.config, root=str(self.root), db_url=self.db_url)
