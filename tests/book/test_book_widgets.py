"""Every widget, driven by mouse, keys and finger: its numbers are those of its Python at every step."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import stand_in
from book_paths import ROOT
from tfbook import katex, widgets

import tfwidgets
from tfwidgets import draws

FOLDER = ROOT / "book" / "tfwidgets"
NAMES = tfwidgets.names()
STAND_INS = {"real_heads"}
"""Widgets that load a model's file. A page from a server shows each with a small stand-in."""

CONTROLS = '[role="slider"], input[type="range"], input[type="checkbox"], button'


def page_of(name: str, html: Path) -> Path:
    """A page that shows the widget."""
    pages = [p for p in html.rglob("*.html") if f'data-widget="{name}"' in p.read_text("utf8")]
    assert pages, f"no page shows {name}"
    return pages[0]


class Mounted:
    """A widget in a page, and its Python. What waits for a click is clicked.

    A page from a server needs the folder that is served.
    """

    def __init__(self, page: Any, name: str, served: Path = Path("/")) -> None:
        self.page = page
        self.widget = widgets.load(name, FOLDER)
        figure = page.locator(f'.tf-widget:has([data-widget="{name}"])').first
        from playwright.sync_api import TimeoutError

        figure.scroll_into_view_if_needed()
        try:
            page.wait_for_selector(f'[data-widget="{name}"]:is([data-values], [data-waits])')
            if figure.locator("[data-waits]").count():
                figure.locator("[data-waits] button").click()
            page.wait_for_selector(f'[data-widget="{name}"][data-values]')
        except TimeoutError as late:
            errors = "; ".join(map(str, page.page_errors())) or "the page reports no error"
            raise AssertionError(f"{name}.js shows no values: {errors}") from late
        self.root = figure.locator(".tf-widget-root")
        self.root.evaluate("node => node.scrollIntoView({ block: 'center' })")
        script = self.root.get_attribute("data-data")
        where = (served / unquote(urlsplit(page.url).path).removeprefix("/")).parent
        self.data = widgets.read_data(where / script) if script else {}

    def check(self) -> str:
        """The values that the widget states, after they have been held to Python's.

        A widget that computes in a worker says so by ``aria-busy``.
        """
        self.page.wait_for_function(
            "node => node.ariaBusy !== 'true'", arg=self.root.element_handle(), timeout=60_000
        )
        state = json.loads(self.root.get_attribute("data-state"))
        stated = json.loads(self.root.get_attribute("data-values"))
        computed = self.widget.compute({**self.data, **state})
        assert set(stated) == set(computed)
        for name, value in computed.items():
            np.testing.assert_allclose(
                stated[name], value, rtol=1e-5, atol=1e-5, err_msg=f"{name} in {state}"
            )
        return json.dumps(stated)

    def controls(self) -> Iterator[Any]:
        """Everything in the widget that can be operated."""
        yield from self.root.locator(CONTROLS).all()


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def stand_in_page(tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], str]) -> str:
    """The address of a page that shows a published model's widget with a stand-in."""
    return f"{serve(stand_in.build(tmp_path_factory.mktemp('stand_in')))}/index.html"


@pytest.fixture
def address(name: str, request: pytest.FixtureRequest) -> str:
    """The address of a page that shows the widget."""
    if name in STAND_INS:
        return str(request.getfixturevalue("stand_in_page"))
    return page_of(name, request.getfixturevalue("html")).as_uri()


def grip(control: Any) -> tuple[float, float, float]:
    """Where to take a slider, and how long a drag across it is."""
    control.evaluate("node => node.scrollIntoView({ block: 'center' })")
    box = control.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if control.get_attribute("type") != "range":
        return x, y, 60
    fraction = control.evaluate("node => (node.value - node.min) / (node.max - node.min)")
    return box["x"] + 8 + fraction * (box["width"] - 16), y, box["width"] * 0.25


@pytest.mark.slow
@pytest.mark.browser
def test_by_mouse(name: str, address: str, browser: Any) -> None:
    page = browser.new_page()
    page.goto(address)
    mounted = Mounted(page, name)
    before = mounted.check()
    dragged = 0
    for control in mounted.controls():
        if control.get_attribute("role") != "slider" and control.get_attribute("type") != "range":
            continue
        x, y, reach = grip(control)
        page.mouse.move(x, y)
        page.mouse.down()
        for step in (0.3, 0.7, 1.0):
            page.mouse.move(x + step * reach, y - step * 40)
            after = mounted.check()
        page.mouse.up()
        assert after != before, f"dragging {control.get_attribute('aria-label')} changed nothing"
        before, dragged = after, dragged + 1
    assert dragged, "nothing can be dragged"
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_by_keyboard(name: str, address: str, browser: Any) -> None:
    page = browser.new_page()
    page.goto(address)
    mounted = Mounted(page, name)
    seen = [mounted.check()]
    for control in mounted.controls():
        control.focus()
        assert control.evaluate("node => node === document.activeElement"), "cannot be focused"
        slides = control.get_attribute("role") == "slider" or control.get_attribute("type") == "range"
        keys = ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowRight"] if slides else ["Space"]
        for key in keys:
            page.keyboard.press(key)
            seen.append(mounted.check())
        if slides:
            assert len(set(seen[-4:])) > 1, f"{control.get_attribute('aria-label')} ignores the arrow keys"
    assert len(set(seen)) > len(seen) / 2
    said = mounted.root.locator("[aria-live]")
    page.wait_for_timeout(400)
    assert any(character.isdigit() for character in said.inner_text()), "its state is not said in words"
    page.close()


