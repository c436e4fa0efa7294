"""Probes: what they see of functions, modules and objects, and what they say of what does not fit."""

import re

import numpy as np
import pytest
import torch
from small_course import LIMITS, SEED
from torch import nn

from autograder.cage import calling, probes, tensors
from autograder.checking.candidate import local
from autograder.checking.examination import Examination
from autograder.exercises import find
from autograder.grading.pair import file_task


def ask(probe, function, *args, metered=False, **kwargs):
    return calling.call(function, list(args), kwargs, [], probe, metered)


class TestGradients:
    @pytest.mark.slow
    def test_they_are_those_of_a_weighted_sum(self):
        x, y = torch.randn(2, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
        told = ask("gradients", lambda x, y=None: x * y, x, y=y)["value"]
        weights = torch.cos(torch.arange(6, dtype=torch.float64) + 0.5).reshape(2, 3)
        torch.testing.assert_close(told["0"], weights * y)
        torch.testing.assert_close(told["y"], (weights * x).sum(0))

    def test_a_result_that_is_cut_off_has_none(self):
        assert ask("gradients", lambda x: x.detach() * 2, torch.ones(3))["value"] == {"0": probes.NONE}
        assert ask("gradients", lambda x: x.tolist(), torch.ones(3))["value"] == {"0": probes.NONE}

    def test_whole_numbers_have_none(self):
        assert list(ask("gradients", lambda i, x: x[i], torch.tensor([0]), torch.ones(2))["value"]) == ["1"]

    def test_writing_into_an_argument_is_no_error_of_torch(self):
        def in_place(x):
            x += 1
            return x * x

        told = ask("gradients", in_place, torch.ones(2))
        assert told["error"] is None

    def test_an_error_of_the_backward_pass_names_the_line_of_its_operation(self):
        def overwritten(x):
            y = x.exp()
            z = y * 2
            y += 1
            return z

        def without_derivative(x):
            halves = (x * 2) // 4
            return halves

        assert re.search(r"\(line \d+: y = x\.exp\(\)\)$", _message("gradients", overwritten))
        told = _message("gradients", without_derivative)
        assert re.search(r"\(line \d+: halves = \(x \* 2\) // 4\)$", told)

    def test_infinities_do_not_hide_the_rest(self):
        told = ask("gradients", lambda x: torch.where(x > 0, x, -torch.inf), torch.tensor([1.0, -1.0]))[
            "value"
        ]
        assert told["0"][0] == pytest.approx(np.cos(0.5))
        assert told["0"][1] == 0


def _message(probe, function):
    return ask(probe, function, torch.ones(2))["message"]


def test_arguments_that_do_not_fit_name_the_line_of_the_function():
    def add(x, y):
        return x + y

    assert re.search(r"missing 1 required .* \(line \d+: def add\(x, y\):\)$", _message("call", add))


class Scaled(nn.Module):
    def __init__(self, size, bias=True):
        super().__init__()
        self.W = nn.Linear(size, size, bias=bias)
        self.register_buffer("two", torch.tensor(2.0))

    def forward(self, x, shift=None):
        y = self.W(x) * self.two
        return y if shift is None else y + shift


def parameters(dtype=torch.float64):
    return {"W.weight": torch.randn(3, 3, dtype=dtype), "W.bias": torch.randn(3, dtype=dtype)}


class TestModules:
    @pytest.mark.slow
    def test_parameters_are_set_in_their_dtype(self):
        given, x = parameters(), torch.randn(2, 3, dtype=torch.float64)
        value = ask("module", Scaled, {"size": 3}, given, x)["value"]
        torch.testing.assert_close(value, 2 * (x @ given["W.weight"].T + given["W.bias"]))

    def test_gradients_are_given_by_place_and_by_name(self):
        x = torch.randn(2, 3, dtype=torch.float64)
        told = ask("module_gradients", Scaled, {"size": 3}, parameters(), x, shift=x.clone())["value"]
        assert set(told) == {"0", "shift", "W.weight", "W.bias"}

    @pytest.mark.parametrize(
        ("made", "given", "says"),
        [
            (Scaled, {"V.weight": torch.ones(3, 3)}, "there is no parameter `V.weight`"),
            (Scaled, {"W.weight": torch.ones(3, 3)}, "an extra parameter `W.bias`"),
            (Scaled, {"W.weight": torch.ones(4, 3), "W.bias": torch.ones(3)}, "expected (4, 3)"),
            (lambda size: {}, parameters(), "expected an nn.Module, got a dict"),
        ],
    )
    def test_what_does_not_fit_is_named(self, made, given, says):
        told = ask("module", made, {"size": 3}, given, torch.ones(1, 3))
        assert told["error"] == "Unfit"
        assert says in told["message"]

    def test_the_sizes_of_parameters(self):
        assert ask("parameters", Scaled, {"size": 3})["value"] == {"W.weight": [3, 3], "W.bias": [3]}


class Counter:
    def __init__(self, start):
        self.count = start
        self.seen = torch.zeros(3)

    def add(self, by):
        if by < 0:
            raise ValueError("only upwards")
        self.count += by
        self.seen += by
        return self.seen


class TestSteps:
    def test_results_are_those_of_their_moment(self):
        moves = [("add", 1), ("count",), ("add", 2), ("seen",)]
        one, count, two, seen = ask("steps", Counter, {"start": 4}, moves)["value"]
        assert (one.tolist(), count, two.tolist(), seen.tolist()) == ([1.0] * 3, 5, [3.0] * 3, [3.0] * 3)

    def test_a_value_error_is_a_result_and_the_rest_goes_on(self):
        refused, count = ask("steps", Counter, {"start": 4}, [("add", -1), ("count",)])["value"]
        assert (refused["raised"], count) == ("ValueError", 4)

    def test_a_value_error_keeps_its_message_and_its_line(self):
        (refused,) = ask("steps", Counter, {"start": 4}, [("add", -1)])["value"]
        assert re.fullmatch(
            r'ValueError: only upwards \(line \d+: raise ValueError\("only upwards"\)\)', refused["message"]
        )

    def test_another_error_is_the_students(self):
        told = ask("steps", Counter, {"start": 4}, [("add", "x")])
        assert told["error"] == "TypeError"


class Keeper:
    """Keeps what it is given: as it came, or a copy."""

    def __init__(self, copies, device="cpu"):
        self.copies, self.device, self.kept = copies, device, []

    def put(self, x):
        self.kept.append(x.to(self.device, copy=True) if self.copies else x)
        return self.kept[-1]

    def all(self, _):
        return torch.stack(self.kept)

    def spoil(self, x):
        x += 1


MOVES = [("put", torch.ones(2, 3)), ("put", torch.full((2, 3), 2.0)), ("all", 0)]


class TestMemoryThatIsHandedOver:
    def test_who_keeps_it_shows_what_is_written_into_it_later(self):
        first, second, both = ask("steps", Keeper, {"copies": False}, MOVES)["value"]
        assert (first == 1).all()
        assert (second == 2).all()
        assert (both == probes.OVERWRITTEN).all()

    def test_who_copies_it_shows_nothing(self):
        *_, both = ask("steps", Keeper, {"copies": True}, MOVES)["value"]
        assert torch.equal(both, torch.stack([MOVES[0][1], MOVES[1][1]]))

    @pytest.mark.parametrize("copies", [True, False])
    def test_it_holds_the_same_numbers_in_the_end(self, copies):
        given = [("put", torch.randn(2, 3)), ("put", tensors.strided(torch.randn(3, 2)))]
        before = tensors.private_copy([x for _, x in given])
        after = ask("steps", Keeper, {"copies": copies}, given)["arguments"]
        assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))

    def test_what_a_method_wrote_into_it_is_still_seen(self):
        told = ask("steps", Keeper, {"copies": True}, [("spoil", torch.zeros(2)), ("spoil", torch.ones(2))])
        assert [x.tolist() for x in told["arguments"]] == [[1, 1], [2, 2]]

    def test_an_error_leaves_it_as_it_was(self):
        told = ask("steps", Keeper, {"copies": True}, [("put", torch.zeros(2)), ("put", "nothing")])
        assert told["error"] == "AttributeError"
        assert told["arguments"][0].tolist() == [0, 0]

    def test_filling_it_costs_nothing(self):
        cost = ask("steps", Keeper, {"copies": False}, MOVES[:2], metered=True)["cost"]
        assert cost["operations"] == cost["total_bytes"] == 0


