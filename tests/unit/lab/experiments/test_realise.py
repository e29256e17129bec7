"""The score on Mozilla's series: its metrics by hand, and a clone made here of the same form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from iotoll_lab.experiments.realise import (
    ANNOTATIONS,
    OUTPUTS,
    SERIES,
    cover,
    f1,
    matched,
    own_places,
    read_output,
    read_series,
    realise_command,
    score,
)

from iotoll.core.errors import UsageError

STEP = 80


def one(*places: int) -> dict[str, frozenset[int]]:
    return {"1": frozenset(places)}


def test_a_named_place_counts_for_one_change_only() -> None:
    assert matched([10, 12], [11], 5) == 1
    assert matched([10, 20], [15, 24], 5) == 2
    assert matched([10], [16], 5) == 0
    assert matched([10], [15], 5) == 1


def test_f1_counts_the_beginning_and_every_annotator() -> None:
    # 0 and 50 of 0, 50 and 90; the change at 70 is not found: 2/3 and 2/3.
    assert f1(one(50, 70), frozenset({50, 90}), 5) == pytest.approx(2 / 3)
    # Nothing annotated, nothing named.
    assert f1(one(), frozenset(), 5) == 1.0
    # Precision against both annotators' places, 3 of 3; recall 2 of 2 and 2 of 3.
    two = {"1": frozenset({50}), "2": frozenset({70, 90})}
    precision, recall = 1.0, (1 + 2 / 3) / 2
    expected = 2 * precision * recall / (precision + recall)
    assert f1(two, frozenset({50, 70}), 5) == pytest.approx(expected)


def test_cover_weighs_segments_by_their_length() -> None:
    assert cover(one(50), frozenset({50}), 100) == 1.0
    # [0, 40) lies in [0, 50): 40/50; [40, 100) and [50, 100): 50/60.
    assert cover(one(40), frozenset({50}), 100) == pytest.approx(0.4 * 0.8 + 0.6 * 50 / 60)
    assert cover(one(), frozenset({50}), 100) == pytest.approx(0.5)


def test_places_that_nobody_annotated_are_counted_by_themselves() -> None:
    found = score(one(50, 70), frozenset({52, 90, 95}), 100, 5)
    assert (found.annotated, found.found, found.others) == (2, 1, 2)


def test_own_places_are_where_the_level_begins() -> None:
    values = np.random.default_rng(4).normal(300, 3, 160)
    values[STEP:] += 40
    assert own_places(values) == {STEP}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Three series of the dataset's form: a CSV and its outputs, a CSV alone, and a JSON."""
    rng = np.random.default_rng(6)
    data = tmp_path / "clone"
    folder = data / SERIES / "autoland1"
    folder.mkdir(parents=True)
    lines: dict[str, list[float]] = {}
    for name in ("11", "12", "13"):
        values = rng.normal(300, 3, 160)
        values[STEP:] += 40
        lines[name] = [round(float(v), 1) for v in values]
    for name in ("11", "12"):
        rows = "".join(f"{i},rev{i},{v},autoland\n" for i, v in enumerate(lines[name]))
        text = ",revision,value,repository_name\n" + rows
        (folder / f"{name}_timeseries_data.csv").write_text(text)
    document = {"name": "13", "n_obs": 160, "series": [{"label": "V1", "raw": lines["13"]}]}
    (folder / "13.json").write_text(json.dumps(document))
    annotations = {name: {"1": [STEP]} for name in ("11", "12", "13", "14")}
    (data / ANNOTATIONS).parent.mkdir(parents=True)
    (data / ANNOTATIONS).write_text(json.dumps(annotations))
    _output(data, "best_mozilla", {"status": "SUCCESS", "result": {"cplocations": [20, STEP]}})
    _output(data, "default_wbs", {"status": "FAIL", "result": None})
    return data


def _output(data: Path, method: str, document: dict[str, object]) -> None:
    folder = data / OUTPUTS / "11" / method
    folder.mkdir(parents=True)
    (folder / "0123.json").write_text(json.dumps(document))


def run(clone: Path, *words: str) -> Result:
    out = ["--out", str(clone.parent / "o.json")]
    return CliRunner().invoke(realise_command, ["--data", str(clone), *words, *out])


def test_the_command_scores_all_series_and_each_method_on_its_own(clone: Path) -> None:
    result = run(clone)
    assert result.exit_code == 0, result.output
    answer = json.loads((clone.parent / "o.json").read_text())
    rows = {row["method"]: row for row in answer["rows"]}
    assert list(rows) == ["iotoll", "best_mozilla", "default_wbs"]
    assert (rows["iotoll"]["series"], rows["iotoll"]["found"]) == (3, 1.0)
    mozilla = rows["best_mozilla"]
    assert (mozilla["series"], mozilla["found"], mozilla["others_per_series"]) == (1, 1.0, 1.0)
    assert mozilla["own_f1"] == 1.0
    assert mozilla["f1"] == pytest.approx(0.8)
    assert (rows["default_wbs"]["series"], rows["default_wbs"]["failed"]) == (0, 1)
    assert answer["series"]["11"]["default_wbs"] is None
    assert "4 annotated series, 3 of them read" in result.output


def test_a_method_that_has_no_score_prints_none(clone: Path) -> None:
    line = next(x for x in run(clone).output.splitlines() if x.startswith("default_wbs"))
    assert "failed on 1" in line
    assert "F1" not in line


def test_a_limit_takes_the_first_series(clone: Path) -> None:
    run(clone, "--limit", "1")
    assert list(json.loads((clone.parent / "o.json").read_text())["series"]) == ["11"]


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        (ANNOTATIONS, "[", "annotations.json: cannot be read as JSON"),
        (ANNOTATIONS, "[1]", "annotations.json: not {series"),
        (ANNOTATIONS, '{"99": {"1": []}}', "no annotated series is there: name --series"),
        (ANNOTATIONS, '{"11": {"1": [160]}}', "160 values, and one is annotated at 160"),
        (f"{SERIES}/autoland1/11_timeseries_data.csv", "a,b\n1,2\n", "not a series of numbers"),
        (f"{SERIES}/autoland1/11_timeseries_data.csv", "value\nx\n", "not a series of numbers"),
        (f"{SERIES}/autoland1/13.json", '{"series": []}', "13.json: not a series of numbers"),
        (f"{OUTPUTS}/11/best_mozilla/0123.json", "{}", "0123.json: no output with"),
    ],
)
def test_a_file_that_is_not_of_the_form_is_named(
    clone: Path, place: str, text: str, words: str
) -> None:
    (clone / place).write_text(text)
    result = run(clone)
    assert isinstance(result.exception, UsageError)
    assert words in str(result.exception)


def test_two_outputs_of_one_method_are_refused(clone: Path) -> None:
    (clone / OUTPUTS / "11/best_mozilla/9.json").write_text("{}")
    assert "2 outputs of one method" in str(run(clone).exception)


def test_gaps_are_gaps(tmp_path: Path) -> None:
    (tmp_path / "1_timeseries_data.csv").write_text("value\n1.5\n\n2\n,\n")
    (tmp_path / "1.json").write_text('{"series": [{"raw": [1, null, 3]}]}')
    assert np.isnan(read_series(tmp_path / "1.json")).tolist() == [False, True, False]
    (tmp_path / "2_timeseries_data.csv").write_text("value,x\n1.5,a\n,b\n")
    assert np.isnan(read_series(tmp_path / "2_timeseries_data.csv")).tolist() == [False, True]


def test_an_output_that_failed_is_none(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text('{"status": "TIMEOUT"}')
    assert read_output(path) is None
