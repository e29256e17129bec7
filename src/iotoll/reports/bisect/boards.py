"""The answer of a search on boards' time as plain text."""

from __future__ import annotations

from typing import Any

from iotoll.reports.bisect.text import named


def boards_text(answer: dict[str, Any]) -> str:
    """All of the answer; its first line alone is the result."""
    lines = [_first(answer)]
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


def _first(answer: dict[str, Any]) -> str:
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
