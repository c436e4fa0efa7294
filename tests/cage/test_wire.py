"""The wire carries what a case needs, and takes nothing that breaks its rules."""

import json
import socket
import struct
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder.cage import tensors, wire
from autograder.checking.declaration import Seed


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def through(value):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire.send(ours, value)
        return wire.receive(theirs, time.monotonic() + 5)


plain = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text()


@pytest.mark.slow
@given(
    st.recursive(plain, lambda v: st.lists(v) | st.tuples(v, v) | st.dictionaries(st.text(), v), max_leaves=8)
)
def test_nested_values_arrive_as_they_were(value):
    assert through(value) == value


@pytest.mark.slow
@given(
    hnp.arrays(st.sampled_from([np.float32, np.float64, np.int64, np.bool_]), hnp.array_shapes(min_dims=0))
)
def test_arrays_arrive_with_dtype_shape_and_every_bit(array):
    got = through(array)
    assert (got.dtype, got.shape, got.tobytes()) == (array.dtype, array.shape, array.tobytes())


TRANSPOSED = [np.arange(24.0).reshape(2, 3, 4), torch.arange(24.0).reshape(2, 3, 4)]


@pytest.mark.parametrize("given", [*TRANSPOSED, np.arange(6).reshape(1, 6), torch.arange(6).reshape(6, 1)])
def test_what_was_not_contiguous_arrives_transposed_in_memory(given):
    original = tensors.strided(given)
    got = through(original)
    strides = got.stride() if isinstance(got, torch.Tensor) else got.strides
    assert strides == tuple(sorted(strides))
    assert not tensors.is_contiguous(got)
    np.testing.assert_array_equal(got, given)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
def test_tensors_arrive_with_dtype_shape_and_every_bit(dtype, shape):
    tensor = (3 * torch.randn(shape)).to(getattr(torch, dtype))
    got = through(tensor)
    assert (got.dtype, got.shape) == (tensor.dtype, tensor.shape)
    assert got.is_contiguous() == tensor.is_contiguous()
    assert torch.equal(got.view(-1), tensor.view(-1))


def test_a_tensor_with_a_gradient_arrives_without():
    assert not through(torch.ones(2, requires_grad=True) * 2).requires_grad


def test_a_tensor_that_does_not_travel_arrives_as_what_it_was():
    assert repr(through(torch.ones(2, 2).to_sparse())) == "a torch.Tensor of shape (2, 2) (torch.float32)"
    assert repr(through(torch.ones(2, dtype=torch.complex64))).startswith("a torch.Tensor of shape (2,)")


def test_a_tensor_without_numbers_arrives_as_what_it_was():
    assert repr(through(torch.empty(3, 4, device="meta"))).startswith("a torch.Tensor of shape (3, 4)")


def test_a_seed_of_torch_arrives_as_torchs_generator():
    expected = torch.rand(3, generator=torch.Generator().manual_seed(7))
    assert torch.equal(torch.rand(3, generator=through(Seed(7, "torch"))), expected)


def test_a_float_wider_than_64_bits_arrives_as_64():
    assert through(np.longdouble([1.5])).dtype == np.float64


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i4", ">i2"])
def test_an_array_in_another_order_of_bytes_arrives_with_its_numbers(dtype):
    assert through(np.array([1, -2, 300], dtype)).tolist() == [1, -2, 300]


def test_a_seed_arrives_as_a_generator():
    assert through(Seed(7)).normal() == np.random.default_rng(7).normal()


def test_a_value_of_another_type_arrives_as_what_it_was():
    assert repr(through(object())) == "a builtins.object"
    assert repr(through(np.array([object()]))) == "a numpy.ndarray of shape (1,) (object)"


def frame(header, *buffers: bytes) -> bytes:
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">II", len(data), sum(map(len, buffers))) + data + b"".join(buffers)


ARRAY = {"$": "array", "dtype": "float64", "shape": [2], "layout": "C"}
TENSOR = {"$": "tensor", "dtype": "float32", "shape": [2], "layout": "C"}
HOSTILE = {
    "no JSON": frame(b"{"),
    "a header of 4 GiB": struct.pack(">II", 2**32 - 1, 0),
    "arrays of 4 GiB": struct.pack(">II", 2, 2**32 - 1),
    "less than the header speaks of": frame(ARRAY, b"\0" * 15),
    "more than the header speaks of": frame(ARRAY, b"\0" * 17),
    "a pickle": frame({"$": "pickle", "data": "gASVAAAA"}),
    "an object dtype": frame(ARRAY | {"dtype": "object"}, b"\0" * 16),
    "a dtype that is no string": frame(ARRAY | {"dtype": ["float64"]}, b"\0" * 16),
    "a negative size": frame(ARRAY | {"shape": [-1]}),
    "a size that is a float": frame(ARRAY | {"shape": [2.0]}, b"\0" * 16),
    "a size that is a bool": frame(ARRAY | {"shape": [True]}, b"\0" * 8),
    "an exabyte": frame(ARRAY | {"shape": [2**20, 2**20, 2**20]}),
    "40 dimensions": frame(ARRAY | {"shape": [1] * 40}, b"\0" * 8),
    "a thousand arrays": frame([ARRAY | {"shape": [1]}] * 1000, b"\0" * 8000),
    "nested 1,000 deep": frame(b"[" * 1000 + b"]" * 1000),
    "nested 100,000 deep": frame(b"[" * 100_000 + b"]" * 100_000),
    "a tensor of objects": frame(TENSOR | {"dtype": "object"}, b"\0" * 16),
    "a tensor of attributes": frame(TENSOR | {"dtype": "nn"}, b"\0" * 16),
    "a tensor of text": frame(TENSOR | {"shape": "22"}, b"\0" * 16),
    "a tensor without end": frame(TENSOR | {"shape": [2**40, 2**40]}),
    "a tensor without a shape": frame({"$": "tensor", "dtype": "float32"}),
    "a served object without a handle": frame({"$": "served", "handle": "x"}),
    "a tuple without items": frame({"$": "tuple"}),
    "a dict of wrong pairs": frame({"$": "dict", "items": [[1, 2, 3]]}),
    "a seed that is no number": frame({"$": "generator", "seed": "x"}),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_frame_that_breaks_a_rule_is_refused(ends, data):
    ours, theirs = ends
    ours.sendall(data)
    with pytest.raises(wire.WireError) as raised:
        wire.receive(theirs, time.monotonic() + 5)
    assert type(raised.value) is wire.WireError  # neither Closed nor TooLate: refused for what it says


def test_half_a_frame_is_waited_for_only_until_the_deadline(ends):
    ours, theirs = ends
    ours.sendall(frame(ARRAY, b"\0" * 16)[:-1])
    with pytest.raises(wire.TooLate):
        wire.receive(theirs, time.monotonic() + 0.1)


def test_the_end_of_the_other_side_is_told_apart(ends):
    ours, theirs = ends
    ours.sendall(frame(ARRAY, b"\0" * 16)[:-1])
    ours.close()
    with pytest.raises(wire.Closed):
        wire.receive(theirs, time.monotonic() + 5)


def test_what_is_too_large_is_not_sent(ends):
    ours, _ = ends
    with pytest.raises(wire.WireError, match="too large"):
        wire.send(ours, np.zeros(wire.MAX_PAYLOAD // 8 + 1))
    with pytest.raises(wire.WireError, match="deeply"):
        wire.send(ours, _nested(2 * wire.MAX_DEPTH))


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value
