"""Values without events beside those of the gate's boot."""

from __future__ import annotations

import numpy as np

from iotoll.core.paths import data_dir
from iotoll.explain.untraced import CutIos, _cell
from iotoll.records import results
from iotoll.records.models import CellRecord, OrderedIos, Section, SideResult

CUT = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN)


def known(first: dict[Section, int]) -> CellRecord:
    """A record whose sections have the median 900, 500 when corrected, and these first requests."""
    example = results.read(data_dir("results-schema") / "valid/result.json", SideResult)
    record = next(iter(example.cells.values()))[0]
    part = record.sections[Section.VFS_FS]
    whole = part.model_copy(
        update={"own": part.own.model_copy(update={"median": 900}), "corrected_median": 500.0}
    )
    ordered = OrderedIos(
        thread=[0] * 3, sections={s: [None, v, v] for s, v in first.items()}, whole=[]
    )
    return record.model_copy(update={"sections": dict.fromkeys(CUT, whole), "in_order": ordered})


def cut() -> CutIos:
    return CutIos({s: np.array([510, 520, 900]) for s in CUT}, 1)


def test_all_three_values_of_each_section() -> None:
    found = _cell("base", "cell", cut(), [known(dict.fromkeys(CUT, 900))])
    assert (found.ios, found.not_cut) == (3, 1)
    assert [s.section for s in found.sections] == list(CUT)
    for section in found.sections:
        assert (section.traced, section.calibrated, section.untraced) == (900, 500, 520)


def test_several_requests_have_no_calibrated_value_and_no_return() -> None:
    """O_SYNC: what the journal adds is in the calibrated section, and not in the first request."""
    first = {**dict.fromkeys(CUT, 900), Section.SUBMISSION: 400}
    found = _cell("base", "cell", cut(), [known(first)])
    assert [s.section for s in found.sections] == list(CUT[:3])
    assert [s.calibrated for s in found.sections] == [None] * 3
    assert found.sections[1].traced == 400


def test_without_a_result_of_the_gate_only_the_untraced_value_is_known() -> None:
    found = _cell("base", "cell", cut(), [])
    assert [s.untraced for s in found.sections] == [520.0] * 3
    assert all(s.traced is None and s.calibrated is None for s in found.sections)
