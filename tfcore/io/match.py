"""Match the tensors on disk with the parameters of a model, and report tensors that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import torch

from tfcore.io.family import Family
from tfcore.io.files import Tensors

Shapes = Mapping[str, tuple[int, ...]]


def match_names(family: Family, weights: Tensors, needed: Shapes) -> dict[str, str]:
    """Find the tensor on disk for each that is needed.

    Args:
        family: knows prefixes, old names, copies, and tensors that may be left out.
        weights: the tensors on disk.
        needed: names as they are written today, with their shapes.

    Returns:
        The name on disk of each needed tensor. A tensor that is missing because it is zero has none.

    Raises:
        ValueError: tensors that are missing, misshapen or unexpected, or differ from the tensor that they
            should copy; one message lists all of them.
    """
    on_disk = {short_name(family, name): name for name in sorted(weights.shapes)}
    names = {name: on_disk[short] for name in needed if (short := short_name(family, name)) in on_disk}
    problems = []
    copies = set()
    for copy, original in family.copies.items():
        found = on_disk.get(short_name(family, copy))
        if found is None or copy in needed:
            continue
        copies.add(found)
        if names.setdefault(original, found) != found and not _equal(weights, names[original], found):
            problems.append(f"different: {found}, which should be a copy of {names[original]}")

    for name, shape in needed.items():
        if name in names and weights.shapes[names[name]] != shape:
            problems.append(f"misshapen: {names[name]} {weights.shapes[names[name]]}, expected {shape}")
        elif name not in names and name not in family.zero_if_missing:
            problems.append(f"missing: {name} {shape}")
    for name in sorted(set(weights.shapes) - set(names.values()) - copies):
        if not _fits(family, name, family.harmless + family.left_out):
            problems.append(f"unexpected: {name} {weights.shapes[name]}")
    if problems:
        raise ValueError(
            f"expected the tensors of the {family.name} that config.json describes, got {len(problems)} in "
            f"{weights.folder} that do not fit (nothing was loaded):\n  " + "\n  ".join(problems)
        )
    return names


def names_left_out(family: Family, names: Iterable[str]) -> list[str]:
    """List the names on disk that loading leaves out and saving would lose."""
    return sorted(name for name in names if _fits(family, name, family.left_out))


def names_lost(family: Family, names: Iterable[str], saved: Iterable[str]) -> list[str]:
    """List the names on disk that are not saved, not copies of a saved tensor, and not harmless."""
    kept = {short_name(family, name) for name in (*saved, *family.copies)}
    return sorted(
        name
        for name in names
        if short_name(family, name) not in kept and not _fits(family, name, family.harmless)
    )


def first_of(names: list[str], most: int = 10) -> str:
    """Name the first few, and count the rest.

    >>> first_of(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def has_own_head(family: Family, weights: Tensors) -> bool:
    """Return whether the head differs from the embedding: ``config.json`` does not always state it."""
    if family.head is None:
        return False
    on_disk = {short_name(family, name): name for name in weights.shapes}
    head, embedding = (on_disk.get(short_name(family, n)) for n in (family.head, family.copies[family.head]))
    return head is not None and embedding is not None and not _equal(weights, head, embedding)


def short_name(family: Family, name: str) -> str:
    """Shorten a name to the part that old and new files, with and without a prefix, share."""
    for old, new in family.old_names.items():
        name = name.replace(old, new)
    return name.removeprefix(family.prefix)


def _fits(family: Family, name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(short_name(family, name), pattern) for pattern in patterns)


def _equal(weights: Tensors, one: str, other: str) -> bool:
    return weights.shapes[one] == weights.shapes[other] and torch.equal(
        weights.read(one), weights.read(other)
    )
