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
    """All of the result; its first line alone is the result."""
    lines = [_first(result)]
    if result["outcome"] in ("found", "unconfirmed"):
        lines += _culprit(result)
    if result["outcome"] == "range":
        lines += _hidden(result)
    lines += ["", *_effort(result)]
    return "\n".join(lines) + "\n"


def _first(result: dict[str, Any]) -> str:
    where = f"{result['cell']}: {titled(result['section'] or '')}"
    new = result["terms"][1]
    if result["outcome"] == "found":
        delta = result["confirmed"]["delta"]
        commit = result["commits"][0]
        return f"{named(commit)} is the first {new} commit: {where} {delta:+g} instructions per I/O"
    if result["outcome"] == "unconfirmed":
        return f"{named(result['commits'][0])} is where the search ended, but it is not confirmed"
    if result["outcome"] == "range":
        return f"the first {new} commit is one of {len(result['commits'])}: {where}"
    return str(result["why"])


def _culprit(result: dict[str, Any]) -> list[str]:
    commit, confirmed = result["commits"][0], result["confirmed"]
    lines = [f"  author: {commit['author']} <{commit['email']}>, {commit['date']}"]
    if confirmed is None:
        return [*lines, "  it, or its parent, does not build or boot, so nothing can confirm it"]
    share = confirmed["delta"] / result["full"] if result["full"] else 0.0
    lines.append(
        f"  cost: {confirmed['delta']:+g} against its parent; A to B is {result['full']:+g}"
        f" ({share:.0%} of it)"
    )
    if abs(confirmed["delta"] - result["full"]) >= 1:
        lines.append("  the rest is of other commits: iotoll ledger accounts for all of it")
    for function in confirmed["functions"]:
        mark = ", its code changed" if function["changed"] else ""
        lines.append(f"  function: {function['name']}() {function['delta']:+g}{mark}")
    if confirmed["unexplained"]:
        lines.append(f"  function: not known: {confirmed['unexplained']}")
    if result["outcome"] == "found":
        lines.append(
            f"  confidence: exact: {confirmed['boots']} boots of this commit and of its"
            " parent, each of which met other timers, agree I/O by I/O"
        )
    else:
        lines.append(f"  against its parent the gate says: {confirmed['sentence']}")
    return lines


def _hidden(result: dict[str, Any]) -> list[str]:
    lines = ["  the others cannot be tested, so nothing tells them apart:"]
    for commit in result["commits"]:
        why = result["skipped"].get(commit["sha"], f"has it ({result['terms'][1]})")
        lines.append(f"  {named(commit)}: {why}")
    return lines


def _effort(result: dict[str, Any]) -> list[str]:
    spent, disk = result["spent"], result["disk"]
    return [
        f"{result['range']} commits, {result['candidates']} of them can change the board's kernel",
        f"kernels built: {spent['builds']} ({spent['build_seconds']:.0f} s), from the cache:"
        f" {spent['cached']}; boots: {spent['boots']} ({spent['boot_seconds']:.0f} s);"
        f" commits skipped: {spent['skipped']}",
        f"disk: {disk['folder'] / 1e6:.0f} MB in the search's folder",
    ]


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
