"""Store verdicts on disk: an append-only file of JSON lines, one line for each verdict.

The file is written before the gradebook, so that a killed run goes on where it was. The last line for a key
counts. An incomplete line is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.grading.session import Limits
from autograder.grading.verdict import CellVerdict, Verdict
from autograder.release import versions

_START = re.compile(rb'\{"key": "(\w{64})", "submission": "(\w{64})", "status": "(\w+)"')


@dataclass(frozen=True)
class Identity:
    """The hashes of everything that a verdict depends on.

    Args:
        submission: a hash of the submitted notebook.
        circumstances: a hash of the release, the core of the grader, the tier, the seed and the limits.
        exercises: a hash of each exercise, by function.
    """

    submission: str
    circumstances: str
    exercises: dict[str, str]

    @classmethod
    def of(
        cls, submission: bytes, released: bytes, assignment: str, tier: str, seed: int, limits: Limits
    ) -> Identity:
        tested = exercises.names_tested_by(json.loads(released), assignment)
        settings = (versions.hash_core().encode(), f"{tier} {seed} {limits}".encode())
        circumstances = _hash(b"".join(_hash(part).encode() for part in (released, *settings)))
        return cls(_hash(submission), circumstances, versions.hash_exercises(tested))

    @property
    def key(self) -> str:
        """Return one hash of all parts: submissions with the same key are graded only once."""
        return _hash(json.dumps([self.submission, self.circumstances, self.exercises]).encode())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class VerdictStore:
    """The file of the verdicts on one assignment; only the position of each verdict is in memory."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b")  # noqa: SIM115
        self._places: dict[str, int] = {}
        self._latest: dict[str, tuple[str, int]] = {}
        self._again: set[str] = set()
        self._read_places()

    def __enter__(self) -> VerdictStore:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __getitem__(self, key: str) -> Verdict:
        return Verdict.from_dict(self._line(self._places[key])["verdict"])

    def known(self, identity: Identity) -> list[CellVerdict]:
        """Return the verdicts on exercises that have not changed since the same notebook was graded last."""
        if identity.submission not in self._latest:
            return []
        line = self._line(self._latest[identity.submission][1])
        if line["circumstances"] != identity.circumstances:
            return []
        same = {
            name for name, version in identity.exercises.items() if line["exercises"].get(name) == version
        }
        verdict = Verdict.from_dict(line["verdict"])
        return [cell for cell in verdict.cells if cell.grade_id in same and cell.report]

    def has_other_verdict(self, identity: Identity) -> bool:
        """Return whether the same notebook was graded before, by another version or with other settings."""
        return identity.submission in self._again

    def add(self, identity: Identity, verdict: Verdict) -> None:
        """Append a verdict. A failed verdict is written too, but never looked up again."""
        record = {
            "key": identity.key,
            "submission": identity.submission,
            "status": verdict.status,
            "circumstances": identity.circumstances,
            "exercises": identity.exercises,
            "verdict": verdict.as_dict(),
        }
        line = json.dumps(record).encode() + b"\n"
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(line)
        self._file.flush()
        self._remember(line, place)

    def sync(self) -> None:
        """Write all added verdicts to the disk, and return when they are there."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def _line(self, place: int) -> dict[str, Any]:
        self._file.seek(place)
        record: dict[str, Any] = json.loads(self._file.readline())
        return record

    def _read_places(self) -> None:
        self._file.seek(0)
        place, line = 0, b"\n"
        for line in self._file:
            if line.endswith(b"}\n"):
                self._remember(line, place)
            place += len(line)
        if not line.endswith(b"\n"):
            self._file.write(b" cut off\n")

    def _remember(self, line: bytes, place: int) -> None:
        if not (start := _START.match(line)) or start[3] == b"failed":
            return
        key, submission = start[1].decode(), start[2].decode()
        if self._latest.get(submission, (key, 0))[0] != key:
            self._again.add(submission)
        self._places[key], self._latest[submission] = place, (key, place)
