"""``{claim}``: a claim of the field, what our experiment says of it, where it is tested and who says it.

.. code-block:: markdown

    ```{claim}
    claim: Attention is permutation-invariant.
    verdict: does not hold
    found: It is equivariant. Shuffle the tokens, and the outputs are shuffled with them.
    tested: "{prf:ref}`thm-equivariance`"
    said: "{cite:t}`someone2017`"
    tried: Three orders of the tokens, with a mask and without.
    ```

``tried`` may be missing. The claim's anchor is made from its text, and a link to it is shown.
``{verdicts}`` counts the claims of its page; ``{verdicts} claims`` says in one sentence how many the page
`claims` has of each verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

VERDICTS = {
    "holds": "tested, and we found no exception",
    "holds under a condition": "true when something else is true, which the text names",
    "does not hold": "a counterexample is on the page named",
    "open": "our experiments are too small to say, or results disagree",
}
KEYS = ("claim", "verdict", "found", "tested", "said")
OPTIONAL = ("tried",)


class ClaimError(ValueError):
    """A claim that is not whole; the message says what is missing."""


def read_claim(body: str) -> dict[str, str]:
    """The entries of a claim's body.

    Raises:
        ClaimError: when the body is no YAML, an entry is missing or the verdict is unknown.
    """
    try:
        entries: Any = yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise ClaimError(f"the claim is not YAML: {error}") from error
    if not isinstance(entries, dict) or set(entries) - set(OPTIONAL) != set(KEYS):
        raise ClaimError(
            f"a claim has the entries {', '.join(KEYS)}, perhaps {', '.join(OPTIONAL)}, and no other; "
            f"this has {entries!r}"
        )
    if entries["verdict"] not in VERDICTS:
        raise ClaimError(f"the verdict is one of {list(VERDICTS)}, not {entries['verdict']!r}")
    return {key: str(entries[key]) for key in (*KEYS, *OPTIONAL) if key in entries}


def address(claim: str) -> str:
    """Return the anchor of a claim on its page, made from its text."""
    return f"claim-{nodes.make_id(claim)}"


class ClaimDirective(SphinxDirective):
    """See the module's docstring."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        try:
            claim = read_claim("\n".join(self.content))
        except ClaimError as error:
            raise self.error(f"claim: {error}") from error
        kind = claim["verdict"].replace(" ", "-")
        anchor = address(claim["claim"])
        box = nodes.container(classes=["tf-claim", f"tf-{kind}"], ids=[anchor])
        self.set_source_info(box)
        head = nodes.paragraph(classes=["tf-claim-head"])
        head += nodes.inline(text=claim["verdict"], classes=["tf-verdict"])
        words, messages = self.parse_inline(f"“{claim['claim']}”")
        head += [nodes.Text(" "), nodes.strong("", "", *words), *messages]
        box += [head, *self.parse_text_to_nodes(claim["found"])]
        if "tried" in claim:
            box += self.parse_text_to_nodes(f"**Tried against it:** {claim['tried']}")
        box += self.parse_text_to_nodes(f"Tested: {claim['tested']}. Said: {claim['said']}.")
        box[-1]["classes"].append("tf-claim-where")
        title = f"Link to the claim: {claim['claim']}"
        box[-1] += [nodes.Text(" "), nodes.reference("", "Link", refid=anchor, reftitle=title)]
        return [box]


def count_verdicts(text: str) -> Counter[str]:
    """Return the number of claims by verdict in the text of a page."""
    return Counter(re.findall(r"^verdict: (.+)$", text, re.MULTILINE))


def summarise(counts: Counter[str], page: str) -> str:
    """Return one sentence on the verdicts, which links to the page of the claims.

    >>> print(summarise(Counter({"holds": 1, "does not hold": 2, "open": 1}), "claims"))
    **4 claims** of the field, tested: **1** holds, **2** do not hold, **1** is open. [See which.](claims.md)
    """
    words = {"holds": "hold", "does not hold": "do not hold", "open": "are open"}
    plural = {verdict: words.get(verdict, verdict.replace("holds", "hold", 1)) for verdict in VERDICTS}
    singular = {**{verdict: verdict for verdict in VERDICTS}, "open": "is open"}
    found = [
        f"**{counts[verdict]}** {singular[verdict] if counts[verdict] == 1 else plural[verdict]}"
        for verdict in VERDICTS
        if counts[verdict]
    ]
    return f"**{counts.total()} claims** of the field, tested: {', '.join(found)}. [See which.]({page}.md)"


class VerdictsDirective(SphinxDirective):
    """A list of the verdicts with their counts on this page, or a sentence on those of another page."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        here = Path(self.env.doc2path(self.env.docname))
        if self.arguments:
            page = here.with_name(f"{self.arguments[0]}.md")
            if not page.is_file():
                raise self.error(f"verdicts: there is no page {page.name} beside {here.name}")
            self.env.note_dependency(str(page))
            return self.parse_text_to_nodes(
                summarise(count_verdicts(page.read_text("utf8")), self.arguments[0])
            )
        counts = count_verdicts(here.read_text("utf8"))
        rows = [f"- **{counts[verdict]} {verdict}**: {meaning}." for verdict, meaning in VERDICTS.items()]
        return self.parse_text_to_nodes("\n".join(rows))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("claim", ClaimDirective)
    app.add_directive("verdicts", VerdictsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
