"""Formulas and calls that stand both in a solution and in a cell that students can read.

A visible check that compares with `tokens / rate / 86_400` hands out the answer of the
question that asks for it, although no line of the solution was copied. So formulas are
compared by shape: names count for nothing, the order of factors and terms neither, numbers
do. A single quotient says little about where it came from, so that `fewest` operations are
asked for: two in a cell that is given, one in a check, which has numbers to compare with
and no need of arithmetic. The other way to give an answer away is to call the student's
own function as the answer has to. What was written in another way is not found.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import textwrap
from collections.abc import Collection, Iterator
from pathlib import Path

_UNKNOWN = "_"
_FEWEST_OPERATIONS = 2
_NAMED = frozenset({"min", "max", "abs", "sum", "sqrt", "log", "exp", "median", "mean"})
_Names = dict[str, ast.expr]


def formulas(code: str, fewest: int = _FEWEST_OPERATIONS) -> dict[str, str]:
    """Every formula in `code` that no larger one contains: its shape, and as it is written.

    Lines that are no Python on their own, such as the inside of a function, are read too.
    """
    tree = _parsed(code)
    every = _operations(tree)
    inner = {id(part) for node in every for part in ast.walk(node) if part is not node}
    return _shapes(tree, [node for node in every if id(node) not in inner], fewest)


def shared(visible: str, solution: str, fewest: int = _FEWEST_OPERATIONS) -> list[str]:
    """Formulas in `visible`, or parts of them, that are those of `solution`; as written there."""
    tree = _parsed(visible)
    wanted = formulas(solution, fewest)
    found = _shapes(tree, _operations(tree), fewest)
    return sorted({text for shape, text in found.items() if shape in wanted})


def functions(code: str) -> set[str]:
    """The functions that `code` defines."""
    tree = _parsed(code)
    inside = [node for body in getattr(tree, "body", []) for node in ast.walk(body)
              if node is not body]  # `_parsed` wraps the code in one function
    return {node.name for node in inside if isinstance(node, ast.FunctionDef)}


def shared_calls(visible: str, solution: str, own: Collection[str]) -> list[str]:
    """Calls of `own` functions that `visible` makes as `solution` does; as written there.

    Plain names of arguments count for nothing; numbers, texts and attributes do.
    """
    wanted = set(_calls(solution, own))
    return sorted({text for shape, text in _calls(visible, own).items() if shape in wanted})


def checks_of_the_library(code: str) -> str:
    """Source of the functions that `code` imports from modules of `ironlaw.lab`."""
    sources = []
    for node in ast.walk(_parsed(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ironlaw.lab."):
            found = importlib.util.find_spec(str(node.module))
            whole = Path(str(found.origin)).read_text("utf-8") if found else ""
            names = {alias.name for alias in node.names}
            sources += [ast.unparse(part) for part in ast.parse(whole).body
                        if isinstance(part, ast.FunctionDef) and part.name in names]
    return "\n".join(sources)


def _calls(code: str, own: Collection[str]) -> dict[str, str]:
    return {_argument(node): ast.unparse(node) for node in ast.walk(_parsed(code))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id in own}


def _argument(node: ast.expr) -> str:
    """A call or an argument of one, its plain names made alike."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            named = sorted(f"{word.arg}={_argument(word.value)}" for word in node.keywords)
            return f"{name}({', '.join([*map(_argument, node.args), *named])})"
        case ast.Name():
            return _UNKNOWN
        case ast.Starred(value=value):
            return f"*{_argument(value)}"
        case ast.Attribute(value=value, attr=attr):
            return f"{_argument(value)}.{attr}"
        case ast.Subscript(value=value, slice=place):
            return f"{_argument(value)}[{_argument(place)}]"
    return ast.unparse(node)