class Room:
    """A cache in small: makes room on a device and writes into it."""

    def __init__(self, size, device="cpu", make=torch.zeros):
        self.room = make(size, device=device)

    def put(self, x):
        self.room[:] = x
        return self.room


class HomeRoom(Room):
    def __init__(self, size, device="cpu"):
        super().__init__(size, make=lambda size, device: torch.zeros(size))


class Joined(Room):
    def put(self, x):
        return torch.cat([self.room, x])


class TestObjectsElsewhere:
    @pytest.mark.parametrize(
        ("made", "handed", "says"),
        [
            (Room, "cuda", ""),
            (Room, "cpu", ""),
            (HomeRoom, "cuda", "the result is on the cpu, since your code made it without"),
            (HomeRoom, "cpu", "the result is on the cpu, since your code made it without"),
            (Joined, "cuda", ""),
            (
                Joined,
                "cpu",
                "`cat` meets a tensor of shape (3,) that is on the cpu, as your code received it",
            ),
        ],
    )
    def test_a_room_lies_where_it_is_asked_for(self, made, handed, says):
        init = {"size": 3, "device": "cpu"}
        told = ask("steps_elsewhere", made, init, [("put", torch.ones(3))], handed)
        assert told["error"] is None
        assert told["value"].startswith(says)
        assert bool(told["value"]) is bool(says)

    def test_what_is_kept_as_it_was_handed_over_is_there_too(self):
        init = {"copies": False, "device": "cpu"}
        told = ask("steps_elsewhere", Keeper, init, [("put", torch.ones(3))], "cpu")
        assert told["value"] == "the result is on the cpu, as your code received it"


