"""Drive the child from the judge's side: run the cells of a student's notebook and call its functions."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.cage import wire
from autograder.cage.limits import WAITING
from autograder.cage.probes import LONGER
from autograder.cage.remote_objects import Host
from autograder.cage.tensors import mapped
from autograder.checking.candidate import Candidate
from autograder.checking.costs import impossible
from autograder.checking.declaration import Case, Lent, Outcome
from autograder.grading import saved_pictures

OUTPUTS = 16 << 20
"""The most characters of output that are kept of one notebook."""
TOO_LONG = "from here on output is left out: the notebook has too much of it\n"
LEFT_OUT = {"output_type": "stream", "name": "stderr", "text": TOO_LONG}
GRACE_SECONDS = 3.0
"""The seconds after the limit in which a child may still answer."""
OVERHEAD_SECONDS = 60
"""The seconds beside a notebook's own that its judge may take."""


@dataclass(frozen=True)
class Limits:
    """The limits of one submission: processor time of a cell and of a call, time on the clock, memory.

    The limit of a submission is never lower than the limit of one cell: a large `cell_seconds` raises
    `total_seconds`.
    """

    cell_seconds: float = 30.0
    call_seconds: float = 5.0
    total_seconds: float = 600.0
    memory_bytes: int = 2 << 30

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_seconds", max(self.total_seconds, self.cell_seconds))


@dataclass(frozen=True)
class CellRun:
    """The result of one executed cell."""

    error: str | None
    message: str
    outputs: list[dict[str, Any]] = field(default_factory=list)


class Session:
    """A connection to one child. It checks each answer, and sends no more orders after an invalid answer."""

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        self.sock = sock
        self.limits = limits
        self.dead: str | None = None
        self.room = OUTPUTS
        self.end = time.monotonic() + limits.total_seconds

    def run(self, source: str, saved: Sequence[dict[str, Any]] = ()) -> CellRun:
        """Run a cell and return its result, with the saved pictures of its figures; see `saved_pictures`."""
        code = wire.bytes_to_array(source.encode())
        order = {"op": "run", "source": code, "saved": saved_pictures.texts(saved)}
        reply = self._ask(order, self.limits.cell_seconds)
        error, message = _text(reply.get("error")), _text(reply.get("message")) or ""
        outputs = saved_pictures.fill_in(_allowed_outputs(reply.get("outputs")), saved)
        self.room -= sum(
            len(text)
            for output in outputs
            for text in (output.get("text", ""), *output.get("data", {}).values())
        )
        return CellRun(error, message, outputs if self.room > 0 else [LEFT_OUT])

    def candidate(self, name: str, forbidden: tuple[str, ...]) -> Candidate:
        """Return the student's function of this name; a call of it runs one case in the child."""

        def call(case: Case) -> Outcome:
            host = Host()

            def lent(value: Any) -> Any:
                return host.make_proxy(value.make()) if isinstance(value, Lent) else value

            order = {
                "op": "call",
                "name": name,
                "args": mapped(lent, list(case.args)),
                "kwargs": mapped(lent, case.kwargs),
                "forbidden": list(forbidden),
                "probe": case.probe,
                "metered": case.metered,
            }
            reply = self._ask(order, LONGER.get(case.probe, 1) * self.limits.call_seconds, host)
            arguments, cost = reply.get("arguments"), reply.get("cost")
            error, message = _text(reply.get("error")), _text(reply.get("message")) or ""
            if case.metered and not error and (why := impossible(cost)):
                error, message = "Unfit", f"the count of your code's operations is impossible: {why}"
            return Outcome(
                value=reply.get("value"),
                error=error,
                message=message,
                arguments=tuple(arguments) if isinstance(arguments, list) else (),
                forbidden=_text(reply.get("forbidden")),
                cost=cost if isinstance(cost, dict) else {},
                asked=tuple(host.asked),
            )

        return call

    def _ask(self, order: dict[str, Any], limit: float, host: Host | None = None) -> dict[str, Any]:
        if self.dead:
            return {"error": "KernelDied", "message": self.dead}
        if time.monotonic() > self.end:
            self.dead = f"the submission had used up its {self.limits.total_seconds:g} seconds"
            return {"error": "KernelDied", "message": self.dead}
        patience = WAITING * limit + GRACE_SECONDS
        try:
            self.sock.settimeout(patience)
            wire.send(self.sock, order | {"limit": limit})
            deadline = time.monotonic() + patience
            reply = wire.receive(self.sock, deadline)
            while isinstance(reply, dict) and "ask" in reply:
                question = (reply.get(part) for part in ("ask", "attribute", "args", "kwargs"))
                wire.send(self.sock, (host or Host()).reply(*question))
                reply = wire.receive(self.sock, deadline)
            if not isinstance(reply, dict):
                raise wire.WireError("the answer is not a dictionary")
            if reply.get("stubborn"):
                raise wire.TooLate
        except (wire.TooLate, TimeoutError):
            self.dead = f"it did not stop at the limit of {limit:g} seconds and was ended"
        except (wire.Closed, OSError):
            self.dead = "its process ended (os._exit, a crash, or too much memory)"
        except wire.WireError as error:
            self.dead = f"it gave an answer that breaks the rules ({error})"
        return {"error": "KernelDied", "message": self.dead} if self.dead else reply


def _text(value: Any) -> str | None:
    return value[:2000] if isinstance(value, str) else None


def _allowed_outputs(value: Any) -> list[dict[str, Any]]:
    """Return the outputs that a notebook may hold, without outputs of any other form."""
    kept: list[dict[str, Any]] = []
    for output in value if isinstance(value, list) else []:
        if not isinstance(output, dict):
            continue
        if output.get("output_type") == "stream" and isinstance(output.get("text"), str):
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            kept.append({"output_type": "stream", "name": name, "text": output["text"]})
        elif shown := _allowed_forms(output.get("data")):
            kept.append({"output_type": "display_data", "data": shown, "metadata": {}})
    return kept


_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n")


def _allowed_forms(data: Any) -> dict[str, str]:
    forms = data.items() if isinstance(data, dict) else ()
    return {kind: text for kind, value in forms if (text := _allowed_text(kind, value)) is not None}


def _allowed_text(kind: str, value: Any) -> str | None:
    if kind == "text/plain":
        return value if isinstance(value, str) else None
    if kind in ("image/png", "image/jpeg") and hasattr(value, "tobytes"):
        raw = value.tobytes()
        return raw.decode() if _BASE64.issuperset(raw) else None
    return None
