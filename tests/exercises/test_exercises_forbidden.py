"""A call of the very function that is asked is told as such, however it is reached, and earns nothing."""

import contextlib
import inspect
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from exercise_bank import NAMES, report_on

from autograder import exercises
from autograder.cage.names import plain
from autograder.reading import forbidden_calls

MEMBERS = {
    "torch.distributions.*": ("torch.distributions.kl_divergence",),
    "torch.*softmax*": ("torch.softmax", "torch.log_softmax", "torch._safe_softmax"),
    "torch.*cross_entropy*": ("torch.nn.functional.cross_entropy", "torch._C._nn.cross_entropy_loss"),
    "torch.*attention*": (
        "torch.nn.functional.scaled_dot_product_attention",
        "torch._scaled_dot_product_attention_math",
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.attention.flex_attention.flex_attention",
    ),
    "torch.*multi_head_attention*": ("torch._native_multi_head_attention",),
    "torch.*transformer_encoder_layer*": ("torch._transformer_encoder_layer_fwd",),
    "torch.*batch_norm*": ("torch.batch_norm", "torch._native_batch_norm_legit"),
    "torch.*group_norm*": ("torch.nn.functional.group_norm",),
    "torch.*instance_norm*": ("torch.nn.functional.instance_norm",),
    "torch.*layer_norm*": ("torch.nn.functional.layer_norm", "torch.native_layer_norm"),
    "torch.*rms_norm*": ("torch.nn.functional.rms_norm", "torch._fused_rms_norm"),
    "torch.*weight_norm*": ("torch._weight_norm",),
    "torch.*renorm*": ("torch.renorm",),
    "torch.*rnn*": ("torch.rnn_tanh", "torch.rnn_tanh_cell"),
    "torch.*gru*": ("torch.gru", "torch.gru_cell"),
    "torch.*lstm*": ("torch.lstm", "torch.lstm_cell"),
    "torch.*run_backward*": ("torch.autograd.graph._engine_run_backward",),
    "torch.*backward_data": ("torch._softmax_backward_data",),
    "torch.*quantize_*": ("torch.quantize_per_channel", "torch.fake_quantize_per_tensor_affine"),
    "torch.*dequantize*": ("torch.dequantize",),
}
"""Some members of each family."""
FORBIDDEN = [
    (name, member)
    for name in NAMES
    for call in exercises.find(name).forbidden
    for member in (MEMBERS[call] if "*" in call else (call,))
]

SAMPLES = {
    "scipy.special.softmax": (np.ones(3),),
    "scipy.special.log_softmax": (np.ones(3),),
    "scipy.stats.entropy": (np.full(3, 1 / 3),),
    "torch.softmax": (torch.ones(3), 0),
    "torch.log_softmax": (torch.ones(3), 0),
    "torch.nn.functional.linear": (torch.ones(2, 3), torch.ones(4, 3)),
    "torch.nn.functional.scaled_dot_product_attention": (torch.ones(1, 2, 3),) * 3,
    "torch.autograd.grad": (torch.ones(1, requires_grad=True).sum(), torch.ones(1)),
    "torch.rnn_tanh": (None,),
    "torch.rnn_tanh_cell": (None,),
    "torch.special.entr": (torch.ones(3),),
}
"""Arguments to call them with; what is written in Python may be called with None."""


def imported(call: str):
    """The object of that dotted name, or None where its package is not installed.

    A name is forbidden with an underscore before it, too, which torch gives to what is its own affair.
    """
    module, _, last = call.rpartition(".")
    try:
        owner = import_module(module)
        return getattr(owner, last, None) or getattr(owner, f"_{last}")
    except ModuleNotFoundError:
        owner, _, kind = module.rpartition(".")
        return getattr(getattr(import_module(owner), kind), last, None)


def arguments(call: str, target):
    if call in SAMPLES:
        return SAMPLES[call]
    try:
        needed = [p for p in inspect.signature(target).parameters.values() if p.default is p.empty]
    except ValueError:  # written in C++: any argument will do, since the call is seen before it fails
        return (None,)
    return tuple(None for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param(name, call, marks=pytest.mark.slow if call.startswith("transformers.") else ())
        for name, call in FORBIDDEN
    ],
)
def test_seen_when_it_is_called_through_an_alias(name, call):
    alias = imported(call)
    if inspect.isclass(alias):
        pytest.skip("a class is found in the source, and by the functions inside it")
    if isinstance(alias, np.ufunc):
        pytest.skip("Python tells nobody of a ufunc's call; it is found in the source")
    given = arguments(call, alias)

    def answer(*args, **kwargs):
        with contextlib.suppress(Exception):  # hiding the call changes nothing
            alias(*given)
        return exercises.find(name).reference(*args, **kwargs)

    report = report_on(name, answer)
    assert report.status == "forbidden"
    assert report.score == 0
    assert report.forbidden.split(".")[-1] == plain(call.split(".")[-1])
    assert "Write it yourself" in report.message


