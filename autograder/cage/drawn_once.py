"""On import, draw a figure, so that all parts of matplotlib are loaded before a submission draws."""

import io
import sys

import matplotlib.pyplot as plt

figure, axes = plt.subplots()
axes.plot([1, 10], label="$a_1$")  # the first formula makes a parser, which takes longer than the figure
axes.set(title="a", yscale="log")
axes.legend()
figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
plt.close(figure)
sys.modules["matplotlib_inline.backend_inline"].flush_figures()  # it remembers that something was drawn
del figure, axes
