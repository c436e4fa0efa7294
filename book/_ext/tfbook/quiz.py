"""``{quiz}``: a question in the page whose every option answers why it is right or wrong.

The body is YAML: one question, or a list of them.

.. code-block:: yaml

    question: Which axis does the softmax of attention run over?
    options:
      - text: the keys
        right: true
        why: Each query shares out one unit of attention among the keys.
      - text: the queries
        why: Then the *columns* sum to 1.

Texts are Markdown, with mathematics. An option is a ``<details>`` element, so that it opens by mouse,
by keyboard and without JavaScript. A question that has no right option, or an option without a reason,
is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator


class QuizError(ValueError):
    """A quiz that cannot be asked; the message says what is missing."""


@dataclass(frozen=True)
class Option:
    """One possible answer."""

    text: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Question:
    """A question with its options, at least one of them right and one wrong."""

    text: str
    options: tuple[Option, ...]


def read_quiz(body: str) -> list[Question]:
    """The questions of a quiz's body.

    Raises:
        QuizError: when the body is no YAML, or a question cannot be asked.
    """
    try:
        entries = yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise QuizError(f"the quiz is not YAML: {error}") from error
    if isinstance(entries, dict):
        entries = [entries]
    if not isinstance(entries, list) or not entries:
        raise QuizError("a quiz is a question with options, or a list of questions")
    return [_read_question(entry) for entry in entries]


def _read_question(entry: Any) -> Question:
    if not isinstance(entry, dict) or not entry.get("question"):
        raise QuizError(f"a question has no `question`: {entry!r}")
    text = str(entry["question"])
    if unknown := sorted(set(entry) - {"question", "options"}):
        raise QuizError(f"{text!r}: unknown keys {unknown}")
    options = tuple(_read_option(option, text) for option in entry.get("options") or [])
    if not any(option.right for option in options):
        raise QuizError(f"{text!r} has no right option")
    if all(option.right for option in options):
        raise QuizError(f"{text!r} has no wrong option")
    return Question(text, options)


def _read_option(entry: Any, question: str) -> Option:
    if not isinstance(entry, dict):
        raise QuizError(f"{question!r}: an option is `text`, `right`, `why`, not {entry!r}")
    if unknown := sorted(set(entry) - {"text", "right", "why"}):
        raise QuizError(f"{question!r}: unknown keys {unknown} in an option")
    if entry.get("text") is None:
        raise QuizError(f"{question!r}: an option has no `text`")
    if not entry.get("why"):
        raise QuizError(f"{question!r}: the option {entry['text']!r} has no `why`")
    if not isinstance(entry.get("right", False), bool):
        raise QuizError(f"{question!r}: `right` is true or false, not {entry['right']!r}")
    return Option(str(entry["text"]), str(entry["why"]), entry.get("right", False))


class quiz_question(nodes.General, nodes.Element):
    """One question with its options."""


class quiz_text(nodes.TextElement):
    """The words of the question."""


class quiz_option(nodes.General, nodes.Element):
    """One option: its choice, then its reason."""


class quiz_choice(nodes.TextElement):
    """The words of an option."""


class quiz_why(nodes.General, nodes.Element):
    """What opening an option tells."""


class QuizDirective(SphinxDirective):
    """See the module's docstring."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        try:
            questions = read_quiz("\n".join(self.content))
        except QuizError as error:
            raise self.error(f"quiz: {error}") from error
        return [self._question(question) for question in questions]

    def _question(self, question: Question) -> nodes.Element:
        serial = self.env.new_serialno("quiz")
        node = quiz_question(ids=[f"quiz-{serial + 1}"])
        self.set_source_info(node)
        node += self._inline(quiz_text(), question.text)
        for option in question.options:
            entry = quiz_option(right=option.right, group=f"quiz-{serial + 1}")
            entry += self._inline(quiz_choice(), option.text)
            why = quiz_why(right=option.right)
            why += self.parse_text_to_nodes(option.why)
            entry += why
            node += entry
        return node

    def _inline(self, element: nodes.TextElement, text: str) -> nodes.TextElement:
        children, messages = self.parse_inline(text.strip())
        element.extend(children)
        element.extend(messages)
        self.set_source_info(element)
        return element


def visit_question(self: HTML5Translator, node: nodes.Element) -> None:
    label = f"{node['ids'][0]}-text"
    node.next_node(quiz_text)["ids"] = [label]
    self.body.append(self.starttag(node, "div", CLASS="tf-quiz", role="group", **{"aria-labelledby": label}))


def visit_option(self: HTML5Translator, node: nodes.Element) -> None:
    kind = "right" if node["right"] else "wrong"
    self.body.append(f'<details class="tf-option tf-{kind}" name="{node["group"]}">')


def visit_why(self: HTML5Translator, node: nodes.Element) -> None:
    verdict = "Right." if node["right"] else "Not so."
    self.body.append(f'<div class="tf-why"><p class="tf-verdict">{verdict}</p>')


def _tag(tag: str, css: str) -> Any:
    def visit(self: HTML5Translator, node: nodes.Element) -> None:
        self.body.append(self.starttag(node, tag, "", CLASS=css))

    return visit


def _end(tag: str) -> Any:
    def depart(self: HTML5Translator, node: nodes.Element) -> None:
        self.body.append(f"</{tag}>\n")

    return depart


def _nothing(self: Any, node: nodes.Element) -> None:
    """Other builders show the texts in order."""


def setup(app: Sphinx) -> dict[str, bool]:
    other = {builder: (_nothing, _nothing) for builder in ("text", "latex", "man", "texinfo")}
    app.add_node(quiz_question, html=(visit_question, _end("div")), **other)
    app.add_node(quiz_text, html=(_tag("p", "tf-question"), _end("p")), **other)
    app.add_node(quiz_option, html=(visit_option, _end("details")), **other)
    app.add_node(quiz_choice, html=(_tag("summary", "tf-choice"), _end("summary")), **other)
    app.add_node(quiz_why, html=(visit_why, _end("div")), **other)
    app.add_directive("quiz", QuizDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
