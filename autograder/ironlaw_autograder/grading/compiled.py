"""Page templates compiled once in a process: compiling takes longer than filling in a page."""

from __future__ import annotations

from types import CodeType
from typing import Any

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from nbconvert.exporters import HTMLExporter


class _Kept(BytecodeCache):
    """Compiled templates by name and source, for every exporter in this process."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._code[bucket.key, bucket.checksum] = bucket.code


_kept = _Kept()


class Compiled(HTMLExporter):
    """nbconvert's exporter, of which nbgrader makes a new one for each page."""

    def _create_environment(self) -> Environment:
        made: Any = super()._create_environment()
        made.bytecode_cache = _kept
        return made
