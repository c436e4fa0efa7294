"""American and British spellings of one word are one word of the search: "quantization" is "quantisation"."""

from __future__ import annotations

import functools
import json
import re

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

# What comes before in a word, the American letters, the British letters, and what comes after. Python and the
# browser read the same regular expressions.
SPELLINGS = (
    (".{2,}", "iz", "is", "e[drs]?|ers|ing|able|ations?"),
    (".*(?:anal|catal|paral)", "yz", "ys", "e[drs]?|ers|ing"),
    (".*(?:behavi|col|endeav|fav|hon|lab|neighb)", "or", "our", "(?!at).*"),
    (".*cent", "er", "re", "s?"),
    (".*cent", "er", "r", "ed|ing"),
    (".*(?:cance|labe|mode|signa|trave)", "l", "ll", "ed|ing|ers?"),
    ("(?:ana|cata|dia)", "log", "logue", "s?"),
    (".*licen", "s", "c", "e[ds]?"),
    ("practi", "c", "s", "e[ds]?"),
    ("judg", "m", "em", "ents?"),
    ("", "gray", "grey", ".*"),
)
IN_THE_BROWSER = """
// An American spelling is searched for as the British one.
const SPELLINGS = %s.map(([before, american, letters, after]) => [
  new RegExp(`^(${before})${american}(${after})$`), `$1${letters}$2`
]);
const british = (text) =>
  SPELLINGS.reduce((word, [american, letters]) => word.replace(american, letters), text);
const StemmerOfOneSpelling = Stemmer;
Stemmer = function () {
  const stemmer = new StemmerOfOneSpelling();
  this.stemWord = (word) => stemmer.stemWord(british(word));
};
"""


def british(word: str) -> str:
    """Return a word in small letters in its British spelling.

    >>> [british(word) for word in ("quantization", "tokenizer", "color", "centered", "size", "corporate")]
    ['quantisation', 'tokeniser', 'colour', 'centred', 'size', 'corporate']
    """
    for before, american, letters, after in SPELLINGS:
        word = re.sub(rf"^({before}){american}({after})$", rf"\1{letters}\2", word)
    return word


class OneSpelling(SearchEnglish):
    """The English of Sphinx's search, in which a stem is that of the British spelling."""

    js_stemmer_code = SearchEnglish.js_stemmer_code + IN_THE_BROWSER % json.dumps(SPELLINGS)

    @functools.cache  # noqa: B019  one object per build; a book repeats most of its words
    def stem(self, word: str) -> str:
        """Return the stem under which the index keeps a word."""
        return super().stem(british(word.lower()))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_search_language(OneSpelling)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
