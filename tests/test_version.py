"""One version, which the package, the changelog and the citation give alike, and the licences in full."""

import json
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import yaml
from typer.testing import CliRunner

import tfcore
from autograder.cli import app

ROOT = Path(tfcore.__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def citation():
    """CITATION.cff as its schema reads it: dates are text."""
    return yaml.load((ROOT / "CITATION.cff").read_text(), Loader=yaml.BaseLoader)


def test_the_package_gives_its_own_version():
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tfcore.__version__"}
    assert CliRunner().invoke(app, ["--version"]).stdout == f"autograder {tfcore.__version__}\n"


def test_the_citation_and_the_changelog_have_that_version():
    assert citation()["version"] == tfcore.__version__
    said = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\] - \d{4}-\d\d-\d\d$", said, re.M)
    assert versions[0] == tfcore.__version__
    headings = re.findall(r"^## (.+)$", said, re.M)
    assert len(headings) - (headings[0] == "[Unreleased]") == len(versions)
    kinds = set(re.findall(r"^### (.+)$", said, re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_citation_fits_the_schema_of_its_format(do_without):
    spec = find_spec("cffconvert")  # for the schema that it brings
    if spec is None:
        do_without("schemas", "needs cffconvert: pip install --no-deps cffconvert")
    schema = Path(spec.origin).parent / "schemas/1.2.0/schema.json"
    jsonschema.validate(citation(), json.loads(schema.read_text()))


def test_both_licences_are_there_in_full():
    assert PYPROJECT["project"]["license"] == "MIT"
    code, text = ((ROOT / name).read_text() for name in PYPROJECT["project"]["license-files"])
    assert code.startswith("MIT License\n")
    assert code.rstrip().endswith("DEALINGS IN THE\nSOFTWARE.")
    assert re.findall(r"^Section (\d)", text, re.M) == [str(n) for n in range(1, 9)]
    assert "\nCreative Commons Attribution 4.0 International Public License\n" in text
    assert text.rstrip().endswith("creativecommons.org.")
    assert citation()["license"] == ["MIT", "CC-BY-4.0"]
