"""The figures: what is drawn is what was given, the names stand where they belong, and the words are true."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from contextlib import nullcontext
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tfcore import viz


def fresh() -> Axes:
    return Figure().subplots()


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    x = np.exp(2 * np.random.default_rng(seed).standard_normal(shape))
    return x / x.sum(-1, keepdims=True)


def drawn(axes: Axes) -> np.ndarray:
    """Read the matrix back that a heat map shows."""
    (mesh,) = axes.collections
    return mesh.get_array().reshape(np.array(mesh.get_coordinates().shape[:2]) - 1)


def names(ticks) -> list[str]:
    return [tick.get_text() for tick in ticks]


QUERIES, KEYS = ["it", "was", "too"], ["the", "old", "dog", "was", "tired"]
DRAWN = {
    "heatmap": lambda ax: viz.heatmap(ax, weights(3, 5), QUERIES, KEYS),
    "attention_map": lambda ax: viz.attention_map(ax, weights(3, 5), QUERIES, KEYS),
    "position_map": lambda ax: viz.position_map(ax, np.sin(np.arange(28.0).reshape(7, 4))),
    "rotary_map": lambda ax: viz.rotary_map(ax, np.arange(12.0).reshape(4, 3)),
    "bias_map": lambda ax: viz.bias_map(ax, -np.arange(6.0).reshape(2, 3)),
    "slope_points": lambda ax: viz.slope_points(ax, [0.5, 0.25]),
    "bucket_steps": lambda ax: viz.bucket_steps(ax, [-1, 0, 1], [1, 0, 3]),
    "loss_curves": lambda ax: viz.loss_curves(ax, {"a": [2.0, 1.0]}, bound=0.5),
    "spectra": lambda ax: viz.spectra(ax, {"W": np.eye(3)}),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_function_returns_its_axes_with_words_and_labels(name):
    axes = fresh()
    assert DRAWN[name](axes) is axes
    words = viz.alt_text(axes)
    assert words.endswith(".")
    assert len(words) > 20
    assert viz.alt_text(axes.figure) == words
    if name != "heatmap":
        assert axes.get_xlabel()
        assert axes.get_ylabel()


@pytest.mark.slow
def test_nothing_is_left_in_pyplot_or_in_the_settings():
    from matplotlib import pyplot

    before = dict(mpl.rcParams)
    with viz.style():
        assert dict(mpl.rcParams) != before
    for draw in DRAWN.values():
        draw(fresh())
    viz.head_grid(Figure(), weights(2, 3, 4, 4), list("abcd"))
    assert pyplot.get_fignums() == []
    assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_drawing_needs_neither_pyplot_nor_torch():
    code = (
        "import sys; from tfcore import viz; from matplotlib.figure import Figure;"
        "viz.attention_map(Figure().subplots(), [[1.0]], ['a']);"
        "viz.spectra(Figure().subplots(), {'W': [[1]]});"
        "sys.exit('torch' in sys.modules or 'matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_words_do_not_keep_figures_alive():
    axes = viz.attention_map(fresh(), [[1.0]], ["a"])
    gone = weakref.ref(axes)
    del axes
    gc.collect()
    assert gone() is None


@pytest.mark.slow
def test_every_figure_can_be_saved_in_the_style(tmp_path):
    with viz.style():
        for name, draw in DRAWN.items():
            draw(axes := fresh())
            axes.figure.savefig(tmp_path / f"{name}.svg")
        figure = viz.head_grid(Figure(), weights(2, 3, 4, 4), list("abcd"))
        figure.savefig(tmp_path / "grid.svg")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_tensors_with_gradients_are_drawn(dtype):
    x = torch.tensor(weights(3, 5), dtype=dtype, requires_grad=True)
    axes = viz.attention_map(fresh(), x, QUERIES, KEYS)
    assert np.array_equal(drawn(axes), x.detach().double().numpy())
    assert x.requires_grad


# --- weights


@pytest.mark.parametrize("draw", [viz.heatmap, viz.attention_map])
def test_a_map_shows_each_weight_where_its_names_cross(draw):
    given = weights(3, 5)
    axes = draw(fresh(), given, QUERIES, KEYS)
    assert np.array_equal(drawn(axes), given)
    assert names(axes.get_yticklabels()) == QUERIES
    assert names(axes.get_xticklabels()) == KEYS
    (mesh,) = axes.collections
    corners = mesh.get_coordinates()
    for i, tick in enumerate(axes.get_yticks()):
        assert corners[i, 0, 1] < tick < corners[i + 1, 0, 1]
    for j, tick in enumerate(axes.get_xticks()):
        assert corners[0, j, 0] < tick < corners[0, j + 1, 0]
    assert axes.get_ylim() == (3, 0), "the first query is on top"
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0, 1)


def test_the_numbers_in_a_heatmap_stand_in_their_cells():
    given = weights(3, 5)
    axes = viz.heatmap(fresh(), given, QUERIES, KEYS, digits=3)
    for text in axes.texts:
        x, y = text.get_position()
        assert text.get_text() == f"{given[int(y), int(x)]:.3f}"
    assert len(axes.texts) == 15
    assert not viz.heatmap(fresh(), given, QUERIES, KEYS, digits=0).texts


WORDS = ("the animal didn't cross the street because it was too tired . " * 3).split()


def overlaps(boxes) -> list[int]:
    """Give the first of every two neighbours that overlap by more than a pixel."""
    return [
        i
        for i, (a, b) in enumerate(pairwise(boxes))
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


@pytest.mark.slow
@pytest.mark.parametrize("in_style", [True, False])
@pytest.mark.parametrize("n", [2, 6, 7, 8, 9, 10, 11, 13, 16, 20, 30])
@pytest.mark.parametrize("draw", [viz.heatmap, viz.attention_map])
def test_names_and_numbers_keep_apart_at_the_default_size(draw, n, in_style):
    with viz.style() if in_style else nullcontext():
        axes = draw(fresh(), weights(n, n), WORDS[:n], WORDS[:n])
        axes.figure.draw_without_rendering()
        for axis in (axes.xaxis, axes.yaxis):
            labels = axis.get_ticklabels()
            assert not overlaps([label.get_window_extent() for label in labels])
            assert all(label.get_fontsize() >= 7 for label in labels)
            centers = axis.get_ticklocs()
            assert names(labels) == [WORDS[int(center)] for center in centers]
            assert len(labels) >= n / 3
        shown = [text for text in axes.texts if text.get_visible()]
        assert not overlaps([text.get_window_extent() for text in shown])
        assert all(text.get_fontsize() >= 7 for text in shown)
        assert len(shown) == (n * n if draw is viz.heatmap and n <= 13 else len(shown))


def test_six_words_are_neither_turned_nor_made_smaller():
    with viz.style():
        axes = viz.heatmap(fresh(), weights(6, 6), WORDS[:6], WORDS[:6])
    assert {(label.get_rotation(), label.get_fontsize()) for label in axes.get_xticklabels()} == {(0, 10.5)}
    assert {text.get_fontsize() for text in axes.texts} == {11}


@pytest.mark.slow
def test_names_longer_than_the_figure_are_drawn():
    axes = viz.heatmap(fresh(), weights(9, 9), ["a very long name " * 9] * 9, ["another one " * 9] * 9)
    assert axes.get_yticklabels()[0].get_text() == "a very long name " * 9
    assert not overlaps([label.get_window_extent() for label in axes.get_xticklabels()])


@pytest.mark.slow
def test_axes_whose_names_are_shared_are_drawn():
    for axes in Figure().subplots(2, 2, sharex=True, sharey=True).flat:
        viz.heatmap(axes, weights(4, 4), WORDS[:4], WORDS[:4])
        assert len(axes.texts) == 16


def test_self_attention_needs_its_names_once():
    axes = viz.attention_map(fresh(), weights(5, 5), KEYS)
    assert names(axes.get_yticklabels()) == names(axes.get_xticklabels()) == KEYS


def test_the_words_name_the_largest_weights():
    given = np.full((7, 5), 0.1)
    for row, peak in enumerate([0.2, 0.9, 0.3, 0.8, 0.7, 0.6, 0.5]):
        given[row, row % 5] = peak
    words = viz.alt_text(viz.attention_map(fresh(), given, list("abcdefg"), KEYS, name="head 3"))
    assert words == (
        "Heat map of head 3, 7 queries by 5 keys. Largest weights: "
        "b to old 0.90, d to was 0.80, e to tired 0.70, f to the 0.60, g to old 0.50."
    )


def test_a_grid_that_is_refused_leaves_the_figure_empty():
    figure = Figure()
    with pytest.raises(ValueError, match="expected a name for each"):
        viz.head_grid(figure, weights(2, 3, 4, 4), list("abc"))
    assert len(viz.head_grid(figure, weights(2, 3, 4, 4), list("abcd")).axes) == 6


def test_a_grid_has_layers_as_rows_and_heads_as_columns():
    given = weights(2, 3, 4, 5)
    given[1, 0] = np.eye(4, 5)
    given[0, 2] = 0.2
    figure = Figure()
    with viz.style():
        assert viz.head_grid(figure, given, list("abcd"), KEYS) is figure
    assert len(figure.axes) == 6
    for axes in figure.axes:
        place = axes.get_subplotspec()
        layer, head = place.rowspan.start, place.colspan.start
        assert axes.get_xlabel() == ("" if layer else f"head {head}")
        assert axes.get_ylabel() == ("" if head else f"layer {layer}")
        assert np.array_equal(drawn(axes), given[layer, head])
        shown = {
            side: axes.xaxis.get_tick_params()[side]
            if side == "labeltop"
            else axes.yaxis.get_tick_params()[side]
            for side in ("labeltop", "labelleft")
        }
        assert shown == {"labeltop": layer == 0, "labelleft": head == 0}
    words = viz.alt_text(figure)
    assert "2 layers of 3 heads" in words
    assert "1.00 in layer 1, head 0, the most peaked" in words
    assert "0.20 in layer 0, head 2, the least" in words


# --- positions


def test_a_position_map_shows_positions_downwards_and_channels_to_the_right():
    given = np.random.default_rng(0).standard_normal((7, 4))
    given[3, 1] = 5.0
    given[0, 0] = 0  # like the first sine: no change of sign
    axes = viz.position_map(fresh(), given)
    assert np.array_equal(drawn(axes), given)
    corners = axes.collections[0].get_coordinates()
    assert tuple(corners[0, 0]) == (-0.5, -0.5)
    assert tuple(corners[-1, -1]) == (3.5, 6.5)
    assert axes.get_ylim() == (6.5, -0.5)
    norm = axes.collections[0].norm
    assert norm.vmin == -norm.vmax == -np.abs(given).max(), "0 has the color in the middle"
    changes = [sum(a * b < 0 for a, b in pairwise(c)) for c in (given[:, 0], given[:, -1])]
    words = viz.alt_text(axes)
    assert f"changes sign {changes[0]} time" in words
    assert f"the last {changes[1]} time" in words


def test_rotary_angles_are_drawn_modulo_a_turn():
    given = np.outer(np.arange(9), [2.5, -0.3, 0.01])
    axes = viz.rotary_map(fresh(), given)
    assert np.allclose(np.exp(1j * drawn(axes)), np.exp(1j * given))
    assert drawn(axes).min() >= 0
    assert drawn(axes).max() < 2 * np.pi
    low, high = (to_hex(axes.collections[0].cmap(end)) for end in (0.0, 1.0))
    assert np.abs(np.array(mpl.colors.to_rgb(low)) - mpl.colors.to_rgb(high)).max() < 0.02, "colors go round"


def test_forbidden_pairs_of_a_bias_stay_empty():
    given = np.where(np.tri(4, 6, 2) > 0, -np.arange(24.0).reshape(4, 6), -np.inf)
    axes = viz.bias_map(fresh(), given)
    shown = drawn(axes)
    assert np.array_equal(np.ma.getmaskarray(shown), np.isinf(given))
    assert np.array_equal(shown.compressed(), given[np.isfinite(given)])
    assert f"{np.isinf(given).sum()} pairs are forbidden" in viz.alt_text(axes)
    assert "forbidden" not in viz.alt_text(viz.bias_map(fresh(), [[0.0, 1.0]]))


def test_slopes_and_buckets_are_drawn_as_given():
    (points,) = viz.slope_points(fresh(), [0.5, 0.25, 2.0]).lines
    assert points.get_xydata().tolist() == [[0, 0.5], [1, 0.25], [2, 2.0]]
    (steps,) = viz.bucket_steps(fresh(), torch.arange(-2, 2), torch.tensor([7, 1, 0, 17])).lines
    assert steps.get_xydata().tolist() == [[-2, 7], [-1, 1], [0, 0], [1, 17]]
    assert steps.get_drawstyle() == "steps-mid"


# --- curves


def test_words_for_curves_of_different_lengths_have_all_steps():
    axes = viz.loss_curves(fresh(), {"long": [3.0, 2.0, 1.5, 1.0], "short": [3.0, 2.5]})
    assert "from step 0 to 3." in viz.alt_text(axes)


def test_losses_are_drawn_over_their_steps_with_the_bound():
    losses = {"train": [3.0, 2.0, 1.5], "held out": [3.5, 1.25, 1.75]}
    axes = viz.loss_curves(fresh(), losses, steps=[0, 100, 200], bound=1.0)
    train, held_out, bound = axes.lines
    assert train.get_xydata().tolist() == [[0, 3.0], [100, 2.0], [200, 1.5]]
    assert held_out.get_ydata().tolist() == losses["held out"]
    assert set(bound.get_ydata()) == {1.0}
    assert names(axes.get_legend().get_texts()) == ["train", "held out", "best possible"]
    words = viz.alt_text(axes)
    assert "from step 0 to 200" in words
    assert "held out: from 3.50 to 1.75, lowest 1.25" in words
    assert "Best possible: 1.00" in words


def test_no_two_lines_look_alike():
    axes = viz.loss_curves(fresh(), {str(i): [1.0, 0.0] for i in range(12)})
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
    assert len(looks) == 12


def test_a_spectrum_is_that_of_the_eigenvalues():
    matrix = torch.tensor(np.random.default_rng(0).standard_normal((6, 4)), requires_grad=True)
    axes = viz.spectra(fresh(), {"W": matrix, "V": np.diag([3.0, 4.0])})
    values = matrix.detach().numpy()
    expected = np.sqrt(np.sort(np.linalg.eigvalsh(values.T @ values))[::-1])
    assert np.allclose(axes.lines[0].get_ydata(), expected)
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3, 4]
    assert np.allclose(axes.lines[1].get_ydata(), [4, 3])
    squares = np.cumsum(expected**2) / (expected**2).sum()
    assert f"lie in the first {np.argmax(squares >= 0.9) + 1}." in viz.alt_text(axes)
    assert axes.get_yscale() == "log"


# --- what cannot be drawn

BAD = {
    "a batch": lambda ax: viz.attention_map(ax, weights(2, 3, 3), list("abc")),
    "a row": lambda ax: viz.heatmap(ax, weights(3), ["a"], list("abc")),
    "names swapped": lambda ax: viz.attention_map(ax, weights(3, 5), KEYS, QUERIES),
    "too few names": lambda ax: viz.heatmap(ax, weights(3, 5), QUERIES, KEYS[1:]),
    "scores": lambda ax: viz.attention_map(ax, [[3.0, -1.0]], ["a"], ["b", "c"]),
    "not a number": lambda ax: viz.attention_map(ax, [[np.nan, 1.0]], ["a"], ["b", "c"]),
    "nothing": lambda ax: viz.position_map(ax, np.zeros((0, 4))),
    "a vector of angles": lambda ax: viz.rotary_map(ax, [1.0, 2.0]),
    "all heads": lambda ax: viz.bias_map(ax, np.zeros((2, 3, 3))),
    "a bias with a nan": lambda ax: viz.bias_map(ax, [[0.0, np.nan]]),
    "a bias of infinity": lambda ax: viz.bias_map(ax, [[0.0, np.inf]]),
    "all forbidden": lambda ax: viz.bias_map(ax, [[-np.inf]]),
    "a slope of 0": lambda ax: viz.slope_points(ax, [0.5, 0.0]),
    "positions and buckets": lambda ax: viz.bucket_steps(ax, [0, 1, 2], [0, 1]),
    "positions unsorted": lambda ax: viz.bucket_steps(ax, [0, 2, 1], [0, 1, 2]),
    "no curve": lambda ax: viz.loss_curves(ax, {}),
    "curves without names": lambda ax: viz.loss_curves(ax, [2.0, 1.0]),
    "a matrix without a name": lambda ax: viz.spectra(ax, np.eye(3)),
    "a matrix with a nan": lambda ax: viz.spectra(ax, {"W": [[1.0, np.nan]]}),
    "fewer digits than none": lambda ax: viz.heatmap(ax, [[1.0]], ["a"], ["b"], digits=-1),
    "half a digit": lambda ax: viz.heatmap(ax, [[1.0]], ["a"], ["b"], digits=0.5),
    "a figure in use": lambda ax: viz.head_grid(ax.figure, weights(1, 1, 3, 3), list("abc")),
    "steps and losses": lambda ax: viz.loss_curves(ax, {"a": [1.0, 2.0]}, steps=[0]),
    "no matrix": lambda ax: viz.spectra(ax, {"W": [1.0, 2.0]}),
    "one head as a grid": lambda ax: viz.head_grid(Figure(), weights(3, 3), list("abc")),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_drawn_is_refused_with_advice(name):
    with pytest.raises(ValueError, match=r"expected .*, got .*; "):
        BAD[name](fresh())
