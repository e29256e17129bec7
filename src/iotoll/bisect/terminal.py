"""A search's result as plain text, for a terminal and for a mail."""

from __future__ import annotations

from typing import Any

from iotoll.verdict.words import WORK

SHORT = 12


def named(commit: dict[str, Any]) -> str:
    """A commit as kernel mails name it."""
    return f'{commit["sha"][:SHORT]} ("{commit["subject"]}")'


def titled(section: str) -> str:
    """A section as people read it."""
    return WORK if section == "work" else section


def bisect_text(result: dict[str, Any]) -> str:
    """All of the result, with what it took, for a file."""
    return "\n".join([*bisect_lines(result), "", effort(result)]) + "\n"


def bisect_lines(result: dict[str, Any]) -> list[str]:
    """What was found; the first line alone is the result."""
    lines = [_first(result)]
    if result["outcome"] in ("found", "unconfirmed"):
        lines += _culprit(result)
    if result["outcome"] == "range":
        lines += _hidden(result) if len(result["commits"]) > 1 else _several(result)
    counts = f"{result['range']} commits, {result['candidates']} of them"
    return [*lines, f"{counts} can change the board's kernel"]


def _first(result: dict[str, Any]) -> str:
    where = f"{result['cell']}: {titled(result['section'] or '')}"
    new, culprits = result["terms"][1], result["culprits"]
    if result["outcome"] == "found" and len(culprits) > 1:
        return f"{len(culprits)} commits changed what moved; {where}: {_net(result['full'])}"
    if result["outcome"] == "found":
        delta = result["confirmed"]["delta"]
        what = f"is the first {new} commit" if delta > 0 else "is an improvement"
        commit = named(result["commits"][0])
        return f"{commit} {what}: {where} {delta:+g} instructions per I/O"
    if result["outcome"] == "unconfirmed":
        return f"{named(result['commits'][0])} is where the search ended, but it is not confirmed"
    if result["outcome"] == "range" and len(result["commits"]) == 1:
        return f"commits that cannot be tested hide a part of what moved: {where}"
    if result["outcome"] == "range":
        return f"the first {new} commit is one of {len(result['commits'])}: {where}"
    return str(result["why"])


def _net(full: float) -> str:
    return f"{full:+g} instructions per I/O from A to B" + (" (an improvement)" if full < 0 else "")


def _culprit(result: dict[str, Any]) -> list[str]:
    commit, confirmed = result["commits"][0], result["confirmed"]
    if len(result["culprits"]) > 1:
        return [*_several(result), *_sureness(result)]
    lines = [f"  author: {commit['author']} <{commit['email']}>, {commit['date']}"]
    if confirmed is None:
        return [*lines, "  it, or its parent, does not build or boot, so nothing can confirm it"]
    some = f" ({confirmed['some']})" if confirmed.get("some") else ""
    lines.append(
        f"  cost: {confirmed['delta']:+g}{some} against its parent; A to B is {result['full']:+g}"
    )
    lines += _left(result)
    for function in confirmed["functions"]:
        mark = ", its code changed" if function["changed"] else ""
        lines.append(f"  function: {function['name']}() {function['delta']:+g}{mark}")
    if confirmed["unexplained"]:
        lines.append(f"  function: not known: {confirmed['unexplained']}")
    return lines + _sureness(result)


SHOWN = 4
"""Cells of a culprit that a text names; ``bisect.json`` has all."""


def _several(result: dict[str, Any]) -> list[str]:
    """Every culprit with what it moved most, oldest first, and what they leave."""
    lines = []
    for culprit in result["culprits"]:
        names = " to ".join(named(commit) for commit in culprit["commits"][:: _step(culprit)])
        mark = "" if culprit["grew"] else ", an improvement"
        sure = "" if culprit["confirmed"] else ", not confirmed"
        lines.append(f"  {names}{mark}{sure}")
        parts = sorted(culprit["parts"], key=lambda part: -abs(part["delta"]))
        for part in parts[:SHOWN]:
            some = f" ({part['some']})" if part["some"] else ""
            where = f"{part['cell']}: {titled(part['section'])}"
            lines.append(f"    {where} {part['delta']:+g}{some}")
        if len(parts) > SHOWN:
            lines.append(f"    and {len(parts) - SHOWN} more sections")
        functions = [f"{f['name']}() {f['delta']:+g}" for f in culprit["functions"]]
        if functions:
            lines.append(f"    function: {', '.join(functions[:SHOWN])}")
    return lines + _left(result)


