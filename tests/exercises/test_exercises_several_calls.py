"""A criterion that measures several calls is tested, and its mistakes are recognised, as a whole."""

import numpy as np

from autograder.checking.candidate import local
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Seed
from autograder.checking.examination import examine


class TestMeasure:
    """A criterion that looks at several calls."""

    def exercise(self, **kwargs):
        def coin(rng):
            return float(rng.random())

        def three(call, case):
            return Outcome(np.array([call(Case("", (Seed(i),))).value for i in range(3)]))

        criterion = Criterion(
            "spread",
            1,
            lambda rng: [Case("three generators", (Seed(0),))],
            test=lambda trial: None if np.ptp(trial.value) > 0 else "all alike",
            measure=three,
        )
        exercise = Exercise("toy/coin", "coin(rng)", "Draw.", coin, (criterion,), **kwargs)

        @exercise.misconception("You draw from a seed of your own.")
        def own_seed(rng):
            return float(np.random.default_rng(1).random())

        return exercise

    def test_it_is_tested_as_a_whole(self):
        exercise = self.exercise()
        assert examine(exercise, local(lambda rng: rng.random()), 0).passed
        report = examine(exercise, local(lambda rng: 0.5), 0)
        assert report.failures[0].fault == "all alike"

    def test_misconceptions_are_measured_alike(self):
        exercise = self.exercise()
        mistake = exercise.misconceptions[0].function
        assert examine(exercise, local(mistake), 0).diagnosis == "own_seed"
        assert examine(exercise, local(lambda rng: 0.5), 0).diagnosis is None

    def test_what_passes_a_lenient_test_explains_no_failure(self):
        """Even where any two outcomes are taken for the same."""
        exercise = self.exercise(same=lambda got, expected, case: True)

        @exercise.misconception("You turn the number round.")
        def turned(rng):
            return 1 - float(rng.random())

        exercise.misconceptions.reverse()
        assert examine(exercise, local(lambda rng: 0.5), 0).diagnosis == "own_seed"
