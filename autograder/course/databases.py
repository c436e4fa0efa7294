"""Read the address of a gradebook: a file, or a database on a PostgreSQL server."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, make_url

from autograder.course.errors import BadInputError

DRIVER = "psycopg"
BOUNDS = {"connect_timeout": "10", "options": "-c lock_timeout=20s"}
"""How long to wait for a server, and for another program's lock there, unless the address sets its own."""
_SERVERS = ("postgresql", "postgres", f"postgresql+{DRIVER}")
_EXPECTED = "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE"


def complete_address(given: str, root: Path) -> str:
    """Return the complete address: absolute for a file, with `BOUNDS` for a server.

    Args:
        given: the address as a teacher writes it.
        root: the folder that a relative file name starts from.

    Raises:
        BadInputError: the address is not valid. The message does not repeat it, since it may hold a password.
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
    if url.drivername in ("sqlite", *_SERVERS) and not url.database:
        raise BadInputError(
            f"the gradebook's address names no file or database: {_EXPECTED}. Count the slashes."
        )
    if url.drivername not in _SERVERS:
        raise BadInputError(f"a gradebook's address cannot begin with {url.drivername!r}: {_EXPECTED}.")
    if find_spec(DRIVER) is None:
        raise BadInputError(f"a gradebook on PostgreSQL needs {DRIVER}. Run: pip install '{DRIVER}[binary]'")
    bounds = {name: bound for name, bound in BOUNDS.items() if name not in url.query}
    server = url.set(drivername=f"postgresql+{DRIVER}").update_query_dict(bounds)
    return server.render_as_string(hide_password=False)


def read_only(path: Path) -> URL:
    """Return the address of a gradebook's file that nothing may write to, whatever its name."""
    return URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"})


def describe(url: str) -> str:
    """Return a gradebook's name for messages, without the user and the password."""
    parsed: URL = make_url(url)
    if parsed.drivername == "sqlite":
        return str(parsed.database)
    where = parsed.host or parsed.query.get("host") or "this machine"
    port = f":{parsed.port}" if parsed.port else ""
    return f"the database {parsed.database} on {where}{port}"
