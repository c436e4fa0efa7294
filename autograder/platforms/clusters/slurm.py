"""Runs a command with Dask workers that Slurm starts, and ends them after it.

    python -m autograder.platforms.clusters.slurm --workers 20 --queue short -- \\
        autograder grade --executor dask --submissions submitted

The course, its environment and the working folder must lie on a disk that all nodes share. Everything between
the machines is encrypted, by keys in a folder of the working folder that only you can read: without them,
whoever reaches the scheduler's port could run code as you. The keys are removed at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import dask
from dask_jobqueue import SLURMCluster
from distributed import Security

from autograder.grading.executors import SCHEDULER

MEMORY = "4GiB"
"""Of one worker: the grader takes up to 1 GiB, a submission 2 GiB unless --memory says otherwise."""


ROLES = ("client", "worker", "scheduler")
PARTS = {
    "ca_file": ["distributed.comm.tls.ca-file"],
    "cert": [f"distributed.comm.tls.{role}.cert" for role in ROLES],
    "key": [f"distributed.comm.tls.{role}.key" for role in ROLES],
}
"""What Dask encrypts with, and the settings that name each file."""


def variable(setting: str) -> str:
    """The environment variable from which Dask reads a setting."""
    return "DASK_" + setting.upper().replace(".", "__").replace("-", "_")


def keys_in(folder: Path) -> dict[str, str]:
    """Writes a certificate and its key for this run only; says how Dask's configuration calls the files."""
    made = Security.temporary().get_tls_config_for_role("client")
    for name in PARTS:
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(made[name])
    return {setting: str(folder / name) for name in PARTS for setting in PARTS[name]}


def cluster(options: argparse.Namespace) -> SLURMCluster:
    """A scheduler here, whose workers will be Slurm's jobs."""
    return SLURMCluster(
        cores=1,
        processes=1,
        memory=options.memory,
        queue=options.queue,
        account=options.account,
        walltime=options.walltime,
        interface=options.interface,
        python=sys.executable,
        log_directory="slurm-logs",
        security=Security(require_encryption=True),
        scheduler_options={"dashboard": False},
        worker_extra_args=["--no-dashboard"],
    )


def parser() -> argparse.ArgumentParser:
    """What may be said on the command line."""
    made = argparse.ArgumentParser(
        prog="python -m autograder.platforms.clusters.slurm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--workers", type=int, required=True, help="jobs, each of one core")
    made.add_argument("--queue", help="Slurm's partition")
    made.add_argument("--account", help="who pays")
    made.add_argument("--walltime", default="01:00:00", help="how long a worker may live")
    made.add_argument("--memory", default=MEMORY, help="of one worker")
    made.add_argument("--interface", help="the network that the nodes share, such as ib0")
    made.add_argument("command", nargs="+", help="such as: autograder grade --executor dask")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that stands after ``--``; returns how it ended."""
    options = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix=".keys-", dir=Path.cwd()) as folder:
        files = keys_in(Path(folder))
        dask.config.set({"distributed.scheduler.allowed-failures": 1, **files})
        with cluster(options) as jobs:
            jobs.scale(options.workers)
            print(f"waiting for the first of {options.workers} jobs", file=sys.stderr)
            jobs.wait_for_workers(1)
            told = {SCHEDULER: jobs.scheduler_address, **{variable(name): files[name] for name in files}}
            return subprocess.run(options.command, env={**os.environ, **told}).returncode


if __name__ == "__main__":
    sys.exit(main())
