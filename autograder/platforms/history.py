"""Remember which version of a notebook was collected, so that an older archive replaces no newer version.

The path in the archive is remembered as well: feedback needs it to return to the platform. A digest of the
collected notebook shows whether a teacher has changed the notebook since.

Where an archive states the times of submissions, ``timestamp.txt`` is enough. Other archives give a number
that grows with each upload, or the time of the download. Both are kept in ``.autograder/collected/``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath

from autograder.course.files import read_if_there, read_record, write_record
from autograder.course.layout import Course


@dataclass(frozen=True)
class Version:
    """The time of a version, as far as its archive states it.

    Args:
        platform: the platform of the archive; numbers and times of two platforms cannot be compared.
        time: when it was handed in.
        order: the number of the upload, or 0.
        archive: the time at which the archive was made, or an empty text.
        path: the path of the notebook in the archive.
    """

    platform: str = ""
    time: datetime | None = None
    order: int = 0
    archive: str = ""
    path: str = ""

    def is_before(self, other: Version) -> bool:
        """Return whether this version is known to be older than the other."""
        if self.time and other.time:
            return self.time < other.time
        if self.platform != other.platform:
            return False
        if self.order and other.order and self.order != other.order:
            return self.order < other.order
        return bool(self.archive and other.archive and self.archive < other.archive)


class History:
    """The versions that were collected for one assignment, by student."""

    def __init__(self, course: Course, assignment: str) -> None:
        self.course, self.assignment = course, assignment
        self.file = course.state / "collected" / f"{assignment}.json"
        self.known = read_record(self.file)

    def version(self, student: str, time: datetime | None) -> Version:
        """Return the present version of a student; its time is in ``timestamp.txt``."""
        about = self.known.get(student)
        if not isinstance(about, dict):
            return Version(time=time)
        platform, archive = str(about.get("platform", "")), str(about.get("archive", ""))
        order, path = about.get("order", 0), str(about.get("path", ""))
        return Version(platform, time, order if isinstance(order, int) else 0, archive, path)

    def beginnings(self, platform: str) -> set[str]:
        """Return the texts before the student's id in the names of folders that were collected before."""
        return {
            part.removesuffix(student)
            for student, about in self.known.items()
            if isinstance(about, dict) and about.get("platform") == platform
            for part in PurePosixPath(str(about.get("path"))).parts
            if part.endswith(f"-{student}")
        }

    def remember(self, student: str, version: Version, path_in_course: str = "", data: bytes = b"") -> None:
        """Remember the version that was collected, and the digest of the notebook in `path_in_course`."""
        about = asdict(version)
        del about["time"]
        digests = {path_in_course: sha256(data).hexdigest()} if path_in_course else {}
        about["digests"] = self._digests(student) | digests
        self.known[student] = about

    def was_last_collected(
        self, student: str, path_in_course: str, data: bytes, present: Version, version: Version
    ) -> bool:
        """Return whether this notebook was the last to be collected into `path_in_course`.

        Records of earlier versions of the course lack digests. Then the same time or download is enough.
        """
        digest = self._digests(student).get(path_in_course)
        if digest is None and (version.time or version.archive):
            return replace(present, path=version.path) == version
        return digest == sha256(data).hexdigest()

    def _digests(self, student: str) -> dict[str, str]:
        about = self.known.get(student)
        digests = about.get("digests") if isinstance(about, dict) else None
        return digests if isinstance(digests, dict) else {}

    def save(self) -> None:
        """Write the versions to the file."""
        self.course.make_private()
        write_record(self.file, self.known)

    def replaced_folder(self, student: str) -> Path:
        """Return the folder with the versions that others replaced."""
        return self.course.state / "replaced" / self.assignment / student

    def was_replaced(self, student: str, data: bytes) -> bool:
        """Return whether a notebook is one that another replaced before."""
        folder = self.replaced_folder(student)
        return folder.is_dir() and any(read_if_there(path) == data for path in folder.iterdir())
