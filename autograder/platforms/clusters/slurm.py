"""Run a command with Dask workers that Slurm starts, and stop the workers afterwards.

    python -m autograder.platforms.clusters.slurm --workers 20 --queue short -- \\
        autograder grade --executor dask --submissions submitted

The course, its environment and the working folder must be on a disk that all nodes share. All traffic between
the machines is encrypted, with keys in a subfolder of the working folder that only you can read. Without
encryption, everybody who reaches the scheduler's port could run code as you. The keys are removed at the end.
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
"""The memory of one worker: the grader uses up to 1 GiB, a submission 2 GiB unless --memory changes it."""

ROLES = ("client", "worker", "scheduler")
PARTS = {
    "ca_file": ["distributed.comm.tls.ca-file"],
    "cert": [f"distributed.comm.tls.{role}.cert" for role in ROLES],
    "key": [f"distributed.comm.tls.{role}.key" for role in ROLES],
}
"""The files that Dask encrypts with, and Dask's settings for the path of each file."""


def variable(setting: str) -> str:
    """Return the environment variable from which Dask reads a setting."""
    return "DASK_" + setting.upper().replace(".", "__").replace("-", "_")


def keys_in(folder: Path) -> dict[str, str]:
    """Write a certificate and its key for this run only; return Dask's settings with the paths."""
    contents = Security.temporary().get_tls_config_for_role("client")
    for name in PARTS:
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(contents[name])
    return {setting: str(folder / name) for name in PARTS for setting in PARTS[name]}


def cluster(options: argparse.Namespace) -> SLURMCluster:
    """Start a scheduler on this machine whose workers will be Slurm jobs."""
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
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="python -m autograder.platforms.clusters.slurm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--workers", type=int, required=True, help="number of jobs, each with one core")
    options.add_argument("--queue", help="the partition of Slurm")
    options.add_argument("--account", help="the account that pays")
    options.add_argument("--walltime", default="01:00:00", help="time limit of a worker")
    options.add_argument("--memory", default=MEMORY, help="memory of one worker")
    options.add_argument("--interface", help="the network that the nodes share, such as ib0")
    options.add_argument(
        "command", nargs="+", help="the command to run, such as: autograder grade --executor dask"
    )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command after ``--`` and return its exit status."""
    options = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix=".keys-", dir=Path.cwd()) as folder:
        files = keys_in(Path(folder))
        dask.config.set({"distributed.scheduler.allowed-failures": 1, **files})
        with cluster(options) as jobs:
            jobs.scale(options.workers)
            print(f"waiting for the first of {options.workers} jobs", file=sys.stderr)
            jobs.wait_for_workers(1)
            variables = {SCHEDULER: jobs.scheduler_address, **{variable(name): files[name] for name in files}}
            return subprocess.run(options.command, env={**os.environ, **variables}).returncode


if __name__ == "__main__":
    sys.exit(main())
