"""``iotoll experiment realise``: the nightly's detector on Mozilla's series, beside other methods.

The data are a clone of https://github.com/mozilla/REALISE-Performance: series of performance tests,
the changes that Mozilla's sheriffs confirmed in them, and what other methods found. The metrics are
those that the outputs there were made for (van den Burg and Williams, "An Evaluation of Change
Point Detection Algorithms", 2020): F1 with a margin, and the covering of segments.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from iotoll.core.errors import UsageError
from iotoll.nightly.changes.detector import Floats, noisy_steps
from iotoll.records import results

ANNOTATIONS = "data/annotations/all_data/sp_is_tp/annotations.json"
SERIES = "data/all-datasets-annotated-aggregated-minmaxscaled"
OUTPUTS = "all_best_default"
"""Where a clone has them; others of its folders have parts of the same data."""
OWN = "iotoll"
_EVERY = 25  # series between two lines of progress
_CSV, _JSON = "_timeseries_data.csv", ".json"

Annotators = Mapping[str, frozenset[int]]
"""By annotator: the first values of new levels, counted from 0."""


@dataclass(frozen=True)
class Score:
    """What one method found in one series: shares of 1, and counts.

    ``found`` of ``annotated`` changes lie within the margin of a place that the method named;
    ``others`` are the places that it named where nobody annotated one, which need not be wrong.
    Unlike F1 they do not count the series' beginning, which F1 takes for a change that all find.
    """

    f1: float
    cover: float
    annotated: int
    found: int
    others: int


@dataclass(frozen=True)
class Row:
    """One method over the series that it has an output for; ``own_*`` is iotoll on the same.

    Where ``series`` is 0 the other figures say nothing.
    """

    method: str
    series: int
    failed: int
    f1: float
    own_f1: float
    cover: float
    own_cover: float
    found: float
    own_found: float
    others_per_series: float
    own_others_per_series: float


def matched(true: Iterable[int], named: Iterable[int], margin: int) -> int:
    """How many of the ``true`` places have a named one within ``margin``; each counts once."""
    left, count = set(named), 0
    for place in sorted(true):
        near = [(abs(place - other), other) for other in left if abs(place - other) <= margin]
        if near:
            left.remove(min(near)[1])
            count += 1
    return count


def f1(annotators: Annotators, named: frozenset[int], margin: int) -> float:
    """F1: precision against all annotators' places, recall as the mean of each annotator's.

    The beginning of the series, 0, is in every set: without it a series without a change has none.
    """
    places = named | {0}
    every = frozenset({0}).union(*annotators.values())
    precision = matched(every, places, margin) / len(places)
    shares = [matched(own | {0}, places, margin) / len(own | {0}) for own in annotators.values()]
    recall = sum(shares) / len(shares)
    return 2 * precision * recall / (precision + recall)


def cover(annotators: Annotators, named: frozenset[int], size: int) -> float:
    """The covering of each annotator's segments by the method's, weighted by length; their mean."""
    own = _segments(named, size)
    found = []
    for places in annotators.values():
        total = sum(
            (b - a) * max(_overlap((a, b), other) for other in own)
            for a, b in _segments(places, size)
        )
        found.append(total / size)
    return sum(found) / len(found)


def _segments(places: Iterable[int], size: int) -> list[tuple[int, int]]:
    inner = sorted({p for p in places if 0 < p < size})
    bounds = [0, *inner, size]
    return list(itertools.pairwise(bounds))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Jaccard's index of two intervals."""
    common = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return common / (one[1] - one[0] + other[1] - other[0] - common)


def score(annotators: Annotators, named: frozenset[int], size: int, margin: int) -> Score:
    """All metrics of one method on one series of ``size`` values."""
    every = frozenset[int]().union(*annotators.values())
    found = matched(every, named, margin)
    return Score(
        f1=f1(annotators, named, margin),
        cover=cover(annotators, named, size),
        annotated=len(every),
        found=found,
        others=len(named) - found,
    )


