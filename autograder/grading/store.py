"""The verdicts that were given: an append-only file of JSON lines, one a verdict.

It is written before the gradebook is touched, so that a run that was killed goes on where it was. The last
line for a key counts. A line that was cut off is no line.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from types import TracebackType

import autograder
import tfcore
from autograder.grading.session import Limits
from autograder.grading.verdict import Verdict

_START = b'{"key": "'


@cache
def grader_version() -> str:
    """A hash of all source that a verdict depends on: the grader's, the exercises' and the reference's."""
    told = hashlib.sha256()
    for package in (autograder, tfcore):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            told.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return told.hexdigest()


def key(submission: bytes, released: bytes, tier: str, seed: int, limits: Limits) -> str:
    """What a verdict depends on, as one hash: the same key needs no second grading."""
    parts = (submission, released, grader_version().encode(), f"{tier} {seed} {limits}".encode())
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


class VerdictStore:
    """The verdicts on one assignment. Holds in memory only where each one lies."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b")  # noqa: SIM115
        self._places: dict[str, int] = {}
        self._read_places()

    def __enter__(self) -> VerdictStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: str) -> Verdict:
        self._file.seek(self._places[key])
        return Verdict.from_dict(json.loads(self._file.readline())["verdict"])

    def add(self, key: str, verdict: Verdict) -> None:
        """Appends a verdict. One where the grader itself failed is written down too, but not found again."""
        line = json.dumps({"key": key, "status": verdict.status, "verdict": verdict.as_dict()})
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        if verdict.status != "failed":
            self._places[key] = place

    def sync(self) -> None:
        """Returns when all that was added is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read_places(self) -> None:
        self._file.seek(0)
        place, line = 0, b"\n"
        for line in self._file:
            if line.startswith(_START) and line.endswith(b"}\n") and b'"status": "failed"' not in line[:120]:
                self._places[line[len(_START) : len(_START) + 64].decode()] = place
            place += len(line)
        if not line.endswith(b"\n"):
            self._file.write(b" cut off\n")
