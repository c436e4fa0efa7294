"""An object that stays with the grader: asked from this process and from a child, it behaves alike."""

import socket
import textwrap
from dataclasses import replace

import pytest
import torch
from small_course import LIMITS

from autograder.cage import remote_objects
from autograder.checking.candidate import local
from autograder.checking.declaration import Case, Lent
from autograder.grading.session import Session


class Shelf:
    """Holds tensors by number, as a cache does."""

    serves = ("length", "put")

    def __init__(self):
        self.kept = []

    @property
    def length(self):
        return len(self.kept)

    def put(self, x):
        self.kept.append(x)
        return self.length


class Model:
    """Maps tokens to twice their number, and knows a few ways to fail."""

    serves = ("__call__", "new_cache", "scale", "shelf", "fails", "heavy", "absent")

    def __init__(self):
        self.scale = torch.ones(2)
        self.shelf = Shelf()

    def __call__(self, tokens, cache=None):
        if cache is not None:
            cache.put(tokens)
        return tokens * 2.0 * self.scale.sum() / 2

    def new_cache(self, batch, max_len=7):
        return Shelf()

    def fails(self, kind):
        raise {"value": ValueError, "blank": NotImplementedError, "own": Refused}[kind]("not like this")

    def heavy(self, megabytes):
        return torch.zeros(megabytes << 17, dtype=torch.float64)


class Refused(Exception):
    """An error that no submission knows."""


@pytest.fixture
def session(pair, tmp_path):
    """A real child of the zygote, with this process as its judge."""
    pair._start()
    order = {"home": str(tmp_path), "memory_bytes": LIMITS.memory_bytes, "cpu_seconds": 60, "imports": []}
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = pair._zygote.ask(b"F", theirs, order, 30)["pid"]
        theirs.close()
        yield Session(ours, replace(LIMITS, call_seconds=10))
        ours.close()
        pair._zygote.ask(b"E", None, {"pid": pid}, 30)


@pytest.fixture(params=["here", "in a child"])
def tried(request):
    """Runs the body of ``answer(model)`` and returns its outcome."""

    def run(body, make=Model, metered=False, forbidden=(), given=(), probe="call"):
        source = "import torch\n\ndef answer(model, *given):\n" + textwrap.indent(
            textwrap.dedent(body), "    "
        )
        case = Case("a model", (Lent("a model", make), *given), metered=metered, probe=probe)
        if request.param == "here":
            namespace = {}
            exec(source, namespace)
            return local(namespace["answer"], forbidden)(case)
        session = request.getfixturevalue("session")
        assert session.run(source).error is None
        outcome = session.candidate("answer", forbidden)(case)
        assert session.dead is None
        return outcome

    return run


def test_a_model_is_called_and_its_cache_is_handed_back(tried):
    outcome = tried("""
        cache = model.new_cache(1, max_len=3)
        first = model(torch.tensor([[1, 2]]), cache)
        second = model(torch.tensor([[3]]), cache=cache)
        return first, second, cache.length
    """)
    first, second, length = outcome.value
    assert first.tolist() == [[2.0, 4.0]]
    assert second.tolist() == [[6.0]]
    assert length == 2


def test_questions_are_written_down_in_the_order_of_the_signature(tried):
    outcome = tried("""
        cache = model.new_cache(max_len=3, batch=1)
        model(cache=cache, tokens=torch.tensor([[1, 2]]))
        model(torch.tensor([[3]]))
    """)
    (made, room), (called, first), (_, second) = outcome.asked
    assert (made, room) == ("new_cache", [1, 3])
    assert called == "__call__"
    assert [first[0].tolist(), second[0].tolist()] == [[[1, 2]], [[3]]]
    assert isinstance(first[1], Shelf)
    assert second[1] is None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("model.scale.tolist()", [1.0, 1.0]),
        ("model.shelf.put(torch.ones(1)) + model.shelf.length", 2),
        ("model.forward(torch.tensor([4])).tolist()", [8.0]),
        ("model.eval().train().to('cpu')(torch.tensor([4])).tolist()", [8.0]),
        ("str(next(model.parameters()).device)", "cpu"),
        ("hasattr(model, 'new_cache'), hasattr(model, 'config')", (True, False)),
        ("callable(model), model is not None, bool(model), model == model", (True, True, True, True)),
        ("str(model)", "an object of the grader's"),
    ],
)
def test_what_a_stand_in_can_do(tried, asked, expected):
    assert tried(f"return {asked}").value == expected


