"""Draw a figure when imported, so that matplotlib has loaded its parts before a submission that draws."""

import io

import matplotlib.pyplot as plt

figure, axes = plt.subplots()
axes.plot([1, 10], label="$a_1$")  # the first formula makes a parser, which takes longer than the figure
axes.set(title="a", yscale="log")
axes.legend()
figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
plt.close(figure)
