"""The grader is right about every answer that its own bank knows, whatever the seed draws."""

import math

import numpy as np
import pytest
import torch
from exercise_bank import EACH, PUBLIC_SEED, SEEDS, answers, report_on, reports

from autograder import exercises


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", EACH)
class TestBank:
    def test_every_misconception_is_rejected_and_named(self, name, seed):
        found = reports(name, seed)
        for mistake in exercises.find(name).misconceptions:
            report = found[mistake.name]
            assert not report.passed, f"{mistake.name} passes:\n{report}"
            assert report.diagnosis == mistake.name, f"{mistake.name} is taken for {report.diagnosis}"
            assert report.message == mistake.says

    def test_every_style_gets_full_points(self, name, seed):
        found = reports(name, seed)
        for style in exercises.find(name).styles:
            assert found[style.name].passed, f"{style.name} is refused:\n{found[style.name]}"
            assert found[style.name].score == exercises.find(name).points

    def test_points_do_not_depend_on_the_seed(self, name, seed):
        for answer, report in reports(name, seed).items():
            assert report.score == reports(name, PUBLIC_SEED)[answer].score, answer


@pytest.mark.parametrize("name", EACH)
class TestEachExercise:
    def test_the_reference_gets_full_marks(self, name):
        exercise = exercises.find(name)
        from autograder.checking import examine, local  # the reference is tfcore, which students may not call

        report = examine(exercise, local(exercise.reference), PUBLIC_SEED)
        assert report.passed, report
        assert report.score == exercise.points

    def test_answers_stand_alone(self, name):
        """What is pasted needs numpy, torch, math and what is given, and is judged as it is here."""
        exercise = exercises.find(name)
        for answer in answers(exercise):
            namespace = {"np": np, "math": math, "torch": torch, "nn": torch.nn, "F": torch.nn.functional}
            exec(exercise.given_source, namespace)
            exec(answer.source(exercise.function_name), namespace)
            report = report_on(name, namespace[exercise.function_name])
            assert report.diagnosis == reports(name, PUBLIC_SEED)[answer.name].diagnosis, answer.name
            assert report.score == reports(name, PUBLIC_SEED)[answer.name].score, answer.name

    def test_each_failure_is_explained(self, name):
        """Beside its first failure, no mistake of the bank is told a bare difference of numbers alone."""
        for report in reports(name, PUBLIC_SEED).values():
            assert all(f.sentence for f in report.failures)
            assert "\n" not in report.message
            assert str(report).startswith(report.title)
