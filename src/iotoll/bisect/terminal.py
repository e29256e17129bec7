"""A search's answer as plain text, for a terminal and for a mail."""

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


def bisect_text(answer: dict[str, Any]) -> str:
    """All of the answer; its first line alone is the result."""
    lines = [_first(answer)]
    if answer["outcome"] in ("found", "unconfirmed"):
        lines += _culprit(answer)
    if answer["outcome"] == "range":
        lines += _hidden(answer)
    lines += ["", *_effort(answer)]
    return "\n".join(lines) + "\n"


def _first(answer: dict[str, Any]) -> str:
    where = f"{answer['cell']}: {titled(answer['section'] or '')}"
    new = answer["terms"][1]
    if answer["outcome"] == "found":
        delta = answer["confirmed"]["delta"]
        commit = answer["commits"][0]
        return f"{named(commit)} is the first {new} commit: {where} {delta:+g} instructions per I/O"
    if answer["outcome"] == "unconfirmed":
        return f"{named(answer['commits'][0])} is where the search ended, but it is not confirmed"
    if answer["outcome"] == "range":
        return f"the first {new} commit is one of {len(answer['commits'])}: {where}"
    return str(answer["why"])


def _culprit(answer: dict[str, Any]) -> list[str]:
    commit, confirmed = answer["commits"][0], answer["confirmed"]
    lines = [f"  author: {commit['author']} <{commit['email']}>, {commit['date']}"]
    if confirmed is None:
        return [*lines, "  it, or its parent, does not build or boot, so nothing can confirm it"]
    share = confirmed["delta"] / answer["full"] if answer["full"] else 0.0
    lines.append(
        f"  cost: {confirmed['delta']:+g} against its parent; A to B is {answer['full']:+g}"
        f" ({share:.0%} of it)"
    )
    if abs(confirmed["delta"] - answer["full"]) >= 1:
        lines.append("  the rest is of other commits: iotoll ledger accounts for all of it")
    for function in confirmed["functions"]:
        mark = ", its code changed" if function["changed"] else ""
        lines.append(f"  function: {function['name']}() {function['delta']:+g}{mark}")
    if confirmed["unexplained"]:
        lines.append(f"  function: not known: {confirmed['unexplained']}")
    if answer["outcome"] == "found":
        lines.append(
            f"  confidence: exact: {confirmed['boots']} boots of this commit and of its"
            " parent, each of which met other timers, agree I/O by I/O"
        )
    else:
        lines.append(f"  against its parent the gate says: {confirmed['sentence']}")
    return lines


def _hidden(answer: dict[str, Any]) -> list[str]:
    lines = ["  the others cannot be tested, so nothing tells them apart:"]
    for commit in answer["commits"]:
        why = answer["skipped"].get(commit["sha"], f"has it ({answer['terms'][1]})")
        lines.append(f"  {named(commit)}: {why}")
    return lines


def _effort(answer: dict[str, Any]) -> list[str]:
    spent, disk = answer["spent"], answer["disk"]
    return [
        f"{answer['range']} commits, {answer['candidates']} of them can change the board's kernel",
        f"kernels built: {spent['builds']} ({spent['build_seconds']:.0f} s), from the cache:"
        f" {spent['cached']}; boots: {spent['boots']} ({spent['boot_seconds']:.0f} s);"
        f" commits skipped: {spent['skipped']}",
        f"disk: {disk['folder'] / 1e6:.0f} MB in the search's folder",
    ]


def boards_text(answer: dict[str, Any]) -> str:
    """All of the answer; its first line alone is the result."""
    lines = [_first_of_boards(answer)]
    if len(answer["commits"]) == 1:
        commit = answer["commits"][0]
        lines.append(f"  author: {commit['author']} <{commit['email']}>, {commit['date']}")
    else:
        lines += [f"  {named(commit)}" for commit in answer["commits"]]
    lines.append(
        f"  A to B: {answer['effect']:+.2%}, noise of a pair {answer['noise']:.2%}, by these"
        f" boots {answer['learned']:.2%}; chance {answer['sure']:.1%}"
    )
    if answer["confirmed"]:
        confirmed = answer["confirmed"]
        lines.append(f"  against its parent ({confirmed['delta']:+.2%}): {confirmed['sentence']}")
    if answer["virtual"]:
        lines.append(f"  no gate was run: {answer['virtual']}")
    lines += _reverted(answer["reverted"])
    spent, skipped = answer["spent"], len(answer["spent"]["skipped"])
    lines += [
        "",
        f"{answer['range']} commits on the line of first parents, {skipped} skipped",
        f"cost: {spent['pairs']} pairs of boots, {spent['builds']} commits built besides A and B",
        f"disk: {answer['disk']['folder'] / 1e6:.0f} MB in the search's folder",
    ]
    return "\n".join(lines) + "\n"


def _first_of_boards(answer: dict[str, Any]) -> str:
    where = f"{answer['cell']}: {answer['section']} on {answer['board']}"
    if answer["outcome"] == "found":
        return f"{named(answer['commits'][0])} changed {where}"
    if answer["outcome"] == "unconfirmed":
        why = " on virtual boards" if answer["virtual"] else ""
        commit = named(answer["commits"][0])
        return f"{commit} is where the search{why} ended, but it is not confirmed"
    why = f": {answer['why']}" if answer["why"] else ""
    return f"{where}: it is one of {len(answer['commits'])} commits{why}"


def _reverted(found: dict[str, Any] | str | None) -> list[str]:
    if found is None:
        return []
    if isinstance(found, str):
        return [f"  the tip without it: {found}"]
    return [f"  the tip without it ({found['delta']:+.2%}): {found['sentence']}"]
