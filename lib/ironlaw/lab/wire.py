"""Values that may cross from a student's process to a judge's: plain data, never pickles.

`encode` turns a value into JSON and raw array bytes; `decode` checks every count and
size before it believes them. What is not plain data arrives as `Opaque`: it has a type
name and nothing else, so no method of a student's object ever runs on the other side.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 24
MAX_ITEMS = 200_000
MAX_KEYS = 2_000  # of one dict or set; all together ten times as many (colliding keys are slow)
MAX_TEXT = 1_000_000  # characters of all texts together
MAX_BYTES = 64_000_000
MAX_ARRAYS = 10_000  # arrays and NumPy's own numbers, each of which travels by itself
_SAFE_INT = 2**53
_DTYPES = frozenset(("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                     "uint64", "float16", "float32", "float64", "complex64", "complex128"))


class WireError(ValueError):
    """A message that breaks the rules: too large, too deep or malformed."""


@dataclass(frozen=True)
class Opaque:
    """A value that did not cross; `type_name` says what it was."""

    type_name: str


@dataclass(frozen=True)
class Record:
    """A dataclass instance as plain data: its type's name and its fields."""

    type_name: str
    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.fields:
            raise AttributeError(name)
        return self.fields[name]


def encode(value: Any) -> tuple[Any, list[bytes]]:
    """`value` as a JSON tree and the array bytes that it refers to by number."""
    writer = _Writer()
    return writer.tree(value, 0), writer.blobs


def decode(tree: Any, blobs: list[bytes]) -> Any:
    """The value that `encode` described; malformed input raises `WireError`."""
    return _Reader(blobs).value(tree, 0)


def roundtrip(value: Any) -> Any:
    """What the other side would see of `value`."""
    return decode(*encode(value))


class _Writer:
    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.items = self.keys = 0
        self.characters = 0
        self.bytes = 0

    def tree(self, value: Any, depth: int) -> Any:
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise WireError("the value is nested too deeply or holds too many items")
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        array = self._array(value)
        if array is not None:
            return array
        if isinstance(value, int):
            number = int.__index__(value)
            if number.bit_length() > 10_000:
                raise WireError("an integer of more than 3,000 digits")
            small = abs(number) <= _SAFE_INT
            return number if small else {"t": "int", "v": hex(number)}
        if isinstance(value, float):
            real = float.__float__(value)
            return real if math.isfinite(real) else {"t": "float", "v": repr(real)}
        if isinstance(value, complex):
            pair = complex.__complex__(value)
            return {"t": "complex", "v": [repr(pair.real), repr(pair.imag)]}
        if isinstance(value, str):
            self.characters += str.__len__(value)
            if self.characters > MAX_TEXT:
                raise WireError(f"a text of more than {MAX_TEXT:,} characters")
            return str.__str__(value).encode("utf-8", "replace").decode("utf-8")
        if isinstance(value, dict):
            self.keys = _few(dict.__len__(value), self.keys)
        elif kind in (set, frozenset):
            self.keys = _few(len(value), self.keys)
        if kind in (list, tuple, set, frozenset):
            members = sorted(value, key=repr) if kind in (set, frozenset) else value
            return {"t": kind.__name__, "v": [self.tree(v, depth + 1) for v in members]}
        if isinstance(value, dict):
            pairs = [[self.tree(k, depth + 1), self.tree(v, depth + 1)]
                     for k, v in dict.items(value)]
            return {"t": "dict", "v": pairs}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: self.tree(getattr(value, f.name, None), depth + 1)
                      for f in dataclasses.fields(value)}
            return {"t": "record", "name": kind.__name__[:100], "v": fields}
        return {"t": "opaque", "name": kind.__name__[:100]}

    def _array(self, value: Any) -> dict[str, Any] | None:
        numpy = sys.modules.get("numpy")
        torch = sys.modules.get("torch")
        kind = "numpy"
        if torch is not None and isinstance(value, torch.Tensor):
            kind = "torch"
            value = value.detach().cpu()
            if value.dtype == torch.bfloat16:
                value = value.float()
            value = value.numpy()
        if numpy is None or isinstance(value, str):  # numpy's own text is text
            return None
        if isinstance(value, numpy.generic):
            kind = "scalar"
        elif not isinstance(value, numpy.ndarray):
            return None
        self.bytes += value.nbytes  # before anything is copied
        if self.bytes > MAX_BYTES:
            raise WireError(f"arrays of more than {MAX_BYTES / 1e6:.0f} MB")
        if value.dtype.name not in _DTYPES:
            return {"t": "opaque", "name": f"array of {value.dtype.name}"[:100]}
        if len(self.blobs) >= MAX_ARRAYS:
            raise WireError(f"more than {MAX_ARRAYS:,} arrays or NumPy numbers one by one; "
                            "give one array")
        # A file's byte order may be another machine's; the name of the type does not tell.
        plain = numpy.array(value, value.dtype.newbyteorder("="), order="C", subok=False)
        self.blobs.append(plain.tobytes())
        return {"t": "array", "kind": kind, "dtype": plain.dtype.name,
                "shape": list(plain.shape), "blob": len(self.blobs) - 1}