class Positions(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.W = nn.Linear(3, 3)
        table = torch.arange(3.0)
        if kind == "buffer":
            self.register_buffer("table", table)
        elif kind == "parameter":
            self.table = nn.Parameter(table)
        else:
            self.table = table

    def forward(self, x):
        return self.W(x) + self.table


@pytest.mark.parametrize(("kind", "clashes"), [("buffer", False), ("parameter", False), ("plain", True)])
def test_a_module_that_is_moved_takes_parameters_and_buffers_along(kind, clashes):
    told = ask("module_elsewhere", Positions, {"kind": kind}, {}, torch.ones(2, 3))
    assert told["error"] is None
    assert bool(told["value"]) is clashes
    if clashes:
        assert told["value"].startswith(
            "`add` meets a tensor of shape (3,) that is on the cpu, since your code made it without"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "clashes"),
    [
        (lambda x: x + torch.arange(3), True),
        (lambda x: x @ torch.ones(3, 4)[:, :2], True),
        (lambda x: torch.cat([x, torch.zeros(2, 3)]), True),
        (lambda x: torch.ones(3, 3).tril(), True),
        (lambda x: x.masked_fill(torch.ones(2, 3, dtype=torch.bool), 0), True),
        (lambda x: x + torch.arange(3).float(), True),
        (lambda x: x + torch.arange(3, device=x.device), False),
        (lambda x: x + torch.arange(3).to(x.device), False),
        (lambda x: x + torch.arange(3).to(x), False),
        (lambda x: x + torch.arange(3).type_as(x), False),
        (lambda x: x[:, torch.tensor([0, 1])], False),
        (lambda x: torch.where(x > 0, x, torch.tensor(0.0)), False),
        (lambda x: x * torch.ones_like(x) + x.new_zeros(3), False),
        (lambda x: x.shape[0], False),
        (lambda x: x.cpu(), True),
        (lambda x: x.to("cpu") * 2, True),
        (lambda x: x.to(device="cpu"), True),
        (lambda x: x.to(torch.device("cpu")), True),
        (lambda x: x.to(torch.zeros(3)), True),
        (lambda x: x + x.cpu(), True),
        (lambda x: x[0] @ x.to("cpu").T, True),
        (lambda x: x + torch.zeros(3, device="cpu"), True),
        (lambda x: x.numpy(), True),
        (lambda x: x.detach().numpy(), True),
        (lambda x: np.asarray(x), True),
        (lambda x: torch.tensor(np.exp(x)), True),
        (lambda x: torch.from_numpy(x.cpu().numpy()), True),
        (lambda x: x + torch.from_numpy(np.ones(3)), True),
        (lambda x: x + torch.Tensor([1, 2, 3]), True),
        (lambda x: x + torch.Tensor(3).zero_(), True),
        (lambda x: x + torch.normal(0, 1, (3,)), True),
        (lambda x: torch.tensor(x.tolist()), True),
        (lambda x: torch.stack([torch.tensor(row.tolist()) for row in x]), True),
        (lambda x: torch.tensor(x.sum().item()), True),
        (lambda x: torch.arange(3)[x[0].long()], True),
        (lambda x: torch.stack([*torch.ones(2, 3)]) + x, True),
        (lambda x: torch.arange(3) * x.max(), True),
        (lambda x: x.cpu().to(x.device), False),
        (lambda x: x.cpu().to(x), False),
        (lambda x: x.to("cpu").cuda(), False),
        (lambda x: x.to("cpu").to("cuda"), False),
        (lambda x: x.to(torch.float64).to(x.dtype, copy=True), False),
        (lambda x: torch.tensor(x.tolist(), device=x.device), False),
        (lambda x: torch.from_numpy(x.cpu().numpy()).to(x.device), False),
        (lambda x: torch.as_tensor(np.ones(3), device=x.device) + x, False),
        (lambda x: torch.tensor(x) + torch.as_tensor(x), False),
        (lambda x: x * x.sum().item() * float(x.max()), False),
        (lambda x: x.masked_fill(x.cpu()[0, 0] > 0, 0), False),
        (lambda x: torch.zeros(2, 3, device=x.device).copy_(x.cpu()), False),
        (lambda x: torch.eye(3).to(x)[x[0].long()], False),
        (lambda x: torch.ones(2, 3, device="cuda" if x.is_cuda else "cpu") + x, False),
        (lambda x: torch.ones(2, 3, device=f"cuda:{x.get_device()}") + x, False),
        (lambda x: torch.stack([row for row in x]).T.data, False),
        (lambda x: torch.vmap(lambda row: row + torch.ones(3, device=row.device))(x), False),
        (lambda x: torch.func.grad(lambda y: (y * y).sum())(x) + x, False),
        (lambda x: nn.Linear(3, 3, device=x.device)(x), False),
    ],
)
def test_what_lies_on_the_cpu_and_meets_the_input_is_seen(function, clashes):
    told = ask("elsewhere", function, torch.ones(2, 3))
    assert told["error"] is None
    assert bool(told["value"]) is clashes


