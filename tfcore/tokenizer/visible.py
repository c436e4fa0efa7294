"""Bytes as visible characters: a file of tokens is then text without blanks."""

from __future__ import annotations

import functools


@functools.cache
def byte_to_unicode() -> dict[int, str]:
    r"""Give every byte a visible character, so that a file of tokens is text without blanks.

    Printable Latin-1 characters represent themselves; the n-th of the other 68 bytes becomes $256 + n$.

    Returns:
        The table, in the order of the ids that GPT-2 gives to the bytes: printable ones first.

    From: Radford et al. (2019); the code that was published with it.

    >>> table = byte_to_unicode()
    >>> print(table[ord("A")], table[ord(" ")], list(table)[0] == ord("!"))
    A Ġ True
    """
    runs = ("!", "~"), ("¡", "¬"), ("®", "ÿ")
    printable = [byte for first, last in runs for byte in range(ord(first), ord(last) + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {b: chr(256 + n) for n, b in enumerate(others)}


@functools.cache
def unicode_to_byte() -> dict[str, int]:
    """Return the byte of each visible character: the inverse of :func:`byte_to_unicode`.

    >>> unicode_to_byte()["Ġ"], ord(" ")
    (32, 32)
    """
    return {character: byte for byte, character in byte_to_unicode().items()}


def byte_vocab() -> dict[bytes, int]:
    """Number the bytes as GPT-2 does.

    >>> byte_vocab()[b"!"], byte_vocab()[b" "]
    (0, 220)
    """
    return {bytes([byte]): i for i, byte in enumerate(byte_to_unicode())}


def to_text(token: bytes) -> str:
    """Write the bytes of a token as visible characters.

    >>> to_text(b" a")
    'Ġa'
    """
    return "".join(byte_to_unicode()[byte] for byte in token)


def to_bytes(token: str) -> bytes:
    """Read the bytes of a token from visible characters.

    >>> to_bytes("Ġa")
    b' a'
    """
    return bytes(unicode_to_byte()[character] for character in token)
