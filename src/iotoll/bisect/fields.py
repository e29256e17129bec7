"""What the result files of searches hold, field by field: docs/reference/schemas.md has this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BISECT = "iotoll.bisect/2"
BOARDS = "iotoll.bisect-boards/1"
LEDGER = "iotoll.ledger/2"
"""The ``schema_version`` of each file."""


class File(NamedTuple):
    """One kind of result file: its version, what it is, and its fields."""

    version: str
    summary: str
    fields: Mapping[str, str]


_COMMIT = "sha, subject, author and email"
_PARTS = "cell, section, delta (instructions per I/O) and some (which I/Os have it)"

FILES: Mapping[str, File] = {
    "bisect": File(
        BISECT,
        "`bisect.json`: the commits behind the difference of two revisions.",
        {
            "outcome": "found (single commits, all confirmed), range, unconfirmed, nothing",
            "good": f"A: {_COMMIT}",
            "bad": "B, likewise",
            "terms": "what A and B are called",
            "why": "why it ended without a single commit; empty: it did not",
            "cell": "the cell that was searched; null: nothing moved",
            "section": "its section, whole, work, or ELEMENT:SECTION",
            "full": "by how much that differs from A to B, instructions per I/O",
            "commits": "what the search of it ended with, as good",
            "skipped": "of these, why each could not be tested",
            "confirmed": "the gate of the commit against its parent; null: there was none",
            "culprits": "all commits that were found: commits, grew, cell, section, parts, changed"
            " (functions with other machine code), confirmed, functions (by explain)",
            "total": f"B minus A: {_PARTS}",
            "left": "what of it no culprit has, as total",
            "moved": "what the first comparison of B with A found: cell, section, delta",
            "range": "commits from A to B",
            "candidates": "of these, how many can change the kernel",
            "tested": "commit, what it is (good, bad, skip), and its delta to A",
            "spent": "builds, boots and their seconds",
            "disk": "bytes of the search's folder and of the caches",
        },
    ),
    "bisect on boards": File(
        BOARDS,
        "`bisect.json` of a search in a lab.",
        {
            "outcome": "found, range, unconfirmed",
            "good": f"A: {_COMMIT}",
            "bad": "B, likewise",
            "board": "the board",
            "lab": "the lab",
            "cell": "the cell",
            "section": "its section",
            "commits": "where the search ended",
            "sure": "the chance that it is there, by the search's own reckoning",
            "effect": "the change as a log ratio",
            "why": "why it ended without a single commit",
            "confirmed": "the gate of the commit against its parent",
            "reverted": "the gate of B with the commit reverted, or why there is none",
            "spent": "pairs of boots, builds, skips, seconds",
            "noise": "of one pair of boots before the search, a log ratio",
            "learned": "the same as the search's own boots say",
            "range": "commits from A to B, on the line of first parents",
            "virtual": "why its times confirm nothing; null: they were a board's",
            "disk": "bytes of the search's folder and of the caches",
        },
    ),
    "ledger": File(
        LEDGER,
        "`ledger.json`: every instruction between two revisions, commit by commit; values are"
        " instructions per I/O, in the order of `families`.",
        {
            "good": f"A: {_COMMIT}",
            "bad": "B, likewise",
            "board": "the board",
            "families": "the columns: label, section, cells",
            "rows": "title, author, kind, depth (0: of the line itself), note, values, moved (by"
            " the gate's rule), some (which I/Os have it), functions (with other machine code)",
            "left": "what no row has",
            "unchanged": "commits that moved nothing",
            "open": "commits that can change the kernel",
            "every": "whether all of these were measured",
            "totals": "B minus A",
            "adds_up": "whether rows of depth 0 and left are the totals",
            "commits": "commits from A to B, on the line of first parents",
            "partial": "whether the limit on builds left commits together",
            "skipped": "commits that could not be tested",
            "spent": "builds, boots and their seconds",
            "disk": "bytes of the ledger's folder and of the caches",
        },
    ),
}
"""By name of the file; `schema_version` is in each of them."""
