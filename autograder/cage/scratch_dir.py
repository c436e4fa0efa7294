"""The folder in which a submission may write: watched while it runs, then emptied of whatever is in it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

MOST_BYTES = 256 << 20
MOST_ENTRIES = 10_000
LOOK_SECONDS = 0.25


def is_full(folder: Path) -> bool:
    """Whether more lies there than a submission may write. Looking costs no more than that many entries."""
    waiting, entries, total = [str(folder)], 0, 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entries > MOST_ENTRIES or total > MOST_BYTES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:  # a path too long, or shut: nothing that honest work leaves
            return True
    return False


def empty(home: Path) -> None:
    """Removes all that is in it, however deep or shut; the folder itself stays, as walls refer to it."""
    with os.scandir(home) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                remove(Path(entry.path))
            else:
                os.unlink(entry.path)
    if os.listdir(home):  # rather no zygote than one that hands something on
        raise OSError("the home of the last submission cannot be emptied")


def remove(folder: Path) -> None:
    """Removes a folder with all that is in it. No link is followed."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)
    if os.path.lexists(folder) and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            os.spawnvp(os.P_WAIT, command[0], [*command, "--", str(folder)])
