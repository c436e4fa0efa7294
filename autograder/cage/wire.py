"""Send messages between judge and child: frames of JSON and raw array buffers, never pickle.

A frame has two big-endian lengths of 4 bytes. Then follow the header, as many bytes of JSON as the first
length, and the payload, as many bytes as the second: the buffers of the arrays in the JSON, one after
another. Each arriving frame may be hostile, so this module checks sizes before it allocates memory, dtypes
against a list, and shapes against the number of bytes.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from typing import Any

import numpy as np

from . import tensors
from .remote_objects import Served

MAX_HEADER = 1 << 20
MAX_BUFFERS = 512
MAX_PAYLOAD = 64 << 20
MAX_DEPTH = tensors.DEEPEST
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
NAMES = {np.dtype(name): name for name in DTYPES}
"""The names by dtype, since numpy computes a name slowly; a dtype of another byte order is not among them."""
TORCH_DTYPES = tuple(f"torch.{name}" for name in (*DTYPES, "bfloat16"))
_encode, _encode_as_it_is = json.JSONEncoder().encode, json.JSONEncoder(ensure_ascii=False).encode
_decode = json.JSONDecoder().decode
"""Encoders and a decoder of our own, which a student who replaces `json.dumps` does not change."""
_CHUNK = 1 << 20
_LENGTHS = struct.Struct(">II")
_PLAIN, _NUMBERS, _NUMPY = (bool, str), (int, float), (np.ndarray, np.generic)  # tested for every value


class WireError(Exception):
    """The error for a frame that is malformed, too large or late."""


class Closed(WireError):
    """The error for a closed socket: the process on the other side has ended."""


class TooLate(WireError):
    """The error for a frame that is not complete before the deadline."""


def send(sock: socket.socket, message: Any) -> None:
    """Send one message: nested lists, tuples, sets, dicts, strings, numbers, arrays and tensors.

    A value of another type arrives as a `Foreign`, a description of the value.

    Raises:
        WireError: the message is too large or too deeply nested.
    """
    buffers: list[bytes] = []
    packed = _pack(message, buffers, 0)
    try:
        header = _encode(packed).encode()
    except ValueError as error:  # thousands of digits
        raise WireError("a number is too large to send") from error
    payload = sum(map(len, buffers))
    if len(header) > MAX_HEADER or payload > MAX_PAYLOAD or len(buffers) > MAX_BUFFERS:
        raise WireError("the value is too large to send")
    sock.sendall(b"".join([_LENGTHS.pack(len(header), payload), header, *buffers]))


class Packed:
    """A value in its form on the wire, so that sending it runs no code of a student."""

    def __init__(self, value: Any) -> None:
        self.buffers: list[bytes] = []
        self.header = _pack(value, self.buffers, 0)


def receive(sock: socket.socket, deadline: float | None = None) -> Any:
    """Receive one message and check it.

    Args:
        sock: the socket.
        deadline: a value of ``time.monotonic()`` at which waiting ends; None waits for ever.

    Raises:
        Closed: the other side has ended.
        TooLate: the deadline has passed.
        WireError: the frame breaks a rule.
    """
    length, payload = _LENGTHS.unpack(_receive_exactly(sock, _LENGTHS.size, deadline))
    if length > MAX_HEADER:
        raise WireError(f"a header of {length} bytes; at most {MAX_HEADER} are accepted")
    if payload > MAX_PAYLOAD:
        raise WireError(f"arrays of {payload} bytes; at most {MAX_PAYLOAD} are accepted")
    data = _receive_exactly(sock, length + payload, deadline)
    try:
        header = json_from_bytes(data[:length])
    except (ValueError, RecursionError) as error:
        raise WireError("the header is not JSON") from error
    buffers = _Buffers(data, length)
    value = _unpack(header, buffers, 0)
    if buffers.place != len(data):
        raise WireError("bytes that the header does not describe")
    return value


class _Buffers:
    """The buffers after a header, to be read in order."""

    def __init__(self, data: bytearray, place: int) -> None:
        self.data = data
        self.place = place
        self.left = MAX_BUFFERS

    def array(self, dtype: str, shape: list[int]) -> np.ndarray:
        """Return the next array, with its own memory."""
        count, start = math.prod(shape), self.place
        self.left -= 1
        self.place += count * np.dtype(dtype).itemsize
        if self.left < 0 or self.place > len(self.data):
            raise WireError("less array data than the header describes, or too many arrays")
        return np.frombuffer(self.data, dtype, count, start).reshape(shape).copy()


def json_from_bytes(data: bytes | bytearray) -> Any:
    """Return JSON data with encodable texts: a lone surrogate becomes a question mark."""
    value = _decode(data.decode())
    if b"\\u" in data:
        value = _decode(_encode_as_it_is(value).encode("utf-8", "replace").decode())
    return value


def _receive_exactly(sock: socket.socket, count: int, deadline: float | None) -> bytearray:
    data = bytearray()
    while len(data) < count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TooLate("no answer in time")
            sock.settimeout(left)
        else:
            sock.settimeout(None)
        try:
            part = sock.recv(min(count - len(data), _CHUNK))
        except TimeoutError as error:
            raise TooLate("no answer in time") from error
        except OSError as error:
            raise Closed("the connection broke") from error
        if not part:
            raise Closed("the other side has ended")
        data += part
    return data


def _pack(value: Any, buffers: list[bytes], depth: int) -> Any:
    """Return a value as JSON data; a type that JSON lacks becomes {"$": kind, ...}."""
    if depth > MAX_DEPTH:
        raise WireError("the value is nested too deeply")
    if value is None or isinstance(value, _PLAIN):
        return value
    if type(value) is Packed:
        buffers += value.buffers
        return value.header
    if isinstance(value, _NUMPY) and value.dtype not in NAMES and value.dtype.kind in "fiu":
        value = value.astype(np.float64 if value.dtype.kind == "f" else np.int64)
    if isinstance(value, np.generic):
        value = np.asarray(value) if value.dtype in NAMES and value.ndim == 0 else value
    if isinstance(value, _NUMBERS):
        number = type(value)(value)
        return float(number) if isinstance(number, float) else int(number)
    if isinstance(value, list):
        return [_pack(v, buffers, depth + 1) for v in value]
    if isinstance(value, tuple):
        return {"$": "tuple", "items": [_pack(v, buffers, depth + 1) for v in value]}
    if isinstance(value, dict):
        return {"$": "dict", "items": [[str(k), _pack(v, buffers, depth + 1)] for k, v in value.items()]}
    if isinstance(value, set | frozenset):
        return {"$": "set", "items": [_pack(_with_python_numbers(v), buffers, depth + 1) for v in value]}
    if tensors.is_tensor(value) and (packed := _pack_tensor(value, buffers)):
        return packed
    if type(value).__name__ == "dtype" and str(value) in TORCH_DTYPES:
        return {"$": "dtype", "name": str(value)}
    if isinstance(value, np.ndarray) and value.dtype in NAMES:
        buffers.append(np.ascontiguousarray(value).tobytes())
        layout = "C" if tensors.is_contiguous(value) else "strided"
        return {"$": "array", "dtype": NAMES[value.dtype], "shape": list(value.shape), "layout": layout}
    if hasattr(value, "travels_as"):
        return value.travels_as()
    return {"$": "foreign", "text": _name_of(value)}


def _with_python_numbers(member: Any) -> Any:
    """Return a member of a set with Python's numbers for numpy's, which would arrive as unhashable arrays."""
    return tensors.mapped(lambda leaf: leaf.item() if isinstance(leaf, np.generic) else leaf, member)


def _pack_tensor(value: Any, buffers: list[bytes]) -> dict[str, Any] | None:
    """Return a dense tensor as JSON data, bfloat16 as raw bits, or None if the tensor cannot be sent."""
    import torch

    name = str(value.dtype).removeprefix("torch.")
    travels = name in (*DTYPES, "bfloat16") and value.layout == torch.strided
    if not travels or value.device.type == "meta":
        return None
    base = torch._C.TensorBase  # a student's changes of torch.Tensor have no effect here
    plain = base.contiguous(base.resolve_neg(base.resolve_conj(base.cpu(base.detach(value)))))
    buffers.append(base.numpy(base.view(plain, torch.int16) if name == "bfloat16" else plain).tobytes())
    layout = "C" if value.is_contiguous() else "strided"
    return {"$": "tensor", "dtype": name, "shape": list(value.shape), "layout": layout}


def _name_of(value: Any) -> str:
    kind = type(value)
    shape = f" of shape {tuple(value.shape)}" if isinstance(getattr(value, "shape", None), tuple) else ""
    dtype = f" ({value.dtype})" if shape and hasattr(value, "dtype") else ""
    return f"a {kind.__module__}.{kind.__qualname__}{shape}{dtype}"[:200]


class Foreign:
    """A placeholder for a value of a type that cannot be sent; its repr describes the value."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _unpack(value: Any, buffers: _Buffers, depth: int) -> Any:
    if depth > 2 * MAX_DEPTH:
        raise WireError("the value is nested too deeply")
    if isinstance(value, list):
        return [_unpack(v, buffers, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    try:
        if kind == "tuple":
            return tuple(_unpack(v, buffers, depth + 1) for v in value["items"])
        if kind == "dict":
            return {str(k): _unpack(v, buffers, depth + 1) for k, v in value["items"]}
        if kind == "set":
            return {_unpack(v, buffers, depth + 1) for v in value["items"]}
        if kind == "generator":
            return generator(int(value["seed"]), value.get("library"))
        if kind == "dtype":
            return _dtype(value["name"])
        if kind == "served":
            return Served.arrived(int(value["handle"]))
        if kind == "tensor":
            return _tensor(value, buffers)
        if kind == "foreign":
            return Foreign(str(value["text"])[:200])
        if kind == "array":
            return _array(value, buffers)
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise WireError(f"a malformed {kind!s:.20}") from error
    raise WireError("an object of an unknown kind")


def _array(packed: dict[str, Any], buffers: _Buffers) -> np.ndarray:
    dtype, shape = packed["dtype"], packed["shape"]
    if dtype not in DTYPES or not isinstance(shape, list) or len(shape) > 16:
        raise WireError("an array of a dtype or shape that cannot be sent")
    if not all(type(n) is int and 0 <= n <= MAX_PAYLOAD for n in shape):
        raise WireError("an array whose shape has an invalid size")
    array = buffers.array(dtype, shape)
    return tensors.strided(array) if packed.get("layout") == "strided" else array


def _tensor(packed: dict[str, Any], buffers: _Buffers) -> Any:
    import torch

    half = packed["dtype"] == "bfloat16"
    array = _array({**packed, "dtype": "int16"} if half else packed, buffers)
    plain = torch.from_numpy(array)
    return torch._C.TensorBase.view(plain, torch.bfloat16) if half else plain


def _dtype(name: str) -> Any:
    import torch

    if name not in TORCH_DTYPES:
        raise WireError("a dtype that cannot be sent")
    return getattr(torch, name.removeprefix("torch."))


def generator(seed: int, library: str | None) -> Any:
    """Return a generator of random numbers, from torch for the library "torch", else from numpy."""
    if library == "torch":
        import torch

        return torch.Generator().manual_seed(seed)
    return np.random.default_rng(seed)


def bytes_to_array(data: bytes) -> np.ndarray:
    """Return bytes as an array, which is sent as a buffer."""
    return np.frombuffer(data, np.uint8)


def json_to_array(value: Any) -> np.ndarray:
    """Return JSON data as an array, which is sent as a buffer and is not limited by the size of a header."""
    return bytes_to_array(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def json_from_array(array: np.ndarray) -> Any:
    """Return the JSON data in an array of `json_to_array`."""
    return json.loads(array.tobytes())
