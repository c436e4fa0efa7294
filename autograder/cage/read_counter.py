"""Count how often code reads each of several tensors, and how many it holds at once."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .tensors import tensors_among


class Visits(TorchDispatchMode):
    """A mode that counts reads of the tensors in some lists, as if each tensor were on a device of its own.

    Views, sizes and new tensors of the same form do not count as reads.

    Attributes:
        counts: for each list, the visits to each of its tensors; reads in a row are one visit.
        together: for each list, the most of its tensors that one operation read or one tensor contains.
        largest: the number of elements of the largest new tensor.
    """

    def __init__(self, lists: list[list[torch.Tensor]]) -> None:
        super().__init__()
        self.counts = [[0] * len(tensors) for tensors in lists]
        self.together = [0] * len(lists)
        self.largest = 0
        self._last = [-1] * len(lists)
        self._place = {
            _storage(x): (which, i) for which, tensors in enumerate(lists) for i, x in enumerate(tensors)
        }
        self._copied: dict[int, set[tuple[int, int]]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch's compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [_storage(x) for x in tensors_among((*args, *kwargs.values()))]
        result = func(*args, **kwargs)
        for x in tensors_among((result,)):
            if _storage(x) not in given:
                self._copied.pop(_storage(x), None)  # new memory, where freed memory may have been
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        name = func.overloadpacket.__name__
        if not (func.is_view or name.startswith("new_") or name.endswith("_like")):
            read = sorted({self._place[x] for x in given if x in self._place})
            self._note(read)
            if name == "copy_":
                copied = self._copied.setdefault(given[0], set())
                copied.update(read)
                self._note_together(copied)
        return result

    def _note(self, read: list[tuple[int, int]]) -> None:
        for which, i in read:
            if self._last[which] != i:
                self.counts[which][i] += 1
                self._last[which] = i
        self._note_together(set(read))

    def _note_together(self, held: set[tuple[int, int]]) -> None:
        for which in range(len(self.together)):
            self.together[which] = max(self.together[which], sum(w == which for w, _ in held))


def _storage(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)
