"""``{anywidget} NAME``: a widget of ``book/tfwidgets`` in the page, with its picture behind it.

.. code-block:: markdown

    ```{anywidget} soft_lookup
    :alt: What the picture shows, in words.
    :caption: What is shown. (1) What to try. (2) What to try then.
    {"query": [1, 0]}
    ```

The numbered tasks of the caption become a list. The body, which may be left out, is JSON: changes to the
widget's start state. The page carries the picture of that state; when the widget has come near the
reader's window, ``widget_host.js`` loads its script and puts the widget in the picture's place. See
`tfbook.widgets` for the two files of a widget.

What a cell of the page has computed, the weights of a model for instance, becomes part of the state by
``:data: KEY``, after the cell has said ``glue("KEY", json.dumps({...}), display=False)``. It is kept in a
script of its own, which is loaded with the widget.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import matplotlib
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

import tfwidgets
from tfbook import widgets

HOST = Path(__file__).with_name("widget_host.js")
ROOT = Path(__file__).parents[3]


class anywidget(nodes.General, nodes.Element):
    """A widget: its picture, then its caption."""


class anywidget_caption(nodes.General, nodes.Element):
    """What is shown, and a list of what to try."""


def widget_folder(app: Sphinx) -> Path:
    """Where the widgets of this book are."""
    return Path(app.srcdir) / app.config.anywidget_folder


def glued(document: nodes.document, key: str) -> widgets.State:
    """The object that a cell of this page has glued as a text in JSON.

    Raises:
        WidgetError: when there is none.
    """
    from myst_nb.ext.glue.utils import RetrievalError, retrieve_glue_data

    try:
        text = ast.literal_eval(retrieve_glue_data(document, key).data["text/plain"])
        data = json.loads(text)
    except (RetrievalError, KeyError, ValueError, SyntaxError, TypeError):
        data = None
    if not isinstance(data, dict):
        raise widgets.WidgetError(
            f"no cell of this page glues JSON as {key!r}: glue({key!r}, json.dumps({{...}}), display=False)"
        )
    return data


class AnywidgetDirective(SphinxDirective):
    """See the module's docstring."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "alt": directives.unchanged_required,
        "caption": directives.unchanged,
        "data": directives.unchanged_required,
        "name": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        folder = widget_folder(self.env.app)
        name = self.arguments[0]
        try:
            widget = widgets.load(name, folder)
            data = glued(self.state.document, self.options["data"]) if "data" in self.options else {}
            state = widget.state({**data, **json.loads("\n".join(self.content) or "{}")})
            caption = widgets.split_tasks(self.options.get("caption", ""))
            widgets.classic_script(name, tfwidgets.module(widget.script))
        except widgets.WidgetError as error:
            raise self.error(f"anywidget: {error}") from error
        except json.JSONDecodeError as error:
            raise self.error(f"anywidget {name}: the body is not JSON: {error}") from error
        if not self.options.get("alt"):
            raise self.error(f"anywidget {name}: say in :alt: what its picture shows")
        beside = [folder / "draws.py", folder / "model_file.py"]
        shared = [*(path for path in beside if path.exists()), *sorted((ROOT / "tfcore").glob("*.py"))]
        sources = [widget.script, folder / f"{name}.py", *shared]
        for source in sources:
            self.env.note_dependency(os.path.relpath(source, self.env.srcdir))
        start = {key: value for key, value in state.items() if key not in data}
        node = anywidget(widget=name, state=start, ids=[f"widget-{name.replace('_', '-')}"])
        if data:
            key = f"{name}-{widgets.fingerprint(json.dumps(data, sort_keys=True).encode())}"
            node.attributes |= {"key": key, "data": widgets.data_script(key, data)}
        if file := self._file(widget, state):
            node["file"] = str(file)
        self.set_source_info(node)
        node += self._picture(widget, state, sources)
        if any(caption):
            node += self._caption(*caption)
        self.add_name(node)
        return [node]

    def _file(self, widget: widgets.Widget, state: widgets.State) -> Path | None:
        """The file that the widget loads when the reader asks for it, kept beside the pictures."""
        content = widget.file(state)
        if content is None:
            return None
        folder = Path(self.env.app.doctreedir).parent / "widgets"
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{widget.name}-{widgets.fingerprint(content)}.bin"
        target.write_bytes(content)
        return target

    def _picture(self, widget: widgets.Widget, state: widgets.State, sources: list[Path]) -> nodes.image:
        """The picture as an image file, drawn again only when something it depends on has changed."""
        key = widgets.fingerprint(
            json.dumps(state, sort_keys=True).encode(),
            matplotlib.__version__.encode(),
            *(path.read_bytes() for path in sources[1:]),
        )
        target = Path(self.env.app.doctreedir).parent / "widgets" / f"{widget.name}-{key}.svg"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(widget.picture(state))
        uri = "/" + Path(os.path.relpath(target, self.env.srcdir)).as_posix()
        image = nodes.image(uri=uri, alt=self.options["alt"], classes=["tf-widget-picture"])
        self.set_source_info(image)
        return image

    def _caption(self, first: str, tasks: list[str]) -> anywidget_caption:
        caption = anywidget_caption()
        if first:
            caption += self._paragraph(first)
        if tasks:
            items = [nodes.list_item("", self._paragraph(task)) for task in tasks]
            caption += nodes.enumerated_list("", *items, enumtype="arabic", prefix="", suffix=".")
        self.set_source_info(caption)
        return caption

    def _paragraph(self, text: str) -> nodes.paragraph:
        children, messages = self.parse_inline(text)
        paragraph = nodes.paragraph("", "", *children, *messages)
        self.set_source_info(paragraph)
        return paragraph


