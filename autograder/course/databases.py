"""The address of a gradebook: a file, or a database on a PostgreSQL server."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url

from autograder.course.errors import BadInputError

DRIVER = "psycopg"
BOUNDS = {"connect_timeout": "10", "options": "-c lock_timeout=20s"}
"""How long to wait for a server, and there for another program, unless the address says it."""
_SERVERS = ("postgresql", "postgres", f"postgresql+{DRIVER}")
_EXPECTED = "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE"


def address(given: str, root: Path) -> str:
    """The address to use: absolute where it names a file, with `BOUNDS` where it names a server.

    Args:
        given: as a teacher writes it.
        root: what a file's name is relative to.

    Raises:
        BadInputError: it is no such address. The message does not repeat it: it may hold a password.
    """
    try:
        url = make_url(given)
    except Exception as error:  # SQLAlchemy's own, or a ValueError that quotes a part of the password
        raise BadInputError(
            f"the gradebook's address cannot be read: {_EXPECTED}. In a password, write @ as %40, : as %3A "
            "and / as %2F; better leave it to ~/.pgpass."
        ) from error
    if url.drivername == "sqlite" and url.database:
        return url.set(database=str(root / url.database)).render_as_string(hide_password=False)
    if url.drivername not in _SERVERS or not url.database:
        raise BadInputError(f"no gradebook can lie at an address of {url.drivername!r}: {_EXPECTED}.")
    if find_spec(DRIVER) is None:
        raise BadInputError(f"a gradebook on PostgreSQL needs {DRIVER}. Run: pip install '{DRIVER}[binary]'")
    bounds = {name: bound for name, bound in BOUNDS.items() if name not in url.query}
    server = url.set(drivername=f"postgresql+{DRIVER}").update_query_dict(bounds)
    return server.render_as_string(hide_password=False)


def file_of(url: str) -> Path | None:
    """The file that an address names, or None where it names a server."""
    parsed = make_url(url)
    return Path(str(parsed.database)) if parsed.drivername == "sqlite" else None


def called(url: str) -> str:
    """What to call a gradebook in a message: never its user or password."""
    parsed: URL = make_url(url)
    if parsed.drivername == "sqlite":
        return str(parsed.database)
    where = parsed.host or parsed.query.get("host") or "this machine"
    port = f":{parsed.port}" if parsed.port else ""
    return f"the database {parsed.database} on {where}{port}"
