"""Match the names of the library functions that an exercise forbids."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import cache

FAMILIES = ("special_", "sparse_", "masked_")
NONE = re.compile(r"(?!)")


@cache
def plain(name: str) -> str:
    """Return a function's name without torch's additions, such as those in ``_softmax.default``.

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
        names: ``scipy.special.softmax`` matches each function named ``softmax`` in the package ``scipy``;
            ``torch.*batch_norm*`` matches each function whose name contains ``batch_norm``;
            ``torch.distributions.*`` matches all functions of that module and of its submodules;
            ``tfcore`` matches a whole package.
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
        """Return whether the function `name` of a module is forbidden."""
        if f"{module}.".startswith(self._below):
            return True
        names = self.names_in(module.partition(".")[0])
        return bool(names.match(name) or names.match(plain(name)))

    def have_a(self, name: str) -> bool:
        """Return whether a function of this name is forbidden in some package."""
        return any(names.match(name) or names.match(plain(name)) for names in self._last.values())

    def names_in(self, package: str) -> re.Pattern[str]:
        """Return the pattern that matches the plain names of a package's forbidden functions."""
        return self._last.get(package, NONE)


of_names = cache(Forbidden)
"""Return the set of forbidden functions with these names, made once: its patterns take long to compile."""
