"""Test a cage from the inside: fork a child behind the walls and report its successful attempts.

Run as a script, this module prints the report as JSON; it takes a tenth of a second, since it imports
nothing large.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "cage"

from . import walls as cage_walls
from .attempts import Target, make_all
from .walls import Walls

SPACES = ("user", "net", "pid", "mnt", "ipc", "uts")
MEMORY, SECONDS = 1 << 30, 20


def facts(walls: Walls, target: Target) -> dict[str, Any]:
    """Return the results of a child's attempts behind these walls, and which parts of the machine it shares.

    Returns:
        ``got``: the result of each attempt, empty where it was refused; ``spaces``: the name spaces;
        ``root_writable``: whether the root folder is writable; ``sees_target``: whether the secret file is
        visible.
    """
    return {
        "got": _attempts_of_a_child(walls, target),
        "spaces": {space: os.readlink(f"/proc/self/ns/{space}") for space in SPACES},
        "root_writable": os.access("/", os.W_OK),
        "sees_target": os.path.exists(target["path"]),
    }


def _attempts_of_a_child(walls: Walls, target: Target) -> dict[str, str]:
    reading_end, writing_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading_end)
            walls.enter(MEMORY, SECONDS, keep=writing_end)
            os.write(writing_end, json.dumps(make_all(target)).encode())
        finally:
            os._exit(0)
    os.close(writing_end)
    with os.fdopen(reading_end) as pipe:
        output = pipe.read()
    os.waitpid(pid, 0)
    if not output:
        raise OSError("the walls could not be put up: the child behind them ended")
    results: dict[str, str] = json.loads(output)
    return results


def main() -> None:
    config = json.loads(sys.argv[1])
    print(json.dumps(facts(cage_walls.prepare(config), config["target"])))


if __name__ == "__main__":
    main()