def test_a_default_device_is_a_device():
    def at_home(x):
        with x.device:
            return x + torch.arange(3)

    assert ask("elsewhere", at_home, torch.ones(3))["value"] == ""


def test_numpy_raises_as_on_a_card():
    def careful(x):
        try:
            return x.numpy()
        except TypeError:
            return x + torch.tensor(x.cpu().numpy(), device=x.device)

    assert ask("elsewhere", careful, torch.ones(3))["value"] == ""
    assert ask("elsewhere", lambda x: x.numpy(), torch.ones(3))["value"].startswith("`.numpy` raises")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x.cpu() * 2, "the result is on the cpu, since your code moved it"),
        (lambda x: torch.zeros(3) * 2, "the result is on the cpu, since your code made it without"),
        (
            lambda x: x + x.cpu(),
            "`add` meets a tensor of shape (3,) that is on the cpu, since your code moved it",
        ),
        (
            lambda x: x + torch.zeros(3),
            "`add` meets a tensor of shape (3,) that is on the cpu, since your code made it without",
        ),
    ],
)
def test_what_is_brought_is_told_from_what_is_made(function, says):
    assert ask("elsewhere", function, torch.ones(3))["value"].startswith(says)


def test_a_metered_call_counts_operations_and_the_largest_tensor():
    def outer(x):
        return (x[:, None] * x).sum()

    cost = ask("call", outer, torch.ones(50), metered=True)["cost"]
    assert cost["largest"] == 2500
    assert cost["largest_shape"] == [50, 50]
    assert cost["operations"] == 5000
    assert ask("call", outer, torch.ones(50))["cost"] is None


