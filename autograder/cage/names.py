"""The names of the library functions that an exercise forbids."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import cache

FAMILIES = ("special_", "sparse_", "masked_")
NONE = re.compile(r"(?!)")


@cache
def plain(name: str) -> str:
    """Return a function's name without what torch puts around it, as in ``_softmax.default``.

    >>> plain("_safe_softmax"), plain("_log_softmax.default")
    ('safe_softmax', 'log_softmax')
    """
    name = name.partition(".")[0].removeprefix("_")
    for family in FAMILIES:
        name = name.removeprefix(family)
    return name


class Forbidden:
    """A set of forbidden functions.

    >>> calls = Forbidden(["scipy.special.softmax", "torch.*batch_norm*", "torch.distributions.*", "tfcore"])
    >>> calls.have("scipy.special._logsumexp", "softmax"), calls.have("torch", "_native_batch_norm_legit")
    (True, True)
    >>> calls.have("torch.distributions.kl", "kl_divergence"), calls.have("tfcore.ops", "relu")
    (True, True)
    >>> calls.have("numpy", "softmax"), calls.have("torch", "norm")
    (False, False)

    Args:
        names: ``scipy.special.softmax`` is each function of the package ``scipy`` that is called ``softmax``,
            ``torch.*batch_norm*`` is each whose name contains that, ``torch.distributions.*`` is all that is
            defined in that module or below, and ``tfcore`` is a whole package.
    """

    def __init__(self, names: Iterable[str]) -> None:
        below = {name[:-1] for name in names if name.endswith(".*")}
        self._below = tuple(below | {f"{name}." for name in names if "." not in name})
        last: dict[str, list[str]] = {}
        for name in names:
            if "." in name and not name.endswith(".*"):
                last.setdefault(name.partition(".")[0], []).append(translate(name.rpartition(".")[2]))
        self._last = {package: re.compile("|".join(parts)) for package, parts in last.items()}

    def have(self, module: str, name: str) -> bool:
        """Return whether a module's function of that name is one of them."""
        if f"{module}.".startswith(self._below):
            return True
        names = self.names_in(module.partition(".")[0])
        return bool(names.match(name) or names.match(plain(name)))

    def names_in(self, package: str) -> re.Pattern[str]:
        """Return the pattern of the functions' plain names in a package."""
        return self._last.get(package, NONE)
