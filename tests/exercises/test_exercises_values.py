"""Two values are compared as a teacher would compare them, and a difference is said in words."""

import numpy as np
import pytest
import torch

from autograder.checking.comparison import (
    agree,
    as_array,
    as_code,
    describe,
    differs,
    same_form,
    tolerance_for,
    without_numbers,
)

A = np.arange(6.0).reshape(2, 3)


class TestDiffers:
    @pytest.mark.parametrize(
        ("got", "expected"),
        [
            (A.copy(), A),
            (A.astype(np.float32), A),
            (A.astype(int), A),
            (np.asfortranarray(A), A),
            (A + 1e-10, A),
            (1, 1.0),
            (np.float64(2), 2.0),
            (np.array(2.0), 2.0),
            (True, 1.0),
            (np.nan, np.nan),
            (None, None),
            ("rnn", "rnn"),
            (np.inf, np.inf),
            ((A, 1.0), (A, 1.0)),
            ([A, 1.0], (A, 1.0)),
            (np.array([1.0, 2.0]) @ np.array([[1.0], [2.0]]), np.array([5.0])),
            (np.ma.masked_array([1.0, 2.0]), np.array([1.0, 2.0])),
            (np.array([True, False]), np.array([True, False])),
            (np.array([1e12 + 1]), np.array([1e12])),
        ],
    )
    def test_alike(self, got, expected):
        assert differs(got, expected, 1e-9) is None
        assert agree(got, expected, 1e-9)

    @pytest.mark.parametrize(
        ("got", "expected", "words"),
        [
            (A + 1e-6, A, "expected 0 at [0, 0], got 1e-06"),
            (A * [1, 1, 2], A, "expected 2 at [0, 2], got 4"),
            (A.T, A, "expected shape (2, 3), got shape (3, 2) (the right sizes in another order"),
            (A[None], A, "(an axis of size 1 is left over)"),
            (A[0], A, "(it has an axis too few)"),
            (A[0, :1], np.array(0.0), "(an axis of size 1 is left over)"),
            (np.zeros((2, 3, 4)), A, "(it has an axis too many)"),
            (np.array(0.0), np.zeros(1), "(an axis of size 1 is missing)"),
            (A[:, :2], A, "expected shape (2, 3), got shape (2, 2)"),
            (A.tolist(), A, "expected an array of shape (2, 3), got a list of 2"),
            (None, A, "got None (is a return missing?)"),
            (None, 1.0, "expected a number, got None"),
            (A, None, "expected None, got an array"),
            (A, "rnn", "expected 'rnn', got an array"),
            ("lstm", "rnn", "expected 'rnn', got 'lstm'"),
            ("1", 1.0, "got '1'"),
            (10**400, 1.0, "expected a number, got 1000"),
            (np.array([1j]), np.array([1.0]), "got an array of shape (1,) (complex128)"),
            (A, (A, A), "expected 2 results, got an array"),
            ((A,), (A, A), "expected 2 results, got a tuple of 1"),
            ((A, A + 1), (A, A), "result 2 of 2: expected 0 at [0, 0], got 1"),
            (np.nan, 1.0, "got nan"),
            (1.0, np.nan, "expected nan, got 1"),
            (np.inf, 1e300, "got inf"),
            (np.array([True]), np.array([False]), "expected False at [0], got True"),
            (np.array([1]), np.array([False]), "expected 0 at [0], got 1"),
            (
                np.array([-0.3], np.float32),
                np.array([-0.3]),
                "-0.3 at [0], got -0.30000001 (rounded to float32?)",
            ),
            (np.array([0.1 + 1e-8]), np.array([0.1]), "expected 0.1 at [0], got 0.10000001"),
            (1e300, 2e300, "expected 2e+300, got 1e+300"),
            (np.array([200], np.uint8), np.array([201], np.uint8), "expected 201 at [0], got 200"),
            (torch.ones(2, 3), A, "(use numpy throughout, or end with .numpy())"),
            (A, torch.ones(2, 3), "(use torch throughout, or end with torch.as_tensor(...))"),
        ],
    )
    def test_different(self, got, expected, words):
        assert words in differs(got, expected, 1e-9)

    def test_only_what_was_rounded_is_said_to_be(self):
        assert "float32" not in differs(np.array([0.1 + 1e-8]), np.array([0.1]), 1e-9)


