"""On import, draw a figure, so that all parts of matplotlib are loaded before a submission draws."""

import io

import matplotlib.pyplot as plt
from matplotlib_inline.backend_inline import flush_figures

figure, axes = plt.subplots()
axes.plot([1, 10], label="$a_1$")  # the first formula makes a parser, which takes longer than the figure
axes.set(title="a", yscale="log")
axes.legend()
figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
plt.close(figure)
flush_figures()  # the backend remembers that something was drawn
del figure, axes
