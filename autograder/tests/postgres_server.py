"""A PostgreSQL server of a test's own: no port, no system service, gone at the end.

It listens on a socket in its own folder alone. The server refuses to run as root; then it runs
as the unprivileged user `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg

ABSENT = ("PostgreSQL's server programs were not found. "
          "Install them (Debian: apt-get install postgresql).")
OWNER = "grader"


def programs() -> Path | None:
    """The folder with `initdb` and `pg_ctl`: Debian's newest, or the one on the PATH."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda folder: int(folder.parent.name))
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).parent


class Server:
    """A running server whose databases everybody may use who can reach its folder.

    Of the user `locked` alone a password is asked.
    """

    def __init__(self) -> None:
        # Not in pytest's own folder: that one is closed to every other user.
        self.folder = Path(tempfile.mkdtemp(prefix="ironlaw-postgres-"))
        try:
            self._start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def url(self, name: str, user: str = OWNER, password: str = "") -> str:
        """The URL of one database."""
        who = f"{user}:{password}" if password else user
        return f"postgresql://{who}@/{name}?host={self.folder}"

    def run(self, statement: str, name: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows that one statement gives back."""
        with psycopg.connect(host=str(self.folder), user=OWNER, dbname=name,
                             autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    def create(self, name: str) -> str:
        """Make an empty database; returns its URL."""
        self.run(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def stop(self) -> None:
        """Stop the server and remove all that it wrote."""
        try:
            self._call("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(self.folder)

    def _start(self) -> None:
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        data = self.folder / "data"
        self._call("initdb", "-D", str(data), "-U", OWNER, "-A", "trust", "-E", "UTF8",
                   "--locale", "C.UTF-8", "--no-sync")
        rules = data / "pg_hba.conf"
        rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
        self._call("pg_ctl", "-D", str(data), "-w", "-l", str(self.folder / "log"), "-o",
                   f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' "
                   "-c fsync=off", "start")

    def _call(self, program: str, *words: str) -> str:
        bin_folder = programs()
        assert bin_folder is not None, ABSENT
        user: dict[str, Any] = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        # The server outlives `pg_ctl` and would hold a pipe open for ever: no pipe for it.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run([str(bin_folder / program), *words], stdin=subprocess.DEVNULL,
                                  stdout=said, stderr=said, cwd=self.folder, timeout=60,
                                  check=False, **user)
            said.seek(0)
            text = said.read().decode()
        assert done.returncode == 0, f"{program}: {text}"
        return text.strip()
