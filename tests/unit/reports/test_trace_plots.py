"""The pictures: reproducible, self-contained, and true to the table."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from iotoll.records.models import Clock, Section
from iotoll.reports.kit.svg import palette
from iotoll.reports.trace.plots import cdf, svg_text, timeline, write_figures
from iotoll.reports.trace.reader import TraceCell
from tests.unit.tables import SPLIT, SYNC8, cell, full_cell


def test_two_files_a_cell_always_the_same(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        names = [p.name for p in write_figures(cell(SPLIT, Clock.TIME), tmp_path / folder)]
        assert names == [f"virtio-split-flush-{kind}.svg" for kind in ("cdf", "timeline", "layers")]
    for name in names:
        text = (tmp_path / "a" / name).read_text()
        assert text == (tmp_path / "b" / name).read_text()
        ElementTree.fromstring(text)
        assert "#a1b2" not in text and "var(--" not in text, "colours stand in the file itself"
        assert set(re.findall(r'href="([^"#][^"]*)"', text)) == set(), "nothing is fetched"


def test_no_io_no_picture(tmp_path: Path) -> None:
    assert write_figures(cell(window=("0", "0.1")), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_curves_are_the_shares_of_the_table() -> None:
    made = cell(SPLIT, Clock.TIME)
    lines = {str(line.get_label()): line for line in cdf(made).axes[0].lines}
    assert set(lines) == {s.value for s in Section}
    for section in Section:
        x, y = (np.asarray(a, float) for a in lines[section.value].get_data())
        values = np.sort(made.table.elapsed(section))
        assert (x[0], y[0]) == (values[0], 0.0)
        assert (x[-1], y[-1]) == (values[-1], 1.0)
        shares = np.searchsorted(values, x[1:], side="right") / len(values)
        assert (y[1:] <= shares + 1e-12).all() and (y[1:] >= shares - 0.5).all()


def test_hardware_has_no_curve_where_it_has_no_meaning() -> None:
    labels = [line.get_label() for line in cdf(cell()).axes[0].lines]
    assert labels == ["vfs_fs", "submission", "completion", "return"]
    text = svg_text(timeline(cell()))
    assert "hardware (no meaning)" in text and "not time" in text


@pytest.mark.parametrize("made", [cell(SPLIT, Clock.TIME), full_cell(SYNC8)])
def test_bars_are_as_long_as_the_sections(made: TraceCell) -> None:
    axes = timeline(made).axes[0]
    colours = {v: k for k, v in palette().items() if k in set(Section)}
    totals: dict[str, float] = {}
    for bars in axes.collections:
        rgb = tuple(round(c * 255) for c in np.asarray(bars.get_facecolor())[0][:3])
        name = colours["#{:02x}{:02x}{:02x}".format(*rgb)]
        widths = [np.ptp(np.asarray(p.vertices)[:, 0]) for p in bars.get_paths()]
        totals[name] = totals.get(name, 0.0) + sum(widths)
    # Stretches of the device alone are cut out; what software does keeps its length.
    totals.pop("hardware", None)
    shares = {k: v / sum(totals.values()) for k, v in totals.items()}
    shown = re.search(r"I/O (\d+) to (\d+) of", axes.texts[0].get_text().replace(",", ""))
    assert shown is not None
    rows = np.arange(int(shown[1]) - 1, int(shown[2]))
    table = made.table.take(rows)
    software = table.duration.sum() - table.elapsed(Section.HARDWARE).sum()
    for section in (s for s in Section if s is not Section.HARDWARE):
        share = table.elapsed(section).sum() / software
        assert shares.get(section.value, 0.0) == pytest.approx(share, abs=1e-6)


def test_axes_name_their_units() -> None:
    time = svg_text(timeline(cell(SPLIT, Clock.TIME)))
    assert "ms after 1,974." in time
    assert "elapsed in the section (ns, logarithmic)" in svg_text(cdf(cell(SPLIT, Clock.TIME)))
    assert "million instructions after" in svg_text(timeline(cell()))


def test_filters_stand_in_the_picture() -> None:
    assert "--comm fio --pid 872" in svg_text(cdf(cell(pids=(872,))))
