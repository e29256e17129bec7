"""Formulas of a study: arithmetic over named values, read from its file and never executed.

Names are ``hw``, a value of the row, or ``ufs.sw``, a quantity of the cell that the row calls
``ufs``. There are ``+ - * / **``, comparisons, ``and``, ``or``, ``min``, ``max`` and ``abs``.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iotoll.core.errors import UsageError

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SIGNS: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_CALLS: Mapping[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs}
LIMIT = 400
"""Characters of a formula; none needs as many."""


class NoValue(Exception):
    """A value that the formula needs was not measured; the text says which and why."""


@dataclass(frozen=True)
class Formula:
    """A checked formula; ``names`` are the values that it needs, as written."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def value(self, lookup: Callable[[str], float]) -> float:
        """Its value; comparisons are 1 or 0. Raises NoValue, also for a division by zero."""
        return self._number(self.tree, lookup)

    def comparisons(self, lookup: Callable[[str], float]) -> list[tuple[float, str, float]]:
        """Both sides of each comparison, in the order of the text; raises as `value`."""
        found = []
        # Breadth first; comparisons stand side by side in one `and` or `or`, as they are written.
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Compare):
                parts = [self._number(part, lookup) for part in (node.left, *node.comparators)]
                signs = [_SIGNS[type(op)] for op in node.ops]
                found += list(zip(parts[:-1], signs, parts[1:], strict=True))
        return found

    def _number(self, tree: ast.expr, lookup: Callable[[str], float]) -> float:
        try:
            number = float(_value(tree, lookup))
        except (ZeroDivisionError, OverflowError) as error:
            raise NoValue(f"{self.text}: {error}") from error
        if not math.isfinite(number):
            raise NoValue(f"{self.text}: not a finite number")
        return number


def parse(text: str) -> Formula:
    """Read a formula; raises UsageError that names the part that is wrong."""
    if len(text) > LIMIT:
        raise UsageError(f"formula of {len(text)} characters: at most {LIMIT}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        names: set[str] = set()
        _check(tree, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        detail = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"formula {text!r}: {detail}") from error
    return Formula(text.strip(), tree, frozenset(names))


def _check(node: ast.expr, names: set[str]) -> None:
    """Collect the names; raises ValueError for anything that is not arithmetic."""
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex()) | ast.Constant(value=None):
            raise ValueError(f"{ast.unparse(node)} is not a number")
        case ast.Constant(value=int() | float()):
            return
        case ast.Name(id=name):
            names.add(name)
        case ast.Attribute(value=ast.Name(id=cell), attr=quantity):
            names.add(f"{cell}.{quantity}")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left, names)
            _check(right, names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, names)
        case ast.BoolOp(values=values):
            for value in values:
                _check(value, names)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _COMPARED for op in ops
        ):
            for part in (left, *others):
                _check(part, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and args:
            for part in args:
                _check(part, names)
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")


def _value(node: ast.expr, lookup: Callable[[str], float]) -> float:
    match node:
        case ast.Constant(value=value):
            assert isinstance(value, int | float)  # _check lets no other through
            return float(value)
        case ast.BinOp(left=left, op=op, right=right):
            found = _BINARY[type(op)](_value(left, lookup), _value(right, lookup))
            if isinstance(found, complex):
                raise NoValue(f"{ast.unparse(node)} is not a real number")
            return found
        case ast.UnaryOp(operand=operand):
            return -_value(operand, lookup)
        case ast.BoolOp(op=joined, values=values):
            found_all = [bool(_value(value, lookup)) for value in values]
            return float(all(found_all) if isinstance(joined, ast.And) else any(found_all))
        case ast.Compare(left=left, ops=ops, comparators=others):
            parts = [_value(part, lookup) for part in (left, *others)]
            pairs = zip(ops, parts[:-1], parts[1:], strict=True)
            return float(all(_COMPARED[type(op)](a, b) for op, a, b in pairs))
        case ast.Call(func=ast.Name(id=name), args=args):
            return float(_CALLS[name](*(_value(part, lookup) for part in args)))
        case _:
            return lookup(ast.unparse(node))