def test_arguments_are_told_with_what_lies_inside_them():
    def vandal(given, x):
        given["a"][0].zero_()
        return x

    told = ask("call", vandal, {"a": [torch.ones(2)]}, np.ones(3))
    assert [tensors.numbers(a).tolist() for a in told["arguments"]] == [[0, 0], [1, 1, 1]]


SHAPES = [(2, 3), (3, 2, 4), (2, 4, 3, 5), (5, 2, 3, 4, 6)]


class TestStrided:
    """A tensor that is not contiguous lies transposed in memory, wherever it is copied to."""

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("copied", [lambda x: x, tensors.private_copy, lambda x: x * 1, torch.round])
    def test_no_view_of_a_tensor_joins_two_axes(self, shape, copied):
        x = copied(tensors.strided(torch.randn(shape)))
        for axis in range(len(shape) - 1):
            joined = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
            with pytest.raises(RuntimeError, match="view size is not compatible"):
                x.view(joined)
            assert torch.equal(x.reshape(joined), x.contiguous().view(joined))

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("copied", [lambda x: x, tensors.private_copy, np.round])
    def test_every_reshape_of_an_array_is_a_copy(self, shape, copied):
        x = copied(tensors.strided(np.random.default_rng(0).normal(size=shape)))
        assert not np.shares_memory(x, x.reshape(shape[0] * shape[1], *shape[2:]))

    @pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 4), (4, 1), *SHAPES])
    def test_the_numbers_are_the_same_and_the_memory_is_another(self, shape):
        x = torch.randn(shape)
        for given in (x, x.numpy()):
            copy = tensors.strided(given)
            assert tensors.is_contiguous(copy) == (tensors.numbers(given).size == 1)
            np.testing.assert_array_equal(copy, given)
            copy[...] = 7
            assert not (given == 7).any()

    VIEWED = """
import torch

def repeat_kv(x, num_groups):
    B, h, T, d = x.shape
    return x.view(B * h, 1, T, d).repeat(1, num_groups, 1, 1).view(B, h * num_groups, T, d)
"""

    def test_a_view_of_what_was_passed_fails_here_and_in_the_cage(self, pair):
        names = {}
        exec(self.VIEWED, names)
        exercise = find("ch04_multi_head/repeat_kv")
        checked = Examination(exercise, SEED).report_on(local(names["repeat_kv"]))
        task = file_task(exercise.name, self.VIEWED.encode(), False, SEED, LIMITS)
        (cell,) = pair.grade(task).cells
        for report in (checked, cell.report):
            (failed, *_) = [c.failure for c in report.criteria if c.failure]
            assert failed.case == "a tensor that is not contiguous"
            assert "view size is not compatible" in failed.fault