ERRORS = {
    "an unknown attribute": ("model.config", "AttributeError", "a Model has no attribute 'config'"),
    "a private attribute": ("model.__dict__['x'], model._weights", "KeyError", "'x'"),
    "an attribute that is served and not there": ("model.absent", "AttributeError", "absent"),
    "an error of the model's": ("model.fails('value')", "ValueError", "not like this"),
    "an error of a kind that the child lacks": ("model.fails('own')", "RuntimeError", "not like this"),
    "an error that would count as a blank": ("model.fails('blank')", "RuntimeError", "not like this"),
    "an argument too few": ("model.new_cache()", "TypeError", "missing a required argument: 'batch'"),
    "an argument too many": ("model(1, 2, 3, 4)", "TypeError", "too many positional arguments"),
    "an argument of no known type": ("model(object())", "TypeError", "unsupported operand"),
    "setting an attribute": ("setattr(model, 'scale', 3)", "AttributeError", "cannot be changed"),
    "changing what a cache says": ("setattr(model.new_cache(1), 'length', 0)", "AttributeError", "changed"),
    "an index into a model": ("model[0]", "TypeError", "not subscriptable"),
    "an answer too large to travel": ("model.heavy(80)", "RuntimeError", "too large to send"),
}


@pytest.mark.parametrize(("asked", "kind", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_arrive_where_the_question_was_asked(tried, asked, kind, message):
    outcome = tried(f"return {asked}")
    assert message in outcome.message
    assert outcome.error == (kind or outcome.error)
    assert f"return {asked}"[:80] in outcome.message or "line" not in outcome.message
    assert "test_remote_objects" not in outcome.message


def test_an_error_can_be_caught_and_the_model_asked_again(tried):
    outcome = tried("""
        try:
            model.fails('value')
        except ValueError as error:
            return str(error), model(torch.tensor([1])).item()
    """)
    assert outcome.value == ("not like this", 2.0)


def test_what_comes_back_is_a_copy(tried):
    outcome = tried("""
        model.scale.zero_()
        tokens = torch.tensor([5])
        cache = model.new_cache(1)
        model(tokens, cache).fill_(0)
        tokens.zero_()
        return model.scale.sum().item()
    """)
    assert outcome.value == 2.0
    ((_, _), (_, (_, cache))) = outcome.asked
    assert cache.kept[0].tolist() == [5]


def test_no_gradient_crosses(tried):
    class Weighted(Model):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(2, requires_grad=True)

    assert tried("return model(torch.ones(1, requires_grad=True)).requires_grad", Weighted).value is False


def test_inference_mode_of_the_student_does_not_reach_the_model(tried):
    outcome = tried("""
        cache = model.new_cache(1)
        with torch.inference_mode():
            model(torch.tensor([1]), cache)
        return model(torch.tensor([2]), cache).item()
    """)
    assert outcome.value == 4.0
    (_, _, (_, cache)) = [args for _, args in outcome.asked]
    assert not any(x.is_inference() for x in cache.kept)


def test_what_the_model_computes_is_not_on_the_students_bill(tried):
    """The same cost, and no forbidden call, wherever the model computes."""

    class Costly(Model):
        def __call__(self, tokens, cache=None):
            return torch.softmax(torch.ones(500, 500), -1)[:2, :2]

    body = "return model(torch.ones(1)) + torch.ones(2, 2)"
    outcome = tried(body, Costly, metered=True, forbidden=("torch.softmax",))
    assert outcome.forbidden is None
    assert outcome.cost["largest"] == 4
    assert outcome.cost["calls"] == {"ones": 2, "add": 1}


def test_a_stand_in_can_be_returned_and_is_described(tried):
    outcome = tried("return model.new_cache(1)")
    assert repr(outcome.value) == "an object of the grader's"
    assert not hasattr(outcome.value, "shape")


@pytest.mark.slow
def test_thousands_of_questions_are_answered_and_more_are_refused(tried):
    outcome = tried("""
        asked = 0
        try:
            while True:
                model.new_cache(1)
                asked += 1
        except RuntimeError as error:
            return asked, str(error)
    """)
    assert outcome.value == (
        remote_objects.MAX_ASKED,
        f"more than {remote_objects.MAX_ASKED} calls; one is enough for each step",
    )
    assert len(outcome.asked) == remote_objects.MAX_ASKED


def test_what_is_kept_of_the_questions_is_bounded(tried):
    outcome = tried("""
        large = torch.zeros(5 << 20)
        try:
            for _ in range(50):
                model.new_cache(large)
        except RuntimeError as error:
            return str(error)
    """)
    assert "more data than a submission may send" in outcome.value
    assert len(outcome.asked) < 10


class TestLater:
    """What a submission keeps of an earlier call answers no longer, and never for another object."""

    SOURCE = textwrap.dedent("""
        def keep(model):
            global kept
            kept = model
            return 1

        def use(model):
            return kept.scale
    """)
    CASE = Case("a model", (Lent("a model", Model),))

    def test_in_this_process(self):
        namespace = {}
        exec(self.SOURCE, namespace)
        assert local(namespace["keep"])(self.CASE).value == 1
        outcome = local(namespace["use"])(self.CASE)
        assert (outcome.error, "lent for one call" in outcome.message) == ("AttributeError", True)

    def test_in_a_child(self, session):
        session.run(self.SOURCE)
        assert session.candidate("keep", ())(self.CASE).value == 1
        outcome = session.candidate("use", ())(self.CASE)
        assert (outcome.error, "lent for one call" in outcome.message) == ("AttributeError", True)

    def test_in_a_cell(self, session):
        session.run(self.SOURCE)
        session.candidate("keep", ())(self.CASE)
        ran = session.run("kept.scale")
        assert (ran.error, "lent for one call" in ran.message) == ("AttributeError", True)
        assert session.run("1 / 0").error == "ZeroDivisionError"
        assert session.candidate("keep", ())(self.CASE).value == 1


ASK = "import sys, torch; child = sys.modules['cage.child']; wire = sys.modules['cage.wire']"
HOSTILE = {
    "a handle that is not there": "child._ask(10**9, 'scale', [], {})",
    "a negative handle": "child._ask(-1, 'scale', [], {})",
    "a handle that is no number": "child._ask('0', 'scale', [], {})",
    "a handle that is true": "child._ask(True, 'scale', [], {})",
    "a private attribute": "child._ask(model._handle, '__class__', [], {})",
    "the attribute behind two questions": "child._ask(model._handle, '??scale', [], {})",
    "an attribute that is no string": "child._ask(model._handle, ['scale'], [], {})",
    "arguments that are no list": "child._ask(model._handle, '__call__', 'ab', {})",
    "keywords that are no dict": "child._ask(model._handle, '__call__', [], [1])",
    "a stand-in of another handle": "child._ask(model._handle, '__call__', [type(model)(10**9, None)], {})",
    "a stand-in of a negative handle": "child._ask(model._handle, '__call__', [type(model)(-1, None)], {})",
    "a tensor that asks for much": "model.heavy(10**9)",
    "a size beyond 64 bits": "model.heavy(10**30)",
    "a number of 5,000 digits": "model.heavy(10**5000)",
    "a question too large to travel": "model(torch.zeros(9 << 20, dtype=torch.float64))",
    "a question nested too deeply": "model(eval('[' * 40 + ']' * 40))",
    "nothing but nan": "model.heavy(float('nan'))",
}


@pytest.mark.parametrize("asked", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_question_is_an_error_of_the_asker_alone(session, asked):
    assert not session.run(f"{ASK}\ndef answer(model):\n    return {asked}").error
    outcome = session.candidate("answer", ())(TestLater.CASE)
    assert outcome.error in ("RuntimeError", "AttributeError", "TypeError", "ValueError", "WireError")
    assert session.dead is None
    session.run("def answer(model):\n    return model.scale")
    assert session.candidate("answer", ())(TestLater.CASE).value.tolist() == [1.0, 1.0]


FRAMES = {
    "an endless handle": {"$": "served", "handle": "INFINITY"},
    "a handle that is a list": {"$": "served", "handle": []},
    "an endless seed": {"$": "generator", "seed": "INFINITY", "library": "torch"},
    "a seed beyond 64 bits": {"$": "generator", "seed": 10**30, "library": "torch"},
    "a tensor of nothing, endless": {
        "$": "tensor", "dtype": "float32", "shape": [2**62, 2**62], "device": "meta",
    },
    "a tensor of negative size": {"$": "tensor", "dtype": "float32", "shape": [-1], "device": "meta"},
}  # fmt: skip


@pytest.mark.parametrize("packed", FRAMES.values(), ids=FRAMES.keys())
def test_a_broken_frame_ends_this_submission_and_not_the_judge(session, packed):
    packed = repr(packed).replace("'INFINITY'", "float('inf')")
    session.run(
        f"{ASK}\nclass Sly:\n    def travels_as(self):\n        return {packed}\n"
        "def answer(model):\n    return model(Sly())"
    )
    outcome = session.candidate("answer", ())(TestLater.CASE)
    assert outcome.error == "KernelDied"
    assert "breaks the rules" in outcome.message


@pytest.mark.slow
def test_a_submission_that_asks_for_ever_is_stopped(session):
    session.limits = LIMITS
    session.run("def answer(model):\n    while True:\n        hasattr(model, 'scale')")
    outcome = session.candidate("answer", ())(TestLater.CASE)
    assert outcome.error in ("TimeUp", "KernelDied")


GIVEN = "the model is given a tensor of shape"
ON_A_CARD = {
    "model(x)": "",
    "model(x.clone(), model.new_cache(1))": "",
    "torch.cat([x, model(x).argmax(-1, keepdim=True)], dim=1)": "",
    "torch.tensor(x.tolist(), device=x.device) + model(x)": "",
    "torch.ones(2, device=next(model.parameters()).device) + model(x)": "",
    "model(x.cpu())": f"{GIVEN} (1, 2) that is on the cpu, since your code moved it",
    "model(x.to('cpu'))": f"{GIVEN} (1, 2) that is on the cpu, since your code moved it",
    "model(torch.tensor(x.tolist()))": f"{GIVEN} (1, 2) that is on the cpu, since your code made it",
    "model(tokens=torch.zeros(1, 2))": f"{GIVEN} (1, 2) that is on the cpu, since your code made it",
    "model(torch.zeros(1, 2, device='cpu'))": f"{GIVEN} (1, 2)",
    "model.new_cache(1).put(torch.ones(3))": f"{GIVEN} (3,)",
    "model(x).cpu()": "the result is on the cpu, since your code moved it",
    "torch.zeros(2) + model(x)": "`add` meets a tensor of shape (2,) that is on the cpu, since your code",
    "torch.from_numpy(model(x).numpy())": "`.numpy` raises a TypeError on a graphics card",
}


@pytest.mark.parametrize(("returned", "says"), ON_A_CARD.items(), ids=ON_A_CARD.keys())
def test_a_model_that_is_lent_lies_where_the_inputs_are(tried, returned, says):
    body = f"x, = given\nreturn {returned}"
    outcome = tried(body, given=(torch.tensor([[1, 2]]),), probe="elsewhere")
    assert outcome.error is None, outcome.message
    assert outcome.value.startswith(says)
    assert bool(outcome.value) is bool(says)
