"""One drawing gives two arrangements, each with the labels and the room that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from matplotlib import pyplot

from tfcore import viz
from tfcore.viz.arrangement import NARROW, WIDE, Panels, two_drawings


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with viz.style():
        yield
    pyplot.close("all")


def places(figure: Panels, wide: bool) -> list[tuple[float, float]]:
    """The left and lower edges of the panels, rounded, once the figure is laid out."""
    figure.arrange(wide)
    figure.draw_without_rendering()
    return [(round(axes.get_position().x0, 1), round(axes.get_position().y0, 1)) for axes in figure.panels]


def test_panels_are_in_a_row_on_a_wide_page_and_below_each_other_on_a_phone() -> None:
    figure, _ = viz.panels(3, 2.0)
    wide, narrow = places(figure, wide=True), places(figure, wide=False)
    assert len({y for _, y in wide}) == 1
    assert len({x for x, _ in wide}) == 3
    assert len({x for x, _ in narrow}) == 1
    assert len({y for _, y in narrow}) == 3
    assert figure.get_size_inches().tolist() == [NARROW, 6.0]


def test_each_row_needs_a_height() -> None:
    with pytest.raises(ValueError, match="expected a height for each of 3 rows, got 2"):
        viz.panels(3, height=[1.0, 2.0])


@pytest.mark.parametrize(
    ("wide", "x", "y"), [(True, [True, True], [True, False]), (False, [False, True], [True, True])]
)
def test_a_shared_axis_is_labelled_at_the_edge(wide: bool, x: list[bool], y: list[bool]) -> None:
    figure, (first, second) = viz.panels(2, sharex=True, sharey=True)
    first.set_ylabel("loss")
    second.set_xlabel("step")
    figure.arrange(not wide)
    figure.arrange(wide)
    figure.draw_without_rendering()
    for axis, shown in (("x", x), ("y", y)):
        drawn = [getattr(axes, f"{axis}axis") for axes in figure.panels]
        assert [one.label.get_visible() for one in drawn] == shown
        assert [any(tick.label1.get_visible() for tick in one.get_major_ticks()) for one in drawn] == shown
        assert {one.label.get_text() for one in drawn} == {"step" if axis == "x" else "loss"}


def test_letters_are_as_large_in_both_arrangements_and_nothing_is_cut_off() -> None:
    figure, (first, _) = viz.panels(2)
    first.set_ylabel("a label that is far longer than the panel is high, so that it would be cut off")
    wide = ElementTree.fromstring(two_drawings(figure))
    narrow = wide.find(".//*[@id='narrow']/*")
    for drawing, inches in ((wide, WIDE), (narrow, NARROW)):
        assert drawing is not None
        assert float(drawing.get("width", "").removesuffix("pt")) == pytest.approx(72 * inches)
    assert float(wide.get("height", "").removesuffix("pt")) > 1.1 * 3 * 72, "the label is cut off"


def test_panels_without_titles_are_lettered() -> None:
    figure, axes = viz.panels(2)
    two_drawings(figure)
    assert [one.get_title("left") for one in axes] == ["(a)", "(b)"]
    figure, axes = viz.panels(2)
    axes[0].set_title("before")
    two_drawings(figure)
    assert [one.get_title("left") for one in axes] == ["before", ""]
