"""Laws of attention with a mask, for exercises that return (output, weights) as numpy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autograder.checking.declaration import Trial
from autograder.exercises.laws import added_to_the_sum, index, near
from tfcore import ops

Array = np.ndarray


def float32(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return the arrays in float32."""
    return tuple(a.astype(np.float32) for a in arrays)


@dataclass(frozen=True)
class MaskedAttention:
    """The laws, for one exercise. Its third argument is the values, (..., T_k, d_v).

    Args:
        output: what the exercise calls the first result: "output" or "context".
        mask_at: index of the mask among the arguments, where a case gives the mask by position.
        scores: computes the scores of a trial before the mask, (..., T_k), in float64.
    """

    output: str
    mask_at: int
    scores: Callable[[Trial], Array]

    def mask(self, trial: Trial) -> Array | None:
        """Return the mask, given by name or by position; None where the case has no mask."""
        given: Array | None = (*trial.case.args, trial.case.kwargs.get("mask"))[self.mask_at]
        return given

    def parts(self, trial: Trial) -> tuple[Array, Array, Array, Array]:
        """Return the output, the weights, the values, and the mask in the shape of the weights."""
        output, weights = map(np.asarray, trial.value)
        mask = self.mask(trial)
        mask = np.broadcast_to(True if mask is None else mask, weights.shape)
        return output, weights, trial.case.args[2], mask

    def zero_where_nothing_is_allowed(self, trial: Trial) -> str | None:
        output, weights, _, mask = self.parts(trial)
        empty = ~mask.any(axis=-1, keepdims=True)
        for named, array in ((f"{self.output} holds", output), ("weights hold", weights)):
            wrong = empty & (array != 0)
            if wrong.any():
                return (
                    f"a query may attend to no key, but its {named} {array[wrong][0]:.3g}{index(wrong)}; "
                    "the result and the weights must be zero there"
                )
        return None

    def masked_before_softmax(self, trial: Trial) -> str | None:
        """Find weights of allowed keys that are the same as without a mask: the mask comes after softmax.

        Only weights are compared. The weights where the mask is False, and the output, may be anything.
        """
        output, weights, _, mask = self.parts(trial)
        without = ops.softmax(self.scores(trial))
        share = np.where(mask, 0.0, without).sum(axis=-1, keepdims=True)  # what forbidden keys would get
        looked_at = mask & (share > 1e-2) & (without > 1e-3)
        if not looked_at.any() or not near(weights[looked_at], without[looked_at]):
            return None
        if near(output, trial.expected[0]):
            return None  # the output is masked; only the returned weights are not
        if near(weights, without):
            return (
                "your mask changes nothing: the weights are those without a mask; fill the scores before "
                "softmax"
            )
        place = tuple(int(n) for n in np.argwhere(looked_at)[0])
        return (
            f"your weight at {list(place)} is {weights[place]:.4g}, the same as without a mask: the mask "
            "comes after softmax, and forbidden keys have taken their share. Fill the scores with -inf "
            "before softmax"
        )

    def something_written_everywhere(self, trial: Trial) -> str | None:
        _, weights, _, mask = self.parts(trial)
        if mask.all() or not np.array_equal(np.isnan(weights), ~mask):
            return None
        return (
            "your weights are NaN where the mask is False and nowhere else. Write 0 there: np.empty, and "
            "`where=` without `out`, leave what was in memory"
        )

    def nothing_to_forbidden_keys(self, trial: Trial) -> str | None:
        _, weights, _, mask = self.parts(trial)
        wrong = ~mask & (np.abs(weights) > 1e-6)
        if not wrong.any():
            return None
        return (
            f"a weight is {weights[wrong][0]:.3g}{index(wrong)}, where the mask is False; "
            "True means: may attend"
        )

    def something_to_allowed_keys(self, trial: Trial) -> str | None:
        _, weights, _, mask = self.parts(trial)
        wrong = mask & (np.abs(weights) < 1e-9) & (trial.expected[1] > 1e-3)
        if not wrong.any():
            return None
        why = "there is no mask" if self.mask(trial) is None else "the mask is True there"
        return f"a weight is 0{index(wrong)}, though {why}; every key that is allowed gets a share"

    def first_wrong_sum(self, trial: Trial) -> tuple[Array, float] | None:
        """Return where rows of weights do not sum to 1, (...,), and the first such sum; None where all do."""
        _, weights, _, mask = self.parts(trial)
        sums = weights.sum(axis=-1)
        wrong = mask.any(axis=-1) & ~(np.abs(sums - 1) < 1e-3)
        return (wrong, float(sums[wrong][0])) if wrong.any() else None

    def nothing_added(self, trial: Trial) -> str | None:
        _, weights, _, mask = self.parts(trial)
        scores = np.where(mask, self.scores(trial), -np.inf)
        total = np.exp(scores - scores.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)
        return added_to_the_sum(weights, trial.expected[1], total)

    def inside_the_values(self, trial: Trial) -> str | None:
        output, _, values, mask = self.parts(trial)
        one_query = output.ndim < values.ndim  # the output has no axis of queries
        low, high = (bound(axis=-2, keepdims=not one_query) for bound in (values.min, values.max))
        wrong = mask.any(axis=-1, keepdims=True) & ((output < low - 1e-3) | (output > high + 1e-3))
        if not wrong.any():
            return None
        return (
            f"the {self.output} is {output[wrong][0]:.4g}{index(wrong)}, beyond all values; "
            "a weighted mean stays between them"
        )