def _step(culprit: dict[str, Any]) -> int:
    """So that of several commits the first and the last are named."""
    return max(len(culprit["commits"]) - 1, 1)


def _left(result: dict[str, Any]) -> list[str]:
    large = sorted(result["left"], key=lambda part: -abs(part["delta"]))
    if not large:
        return []
    most = large[0]
    return [
        f"  left, of no commit that was found: {len(large)} sections, most in {most['cell']}:"
        f" {titled(most['section'])} {most['delta']:+g}"
    ]


def _sureness(result: dict[str, Any]) -> list[str]:
    confirmed = result["confirmed"]
    if confirmed is None:
        return []
    if result["outcome"] != "found":
        return [f"  against its parent the gate says: {confirmed['sentence']}"]
    what = "this commit and of its parent" if len(result["culprits"]) < 2 else "each and its parent"
    return [
        f"  confidence: exact: {confirmed['boots']} boots of {what}, each of which met other"
        " timers, agree I/O by I/O"
    ]


def _hidden(result: dict[str, Any]) -> list[str]:
    lines = ["  the others cannot be tested, so it may be any of them:"]
    for commit in result["commits"]:
        why = result["skipped"].get(commit["sha"], f"has it ({result['terms'][1]})")
        lines.append(f"  {named(commit)}: {why}")
    return lines


def effort(result: dict[str, Any]) -> str:
    """What it took, in one line: kernels, boots, seconds and disk."""
    spent, disk = result["spent"], result["disk"]
    return (
        f"kernels built: {spent['builds']} ({spent['build_seconds']:.0f} s), from the cache:"
        f" {spent['cached']}; boots: {spent['boots']} ({spent['boot_seconds']:.0f} s);"
        f" commits skipped: {spent['skipped']}; disk: {disk['folder'] / 1e6:.0f} MB"
    )


def boards_text(result: dict[str, Any]) -> str:
    """All of the result; its first line alone is the result."""
    lines = [_first_of_boards(result)]
    if len(result["commits"]) == 1:
        commit = result["commits"][0]
        lines.append(f"  author: {commit['author']} <{commit['email']}>, {commit['date']}")
    else:
        lines += [f"  {named(commit)}" for commit in result["commits"]]
    lines.append(
        f"  A to B: {result['effect']:+.2%}, noise of a pair {result['noise']:.2%}, by these"
        f" boots {result['learned']:.2%}; chance {result['sure']:.1%}"
    )
    if result["confirmed"]:
        confirmed = result["confirmed"]
        lines.append(f"  against its parent ({confirmed['delta']:+.2%}): {confirmed['sentence']}")
    if result["virtual"]:
        lines.append(f"  no gate was run: {result['virtual']}")
    lines += _reverted(result["reverted"])
    spent, skipped = result["spent"], len(result["spent"]["skipped"])
    lines += [
        "",
        f"{result['range']} commits on the line of first parents, {skipped} skipped",
        f"cost: {spent['pairs']} pairs of boots, {spent['builds']} commits built besides A and B",
        f"disk: {result['disk']['folder'] / 1e6:.0f} MB in the search's folder",
    ]
    return "\n".join(lines) + "\n"


def _first_of_boards(result: dict[str, Any]) -> str:
    where = f"{result['cell']}: {result['section']} on {result['board']}"
    if result["outcome"] == "found":
        return f"{named(result['commits'][0])} changed {where}"
    if result["outcome"] == "unconfirmed":
        why = " on virtual boards" if result["virtual"] else ""
        commit = named(result["commits"][0])
        return f"{commit} is where the search{why} ended, but it is not confirmed"
    why = f": {result['why']}" if result["why"] else ""
    return f"{where}: it is one of {len(result['commits'])} commits{why}"


def _reverted(found: dict[str, Any] | str | None) -> list[str]:
    if found is None:
        return []
    if isinstance(found, str):
        return [f"  the tip without it: {found}"]
    return [f"  the tip without it ({found['delta']:+.2%}): {found['sentence']}"]
