"""Where grades are kept: a SQLite file in the graded folder, or a PostgreSQL database.

nbgrader's gradebook takes any SQLAlchemy URL. Here such a URL is checked before the first
submission runs, and remembered in the graded folder, so that marking by hand, feedback and
exports find the same gradebook later. A password is never written down: PostgreSQL's own
client reads it from the variable PGPASSWORD or from the file ~/.pgpass.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from ironlaw.errors import InputError, UnavailableError
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

ALLOWED = "postgresql://USER@HOST:PORT/DATABASE or sqlite:////FOLDER/FILE.db"
COURSE = "ironlaw"  # what nbgrader's table of courses calls this one
_FILE = "database.json"
_CONNECT_SECONDS = 10
_DRIVERS = ("psycopg", "psycopg2")
_USUAL = "postgresql+psycopg"
_SECRET_WORDS = ("password", "sslpassword")
# What the server or its client says, and what the reader can do about it.
_CAUSES = (
    (r"password authentication failed|no password supplied",
     "Check user and password; the password may stand in PGPASSWORD or in ~/.pgpass."),
    (r'database ".*" does not exist', "Create it first: createdb -h HOST -U USER DATABASE."),
    (r'role ".*" does not exist', "Create the user first: createuser -h HOST USER."),
    (r"no pg_hba.conf entry", "The server lets this user or machine in by its pg_hba.conf alone."),
    (r"could not translate host name|failed to resolve host|Name or service not known",
     "Look for a slip in the host's name."),
    (r"timeout|timed out", "The host does not answer: check name, port and firewall."),
    (r"Connection refused|No such file or directory|could not connect|is the server running",
     "Start the server, or check host and port; a socket's folder is named by ?host=/FOLDER."),
    (r"too many (clients|connections)|connection slots",
     "The server has no connection left: close other programs that use it."),
)


def default(root: Path) -> str:
    """The gradebook of a graded folder that names no database: a file in it."""
    return f"sqlite:///{root.resolve() / 'gradebook.db'}"


def settle(root: Path, given: str | None) -> str:
    """The checked URL for grading into `root`: as `given`, else as the folder remembers it.

    From now on the folder remembers it, without its password.
    """
    url = check(given) if given is not None else reachable(root)
    remember(root, url)
    return url


def check(given: str) -> str:
    """The SQLAlchemy URL for `given`, after a look at the database behind it.

    Raises `InputError` for a URL that cannot serve or a server that refuses, and
    `UnavailableError` without the driver; neither shows a password.
    """
    url = _parsed(given)
    if url.get_backend_name() == "sqlite":
        return _file(url)
    _require_driver(url.get_driver_name())
    engine = create_engine(url, connect_args={"connect_timeout": _CONNECT_SECONDS})
    try:
        with engine.connect() as connection:
            _require_room(connection, url)
    except SQLAlchemyError as problem:
        reason = _in_a_line(str(getattr(problem, "orig", None) or problem))
        raise InputError("database", shown(given), "a database that accepts this user",
                         f"The answer was: {reason}. {_advice(reason)}") from None
    finally:
        engine.dispose()
    return url.render_as_string(hide_password=False)


def remember(root: Path, url: str) -> None:
    """Write into a graded folder where its grades are, without a password."""
    file, kept = root / _FILE, place(root, url)
    if not kept:
        file.unlink(missing_ok=True)
        return
    root.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"url": kept}, indent=1) + "\n", encoding="utf-8")


def place(root: Path, url: str) -> str:
    """A name for the gradebook at `url`, without a password; '' for the folder's own file."""
    if url == default(root):
        return ""
    return _without_password(make_url(url)).render_as_string(hide_password=False)


def of(root: Path) -> str:
    """The URL of a graded folder's gradebook, as `remember` wrote it down."""
    try:
        kept = json.loads((root / _FILE).read_text(encoding="utf-8"))["url"]
        return make_url(kept).render_as_string(hide_password=False)
    except FileNotFoundError:
        return default(root)
    except (ValueError, KeyError, TypeError, ArgumentError):
        raise InputError("database", str(root / _FILE), 'a JSON file of the form {"url": "..."}',
                         "Grade again with --database URL to write it afresh.") from None