def _operations(tree: ast.AST) -> list[ast.expr]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.BinOp | ast.IfExp)
            or (isinstance(node, ast.Call) and _called(node) in _NAMED)]


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _parsed(code: str) -> ast.AST:
    """The code's tree; an empty one where it is no Python (a cell with a magic command)."""
    body = textwrap.indent(textwrap.dedent(code).strip() or "pass", "    ")
    try:
        return ast.parse(f"def cell():\n{body}\n")
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _shapes(tree: ast.AST, found: list[ast.expr], fewest: int) -> dict[str, str]:
    """Shapes of formulas, as they stand and with names replaced by what they were given."""
    names = _given_once(tree)
    shapes: dict[str, str] = {}
    for node in found:
        for known in ({}, names):
            shape, operations = _Shape(known).of(node)
            if operations >= fewest and _UNKNOWN in shape:
                shapes.setdefault(shape, ast.unparse(node))
    return shapes


def _given_once(tree: ast.AST) -> _Names:
    """Names with exactly one plain assignment, and what they were given."""
    targets: dict[str, list[ast.expr]] = {}
    stored: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            targets.setdefault(node.targets[0].id, []).append(node.value)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
    return {name: values[0] for name, values in targets.items() if stored[name] == 1}


class _Shape:
    """The shape of one expression and how many operations it took."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._open: set[str] = set()
        self._operations = 0

    def of(self, node: ast.expr) -> tuple[str, int]:
        shape = self._of(node)
        return shape, self._operations

    def _of(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int() | float() as value):
                return f"{value:.12g}"
            case ast.Name(id=name) if name in self._names and name not in self._open:
                self._open.add(name)
                shape = self._of(self._names[name])
                self._open.remove(name)
                return shape
            case ast.Call(func=ast.Attribute(attr="number"), args=[_, value, *_]):
                return self._of(value)  # a handle's check gives the value back
            case ast.Call() if _called(node) in _NAMED:
                self._operations += 1
                return f"{_called(node)}({', '.join(sorted(map(self._of, node.args)))})"
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return self._chain(node, ast.Mult, ast.Div, 1.0)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self._chain(node, ast.Add, ast.Sub, 0.0)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._operations += 1
                kept, other = (ast.unparse(part) if isinstance(part, ast.Constant)
                               else self._of(part) for part in (body, orelse))
                return f"({kept} if {self._of(test)} else {other})"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                self._operations += 1
                return f"({self._of(left)} {type(op).__name__} {self._of(right)})"
            case ast.BinOp():
                self._operations += 1
                return f"({self._of(node.left)} {type(node.op).__name__} {self._of(node.right)})"
        return _UNKNOWN

    def _chain(self, node: ast.BinOp, forth: type[ast.operator], back: type[ast.operator],
               neutral: float) -> str:
        """A product with its quotients, or a sum with its differences, in one fixed order."""
        number = neutral
        parts: dict[bool, list[str]] = {False: [], True: []}
        for shape, turned in self._flat(node, (forth, back), back):
            try:
                value = float(shape)
            except ValueError:
                parts[turned].append(shape)
                continue
            if forth is ast.Mult and not (turned and value == 0):
                number = number / value if turned else number * value
            elif forth is ast.Add:
                number += -value if turned else value
        shown = [] if math.isclose(number, neutral) else [f"{number:.12g}"]
        if not parts[False] and not parts[True]:
            return f"{number:.12g}"
        signs = ("*", "/") if forth is ast.Mult else ("+", "-")
        return (f"({f' {signs[0]} '.join([*shown, *sorted(parts[False])])}"
                + "".join(f" {signs[1]} {part}" for part in sorted(parts[True])) + ")")

    def _flat(self, node: ast.expr, kinds: tuple[type[ast.operator], ...],
              back: type[ast.operator], turned: bool = False) -> Iterator[tuple[str, bool]]:
        """The factors or terms of a chain, each with whether it divides or is subtracted."""
        match node:
            case ast.BinOp(op=op) if isinstance(op, kinds):
                self._operations += 1
                yield from self._flat(node.left, kinds, back, turned)
                yield from self._flat(node.right, kinds, back, turned != isinstance(op, back))
            case ast.Name(id=name) if name in self._names and name not in self._open:
                self._open.add(name)
                yield from self._flat(self._names[name], kinds, back, turned)
                self._open.remove(name)
            case ast.Call(func=ast.Attribute(attr="number"), args=[_, value, *_]):
                yield from self._flat(value, kinds, back, turned)
            case _:
                yield self._of(node), turned