class _Reader:
    def __init__(self, blobs: list[bytes]) -> None:
        self.blobs = blobs
        self.items = self.keys = 0

    def value(self, tree: Any, depth: int) -> Any:
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise WireError("nested too deeply or too many items")
        if tree is None or isinstance(tree, bool | int | str):
            return tree
        if isinstance(tree, float):
            if not math.isfinite(tree):
                raise WireError("a bare non-finite number")
            return tree
        if not isinstance(tree, dict) or not isinstance(tree.get("t"), str):
            raise WireError("an untagged value")
        reader = getattr(self, f"_{tree['t']}", None)
        if reader is None or tree["t"] not in _TAGS:
            raise WireError(f"an unknown tag {tree['t'][:40]!r}")
        try:
            return reader(tree, depth + 1)
        except WireError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
            raise WireError(f"a malformed {tree['t']}: {type(problem).__name__}") from None

    def _int(self, tree: dict[str, Any], depth: int) -> int:
        if len(tree["v"]) > 2_600:
            raise WireError("an integer of more than 3,000 digits")
        return int(tree["v"], 16)

    def _float(self, tree: dict[str, Any], depth: int) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[tree["v"]]

    def _complex(self, tree: dict[str, Any], depth: int) -> complex:
        real, imaginary = tree["v"]
        return complex(float(real), float(imaginary))

    def _list(self, tree: dict[str, Any], depth: int) -> list[Any]:
        return [self.value(v, depth) for v in tree["v"]]

    def _tuple(self, tree: dict[str, Any], depth: int) -> tuple[Any, ...]:
        return tuple(self._list(tree, depth))

    def _set(self, tree: dict[str, Any], depth: int) -> set[Any]:
        self.keys = _few(len(tree["v"]), self.keys)
        return set(self._list(tree, depth))

    def _frozenset(self, tree: dict[str, Any], depth: int) -> frozenset[Any]:
        return frozenset(self._set(tree, depth))

    def _dict(self, tree: dict[str, Any], depth: int) -> dict[Any, Any]:
        self.keys = _few(len(tree["v"]), self.keys)
        return {self.value(k, depth): self.value(v, depth) for k, v in tree["v"]}

    def _record(self, tree: dict[str, Any], depth: int) -> Record:
        fields = {str(k): self.value(v, depth) for k, v in tree["v"].items()}
        return Record(str(tree["name"])[:100], fields)

    def _opaque(self, tree: dict[str, Any], depth: int) -> Opaque:
        return Opaque(str(tree["name"])[:100])

    def _array(self, tree: dict[str, Any], depth: int) -> Any:
        import numpy

        name, shape, number = tree["dtype"], tree["shape"], tree["blob"]
        if name not in _DTYPES or not 0 <= number < len(self.blobs) or len(shape) > 32:
            raise WireError("an array of a kind that does not cross")
        if any(type(side) is not int or not 0 <= side <= MAX_BYTES for side in shape):
            raise WireError("an array with an impossible shape")
        dtype = numpy.dtype(name)
        if math.prod(shape) * dtype.itemsize != len(self.blobs[number]):
            raise WireError("an array whose bytes do not fill its shape")
        array = numpy.frombuffer(self.blobs[number], dtype=dtype).reshape(shape).copy()
        return array[()] if tree["kind"] == "scalar" and array.ndim == 0 else array


def _few(keys: int, before: int) -> int:
    """The keys so far; a value whose keys collide would otherwise stop who reads it."""
    if keys > MAX_KEYS or keys + before > 10 * MAX_KEYS:
        raise WireError(f"a dict or set of more than {MAX_KEYS:,} keys")
    return keys + before


_TAGS = frozenset(("int", "float", "complex", "list", "tuple", "set", "frozenset", "dict",
                   "record", "opaque", "array"))
