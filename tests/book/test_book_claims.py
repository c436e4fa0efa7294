"""Claims, tested: each has a verdict, an experiment, a source and a number that the build brings."""

from __future__ import annotations

import re

import pytest
import yaml
from book_paths import ROOT
from tfbook.claims import KEYS, VERDICTS, ClaimError, address, read_claim

TEXT = (ROOT / "book" / "claims.md").read_text("utf8")
CLAIMS = [read_claim(body) for body in re.findall(r"^```\{claim\}\n(.*?)^```", TEXT, re.M | re.S)]
ROLES = re.compile(r"\{(number|cite:t|cite:p|numref|prf:ref|eq|doc|ref)\}`[^`]+`")
WHOLE = {
    "claim": "Snow is white.",
    "verdict": "holds",
    "found": "Yes.",
    "tested": "here",
    "said": "folklore",
}


def test_there_are_ninety_of_them_and_none_twice() -> None:
    assert len(CLAIMS) >= 90
    assert len({claim["claim"] for claim in CLAIMS}) == len(CLAIMS)


def test_fifteen_of_them_have_a_number_from_a_published_model() -> None:
    assert sum(bool(re.search(r"\{number\}`\w+\.real_", claim["found"])) for claim in CLAIMS) >= 15


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["claim"][:40])
def test_a_claim_names_its_experiment_and_its_source(claim: dict[str, str]) -> None:
    assert re.search(r"\{(numref|prf:ref|eq|doc|ref)\}`", claim["tested"]), claim["tested"]
    assert "{cite:" in claim["said"] or "folklore" in claim["said"] or "introductions" in claim["said"]
    said_of_it = f"{claim['found']} {claim.get('tried', '')}"
    words = ROLES.sub("", re.sub(r"\$[^$]*\$", "", said_of_it))
    assert not re.search(r"\d\.\d", words), f"a typed number: {words}"


def test_an_address_is_made_from_the_text_and_no_two_claims_share_one() -> None:
    assert address("At $d_k = 64$, *nothing* is lost.") == "claim-at-d-k-64-nothing-is-lost"
    assert len({address(claim["claim"]) for claim in CLAIMS}) == len(CLAIMS)


def test_what_was_tried_against_a_claim_is_read_and_may_be_missing() -> None:
    tried = {**WHOLE, "tried": "Three winters."}
    assert read_claim(yaml.safe_dump(tried)) == tried
    assert "tried" not in read_claim(yaml.safe_dump(WHOLE))


def test_a_verdict_of_each_kind_is_given() -> None:
    assert {claim["verdict"] for claim in CLAIMS} == set(VERDICTS)


@pytest.mark.parametrize(
    "change", [{"verdict": "maybe"}, {"where": "there"}, *({key: None} for key in KEYS)], ids=str
)
def test_a_claim_that_is_not_whole_is_refused(change: dict[str, str | None]) -> None:
    entries = {key: value for key, value in {**WHOLE, **change}.items() if value is not None}
    assert read_claim(yaml.safe_dump(WHOLE)) == WHOLE
    with pytest.raises(ClaimError):
        read_claim(yaml.safe_dump(entries))
