"""Messages on a socket: a JSON header and raw byte blobs, with sizes checked first."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

MAX_HEADER = 16_000_000
# A header is written afresh when it is passed on, and may then be longer than it came.
MAX_RELAYED = 6 * MAX_HEADER
MAX_BLOBS = 80_000_000
MAX_BLOB_COUNT = 10_000
# Values that a header can hold at most, told by its commas: reading millions of empty lists
# takes the grader a gigabyte. The largest answer and its texts need two millions.
MAX_COMMAS = 2_500_000
_PREFIX = struct.Struct(">I")


class FrameError(ValueError):
    """Bytes that are not a frame, or a frame beyond the limits."""


def pack(header: dict[str, Any], blobs: list[bytes] | None = None) -> bytes:
    """One frame as bytes."""
    blobs = blobs or []
    text = json.dumps({"sizes": [len(b) for b in blobs], "body": header},
                      separators=(",", ":")).encode("utf-8")
    return b"".join([_PREFIX.pack(len(text)), text, *blobs])


class Reader:
    """Collects bytes until they make whole frames with headers of at most `max_header` bytes."""

    def __init__(self, max_header: int = MAX_HEADER) -> None:
        self._max_header = max_header
        self._buffer = bytearray()
        self._need: tuple[int, list[int], dict[str, Any]] | None = None

    def feed(self, data: bytes) -> None:
        """Add bytes as they arrived; FrameError when more wait than one frame can need."""
        if len(self._buffer) > self._max_header + MAX_BLOBS + _PREFIX.size:
            raise FrameError("more than anybody asked for")
        self._buffer += data

    def frame(self) -> tuple[dict[str, Any], list[bytes]] | None:
        """The next whole frame, or None when more bytes are needed."""
        if self._need is None:
            self._need = self._header()
            if self._need is None:
                return None
        start, sizes, body = self._need
        if len(self._buffer) < start + sum(sizes):
            return None
        blobs = []
        for size in sizes:
            blobs.append(bytes(self._buffer[start:start + size]))
            start += size
        del self._buffer[:start]
        self._need = None
        return body, blobs

    def _header(self) -> tuple[int, list[int], dict[str, Any]] | None:
        if len(self._buffer) < _PREFIX.size:
            return None
        (length,) = _PREFIX.unpack_from(self._buffer)
        if length > self._max_header:
            raise FrameError(f"a header of {length:,} bytes")
        end = _PREFIX.size + length
        if len(self._buffer) < end:
            return None
        header = self._buffer[_PREFIX.size:end]
        if header.count(b",") > MAX_COMMAS:
            raise FrameError(f"more than {MAX_COMMAS:,} values")
        try:
            text = header.decode("utf-8")
            outer = json.loads(text)
            if "\\ud" in text.lower():  # half a pair of surrogates is no text that can be written
                outer = json.loads(json.dumps(outer, ensure_ascii=False).encode("utf-8", "replace"))
            sizes, body = outer["sizes"], outer["body"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise FrameError("a header that is not JSON of the agreed form") from None
        counts = isinstance(sizes, list) and all(type(s) is int and s >= 0 for s in sizes)
        if not counts or not isinstance(body, dict) or len(sizes) > MAX_BLOB_COUNT:
            raise FrameError("a header of the wrong form")
        if sum(sizes) > MAX_BLOBS:
            raise FrameError(f"{sum(sizes):,} bytes of data")
        return end, sizes, body


def send(channel: socket.socket, header: dict[str, Any], blobs: list[bytes] | None = None) -> None:
    """Send one frame on a blocking socket."""
    channel.sendall(pack(header, blobs))


def receive(channel: socket.socket, reader: Reader) -> tuple[dict[str, Any], list[bytes]] | None:
    """The next frame from a blocking socket; None when the other side has gone."""
    while True:
        found = reader.frame()
        if found is not None:
            return found
        data = channel.recv(1 << 20)
        if not data:
            return None
        reader.feed(data)
