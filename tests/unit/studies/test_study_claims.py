"""What a study's records come to: values, verdicts of claims, checks of published runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.records.models import Clock
from iotoll.studies.data import load_study
from iotoll.studies.evaluate import Evaluator, Measured
from iotoll.studies.page import study_html, study_markdown
from tests.unit.studies.studies import CELL, MODEL, evaluated, record, small


def test_values_verdicts_and_points_follow_from_the_records(tmp_path: Path) -> None:
    found = evaluated(small(tmp_path), Measured({CELL: record()}, {"ufs": MODEL}))
    share, rest, off = found.tables[0].rows[0].values
    assert (share.ours, share.published) == (30.0, [20, 40])
    assert rest.ours == 70.0
    assert off.ours == 56.0  # 70 us at the device, 14 us by its model
    assert [claim.verdict for claim in found.claims] == ["agrees", "shape holds"]
    assert [claim.compared for claim in found.claims] == [[], [(70.0, ">", 30.0)]]
    assert "| a shape | 70.0 > 30.0 us | shape holds |" in study_markdown(found)
    line = found.curves[0].lines[0]
    assert line.points[0] == (0.0, 3000.0)
    assert line.executed == [(70.0, 30.0)]
    assert line.published == [(10.0, 50.0)]


def test_a_value_outside_of_its_tolerance_differs(tmp_path: Path) -> None:
    study = small(tmp_path)
    within = Measured({CELL: record(sw=43_900, hw=56_100)}, {})
    beyond = Measured({CELL: record(sw=44_100, hw=55_900)}, {})
    assert evaluated(study, within).claims[0].verdict == "agrees"
    assert evaluated(study, beyond).claims[0].verdict == "differs"
    turned = Measured({CELL: record(sw=60_000, hw=40_000)}, {})
    assert evaluated(study, turned).claims[1].verdict == "shape differs"


def test_what_needs_a_board_is_shown_and_not_judged(tmp_path: Path) -> None:
    study = small(tmp_path, ("tolerance = 10", 'tolerance = 10\nneeds_board = "its CPU"'))
    measured = Measured({CELL: record(sw=60_000, hw=40_000)}, {})
    claim = evaluated(study, measured).claims[0]
    assert (claim.verdict, claim.ours, claim.why) == ("needs a board", 60.0, "its CPU")
    assert evaluated(study, measured, virtual=False).claims[0].verdict == "differs"


def test_nothing_is_judged_by_the_times_of_a_simulated_board(tmp_path: Path) -> None:
    measured = Measured({CELL: record()}, {})
    found = evaluated(small(tmp_path), measured, clock=Clock.TIME, virtual=True)
    assert {claim.verdict for claim in found.claims} == {"needs a board"}


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (Measured({}, {}, "board x is real"), "board x is real"),
        (Measured({}, {}), "did not run"),
        (Measured({CELL: record(invalid="fio reported error 5")}, {}), "fio reported error 5"),
    ],
)
def test_what_was_not_measured_has_no_verdict_and_says_why(
    tmp_path: Path, measured: Measured, why: str
) -> None:
    found = evaluated(small(tmp_path), measured)
    assert {claim.verdict for claim in found.claims} == {"not measured"}
    assert why in found.claims[0].why
    assert found.tables[0].rows[0].values[0].ours is None
    assert "not measured" in study_html(found)
    assert why in study_markdown(found)


def test_published_runs_are_checked_as_ours_are() -> None:
    study = load_study("raw-device")
    nothing = Measured({}, {}, "nothing booted")
    checks = Evaluator(study, {"modelled": nothing}, Clock.INSTRUCTIONS, virtual=True).checks()
    found = {(check.run, check.what): check for check in checks}
    header = found["read, as published", "rw"]
    assert (header.asked, header.ran, header.verdict) == ("read", "write", "differs")
    assert found["read, as published", "direction"].verdict == "as asked"
    for way, flight, end in (("read", "7.97", "10.9 s"), ("write", "7.82", "24.7 s")):
        run = f"{way}, as published"
        assert found[run, "iodepth"].ran == "1: psync has one I/O in flight per job"
        assert found[run, "I/Os in flight"].ran.startswith(flight)
        assert found[run, "end"].ran == f"by size, after {end}"
        assert (run, f"bandwidth of the {way}") in found
        # What no log names is neither right nor wrong, and a date that is not known is not judged.
        assert (run, "bs") not in found and (run, "the board's date") not in found
    assert found["read, as printed", "command"].verdict == "differs"


def test_the_printed_gains_do_not_follow_from_one_set_of_overheads() -> None:
    study = load_study("ufs-nvme")
    nothing = Measured({}, {}, "nothing booted")
    evaluator = Evaluator(
        study, dict.fromkeys(study.variants, nothing), Clock.INSTRUCTIONS, virtual=True
    )
    tables = {table.name: evaluator.table(table) for table in study.tables}
    rows = {row.label: row for row in tables["arithmetic"].rows}
    keys = [column.key for column in tables["arithmetic"].columns]
    found = {
        label: dict(zip(keys, (v.ours for v in row.values), strict=True))
        for label, row in rows.items()
    }
    # STUDIES: at least 3.75, 2.66, 35.0 and 15.6 us; below 0.77, 0.86, 0.78 and 0.87.
    assert [round(f["least"] or 0, 2) for f in found.values()] == [3.75, 2.66, 35.0, 15.6]
    assert [round(f["ratio"] or 0, 2) for f in found.values()] == [0.77, 0.86, 0.78, 0.87]
    write, read = found["4K random write"], found["4K random read"]
    assert (round(write["low"] or 0, 1), round(write["high"] or 0, 1)) == (1.5, 4.7)
    assert (round(read["low"] or 0), round(read["high"] or 0)) == (36, 60)
    # 36 us of software beside 16.6 us of hardware are 69 %, where the paper has 20 to 40 %.
    assert (read["share"] or 0) > 40
    # A negative overhead is no share, and high is never below low.
    assert all(0 <= (f["share"] or 0) <= (f["share_high"] or 0) < 100 for f in found.values())
    claims = {c.text: evaluator.claim(c).verdict for c in study.claims}
    told = [v for text, v in claims.items() if "the gains of paper and talk" in text]
    assert told == ["shape differs"] * 2
    # No board's time is in this arithmetic, so it is judged also where a simulated board ran.
    simulated = Evaluator(study, evaluator.measured, Clock.TIME, virtual=True)
    judged = [c.text for c in study.claims if simulated.claim(c).verdict != "needs a board"]
    assert judged == [text for text in claims if "the gains of paper and talk" in text]


def test_a_real_boards_records_fill_the_papers_pictures() -> None:
    study = load_study("ufs-nvme")
    slow, quick = record(sw=30_000, hw=70_000), record(sw=24_000, hw=70_000)
    cells = {
        cell: (quick if cell.startswith("nvme") else slow).model_copy(update={"cell": cell})
        for cell in study.variants["paper"].cells
    }
    measured = {"paper": Measured(cells, {}), "talk": Measured({}, {}, "its devices are real")}
    evaluator = Evaluator(study, measured, Clock.TIME, virtual=False)
    tables = {table.name: evaluator.table(table) for table in study.tables}
    for name in ("shares-ufs", "shares-nvme", "ratio", "figure-6-iops", "figure-6-mbs"):
        values = [value for row in tables[name].rows for value in row.values]
        assert values and all(value.ours is not None for value in values), name
    assert tables["ratio"].rows[0].values[0].ours == 80.0
    gain = round(100 * ((30 + 12.5) / (24 + 12.5) - 1), 1)
    assert round(tables["figure-6-iops"].rows[0].values[2].ours or 0, 1) == gain
    verdicts = {claim.verdict for claim in map(evaluator.claim, study.claims)}
    assert "needs a board" not in verdicts and {"agrees", "differs", "shape holds"} <= verdicts
    # The boot with the talk's latencies needs a model, so what compares with it is not measured.
    assert "not measured" in verdicts
