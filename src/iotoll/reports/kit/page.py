"""HTML pages: one file each, no network, for light and dark screens, phones and paper.

``templates/page.html.j2`` is the frame that each page's own template extends, ``parts.html.j2`` has
the parts that they share (tables, pictures, legends, facts), and ``page.css`` how all of it looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from iotoll.records.text import clean


@dataclass(frozen=True)
class Table:
    """Rows of text; the first ``words`` columns hold words, the others numbers.

    ``prose`` says that the last column holds a sentence, ``total`` that the last row is a sum.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    prose: bool = False
    total: bool = False


@cache
def page_template(package: str, name: str) -> Template:
    """A page's template, of the folder ``templates`` of its package; all values are escaped."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("iotoll.reports.kit")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = clean
    return environment.get_template(name)
