"""``{predict} QUESTION``: a question, a place for the reader's prediction, and the answer in a box.

.. code-block:: markdown

    :::{predict} Which of the three readers gets better?
    :choices: the mean | the soft reader | the hard reader
    Only the soft reader.
    :::

A question with a few natural answers offers them as choices; every question takes the reader's own words as
well. ``predict.js`` keeps both in the reader's browser and shows them beside the answer. The answer is a
``<details>`` element, so that it opens at once, written or not. Without JavaScript nothing can be written.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

from tfbook.page_script import load_script_with

SCRIPT = Path(__file__).with_suffix(".js")
OR, ALONE = "In your own words", "Your prediction"


class PredictError(ValueError):
    """A question that cannot be asked; the message says why."""


class predict(nodes.General, nodes.Element):
    """A question, its choices if it has any, and the answer."""


class predict_question(nodes.TextElement):
    """The words of the question."""


class predict_choices(nodes.General, nodes.Element):
    """The answers to choose from."""


class predict_choice(nodes.TextElement):
    """One of them."""


class predict_answer(nodes.General, nodes.Element):
    """What opens."""


def read_choices(text: str) -> list[str]:
    """Return the choices of an option, which are separated by `` | ``.

    >>> read_choices("it grows | it shrinks")
    ['it grows', 'it shrinks']

    Raises:
        PredictError: when there is one alone, or one is empty or given twice.
    """
    choices = [choice.strip() for choice in text.split(" | ")]
    if len(choices) < 2:
        raise PredictError("a question has two choices or more, with ` | ` between them, or none")
    if not all(choices):
        raise PredictError(f"a choice is empty in {text!r}")
    if twice := [choice for choice in choices if choices.count(choice) > 1]:
        raise PredictError(f"the choice {twice[0]!r} is given twice")
    return choices


class PredictDirective(SphinxDirective):
    """See the module's docstring."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"choices": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        question = self.arguments[0]
        if not "".join(self.content).strip():
            raise self.error(f"predict: {question!r} has no answer")
        try:
            choices = read_choices(self.options["choices"]) if "choices" in self.options else []
        except PredictError as error:
            raise self.error(f"predict: {error}") from error
        serial = self.env.new_serialno("predict") + 1
        # By its words, not its number: what somebody has written stays with its question.
        key = f"{self.env.docname}:{nodes.make_id(question)}"
        node = predict(ids=[f"predict-{serial}"], key=key)
        self.set_source_info(node)
        node += self._inline(predict_question(), question)
        if choices:
            node += predict_choices(
                "", *(self._inline(predict_choice(value=choice), choice) for choice in choices)
            )
        node += predict_answer("", *self.parse_content_to_nodes())
        return [node]

    def _inline(self, element: nodes.TextElement, text: str) -> nodes.TextElement:
        children, messages = self.parse_inline(text)
        element.extend([*children, *messages])
        self.set_source_info(element)
        return element


def visit_predict(self: HTML5Translator, node: nodes.Element) -> None:
    label = f"{node['ids'][0]}-question"
    node.next_node(predict_question)["ids"] = [label]
    attributes = {"aria-labelledby": label, "data-key": node["key"]}
    self.body.append(self.starttag(node, "div", CLASS="tf-predict", role="group", **attributes))


def visit_question(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "p", "", CLASS="tf-question"))
    self.body.append('<span class="tf-predict-first">Predict first</span> ')


def depart_question(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append('</p>\n<div class="tf-guess pst-js-only">\n')  # the theme hides it without JavaScript


def visit_choices(self: HTML5Translator, node: nodes.Element) -> None:
    label = escape(node.parent.next_node(predict_question)["ids"][0])
    self.body.append(f'<div class="tf-choices" role="radiogroup" aria-labelledby="{label}">\n')


def visit_choice(self: HTML5Translator, node: nodes.Element) -> None:
    group, value = escape(node.parent.parent["ids"][0]), escape(node["value"])
    self.body.append(f'<label><input type="radio" name="{group}" value="{value}" autocomplete="off"> <span>')


def visit_answer(self: HTML5Translator, node: nodes.Element) -> None:
    words = OR if node.parent.next_node(predict_choices) else ALONE
    field = f"{node.parent['ids'][0]}-words"
    self.body.append(
        f'<p><label for="{field}">{words}</label> <button type="button" class="tf-clear">Clear</button></p>\n'
        f'<textarea id="{field}" rows="2" maxlength="2000" autocomplete="off" '
        'placeholder="It stays in this browser"></textarea>\n</div>\n'
        "<details>\n<summary>Show the answer</summary>\n"
        '<div class="tf-beside">\n<div class="tf-own" hidden></div>\n<div class="tf-answer">\n'
    )


def _close(tags: str) -> Any:
    def depart(self: HTML5Translator, node: nodes.Element) -> None:
        self.body.append(f"{tags}\n")

    return depart


def _nothing(self: Any, node: nodes.Element) -> None:
    """Other builders show the texts in order."""


def setup(app: Sphinx) -> dict[str, bool]:
    other = {builder: (_nothing, _nothing) for builder in ("text", "latex", "man", "texinfo")}
    app.add_node(predict, html=(visit_predict, _close("</div>")), **other)
    app.add_node(predict_question, html=(visit_question, depart_question), **other)
    app.add_node(predict_choices, html=(visit_choices, _close("</div>")), **other)
    app.add_node(predict_choice, html=(visit_choice, _close("</span></label>")), **other)
    app.add_node(predict_answer, html=(visit_answer, _close("</div>\n</div>\n</details>")), **other)
    app.add_directive("predict", PredictDirective)
    load_script_with(app, SCRIPT, predict)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
