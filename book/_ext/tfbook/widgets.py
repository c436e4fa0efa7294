"""A widget of the book: what the reader drags, and the Python that it must agree with.

A widget is two files in ``book/tfwidgets``. ``NAME.js`` is an ES module in anywidget's form,
``export default { render({ model, el }) }``, which may import from ``common.js``. ``NAME.py`` holds

- ``STATE``: the state it starts in, a dict that JSON can hold;
- ``compute(state)``: every number that the widget shows, a dict of numbers and lists, by `tfcore`;
- ``picture(state)``: a matplotlib figure of it, shown where no JavaScript runs, and in print.

It may hold ``file(state)`` too: the bytes of a file that is put beside the page, and that the widget loads
when the reader asks for it. ``data-file`` and ``data-bytes`` of its element are the file's address and
size. Until then the widget sets ``data-waits``, and its picture stays.

Random numbers that both must draw are in `tfwidgets.draws`.

What a cell of the page computed can be part of the state, under names that ``STATE`` knows: see ``:data:``
in `tfbook.anywidget`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import tfwidgets

State = dict[str, Any]
TASK = re.compile(r"\((\d+)\) ")


class WidgetError(ValueError):
    """A widget that is missing or not in the form above; the message says what to do."""


@dataclass(frozen=True)
class Widget:
    """A widget, read from its two files."""

    name: str
    script: Path
    module: ModuleType

    @property
    def compute(self) -> Callable[[State], dict[str, Any]]:
        """The numbers of a state."""
        compute: Callable[[State], dict[str, Any]] = self.module.compute
        return compute

    def state(self, changes: State) -> State:
        """The start state with some of its entries changed."""
        if unknown := sorted(set(changes) - set(self.module.STATE)):
            known = ", ".join(self.module.STATE)
            raise WidgetError(f"{self.name} has no state {', '.join(unknown)}; it has {known}")
        return {**self.module.STATE, **changes}

    def file(self, state: State) -> bytes | None:
        """The file that the widget loads when the reader asks for it, if it has one."""
        content: bytes | None = self.module.file(state) if hasattr(self.module, "file") else None
        return content

    def picture(self, state: State) -> bytes:
        """The state as a transparent SVG, the same bytes for the same state."""
        from tfcore import viz

        buffer = io.BytesIO()
        with viz.style():
            figure = self.module.picture(state)
            figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()


def load(name: str, folder: Path) -> Widget:
    """The widget of that name.

    Raises:
        WidgetError: when a file is missing or does not define what a widget must.
    """
    script, code = folder / f"{name}.js", folder / f"{name}.py"
    for path in (script, code):
        if not path.is_file():
            known = ", ".join(tfwidgets.names(folder))
            raise WidgetError(f"no widget {name!r}: {path.name} is missing. Known: {known}")
    spec = importlib.util.spec_from_file_location(f"tfbook_widget_{name}", code)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for needed in ("STATE", "compute", "picture"):
        if not hasattr(module, needed):
            raise WidgetError(f"{code.name} does not define {needed}")
    return Widget(name, script, module)


def classic_script(name: str, module: str) -> str:
    """An ES module as a script that a page opened from disk may load; browsers refuse modules there.

    >>> print(classic_script("dot", "const r = 1;\\nexport default { render() { return r; } };"))
    (() => {
    "use strict";
    const r = 1;
    const __widget = { render() { return r; } };
    (window.tfWidgets = window.tfWidgets || {})["dot"] = __widget;
    })();
    """
    if re.search(r"^\s*import\b", module, re.MULTILINE):
        raise WidgetError(f"{name}.js imports another file than {', '.join(tfwidgets.SHARED)}")
    body, count = re.subn(r"^export default\b", "const __widget =", module, flags=re.MULTILINE)
    if count != 1 or re.search(r"^export\b", body, re.MULTILINE):
        raise WidgetError(f"{name}.js must have one export, `export default {{ render({{ model, el }}) }}`")
    register = f"(window.tfWidgets = window.tfWidgets || {{}})[{json.dumps(name)}] = __widget;"
    return f'(() => {{\n"use strict";\n{body.rstrip()}\n{register}\n}})();'


def split_tasks(caption: str) -> tuple[str, list[str]]:
    """Return what a caption says first, and its tasks for the reader, numbered (1), (2) ...

    >>> split_tasks("Three keys and a query. (1) Drag the query. (2) Drag it back.")
    ('Three keys and a query.', ['Drag the query.', 'Drag it back.'])

    Raises:
        WidgetError: when the numbers do not count from 1.
    """
    first, *rest = TASK.split(caption)
    numbers, tasks = rest[::2], [task.strip() for task in rest[1::2]]
    if numbers != [str(i + 1) for i in range(len(tasks))]:
        raise WidgetError(f"the tasks of a caption are numbered (1), (2) ..., not {', '.join(numbers)}")
    return first.strip(), tasks


DATA_OPENS = "(window.tfWidgetData = window.tfWidgetData || {})"


def data_script(key: str, data: State) -> str:
    """Part of a state as a script of its own: a page opened from disk may load a script, and no data.

    >>> print(data_script("dot-1", {"radii": [1, 2]}))
    (window.tfWidgetData = window.tfWidgetData || {})["dot-1"] = {"radii":[1,2]};
    """
    content = json.dumps(data, separators=(",", ":"), sort_keys=True)
    return f"{DATA_OPENS}[{json.dumps(key)}] = {content};"


def read_data(script: Path) -> State:
    """What `data_script` wrote into a built book, for `Widget.compute`."""
    data: State = json.loads(script.read_text("utf8").partition('"] = ')[2].removesuffix(";"))
    return data


def fingerprint(*parts: bytes) -> str:
    """A short name for content."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:16]
