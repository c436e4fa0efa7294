"""Bring the HTML of a cell into the form in which nbconvert finishes a page, without active elements.

nbconvert parses each page with Beautiful Soup, gives a text to each image that has none, and writes all
elements again. This takes longer than the layout, although it changes little in plain text and in code with
colours. `_rewrite` makes these few changes itself and leaves all other HTML to Beautiful Soup.
"""

from __future__ import annotations

import re

from bs4 import BeautifulSoup

ACTIVE = "script", "iframe", "object", "embed", "link", "base", "form"
"""The elements that a page never has, such as the frame in which nbconvert shows isolated outputs."""
NO_DESCRIPTION = "No description has been provided for this image"
"""The text that nbconvert gives to an image that has none."""
_ACTIVE = re.compile(rf"<({'|'.join(ACTIVE)})\b", re.IGNORECASE)

_PLAIN = re.compile(
    "a|b|code|dd|div|dl|dt|em|h2|li|ol|p|pre|section|span|strong|table|tbody|td|th|thead|tr|ul"
)
"""Elements that Beautiful Soup writes as it reads them."""
_TAG_OR_TEXT = re.compile(r"(<[^<>]*>)")
_TAG = re.compile(r'<(/?)([a-z][a-z0-9]*)((?: (?:class|href|id|style|title)="[^"&<>]*")*)>')
_ATTRIBUTE = re.compile(r' ([a-z]+)="([^"]*)"')
_KNOWN_ENTITIES = re.compile(r"(?:[^&]|&(?:amp|lt|gt|quot|nbsp|#3[49]|#x27);)*")
_CHARACTERS = {"&quot;": '"', "&#34;": '"', "&#39;": "'", "&#x27;": "'", "&nbsp;": "\xa0"}
_BLANKS = " \t\n\r\f"


def tidy(html: str) -> str:
    """Return the HTML of a cell in the form in which nbconvert finishes a page, without active elements."""
    if (rewritten := _rewrite(html)) is not None:
        return rewritten
    soup = BeautifulSoup(html, "html.parser")
    for image in soup.find_all("img"):
        image.attrs.setdefault("alt", NO_DESCRIPTION)
    return without_active(str(soup))


def without_active(html: str) -> str:
    """Return the HTML without the elements that a page never has."""
    if not _ACTIVE.search(html):
        return html
    soup = BeautifulSoup(html, "html.parser")
    for element in soup.find_all(ACTIVE):
        element.decompose()
    return str(soup)


def _rewrite(html: str) -> str | None:
    """Return plain HTML as Beautiful Soup would write it, or None if the HTML is not plain."""
    parts: list[str] = []
    stack: list[str] = []
    for number, part in enumerate(_TAG_OR_TEXT.split(html)):
        rewritten = _rewrite_tag(part, stack) if number % 2 else _rewrite_text(part, "pre" in stack)
        if rewritten is None:
            return None
        parts.append(rewritten)
    return None if stack else "".join(parts)


def _rewrite_tag(tag: str, stack: list[str]) -> str | None:
    """Return a tag as Beautiful Soup would write it, and open or close its element on the stack."""
    found = _TAG.fullmatch(tag)
    if not found or not _PLAIN.fullmatch(found[2]):
        return None
    if found[1]:
        return tag if stack and stack.pop() == found[2] and not found[3] else None
    stack.append(found[2])
    attributes = dict(sorted(_ATTRIBUTE.findall(found[3])))
    if len(attributes) < found[3].count('="'):
        return None  # an attribute is given twice
    if "class" in attributes:
        attributes["class"] = " ".join(attributes["class"].split())
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{found[2]}{written}>"


def _rewrite_text(text: str, is_preserved: bool) -> str | None:
    """Return a text as Beautiful Soup would write it; it shortens blanks that no `pre` preserves."""
    if "<" in text or ">" in text:
        return None
    if "&" in text:
        if not _KNOWN_ENTITIES.fullmatch(text):
            return None
        for entity, character in _CHARACTERS.items():
            text = text.replace(entity, character)
    if text and not is_preserved and not text.strip(_BLANKS):
        return "\n" if "\n" in text else " "
    return text
