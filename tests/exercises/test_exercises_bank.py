"""The checks are right about the answers of their own bank, whatever the seed draws.

Here for one exercise of each assignment; for all of them, in the cage too, it is `autograder verify` that
proves it, which `tests/grading/test_verify_and_doctor.py` runs.
"""

from collections import Counter

import pytest
from exercise_bank import EACH, PUBLIC_SEED, SAMPLE, SEEDS, reports, toy

from autograder import exercises
from autograder.cage import calling
from autograder.checking.candidate import local
from autograder.checking.examination import Examination, examine
from autograder.proof import verify


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SAMPLE)
class TestBank:
    def test_every_misconception_is_rejected_and_named(self, name, seed):
        found = reports(name, seed)
        for mistake in exercises.find(name).misconceptions:
            report = found[mistake.name]
            assert not report.passed, f"{mistake.name} passes:\n{report}"
            assert report.diagnosis == mistake.name, f"{mistake.name} is taken for {report.diagnosis}"
            assert report.message == mistake.says

    def test_points_follow_the_gravity_of_a_mistake(self, name, seed):
        for mistake in exercises.find(name).misconceptions:
            report = reports(name, seed)[mistake.name]
            assert verify.points_fit(mistake, report), f"{mistake.name} is a {mistake.gravity}:\n{report}"

    def test_every_style_gets_full_points(self, name, seed):
        found = reports(name, seed)
        for style in exercises.find(name).styles:
            assert found[style.name].passed, f"{style.name} is refused:\n{found[style.name]}"
            assert found[style.name].score == exercises.find(name).points

    def test_points_do_not_depend_on_the_seed(self, name, seed):
        for answer, report in reports(name, seed).items():
            assert report.score == reports(name, PUBLIC_SEED)[answer].score, answer


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ch02_qkv/softmax", "ch06_blocks/layer_norm", "ch08_kv_cache/KVCache"])
def test_a_bank_examined_as_one_gets_the_reports_of_its_answers(name):
    exercise = exercises.find(name)
    alone = Examination(exercise, PUBLIC_SEED)
    together = Examination(exercise, PUBLIC_SEED).report_on_bank(("tfcore",))
    for answer, report in zip(exercise.answers, together, strict=True):
        assert report.as_dict() == alone.report_on(local(answer.function), shrinking=False).as_dict(), (
            answer.name
        )


def test_a_mistake_of_the_bank_is_called_once_a_case(monkeypatch):
    """As an answer, and as an explanation of the others."""
    counted, call = Counter(), calling.call
    monkeypatch.setattr(calling, "call", lambda f, *args: (counted.update([f.__name__]), call(f, *args))[1])
    Examination(toy(), 5).report_on_bank(())
    as_part_of_the_bank = counted.pop("mean")
    mean = next(answer for answer in toy().answers if answer.name == "mean")
    Examination(toy(), 5)._try_cases(local(mean.function))
    assert as_part_of_the_bank == counted["mean"] > 0


@pytest.mark.parametrize("name", EACH)
def test_the_reference_gets_full_marks(name):
    exercise = exercises.find(name)
    report = examine(exercise, local(exercise.reference), PUBLIC_SEED)  # students may not call tfcore
    assert report.passed, report
    assert report.score == exercise.points


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_each_failure_is_explained(name):
    """Beside its first failure, no mistake of the bank is told a bare difference of numbers alone."""
    for report in reports(name, PUBLIC_SEED).values():
        assert all(f.sentence for f in report.failures)
        assert "\n" not in report.message
        assert str(report).startswith(report.title)
