"""The page of all series of a watch: one HTML file without a script, beside their folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iotoll.lists.config import Config
from iotoll.lists.store import Series
from iotoll.records import results
from iotoll.records.text import clean
from iotoll.reports.markup import page_environment

SHOWN = 1000
"""Series of the page, the newest; the number of the others is said."""
_FILES = (("report.html", "report"), ("reply.eml", "reply"), ("kcidb.json", "KCIDB"))


def write_page(config: Config, series: Sequence[Series], folder: Path) -> Path:
    """Write ``index.html`` into the folder of a watch; returns its path."""
    shown = [one for one in reversed(series) if one.state != "skipped"]
    environment = page_environment("iotoll.lists")
    environment.filters["clean"] = clean
    text = environment.get_template("series.html.j2").render(
        rows=[_row(one, folder) for one in shown[:SHOWN]],
        omitted=max(0, len(shown) - SHOWN),
        counts=sorted(Counter(one.outcome or one.state for one in series).items()),
        archives=config.archives,
        tree=config.tree,
    )
    path = folder / "index.html"
    results.write_text(path, text + "\n")
    return path


def _row(one: Series, folder: Path) -> dict[str, Any]:
    place = f"series/{one.key}"
    links = [(f"{place}/{n}", word) for n, word in _FILES if (folder / place / n).is_file()]
    word = one.outcome or one.state
    return {"series": one, "word": word, "links": links, "seconds": f"{one.seconds:.0f}"}
