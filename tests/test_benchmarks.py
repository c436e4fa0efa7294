"""The benchmarks start, and say so where they cannot: nothing is timed here."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ["attention", "gpu", "grading", "grading_memory", "real", "term", "tfcore"]


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_each_benchmark_says_what_it_measures(name):
    result = run(f"benchmarks/{name}.py", "--help")
    assert result.returncode == 0, result.stderr
    assert "usage:" in result.stdout


@pytest.mark.slow
def test_the_benchmark_for_gpus_says_what_it_lacks():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("here it would run")
    result = run("benchmarks/gpu.py")
    assert result.returncode == 2
    assert "needs a CUDA device" in result.stderr


@pytest.mark.slow
def test_a_peer_that_is_not_there_is_named():
    result = run("benchmarks/tfcore.py", "--peer", "nowhere.py:GPT")
    assert result.returncode == 1
    assert "nowhere.py:GPT" in result.stderr