def reachable(root: Path) -> str:
    """As `of`, once a database that lies elsewhere has answered; raises as `check` does."""
    url = of(root)
    return url if url == default(root) else check(url)


def shown(url: URL | str) -> str:
    """A URL for messages and logs, as people write it: every password is replaced by stars.

    The driver that a bare `postgresql://` means is left out.
    """
    try:
        url = make_url(url)
    except (ArgumentError, ValueError):
        hidden = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", str(url))
        return re.sub(rf"\b({'|'.join(_SECRET_WORDS)})=[^&]*", r"\1=***", hidden)
    starred = {word: "***" for word in _SECRET_WORDS if word in url.query}
    if url.drivername == _USUAL:
        url = url.set(drivername="postgresql")
    return url.update_query_dict(starred).render_as_string(hide_password=True)


def _parsed(given: str) -> URL:
    try:
        url = make_url(given)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError("database", shown(given), ALLOWED) from None
    if backend == "postgres":  # the older name, which some hosts still print
        backend, url = "postgresql", url.set(drivername=url.drivername.replace(
            "postgres", "postgresql", 1))
    if backend == "sqlite":
        return url
    if backend != "postgresql":
        raise InputError("database", shown(url), ALLOWED)
    if "+" not in url.drivername:  # what a bare name means changes between SQLAlchemy's versions
        url = url.set(drivername=_USUAL)
    if url.get_driver_name() not in _DRIVERS:
        raise InputError("database", shown(url), "postgresql:// or postgresql+psycopg2://",
                         "Leave the driver's name out: psycopg is used then.")
    if not url.database:
        raise InputError("database", shown(url), ALLOWED, "Add the database's name at the end.")
    return url


def _file(url: URL) -> str:
    path = Path(url.database or "")
    if url.database in (None, "", ":memory:") or not path.is_absolute():
        raise InputError("database", shown(url), "sqlite:////FOLDER/FILE.db with a full path",
                         "Four slashes begin a full path.")
    if not path.parent.is_dir() or path.is_dir():
        raise InputError("database", shown(url), "a file in a folder that is there",
                         f"Make the folder {path.parent} first.")
    return url.render_as_string(hide_password=False)


def _require_driver(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        package = "psycopg[binary]" if name == "psycopg" else "psycopg2-binary"
        raise UnavailableError(
            f"The PostgreSQL driver {name}", "--database names a PostgreSQL server.",
            f"Install it: pip install '{package}'. Without --database grades go into a file.")


def _require_room(connection: Connection, url: URL) -> None:
    """Tables can be made or are there, and every name of a student can be written."""
    encoding = connection.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise InputError("database", shown(url), "a database with the encoding UTF8",
                         f"This one has {encoding}: createdb --encoding UTF8 --template template0.")
    schema = connection.scalar(text("SELECT current_schema()"))
    may_create = schema and connection.scalar(
        text("SELECT has_schema_privilege(current_user, :schema, 'CREATE')"), {"schema": schema})
    there = connection.scalar(text("SELECT to_regclass('submitted_assignment')"))
    if not may_create and there is None:
        raise InputError("database", shown(url), "a database in which this user may make tables",
                         "As its owner: GRANT CREATE ON SCHEMA public TO that user, or make the "
                         "user the database's owner (createdb --owner USER DATABASE).")


def _without_password(url: URL) -> URL:
    bare = URL.create(url.drivername, url.username, None, url.host, url.port, url.database,
                      url.query)  # `URL.set(password=None)` would keep it
    return bare.difference_update_query([word for word in _SECRET_WORDS if word in bare.query])


def _advice(reason: str) -> str:
    for pattern, advice in _CAUSES:
        if re.search(pattern, reason, re.IGNORECASE):
            return advice
    return f"The form is {ALLOWED}."


def _in_a_line(reason: str) -> str:
    return " ".join(reason.split())[:300].rstrip(".?")