def settle(page: Any, control: Any) -> None:
    """Wait until a control has kept its place for a second: figures above it may still find their height."""
    control.evaluate("node => node.scrollIntoView({ block: 'center' })")  # some load when they come near
    places: list[float] = []
    while len(places) < 10 or len(set(places[-10:])) > 1:
        assert len(places) < 300, f"the page has moved for half a minute: {places[-10:]}"
        page.wait_for_timeout(100)
        places.append(control.bounding_box()["y"])


@pytest.mark.slow
@pytest.mark.browser
def test_by_finger(name: str, address: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto(address)
    mounted = Mounted(page, name)
    before = mounted.check()
    control = next(mounted.controls())
    settle(page, control)
    x, y, reach = grip(control)
    touch = context.new_cdp_session(page)
    down = 0 if control.get_attribute("type") == "range" else 70
    scrolled = page.evaluate("scrollY")
    points = [{"x": x + step * reach * 0.5, "y": y + step * down} for step in (0, 0.2, 0.5, 0.8, 1)]
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [points[0]]})
    for point in points[1:]:
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert mounted.check() != before
    assert page.evaluate("scrollY") == scrolled, "the page scrolls under the finger that drags"
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_without_javascript_its_picture_is_seen(name: str, address: str, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.goto(address)
    picture = page.locator(f'.tf-widget:has([data-widget="{name}"]) img.tf-widget-picture').first
    assert picture.is_visible()
    assert picture.bounding_box()["height"] > 100
    assert len(picture.get_attribute("alt")) > 20
    assert failed == []
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_in_print_its_picture_is_seen(name: str, address: str, browser: Any) -> None:
    page = browser.new_page()
    page.goto(address)
    mounted = Mounted(page, name)
    picture = page.locator(f'.tf-widget:has([data-widget="{name}"]) img.tf-widget-picture').first
    assert mounted.root.is_visible()
    assert not picture.is_visible()
    page.emulate_media(media="print")
    assert not mounted.root.is_visible()
    assert picture.is_visible()
    page.close()


def loaded(script: Path) -> str:
    """What Node finds in a module: the names in its default export and the type of `render`."""
    module = json.dumps(script.as_uri())
    look = f"import widget from {module}; console.log(Object.keys(widget).join(), typeof widget.render)"
    run = subprocess.run(
        [katex.node_binary(), "--input-type=module", "-e", look], capture_output=True, text=True
    )
    return run.stdout.strip() or run.stderr


@pytest.mark.slow
def test_it_is_a_module_in_anywidgets_form(name: str, tmp_path: Path) -> None:
    script = FOLDER / f"{name}.js"
    assert loaded(script) == "render function"
    whole = tmp_path / "whole.mjs"
    whole.write_text(tfwidgets.module(script), "utf8")
    assert loaded(whole) == "render function", "not in one text with common.js"


def test_it_repeats_nothing_that_shared_scripts_have(name: str) -> None:
    script = (FOLDER / f"{name}.js").read_text("utf8")
    functions = r"^(?:export )?(?:async )?function\*? (\w+)"
    own = re.findall(functions, script, re.MULTILINE)
    for shared in tfwidgets.SHARED:
        exported = re.findall(functions, (FOLDER / shared).read_text("utf8"), re.MULTILINE)
        assert {"make", "uniforms", "normals"} <= {*exported} or shared != "common.js"
        if f'"./{shared}"' in script or shared == "common.js":
            assert not {*own} & {*exported}


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.05}, {"query": [-1.7, 0.3], "temperature": 10}])
def test_soft_lookup_is_the_soft_lookup_of_tfcore(changes: dict[str, Any]) -> None:
    from tfcore import ops

    widget = widgets.load("soft_lookup", FOLDER)
    state = widget.state(changes)
    expected = ops.soft_lookup(
        np.array(state["query"]),
        np.array(state["key"]),
        np.array(state["value"]),
        temperature=state["temperature"] * np.sqrt(2),
    )
    np.testing.assert_allclose(widget.compute(state)["output"], expected)


