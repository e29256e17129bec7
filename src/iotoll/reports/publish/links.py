"""Links that reports carry: given on the command line, and of LAVA jobs that the run names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from iotoll.core.errors import UsageError
from iotoll.records.text import clean
from iotoll.reports.page.evidence import Evidence

_UNSAFE = set(" \t\r\n\"'<>\\^`{|}()[]")


@dataclass(frozen=True)
class Link:
    """A web address with the words to show for it."""

    label: str
    url: str


def parse_link(text: str) -> Link:
    """Parse ``LABEL=URL``; raises UsageError when it is no web address."""
    label, _, url = text.partition("=")
    if not label.strip() or not is_web(url):
        raise UsageError(f"--link {text}: write LABEL=https://...")
    return Link(label.strip(), url)


def is_web(url: str) -> bool:
    """Tell whether a URL is plain http(s) and holds nothing that could end it early in a report."""
    if _UNSAFE & set(url) or not url.isascii() or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def run_links(evidence: Evidence) -> list[Link]:
    """The LAVA jobs that ran the boots; none for a local board."""
    found = []
    for side, result in evidence.sides.items():
        for boot in result.boots:
            if boot.lava and is_web(boot.lava.server):
                label = f"LAVA job {boot.lava.job}: {side}, boot {boot.boot}"
                address = f"{boot.lava.server.rstrip('/')}/scheduler/job/{boot.lava.job}"
                found.append(Link(label, address))
    return found


def job_annotations(evidence: Evidence, links: Sequence[Link]) -> str:
    """Return GitLab's job annotations as JSON text: links beside the job."""
    listed = [
        {"external_link": {"label": clean(link.label)[:255], "url": link.url}}
        for link in (*links, *run_links(evidence))
    ]
    return json.dumps({"iotoll": listed} if listed else {}, indent=1) + "\n"