@pytest.mark.slow
@pytest.mark.parametrize(("name", "call"), FORBIDDEN)
def test_found_in_the_source_under_another_name(name, call):
    exercise = exercises.find(name)
    module, _, last = call.rpartition(".")
    sources = [
        f"from {module} import {last} as mine\ndef {exercise.function_name}(*a):\n    return mine(*a)",
        f"import {module} as m\ndef {exercise.function_name}(*a):\n    return m.{last}(*a)",
        f"import {call.split('.')[0]}\nf = {call}\ndef {exercise.function_name}(*a):\n    return f(*a)",
        f"import {module} as m\nfor f in [m.{last}]: pass\ndef {exercise.function_name}(*a): return f(*a)",
        f"import {module} as m\nprint(f := m.{last})\ndef {exercise.function_name}(*a):\n    return f(*a)",
        f"import {module} as m\nf: object = m.{last}\ndef {exercise.function_name}(*a):\n    return f(*a)",
        f"import {module} as m\nKIT = {{'f': [m.{last}]}}\n"
        f"def {exercise.function_name}(*a):\n    return KIT['f'][0](*a)",
    ]
    for source in sources:
        assert forbidden_calls.find([source], exercise.function_name, exercise.forbidden), source


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_reference_itself_is_forbidden(name):
    reference = exercises.find(name).reference
    if reference.__module__.startswith("autograder."):
        pytest.skip("it stands beside the exercise and may do without tfcore")

    def answer(*args, **kwargs):
        return reference(*args, **kwargs)

    assert report_on(name, answer).status == "forbidden"


@pytest.mark.slow
def test_attention_by_a_torch_module_is_seen():
    def answer(query, key, value, mask=None):
        width = query.shape[-1]
        layer = torch.nn.MultiheadAttention(width, 1, batch_first=True)
        layer(*[torch.ones(1, 2, width)] * 3)
        return query, key

    report = report_on("ch02_qkv/scaled_dot_product_attention", answer)
    assert report.status == "forbidden"


@pytest.mark.slow
def test_entropy_of_a_torch_distribution_is_seen():
    def answer(weights, axis=-1):
        return torch.distributions.Categorical(torch.tensor(weights + 1e-3)).entropy().numpy()

    assert report_on("ch03_scaling/attention_entropy", answer).status == "forbidden"


@pytest.mark.slow
def test_what_a_probe_imports_is_no_call_of_the_students():
    """In a process of its own, where nothing has been imported yet."""
    code = """
import torch
from autograder.cage import calling
for metered in (False, True):
    for probe in ("call", "gradients", "elsewhere", "casts", "visits"):
        told = calling.call(lambda x: x * 2, [torch.ones(2)], {}, ["tfcore"], probe, metered)
        assert told["forbidden"] is None and told["error"] is None, (probe, told)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


WATCHED = {
    "model.eval()\nw = (q @ k.mT).exp()\nhasattr(model, 'attribute')": False,
    "# as a softmax\nw = (q @ k.mT).exp()": True,
    "f = torch.softmax": True,
    "f = getattr(torch, 'soft' + 'max')": True,
    "f = torch.__dict__['soft' + 'max']": True,
    "f = operator.methodcaller('soft' + 'max', -1)": True,
    "f = eval('torch.soft' + 'max')": True,
    "import builtins as b\nf = b.eval('torch.soft' + 'max')": True,
    "from torch import *\nf = globals()['soft' + 'max']": True,
}
"""Cells, and whether a call from C is watched after they ran."""


@pytest.mark.slow
def test_calls_from_c_are_watched_where_the_code_could_hide_one():
    """In a process of its own, where no other code has run, with a fork for each cell."""
    code = f"""
import linecache, os, torch
from autograder.cage import calling
for cell, watched in {WATCHED!r}.items():
    if os.fork() == 0:
        linecache.cache["<cell>"] = (1, None, cell.splitlines(True), "<cell>")
        modes = []
        def answer(x):
            modes.append(torch._C._len_torch_function_stack())
            return next(map(vars(torch)["softmax"], [x], [0]))
        told = calling.call(answer, [torch.ones(2)], {{}}, ["torch.*softmax*"])
        seen = "torch.softmax" if watched else None
        os._exit((modes, told["forbidden"]) != ([int(watched)], seen))
    assert os.wait()[1] == 0, cell
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
