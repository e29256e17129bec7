"""Changed paths → the cells that must run, each with its reason (``pipelines/selection.toml``).

The rules are data, so a team tunes them without touching code. The fallback for anything unknown
is the whole matrix.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from iotoll.core.errors import UsageError
from iotoll.core.nearest import nearest
from iotoll.core.paths import data_dir
from iotoll.core.toml import load_toml
from iotoll.records.models import CellChoice, SelectionRecord

Families = Mapping[str, Sequence[str]]
"""Cells by the name of their family."""
_SHOWN = 3  # paths named in a reason; the record lists all of them anyway
_KEYS = {"name", "paths", "select", "why"}
_MORE = {"families", "fragments", "board", "unmeasured"}


@dataclass(frozen=True)
class SelectionRule:
    """One rule: ``devices`` None selects the whole matrix, an empty tuple nothing.

    ``families`` are added to that, ``fragments`` to the kernel's config. ``board`` is meant where
    the user names none. ``unmeasured`` says what no cell runs, unless one of the families does.
    """

    name: str
    patterns: tuple[re.Pattern[str], ...]
    devices: tuple[str, ...] | None
    why: str
    families: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()
    board: str = ""
    unmeasured: str = ""

    def matches(self, path: str) -> bool:
        """Tell whether one of the patterns covers ``path`` (relative to the kernel tree)."""
        return any(pattern.fullmatch(path) for pattern in self.patterns)


_UNKNOWN = SelectionRule(
    "unknown path", (), None, "no rule knows this path, so nothing is left out"
)


def rules_path() -> Path:
    """Return where the rules are."""
    return data_dir("pipelines") / "selection.toml"


def load_rules(path: Path | None = None) -> list[SelectionRule]:
    """Read the rules in order; raises UsageError naming file, rule and field of a mistake."""
    path = path or rules_path()
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as TOML ({error}): fix it") from error
    rows = data.get("rule")
    if not isinstance(rows, list) or not rows or set(data) != {"rule"}:
        raise UsageError(f"{path}: must hold [[rule]] tables and nothing else")
    return [_rule(row, f"{path}: rule {number}") for number, row in enumerate(rows, 1)]


def select(
    changed_paths: Iterable[str],
    all_cells: Sequence[str],
    rules: Sequence[SelectionRule] | None = None,
    families: Families | None = None,
    compiled: Collection[str] = (),
) -> SelectionRecord:
    """Select the cells for a patch that changes these paths; ``all_cells`` is the whole matrix.

    ``families`` are the cells beside it that the board can run, by their family's name. Of paths
    that are ``compiled`` no rule may say that they are no part of the kernel.
    """
    families = families or {}
    paths = sorted(set(changed_paths))
    rules = load_rules() if rules is None else rules
    matched: dict[SelectionRule, list[str]] = {}
    for path in paths:
        matched.setdefault(_rule_of(path, rules, path in compiled), []).append(path)
    reasons: dict[str, list[str]] = {cell: [] for cell in all_cells}
    reasons |= {cell: [] for cells in families.values() for cell in cells}
    lines = []
    for rule, members in matched.items():
        cells, effect = _effect(rule, all_cells, families)
        for cell in cells:
            reasons[cell].append(f"{_shorten(members)}: {rule.why}")
        lines.append(f"{rule.name} -> {effect}: {', '.join(members)}")
    if not paths:
        reasons = {cell: ["no changed path is known, so nothing is left out"] for cell in all_cells}
    chosen = [CellChoice(cell=c, why="; ".join(why)) for c, why in reasons.items() if why]
    unmeasured = {
        path: rule.unmeasured
        for rule, members in matched.items()
        if rule.unmeasured and not any(name in families for name in rule.families)
        for path in members
    }
    return SelectionRecord(
        changed_paths=paths,
        rules=lines,
        cells=chosen,
        full_matrix=not set(all_cells).difference(c.cell for c in chosen),
        why=_sentence(matched, chosen, all_cells),
        harmless=[p for rule, members in matched.items() if _is_nothing(rule) for p in members],
        fragments=_fragments(matched),
        unmeasured=unmeasured,
        left_out=_left_out(matched, families),
    )


def _left_out(rules: Iterable[SelectionRule], families: Families) -> dict[str, str]:
    """Families that rules promise and the board does not run, with a board that does.

    Not those of rules that say themselves what no cell runs.
    """
    names = (name for rule in rules if not rule.unmeasured for name in rule.families)
    boards = {name: _families()[name].get("board") for name in names if name not in families}
    return {name: str(board) for name, board in boards.items() if board}


def board_for(changed_paths: Iterable[str]) -> str | None:
    """The board that the rules name for a patch; None where they name none.

    Raises UsageError where they name several.
    """
    rules = load_rules()
    named = {_rule_of(path, rules).board for path in changed_paths} - {""}
    if len(named) > 1:
        raise UsageError(
            f"the patch changes code of several boards ({', '.join(sorted(named))}): choose one:"
            " --board"
        )
    return next(iter(named), None)


def choose(
    changed_paths: Sequence[str] | None,
    all_cells: Sequence[str],
    asked: Sequence[str] | None,
    families: Families | None = None,
    compiled: Collection[str] = (),
) -> SelectionRecord:
    """Select for a run: cells ``asked`` for by hand win; paths None (no patch) means all cells.

    Names that are asked for were checked when the run's manifest was made.
    """
    if asked is not None:
        return _by_hand(changed_paths or [], all_cells, list(dict.fromkeys(asked)))
    if changed_paths is None:
        why = "no patch to look at, so the full matrix runs"
        cells = [CellChoice(cell=cell, why=why) for cell in all_cells]
        return SelectionRecord(changed_paths=[], rules=[], cells=cells, full_matrix=True, why=why)
    return select(changed_paths, all_cells, families=families, compiled=compiled)


def _by_hand(
    changed_paths: Sequence[str], all_cells: Sequence[str], asked: list[str]
) -> SelectionRecord:
    rules = load_rules() if changed_paths else []
    return SelectionRecord(
        fragments=_fragments(_rule_of(path, rules) for path in changed_paths),
        changed_paths=sorted(changed_paths),
        rules=[],
        cells=[CellChoice(cell=cell, why="asked for by hand") for cell in asked],
        full_matrix=len(asked) == len(all_cells),
        why=f"{len(asked)} of {len(all_cells)} cells were asked for by hand",
    )


def _rule_of(path: str, rules: Sequence[SelectionRule], is_compiled: bool = False) -> SelectionRule:
    may = (rule for rule in rules if not (is_compiled and _is_nothing(rule)))
    return next((rule for rule in may if rule.matches(path)), _UNKNOWN)


def _fragments(rules: Iterable[SelectionRule]) -> list[str]:
    return list(dict.fromkeys(name for rule in rules for name in rule.fragments))


def _is_nothing(rule: SelectionRule) -> bool:
    return rule.devices == () and not rule.families


def _effect(
    rule: SelectionRule, all_cells: Sequence[str], families: Families
) -> tuple[list[str], str]:
    """Return the rule's cells in this matrix and its families, and the effect in words.

    Where the matrix has none of the rule's devices, families stand for them, else all of it does.
    """
    cells, effect = _own_effect(rule, all_cells)
    known = [name for name in rule.families if name in families]
    if known and rule.devices and not any(_is_of(rule.devices, cell) for cell in all_cells):
        cells = []
    if not rule.families or (not known and rule.devices != ()):
        return cells, effect
    if not known:
        return list(all_cells), f"full matrix, as it has no family {' or '.join(rule.families)}"
    more = [cell for name in known for cell in families[name]]
    named = f"family {' and '.join(known)}"
    return [*cells, *more], f"{effect} and {named}" if cells else named


def _own_effect(rule: SelectionRule, all_cells: Sequence[str]) -> tuple[list[str], str]:
    """The rule's cells of the matrix itself, and the effect in words."""
    if rule.devices is None:
        return list(all_cells), "full matrix"
    if not rule.devices:
        return [], "nothing"
    names = " and ".join(rule.devices)
    cells = [cell for cell in all_cells if _is_of(rule.devices, cell)]
    if not cells:
        return list(all_cells), f"full matrix, as it has no {names} cell"
    return cells, f"{names} cells"


