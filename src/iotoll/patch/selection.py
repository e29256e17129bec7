"""Changed paths → the cells that must run, each with its reason (``pipelines/selection.toml``).

The rules are data, so a team tunes them without touching code. The fallback for anything unknown
is the whole matrix.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.records.models import CellChoice, SelectionRecord

_SHOWN = 3  # paths named in a reason; the record lists all of them anyway
_KEYS = {"name", "paths", "select", "why"}


@dataclass(frozen=True)
class Rule:
    """One rule: ``devices`` None selects the whole matrix, an empty tuple nothing."""

    name: str
    patterns: tuple[re.Pattern[str], ...]
    devices: tuple[str, ...] | None
    why: str

    def matches(self, path: str) -> bool:
        """Tell whether one of the patterns covers ``path`` (relative to the kernel tree)."""
        return any(pattern.fullmatch(path) for pattern in self.patterns)


_UNKNOWN = Rule("unknown path", (), None, "no rule knows this path, so nothing is left out")


def rules_path() -> Path:
    """Return where the rules are."""
    return data_dir("pipelines") / "selection.toml"


def load_rules(path: Path | None = None) -> list[Rule]:
    """Read the rules in order; raises UsageError naming file, rule and field of a mistake."""
    path = path or rules_path()
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as TOML ({error}): fix it") from error
    rows = data.get("rule")
    if not isinstance(rows, list) or not rows or set(data) != {"rule"}:
        raise UsageError(f"{path}: must hold [[rule]] tables and nothing else")
    return [_rule(row, f"{path}: rule {number}") for number, row in enumerate(rows, 1)]


def select(
    changed_paths: Iterable[str], all_cells: Sequence[str], rules: Sequence[Rule] | None = None
) -> SelectionRecord:
    """Select the cells for a patch that changes these paths; ``all_cells`` is the whole matrix."""
    paths = sorted(set(changed_paths))
    rules = load_rules() if rules is None else rules
    matched: dict[Rule, list[str]] = {}
    for path in paths:
        rule = next((r for r in rules if r.matches(path)), _UNKNOWN)
        matched.setdefault(rule, []).append(path)
    reasons: dict[str, list[str]] = {cell: [] for cell in all_cells}
    lines = []
    for rule, members in matched.items():
        cells, effect = _effect(rule, all_cells)
        for cell in cells:
            reasons[cell].append(f"{_shorten(members)}: {rule.why}")
        lines.append(f"{rule.name} -> {effect}: {', '.join(members)}")
    if not paths:
        reasons = {cell: ["no changed path is known, so nothing is left out"] for cell in all_cells}
    chosen = [CellChoice(cell=c, why="; ".join(why)) for c, why in reasons.items() if why]
    return SelectionRecord(
        changed_paths=paths,
        rules=lines,
        cells=chosen,
        full_matrix=len(chosen) == len(all_cells),
        why=_sentence(matched, chosen, all_cells),
    )


def choose(
    changed_paths: Sequence[str] | None, all_cells: Sequence[str], asked: Sequence[str] | None
) -> SelectionRecord:
    """Select for a run: cells ``asked`` for by hand win; paths None (no patch) means all cells."""
    if asked is not None:
        unknown = [cell for cell in asked if cell not in all_cells]
        if unknown:
            raise UsageError(f"cell {unknown[0]}: not in the matrix: choose from {all_cells[0]}, …")
        return _by_hand(changed_paths or [], all_cells, list(dict.fromkeys(asked)))
    if changed_paths is None:
        why = "no patch to look at, so the full matrix runs"
        cells = [CellChoice(cell=cell, why=why) for cell in all_cells]
        return SelectionRecord(changed_paths=[], rules=[], cells=cells, full_matrix=True, why=why)
    return select(changed_paths, all_cells)


def _by_hand(
    changed_paths: Sequence[str], all_cells: Sequence[str], asked: list[str]
) -> SelectionRecord:
    return SelectionRecord(
        changed_paths=sorted(changed_paths),
        rules=[],
        cells=[CellChoice(cell=cell, why="asked for by hand") for cell in asked],
        full_matrix=len(asked) == len(all_cells),
        why=f"{len(asked)} of {len(all_cells)} cells were asked for by hand",
    )


def _effect(rule: Rule, all_cells: Sequence[str]) -> tuple[list[str], str]:
    """Return the rule's cells in this matrix, and the effect in words."""
    if rule.devices is None:
        return list(all_cells), "full matrix"
    if not rule.devices:
        return [], "nothing"
    names = " and ".join(rule.devices)
    cells = [cell for cell in all_cells if cell.split("-", 1)[0] in rule.devices]
    if not cells:
        return list(all_cells), f"full matrix, as it has no {names} cell"
    return cells, f"{names} cells"


def _sentence(
    matched: dict[Rule, list[str]], chosen: list[CellChoice], all_cells: Sequence[str]
) -> str:
    if not matched:
        return "full matrix: no changed path is known"
    if not chosen:
        return "nothing to run: " + "; ".join(rule.why for rule in matched)
    causes = [rule for rule in matched if rule.devices is None or rule.devices]
    words = "; ".join(f"{_shorten(matched[rule])} ({rule.why})" for rule in causes)
    amount = (
        "full matrix"
        if len(chosen) == len(all_cells)
        else f"{len(chosen)} of {len(all_cells)} cells"
    )
    return f"{amount}: {words}"


def _shorten(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more


def _rule(row: Any, where: str) -> Rule:
    if not isinstance(row, dict) or set(row) != _KEYS:
        raise UsageError(f"{where}: needs exactly the keys {', '.join(sorted(_KEYS))}")
    for key in ("name", "why"):
        if not isinstance(row[key], str) or not row[key]:
            raise UsageError(f"{where}: field {key}: must be a text")
    paths = row["paths"]
    if not isinstance(paths, list) or not paths or not all(isinstance(p, str) and p for p in paths):
        raise UsageError(f"{where}: field paths: must be a list of patterns")
    return Rule(
        name=row["name"],
        patterns=tuple(glob_pattern(p) for p in paths),
        devices=_devices(row["select"], where),
        why=row["why"],
    )


def _devices(value: Any, where: str) -> tuple[str, ...] | None:
    if value == "all":
        return None
    if value == "none":
        return ()
    if isinstance(value, list) and value and all(isinstance(d, str) and d for d in value):
        return tuple(value)
    raise UsageError(f'{where}: field select: must be "all", "none" or a list of devices')


@cache
def glob_pattern(text: str) -> re.Pattern[str]:
    """Translate a path pattern; pipelines/selection.toml says what its marks mean."""
    text = text + "**" if text.endswith("/") else text
    out = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", text):
        special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        out += special.get(piece) or re.escape(piece)
    return re.compile(out)
