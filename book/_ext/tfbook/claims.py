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
``{verdicts}`` counts the claims of its page; ``{verdicts} claims`` those of the page `claims`, with a link.
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
    "holds under a condition": "true under a condition that the text names",
    "does not hold": "the text gives or cites a counterexample",
    "open": "our experiments cannot decide, results disagree, or we ran none",
}
WORDS = {"does not hold": ("does not hold", "do not hold"), "open": ("is open", "are open")}
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


def kind(verdict: str) -> str:
    """Return the class of a verdict for the stylesheet."""
    return f"tf-{verdict.replace(' ', '-')}"


class ClaimDirective(SphinxDirective):
    """See the module's docstring."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        try:
            claim = read_claim("\n".join(self.content))
        except ClaimError as error:
            raise self.error(f"claim: {error}") from error
        anchor = address(claim["claim"])
        box = nodes.container(classes=["tf-claim", kind(claim["verdict"])], ids=[anchor])
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


def counted(count: int, verdict: str) -> str:
    """Return a count of claims with its verb.

    >>> counted(1, "holds"), counted(4, "holds"), counted(0, "does not hold"), counted(12, "open")
    ('1 holds', '4 hold', '0 do not hold', '12 are open')
    """
    one, several = WORDS.get(verdict, (verdict, verdict.replace("holds", "hold", 1)))
    return f"{count} {one if count == 1 else several}"


def summarise(counts: Counter[str], page: str) -> str:
    """Return a sentence that links to the page of the claims, and a list of the verdicts.

    >>> print(summarise(Counter({"holds": 1, "does not hold": 2, "open": 1}), "claims"))
    [**4 claims**](claims.md) about Transformers, tested or traced to their sources:
    <BLANKLINE>
    - **1** holds
    - **0** hold under a condition
    - **2** do not hold
    - **1** is open
    """
    claims = "1 claim" if counts.total() == 1 else f"{counts.total()} claims"
    found = (counted(counts[verdict], verdict).split(" ", 1) for verdict in VERDICTS)
    rows = "\n".join(f"- **{count}** {words}" for count, words in found)
    return f"[**{claims}**]({page}.md) about Transformers, tested or traced to their sources:\n\n{rows}"


class VerdictsDirective(SphinxDirective):
    """A list of the verdicts with their counts on this page, or a short one of those on another page."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        here = Path(self.env.doc2path(self.env.docname))
        if self.arguments:
            page = here.with_name(f"{self.arguments[0]}.md")
            if not page.is_file():
                raise self.error(f"verdicts: there is no page {page.name} beside {here.name}")
            self.env.note_dependency(str(page))
            counts = count_verdicts(page.read_text("utf8"))
            box = nodes.container(classes=["tf-verdicts"])
            box += self.parse_text_to_nodes(summarise(counts, self.arguments[0]))
            for row, verdict in zip(box.findall(nodes.list_item), VERDICTS, strict=True):
                row["classes"].append(kind(verdict))
            return [box]
        counts = count_verdicts(here.read_text("utf8"))
        rows = [
            f"- **{counted(counts[verdict], verdict)}**: {meaning}." for verdict, meaning in VERDICTS.items()
        ]
        return self.parse_text_to_nodes("\n".join(rows))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("claim", ClaimDirective)
    app.add_directive("verdicts", VerdictsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