@pytest.mark.parametrize("rule", ["add", "fade", "replace", "fade and replace"])
@pytest.mark.parametrize("angle", [90, 35])
def test_fast_weights_follow_the_recurrence_as_it_is_written(rule: str, angle: int) -> None:
    widget = widgets.load("fast_weights", FOLDER)
    found = widget.compute(widget.state({"written": 5, "rule": rule, "angle": angle}))
    keys = dict(zip("xyz", np.array(found["keys"]), strict=True))
    kept = 0.8 if "fade" in rule else 1.0
    memory = np.zeros(2)
    for name, value in (("x", 3), ("y", 5), ("x", 7), ("z", 2), ("y", 4)):
        k = keys[name]
        if "replace" in rule:
            memory = kept * memory @ (np.eye(2) - 0.8 * np.outer(k, k)) + 0.8 * value * k
        else:
            memory = kept * memory + value * k
    np.testing.assert_allclose(found["states"][-1], memory)
    np.testing.assert_allclose(found["answers"], [memory @ keys[name] for name in "xyz"])
    assert found["wanted"] == [7, 4, 2]
    np.testing.assert_allclose(np.degrees(np.arccos(keys["x"] @ keys["y"])), angle)


def test_fast_weights_replace_what_they_add_to() -> None:
    widget = widgets.load("fast_weights", FOLDER)
    added = widget.compute(widget.state({"beta": 1}))
    replaced = widget.compute(widget.state({"rule": "replace", "beta": 1}))
    np.testing.assert_allclose(added["answers"], [3 + 7, 5])
    np.testing.assert_allclose(replaced["answers"], replaced["wanted"])
    assert widget.compute(widget.state({"written": 0}))["answers"] == []


@pytest.mark.parametrize(
    ("seed", "first"),
    [
        (0, [1144304738, 1416247, 958946056]),
        (1, [2693262067, 11749833, 2265367787]),
        (2**32 - 1, [3850105811, 813802916, 3073704848]),
    ],
)
def test_draws_are_those_of_mulberry32(seed: int, first: list[int]) -> None:
    uniforms = draws.uniforms(seed)
    assert [next(uniforms) * 2**32 for _ in first] == first


@pytest.mark.slow
def test_saturation_draws_normal_numbers_and_saturates() -> None:
    widget = widgets.load("saturation", FOLDER)
    normals = draws.normals(7)
    drawn = np.array([next(normals) for _ in range(20_000)])
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.var() - 1) < 0.04
    plain = widget.compute(widget.state({"d_k": 1024, "scaled": False}))
    scaled = widget.compute(widget.state({"d_k": 1024, "scaled": True}))
    assert plain["jacobian_norm"] < scaled["jacobian_norm"]
    assert np.mean(plain["plain_curve"][-8:]) < np.mean(plain["scaled_curve"][-8:]) / 2


@pytest.mark.browser
def test_the_live_model_reads_what_is_typed_and_loses_the_animal_with_a_head(
    html: Path, browser: Any
) -> None:
    page = browser.new_page()
    page.goto(page_of("live_model", html).as_uri())
    mounted = Mounted(page, "live_model")
    words = mounted.data["model"]["words"]
    text = mounted.root.get_by_label("Text", exact=True)

    def likelihood(word: str) -> float:
        mounted.check()
        return json.loads(mounted.root.get_attribute("data-values"))["probabilities"][words.index(word)]

    text.fill("The young camel couldn't enter the mine since it was too hungry. What was hungry? The")
    assert likelihood("camel") > 0.9
    before = mounted.check()
    assert "from the to camel: " in " ".join(mounted.root.locator("rect title").all_text_contents())
    text.fill("The young llama couldn't enter the mine since it was too hungry. What was hungry? The")
    assert "llama" in mounted.root.get_by_role("alert").inner_text()
    assert text.get_attribute("aria-invalid") == "true"
    assert mounted.check() == before
    text.fill("the young camel couldn't enter the mine since it was too hungry . what was hungry ? the")
    assert mounted.root.get_by_role("alert").inner_text() == ""
    cut = []
    for box in mounted.root.locator('input[type="checkbox"]').all():
        box.check()
        cut.append(likelihood("camel"))
        box.uncheck()
    assert min(cut) < 0.2, "no head is needed"
    assert likelihood("camel") > 0.9
    text.fill("the camel")
    write_on = mounted.root.get_by_role("button", name="Write on")
    for _ in range(20):
        write_on.click()
    mounted.check()
    written = json.loads(mounted.root.get_attribute("data-state"))["text"].split()
    assert written[written.index("?") + 1 :] in (["the", "camel"], ["the", written[5]])
    page.close()