def _is_of(devices: Collection[str], cell: str) -> bool:
    return cell.partition("-")[0] in devices


def _sentence(
    matched: dict[SelectionRule, list[str]], chosen: list[CellChoice], all_cells: Sequence[str]
) -> str:
    if not matched:
        return "full matrix: no changed path is known"
    if not chosen:
        return "nothing to run: " + "; ".join(rule.why for rule in matched)
    causes = [rule for rule in matched if not _is_nothing(rule)]
    words = "; ".join(f"{_shorten(matched[rule])} ({rule.why})" for rule in causes)
    own = sum(choice.cell in set(all_cells) for choice in chosen)
    more = len(chosen) - own
    amount = "full matrix" if own == len(all_cells) else f"{own} of {len(all_cells)} cells"
    if more:
        amount = f"{amount} and {more} of families" if own else f"{more} cells of families"
    return f"{amount}: {words}"


def _shorten(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more


def _rule(row: Any, where: str) -> SelectionRule:
    if not isinstance(row, dict) or set(row) - _MORE != _KEYS:
        raise UsageError(
            f"{where}: needs exactly the keys {', '.join(sorted(_KEYS))}"
            f" (and may have {', '.join(sorted(_MORE))})"
        )
    for key in ("name", "why"):
        if not isinstance(row[key], str) or not row[key]:
            raise UsageError(f"{where}: field {key}: must be a text")
    paths = row["paths"]
    if not isinstance(paths, list) or not paths or not all(isinstance(p, str) and p for p in paths):
        raise UsageError(f"{where}: field paths: must be a list of patterns")
    return SelectionRule(
        name=row["name"],
        patterns=tuple(glob_pattern(p) for p in paths),
        devices=_devices(row["select"], where),
        why=row["why"],
        families=_names(row, "families", where, tuple(_families())),
        fragments=_names(row, "fragments", where, _fragment_files()),
        board=str(row.get("board", "")),
        unmeasured=str(row.get("unmeasured", "")),
    )


def _names(row: dict[str, Any], field: str, where: str, known: Sequence[str]) -> tuple[str, ...]:
    value = row.get(field, [])
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise UsageError(f"{where}: field {field}: must be a list of names")
    for name in value:
        if name not in known:
            near = nearest(name, known)
            raise UsageError(f"{where}: field {field}: no {name!r}: the nearest is {near!r}")
    return tuple(value)


@cache
def _families() -> dict[str, Any]:
    """All families by their names; which of them a matrix may add, the matrix says."""
    return load_toml(data_dir("lava-jobs") / "families.toml")


@cache
def _fragment_files() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in data_dir("kernel-configs").glob("*.config")))


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
