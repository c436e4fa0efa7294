"""Watch the folder where a submission may write while it runs, and empty the folder afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

MOST_BYTES = 256 << 20
MOST_ENTRIES = 10_000
LOOK_SECONDS = 0.25


def is_full(folder: Path) -> bool:
    """Return whether a folder has more bytes or entries than a submission may write."""
    waiting, entries, total = [str(folder)], 0, 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    entries += 1
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entries > MOST_ENTRIES or total > MOST_BYTES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:  # a path that is too long or not readable: honest work leaves no such path
            return True
    return False


def empty(home: Path) -> None:
    """Remove everything in a folder, also unreadable folders; the folder stays, since walls refer to it."""
    with os.scandir(home) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False):
                remove(Path(entry.path))
            else:
                os.unlink(entry.path)
    if os.listdir(home):  # better no zygote than a zygote that passes files to the next submission
        raise OSError("the home of the last submission cannot be emptied")


def remove(folder: Path) -> None:
    """Remove a folder with everything in it, without following links."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)
    if os.path.lexists(folder) and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            os.spawnvp(os.P_WAIT, command[0], [*command, "--", str(folder)])