def read_annotations(path: Path) -> dict[str, Annotators]:
    """By series the places that each annotator names; raises UsageError."""
    data = _json(path)
    try:
        return {
            str(series): {
                str(who): frozenset(int(p) for p in places) for who, places in own.items()
            }
            for series, own in data.items()
            if own
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: not {{series: {{annotator: [places]}}}}: {error}") from error


def read_series(path: Path) -> Floats:
    """The values of a series in the file's order; an empty one is NaN. Raises UsageError.

    A CSV has the column ``value``; JSON is a file of the Turing Change Point Dataset's form.
    """
    try:
        if path.suffix == _JSON:
            (one,) = _json(path)["series"]
            return np.array([float("nan" if value is None else value) for value in one["raw"]])
        with path.open(newline="") as stream:
            return np.array([float(row["value"] or "nan") for row in csv.DictReader(stream)])
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise UsageError(f"{path}: not a series of numbers: {error!r}") from error


def read_output(path: Path) -> frozenset[int] | None:
    """The places that a method named; None where the method itself failed. Raises UsageError."""
    data = _json(path)
    try:
        if data["status"] != "SUCCESS":
            return None
        return frozenset(int(place) for place in data["result"]["cplocations"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: no output with result.cplocations: {error!r}") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as JSON: {error}") from error


def own_places(values: Floats) -> frozenset[int]:
    """Where iotoll's detector says that a new level begins, reading value by value.

    Not of their logs, as a night's: some files are scaled to 0 to 1.
    """
    return frozenset(step.index for step in noisy_steps(values))


def outputs(folder: Path, series: str) -> dict[str, frozenset[int] | None]:
    """By method what it named in a series (``METHOD/*.json``); None: its output says it failed."""
    found = {}
    for method in sorted(path for path in (folder / series).glob("*") if path.is_dir()):
        files = sorted(method.glob("*.json"))
        if len(files) > 1:
            raise UsageError(f"{method}: {len(files)} outputs of one method: leave one")
        if files:
            found[method.name] = read_output(files[0])
    return found


def rows(scores: Mapping[str, Mapping[str, Score | None]]) -> list[Row]:
    """One row for each method, iotoll's first; ``scores`` are by series and method."""
    methods = sorted({name for own in scores.values() for name in own} - {OWN})
    return [_row(method, scores) for method in (OWN, *methods)]


def _row(method: str, scores: Mapping[str, Mapping[str, Score | None]]) -> Row:
    ran = [own for own in scores.values() if method in own]
    pairs = [
        (one, own[OWN]) for own in ran if (one := own[method]) is not None and own[OWN] is not None
    ]
    theirs, ours = [a for a, _ in pairs], [b for _, b in pairs if b is not None]
    return Row(
        method=method,
        series=len(pairs),
        failed=len(ran) - len(pairs),
        f1=_mean([s.f1 for s in theirs]),
        own_f1=_mean([s.f1 for s in ours]),
        cover=_mean([s.cover for s in theirs]),
        own_cover=_mean([s.cover for s in ours]),
        found=_share(theirs),
        own_found=_share(ours),
        others_per_series=_mean([s.others for s in theirs]),
        own_others_per_series=_mean([s.others for s in ours]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _share(scores: Sequence[Score]) -> float:
    """Found changes of all that are annotated; of none all are found."""
    annotated = sum(s.annotated for s in scores)
    return sum(s.found for s in scores) / annotated if annotated else 1.0


@dataclass(frozen=True)
class Clone:
    """Where the parts of the data are."""

    annotations: Path
    series: Path
    outputs: Path

    def files(self) -> dict[str, Path]:
        """By name the file of each series."""
        found = {p.name.removesuffix(_JSON): p for p in sorted(self.series.rglob(f"*{_JSON}"))}
        csvs = {p.name.removesuffix(_CSV): p for p in sorted(self.series.rglob(f"*{_CSV}"))}
        return {**found, **csvs}


def scored(clone: Clone, margin: int, limit: int | None) -> dict[str, dict[str, Score | None]]:
    """By series and method the score of every annotated series of the clone, or its first ones."""
    annotations, files = read_annotations(clone.annotations), clone.files()
    known = sorted(set(annotations) & set(files))[:limit]
    if not known:
        raise UsageError(f"{clone.series}: no annotated series is there: name --series")
    click.echo(f"{len(annotations)} annotated series, {len(known)} of them read", err=True)
    found: dict[str, dict[str, Score | None]] = {}
    for number, name in enumerate(known, 1):
        values, annotators = read_series(files[name]), annotations[name]
        last = max((p for own in annotators.values() for p in own), default=0)
        if last >= len(values):
            raise UsageError(f"{files[name]}: {len(values)} values, and one is annotated at {last}")
        named = {OWN: own_places(values), **outputs(clone.outputs, name)}
        found[name] = {
            method: None if places is None else score(annotators, places, len(values), margin)
            for method, places in named.items()
        }
        if not number % _EVERY:
            click.echo(f"{number} of {len(known)} series", err=True)
    return found


def _line(row: Row) -> str:
    text = f"{row.method:20} {row.series:5} series"
    if row.series:
        text += (
            f"  F1 {row.f1:.3f} ({OWN} {row.own_f1:.3f})  cover {row.cover:.3f}"
            f" ({row.own_cover:.3f})  found {row.found:.1%} ({row.own_found:.1%})"
            f"  others {row.others_per_series:.2f} a series ({row.own_others_per_series:.2f})"
        )
    return text + (f"  failed on {row.failed}" if row.failed else "")


@click.command("realise")
@click.option(
    "--data",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="A clone of github.com/mozilla/REALISE-Performance.",
)
@click.option("--annotations", default=ANNOTATIONS, show_default=True, metavar="FILE")
@click.option("--series", default=SERIES, show_default=True, metavar="FOLDER")
@click.option("--outputs", "others", default=OUTPUTS, show_default=True, metavar="FOLDER")
@click.option("--margin", default=5, show_default=True, type=click.IntRange(0, 1000))
@click.option("--limit", type=click.IntRange(1), help="Only so many series, the first by name.")
@click.option(
    "--out", default="runs/realise.json", show_default=True, type=click.Path(path_type=Path)
)
def realise_command(
    data: Path,
    annotations: str,
    series: str,
    others: str,
    margin: int,
    limit: int | None,
    out: Path,
) -> None:
    """Score the nightly's detector on Mozilla's series, beside methods whose outputs are there."""
    if not data.is_dir():
        raise UsageError(f"--data {data}: no such folder: clone mozilla/REALISE-Performance there")
    clone = Clone(data / annotations, data / series, data / others)
    scores = scored(clone, margin, limit)
    table = rows(scores)
    for row in table:
        click.echo(_line(row))
    by_series = {
        name: {method: asdict(one) if one else None for method, one in own.items()}
        for name, own in scores.items()
    }
    answer = {"margin": margin, "rows": [asdict(row) for row in table], "series": by_series}
    results.write_text(out, json.dumps(answer, indent=1) + "\n")
    click.echo(str(out))
