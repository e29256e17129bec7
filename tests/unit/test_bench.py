"""The benchmark's own arithmetic and its measuring program."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "tools/bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The benchmark's modules, which lie in a folder that is run, not in a package."""
    monkeypatch.syspath_prepend(str(BENCH))
    return {name: importlib.import_module(name) for name in ("measure", "table")}


def rows(measure: ModuleType) -> list[object]:
    """The analyser at 2 us an event, a peer at 6, btt at 5 where the analyser takes 1."""
    made = []
    figures = {"analysis": (100, 200e-6), "blktrace": (40, 40e-6), "btt": (40, 200e-6)}
    figures |= {"report": (100, 600e-6), "long": (1000, 2e-3)}
    figures |= {"analysis-zstd": (100, 1e-3), "long-zstd": (1000, 1e-2)}
    for key, (events, cpu) in figures.items():
        peer = "analysis" if key in ("btt", "report") else None
        row = measure.Row(key, key, [], events, against=peer)
        row.samples += [measure.Sample(9.0, cpu, 2048), measure.Sample(1.0, 2 * cpu, 1024)]
        made.append(row)
    return made


def test_ratios_are_cpu_time_per_event(bench: dict[str, ModuleType]) -> None:
    cells = {line[0]: line for line in bench["table"].cells(rows(bench["measure"]))}
    assert cells["report"] == ["report", "100", "1.000", "0.001", "0.17", "0.00", "2", "3.00"]
    assert cells["btt"][-1] == "2.50 (5.00 on the same files)"
    assert cells["analysis"][-1] == ""


def test_the_two_forms_have_the_same_cells(bench: dict[str, ModuleType]) -> None:
    table, made = bench["table"], rows(bench["measure"])
    plain, marked = table.text(made).splitlines(), table.markdown(made).splitlines()
    assert len({len(line.rstrip("|").split("|")) for line in marked}) == 1
    for line, cells in zip(plain[1:], marked[2:], strict=True):
        assert line.split() == cells.replace("|", " ").split()


def test_the_measuring_program(tmp_path: Path) -> None:
    program, result = tmp_path / "run", tmp_path / "result"
    subprocess.run(["gcc", "-o", program, BENCH / "run.c"], check=True)
    done = subprocess.run([program, result, "sh", "-c", "sleep 0.1; exit 3"], check=False)
    wall, cpu, rss = map(float, result.read_text().split())
    assert done.returncode == 3
    assert wall >= 0.1 > cpu
    # Less than the Python that started it: what a shell needs.
    assert 100 < rss < 8192