def visit_widget(self: HTML5Translator, node: nodes.Element) -> None:
    label = f"Widget: {node['widget'].replace('_', ' ')}"
    self.body.append(self.starttag(node, "figure", CLASS="tf-widget", **{"aria-label": label}))
    folder = "../" * self.builder.current_docname.count("/") + "_static/widgets/"
    data = ""
    if "data" in node:
        script = f"{node['key']}.js"
        (Path(self.builder.outdir) / "_static" / "widgets" / script).write_text(node["data"], "utf8")
        data = f'data-key="{escape(node["key"])}" data-data="{folder}{escape(script)}" '
    if "file" in node:
        file = Path(node["file"])
        shutil.copyfile(file, Path(self.builder.outdir) / "_static" / "widgets" / file.name)
        data += f'data-file="{folder}{escape(file.name)}" data-bytes="{file.stat().st_size}" '
    self.body.append(
        f'<div class="tf-widget-root" data-widget="{escape(node["widget"])}" '
        f'data-script="{folder}{escape(node["widget"])}.js" {data}'
        f'data-initial="{escape(json.dumps(node["state"]))}"></div>\n'
    )


def depart_widget(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append("</figure>\n")


def visit_caption(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "figcaption", ""))


def depart_caption(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append("</figcaption>\n")


def _nothing(self: Any, node: nodes.Element) -> None:
    """Other builders show picture and caption."""


def add_host(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document) -> None:
    """Pages with a widget load the script that mounts it; others do not."""
    if doctree and next(doctree.findall(anywidget), None) is not None:
        app.add_js_file("widgets/widget_host.js", loading_method="defer")


def write_scripts(app: Sphinx) -> None:
    """Writes every widget's classic script, and the host, into the built book."""
    if app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "widgets"
    target.mkdir(parents=True, exist_ok=True)
    (target / HOST.name).write_text(HOST.read_text("utf8"), "utf8")
    folder = widget_folder(app)
    for name in tfwidgets.names(folder):
        try:
            script = widgets.classic_script(name, tfwidgets.module(folder / f"{name}.js"))
        except widgets.WidgetError as error:
            raise ExtensionError(str(error)) from error
        (target / f"{name}.js").write_text(script, "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    other = {builder: (_nothing, _nothing) for builder in ("text", "latex", "man", "texinfo")}
    app.add_config_value("anywidget_folder", "book/tfwidgets", "env")
    app.add_node(anywidget, html=(visit_widget, depart_widget), **other)
    app.add_node(anywidget_caption, html=(visit_caption, depart_caption), **other)
    app.add_directive("anywidget", AnywidgetDirective)
    app.connect("builder-inited", write_scripts)
    app.connect("html-page-context", add_host)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