class TestTolerance:
    def test_follows_dtype_and_size(self):
        wide, narrow = np.ones(3), np.ones(3, np.float32)
        assert tolerance_for((wide,)) < 1e-8
        assert 1e-5 < tolerance_for((narrow,)) < 1e-4
        assert 1e-4 < tolerance_for((1e4 * narrow,)) < 1e-2
        assert tolerance_for((1e4 * wide,)) < 1e-8

    def test_anything_may_be_an_argument(self):
        assert tolerance_for((3, "x", None, np.array([True]), np.zeros(0), np.array([np.inf]))) > 0


class TestForm:
    @pytest.mark.parametrize("got", [A, A.astype(int)])
    def test_same(self, got):
        assert same_form(got, A)
        assert same_form((got, 1), (A, 2.0))
        assert same_form([got, 1], (A, 2.0))

    @pytest.mark.parametrize("got", [None, A.T, A.tolist(), (A,), "x"])
    def test_other(self, got):
        assert not same_form(got, A)

    @pytest.mark.parametrize("got", [A, (A,), (A, A, A), None])
    def test_not_two(self, got):
        assert not same_form(got, (A, A))


class TestDescribe:
    def test_in_a_few_words(self):
        assert describe(np.array([1.0, 2.0])) == "an array of shape (2,) (float64) [1., 2.]"
        assert describe(np.zeros((5, 5))) == "an array of shape (5, 5) (float64)"
        assert describe(None) == "None (is a return missing?)"
        assert len(describe("x" * 1000)) <= 80
        assert describe((1, 2)) == "a tuple of 2: 1, 2"
        assert describe(dict.fromkeys("abcd")) == "a dict with the keys 'a', 'b', 'c', ..."
        pair = (torch.rand(1, 2, 3), torch.zeros(2))
        assert (
            describe(pair)
            == "a tuple of 2: a tensor of shape (1, 2, 3) (float32), a tensor of shape (2,) (float32)"
        )

    @pytest.mark.parametrize(
        ("value", "code"),
        [
            (np.array([[1.0, -2.5]]), "np.array([[1., -2.5]])"),
            (np.array([1.0, np.inf], np.float32), "np.array([1., np.inf], dtype=np.float32)"),
            (torch.tensor([[1.0, 2.0]]), "torch.tensor([[1., 2.]])"),
            (torch.tensor([1.0, torch.nan]).double(), "torch.tensor([1., torch.nan], dtype=torch.float64)"),
            (torch.tensor([[True], [False]]), "torch.tensor([[True], [False]])"),
            (torch.tensor([10, 2]), "torch.tensor([10, 2])"),
            (np.array([-10000.74, 0.00025]), "np.array([-10000.74, 0.00025])"),
            (np.linspace(0.01, 0.12, 12), f"np.array([{', '.join(map(str, np.linspace(0.01, 0.12, 12)))}])"),
            ({"a": [1, (2.5,)], "b": None}, "{'a': [1, (2.5,)], 'b': None}"),
        ],
    )
    def test_as_code(self, value, code):
        assert as_code(value) == code
        again = eval(code, {"np": np, "torch": torch})
        assert as_code(again) == code
        if hasattr(value, "dtype"):
            assert (again.dtype, again.shape) == (value.dtype, value.shape)

    def test_a_large_array_by_its_shape(self):
        assert as_code(np.ones((4, 5))) == "<array of shape (4, 5)>"
        assert as_code([torch.ones(3)], most=2) == "[<tensor of shape (3,)>]"

    @pytest.mark.parametrize(
        ("one", "other", "alike"),
        [
            ("expected 0 at [0], got -1.5", "expected 1e-06 at [2, 1], got 7", True),
            ("expected 0 at [0], got nan", "expected 1 at [0], got 0", False),
            ("expected shape (3, 1), got shape (3,)", "expected shape (2, 1), got shape (2,)", True),
            ("in `W_q`: expected 1, got 2", "in `W_k`: expected 1, got 2", False),
            ("expected True at [0], got False", "expected False at [2, 1], got True", True),
            ("sizes (2,3,3) (2,3)", "sizes (2,4) (4,)", True),
        ],
    )
    def test_without_numbers(self, one, other, alike):
        assert (without_numbers(one) == without_numbers(other)) is alike

    def test_as_array(self):
        assert as_array("x") is None
        assert as_array([1]) is None
        assert as_array(np.array(["x"])) is None
        assert type(as_array(np.ma.masked_array([1.0]))) is np.ndarray
