"""Which tensor on disk is which of the model's, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import torch

from tfcore.io.family import Family
from tfcore.io.files import Weights

Shapes = Mapping[str, tuple[int, ...]]


def match_names(family: Family, weights: Weights, needed: Shapes) -> dict[str, str]:
    """Find the tensor on disk for each that is needed.

    Args:
        family: knows prefixes, old names, copies, and what may be there beside.
        weights: what is on disk.
        needed: names as they are written today, with their shapes.

    Returns:
        The name on disk of each; one that is missing and stands for zeros has none.

    Raises:
        ValueError: tensors that are missing, misshapen, unexpected, or no copy of what they should be; all of
            them in one message.
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
    """List those of the names on disk that loading leaves out and saving would lose."""
    return sorted(name for name in names if _fits(family, name, family.left_out))


def names_lost(family: Family, names: Iterable[str], saved: Iterable[str]) -> list[str]:
    """List those of the names on disk that are neither saved, nor copies of what is, nor harmless."""
    kept = {short_name(family, name) for name in (*saved, *family.copies)}
    return sorted(
        name
        for name in names
        if short_name(family, name) not in kept and not _fits(family, name, family.harmless)
    )


def first_of(names: list[str], most: int = 10) -> str:
    """Name the first, and say how many more there are.

    >>> first_of(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def has_own_head(family: Family, weights: Weights) -> bool:
    """Tell whether there is a head beside the embedding, with other numbers: files do not always say so."""
    if family.head is None:
        return False
    on_disk = {short_name(family, name): name for name in weights.shapes}
    head, embedding = (on_disk.get(short_name(family, n)) for n in (family.head, family.copies[family.head]))
    return head is not None and embedding is not None and not _equal(weights, head, embedding)


def short_name(family: Family, name: str) -> str:
    """Bring a name to what old and new files, with and without a prefix, have in common."""
    for old, new in family.old_names.items():
        name = name.replace(old, new)
    return name.removeprefix(family.prefix)


def _fits(family: Family, name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(short_name(family, name), pattern) for pattern in patterns)


def _equal(weights: Weights, one: str, other: str) -> bool:
    return weights.shapes[one] == weights.shapes[other] and torch.equal(
        weights.read(one), weights.read(other)
    )
