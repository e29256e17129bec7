"""The pairs of a run become a verdict: outcome per cell, growths, and the words for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.stats import t as student

from iotoll.records import results
from iotoll.records.models import (
    CellVerdict,
    GrowthRecord,
    NoiseRecord,
    Outcome,
    PairRecord,
    Section,
    SectionComparison,
    SequentialRecord,
    SideResult,
    TimeShare,
    VerdictRecord,
)
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.elements import compare_counted
from iotoll.verdict.findings import also, no_figures
from iotoll.verdict.policy import CountedRule, TimePolicy, load_time_policy
from iotoll.verdict.time.noise import history, history_file, load
from iotoll.verdict.time.pairs import OVERHEAD, Pairs, make_pairs
from iotoll.verdict.time.screen import ASIDE
from iotoll.verdict.time.sequential import Judged, Known, Look, Plan, State, judge, look_at, plan_of

SHARE_LEVEL = 0.95
"""Of the interval of what a section takes longer (`shares`)."""
FEWEST_FOR_SHARE = 3
"""Pairs with fewer of which nothing is said."""

MOST_WOULD_DO = 1000
"""Where more pairs than that would be needed, no number is given."""


@dataclass(frozen=True)
class Decision:
    """What the pairs say so far; ``wanted`` is the number of pairs to go on to, 0 when decided."""

    wanted: int
    outcome: Outcome
    cells: list[CellVerdict]
    regressions: list[str]
    improvements: list[str]
    sequential: SequentialRecord
    sentence: str


def decide(
    pairs: Pairs, cells: Sequence[str], policy: TimePolicy, noise: NoiseRecord, seed: int | None
) -> Decision:
    """Judge the pairs of a run by a policy and the board's history."""
    plan = plan_of(policy, len(cells))
    devices = [record.device for record in pairs.records]
    known = history(noise, pairs.names, devices)
    names = sorted(set(devices))
    more = Known(
        np.array([[names.index(device) for device in devices]], np.int64).reshape(1, -1),
        np.log(pairs.base)[None],
        known.far[None],
    )
    before, freedom = known.variance[None], known.freedom[None]
    judged = judge(pairs.ratios[None], before, freedom, plan, more)
    used, look = int(judged.pairs[0]), None
    if used:
        part = more.of(np.array([0]), used)
        index = max(int(judged.look[0]), 0)
        look = look_at(pairs.ratios[None, :used], before[:, :used], freedom, plan, index, part)
    found = _Found(pairs, plan, judged, look, used)
    growths = [found.growth(at) for at in range(len(pairs.names))]
    width = len(policy.figures)
    verdicts = [
        _cell(found, cell, growths[n * width : (n + 1) * width]) for n, cell in enumerate(cells)
    ]
    outcome = _outcome(found.state, verdicts)
    wanted = 0 if any(v.outcome is Outcome.INFRASTRUCTURE for v in verdicts) else found.wanted
    sequential = found.course(policy, known.pairs, seed or 0).model_copy(
        update={
            "would_do": found.would_do() if outcome is Outcome.INCONCLUSIVE else None,
            "not_judged": [
                f"{v.cell}: {g.figure}, {g.why}" for v in verdicts for g in v.growth if g.limit
            ],
        }
    )
    return Decision(
        wanted,
        outcome,
        verdicts,
        [_moved(v.cell, g) for v in verdicts for g in v.growth if g.state == "grew"],
        [_moved(v.cell, g) for v in verdicts for g in v.growth if g.improved],
        sequential,
        _sentence(outcome, verdicts, sequential),
    )


def promise(policy: TimePolicy) -> str:
    """The errors of a policy in one plain sentence.

    A block is exact whatever the noise; a pass rests on an estimated noise (docs/validation.md).
    """
    worst = min(rule.unacceptable for rule in policy.figures.values())
    return (
        f"A patch that changes nothing is blocked at most once in {1 / policy.block_error:,.0f} "
        f"merge requests, over all cells, sections and looks together; one that makes the "
        f"overhead of a single cell {worst:.0%} costlier passes with about "
        f"{policy.pass_error:.0%} probability, except in what the verdict names as not judged."
    )


@dataclass(frozen=True)
class _Found:
    """One run's pairs with what was found in them."""

    pairs: Pairs
    plan: Plan
    judged: Judged
    look: Look | None
    used: int

    @property
    def state(self) -> State:
        return State(int(self.judged.state[0]))

    @property
    def wanted(self) -> int:
        return int(self.judged.wanted[0])

    def course(self, policy: TimePolicy, history: int, seed: int) -> SequentialRecord:
        """How the search for a decision went, with the policy's promises."""
        return SequentialRecord(
            looks=policy.looks,
            pairs=self.records(),
            used=self.used,
            figures=len(self.pairs.names),
            board_minutes=round(sum(record.seconds for record in self.pairs.records) / 60, 2),
            alarm_error=policy.alarm_error,
            block_error=policy.block_error,
            pass_error=policy.pass_error,
            promise=promise(policy),
            inflation=round(float(self.look.estimate.inflation[0]), 3) if self.look else 1.0,
            history=history,
            seed=seed,
        )

    def records(self) -> list[PairRecord]:
        """The pairs, with why one that was looked at is not used."""
        records = list(self.pairs.records)
        for at in range(self.used if self.look else 0):
            if not records[at].unused and (why := self._aside(at)):
                records[at] = records[at].model_copy(update={"unused": why})
        return records

    def _aside(self, pair: int) -> str:
        assert self.look is not None
        aside, device = self.look.aside, self.pairs.records[pair].device
        size = float(aside.size[0, pair])
        if aside.board[0, pair]:
            return f"set aside: board {device} is far noisier today than the others"
        if not aside.aside[0, pair]:
            return ""
        if aside.slow[0, pair]:
            return (
                f"set aside: one boot was slow as a whole ({size:.1f} times the usual difference)"
            )
        if size > ASIDE:
            return f"set aside: {size:.1f} times as noisy as the usual pair"
        return "set aside: there are enough without it"

    def growth(self, at: int) -> GrowthRecord:
        figure, ratios = self.pairs.names[at][1], self.pairs.ratios[:, at]
        plan, look = self.plan, self.look
        data: dict[str, object] = {
            "figure": figure,
            "tolerated": _share(plan.tolerated[at]),
            "unacceptable": _share(plan.unacceptable[at]),
            "state": "open",
            "ratios": [_share(v) if np.isfinite(v) else None for v in ratios],
        }
        if look is None:
            nothing = {"growth": 0.0, "low": _share(-np.inf), "high": _share(np.inf)}
            data |= {**nothing, "pairs": 0, "noise": 0.0, "freedom": 0.0}
            return GrowthRecord.model_validate(data)
        estimate, exact = look.estimate, float(self.judged.exact[0, at])
        mean = float(estimate.mean[0, at])
        wide = self._wide(at)
        if self.judged.grew[0, at]:
            data["state"] = "grew"
        elif self.judged.alarmed[0, at]:
            data["state"] = "alarm"
        elif look.within[0, at] and not wide:
            data["state"] = "within"
        return GrowthRecord.model_validate(
            data
            | {
                "growth": _share(mean if np.isfinite(mean) else 0.0),
                "low": _share(float(look.low[0, at])),
                "high": _share(float(look.high[0, at])),
                "improved": bool(look.improved[0, at]),
                "pairs": int(estimate.pairs[0, at]),
                "noise": round(float(estimate.deviation[0, at]), 6),
                "freedom": round(float(estimate.freedom[0, at]), 1),
                "exact": exact if np.isfinite(exact) else None,
                "limit": _share(float(look.limit[0, at])) if wide else None,
                "slow": int(look.slow[0, at]),
                "why": self._why(at, wide),
            }
        )

    def _wide(self, at: int) -> bool:
        """Whether a figure was not judged at the policy's limit, which it did not keep either."""
        look = self.look
        if look is None or look.limit[0, at] <= self.plan.unacceptable[at]:
            return False
        return bool(look.high[0, at] >= self.plan.unacceptable[at])

    def _why(self, at: int, wide: bool) -> str:
        look = self.look
        assert look is not None
        if self.pairs.takes_no_time(at):
            return "takes no time: this disk ends a request while it is handed over"
        if look.suspect[0, at]:
            return (
                f"the candidate was far above the base in {look.slow[0, at]} pairs, more often "
                "than this board's history explains"
            )
        if not wide:
            return ""
        noise = float(look.estimate.deviation[0, at])
        if np.isinf(look.limit[0, at]):
            return f"left out: its noise is {noise:.1%}"
        return f"its noise is {noise:.1%}: only {np.expm1(look.limit[0, at]):.1%} can be ruled out"

    def would_do(self) -> int | None:
        """About how many pairs would decide what is open, if the growth is what it seems."""
        most = 0
        look, last = self.look, len(self.plan.looks) - 1
        if look is None:
            return None
        for at in np.flatnonzero(~look.within[0]):
            mean, deviation = look.estimate.mean[0, at], look.estimate.deviation[0, at]
            if not np.isfinite(mean):
                return None
            gaps = (
                (self.plan.alarm_levels[last], mean - self.plan.tolerated[at]),
                (self.plan.pass_levels[last], self.plan.unacceptable[at] - mean),
            )
            needed = [
                (student.isf(level, 30) * deviation / gap) ** 2 for level, gap in gaps if gap > 0
            ]
            most = max(most, int(np.ceil(min(needed))))
        most = max(most, self.used + 1)
        return most if most <= MOST_WOULD_DO else None


def _share(log: float) -> float:
    return round(float(np.expm1(np.clip(log, -20, 20))), 6)


def _outcome(state: State, verdicts: Sequence[CellVerdict]) -> Outcome:
    if state is State.REGRESSION:
        return Outcome.REGRESSION
    if any(v.outcome is Outcome.INFRASTRUCTURE for v in verdicts):
        return Outcome.INFRASTRUCTURE
    return Outcome.PASS if state is State.PASS else Outcome.INCONCLUSIVE


def _cell(found: _Found, cell: str, growths: Sequence[GrowthRecord]) -> CellVerdict:
    why = found.pairs.invalid.get(cell, "")
    unused = next((r.unused for r in found.pairs.records if r.unused), "")
    if any(g.state == "grew" for g in growths):
        outcome = Outcome.REGRESSION
    elif why or (found.used and not any(g.pairs for g in growths)):
        outcome, why = Outcome.INFRASTRUCTURE, why or unused or "no pair of boots can be used"
    elif all(g.state == "within" for g in growths):
        outcome = Outcome.PASS
    elif found.state is State.PASS and any(g.limit for g in growths):
        outcome = Outcome.INCONCLUSIVE
        why = "not judged today: " + "; ".join(f"{g.figure}, {g.why}" for g in growths if g.limit)
    elif found.state is State.PASS:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE
        shaky = [g.figure for g in growths if g.state != "within"]
        why = f"more pairs are needed for {', '.join(shaky)}"
        why += "".join(f"; {g.figure}: {g.why}" for g in growths if g.why)
    columns = range(len(found.pairs.names))
    at = {found.pairs.names[c][1]: c for c in columns if found.pairs.names[c][0] == cell}
    sections = [
        _comparison(found, at[g.figure], g) for g in growths if g.figure != OVERHEAD and g.pairs
    ]
    return CellVerdict(cell=cell, outcome=outcome, sections=sections, why=why, growth=list(growths))


def _comparison(found: _Found, at: int, growth: GrowthRecord) -> SectionComparison:
    """The same in nanoseconds, as reports and formats know it from the other clock."""
    base = 0.0 if found.pairs.takes_no_time(at) else float(np.nanmedian(found.pairs.base[:, at]))
    moved = "grew" if growth.state == "grew" else "shrank" if growth.improved else "same"
    return SectionComparison.model_validate(
        {
            "section": Section(growth.figure),
            "base": round(base, 1),
            "candidate": round(base * (1 + growth.growth), 1),
            "delta": round(base * growth.growth, 1),
            "relative": growth.growth,
            "threshold": round(base * growth.unacceptable, 1),
            "gated": True,
            "moved": moved,
            "confidence": f"{growth.bounds} in {growth.pairs} pairs of boots",
        }
    )


def _moved(cell: str, growth: GrowthRecord) -> str:
    return f"{cell}: {growth.figure} {growth.growth:+.1%} ({growth.bounds})"


def _sentence(
    outcome: Outcome, verdicts: Sequence[CellVerdict], sequential: SequentialRecord
) -> str:
    total, pairs = len(verdicts), f"{sequential.used} pairs of boots"
    if outcome is Outcome.REGRESSION:
        grown = [(g, v.cell) for v in verdicts for g in v.growth if g.state == "grew"]
        growth, cell = max(grown, key=lambda found: found[0].low)
        cells = len({name for _, name in grown})
        return (
            f"The candidate makes {cells} of {total} cells slower; most surely {growth.figure} of "
            f"{cell}, by {growth.growth:.1%} (at least {growth.low:.1%}), in {pairs}."
        )
    if outcome is Outcome.INFRASTRUCTURE:
        return no_figures(verdicts)
    if outcome is Outcome.PASS:
        worst = max(
            (
                g.high
                for v in verdicts
                for g in v.growth
                if g.figure == OVERHEAD or not any(o.figure == OVERHEAD for o in v.growth)
                if not g.limit
            ),
            default=0.0,
        )
        better = sum(any(g.improved for g in v.growth) for v in verdicts)
        note = f"; {better} became faster" if better else ""
        judged = sum(v.outcome is Outcome.PASS for v in verdicts)
        out = "; ".join(sequential.not_judged)
        return (
            f"None of {judged} cells became slower by {max(worst, 0):.1%} or more, in {pairs}"
            f"{note}." + (f" Not judged today: {out}." if out else "") + (_left_out(sequential))
        )
    open_ones = sum(v.outcome is Outcome.INCONCLUSIVE for v in verdicts)
    more = (
        f"about {sequential.would_do} pairs would tell"
        if sequential.would_do
        else "this board is too noisy to tell"
    )
    left = _left_out(sequential)
    return f"After {pairs}, {open_ones} of {total} cells are undecided: {more}.{left}"


def _left_out(sequential: SequentialRecord) -> str:
    """The boards that were left out, named; empty when none was."""
    boards = sorted({r.device for r in sequential.pairs if "far noisier today" in r.unused})
    return f" Left out, too noisy today: {', '.join(boards)}." if boards else ""


def decide_run(run: RunDir, cells: Sequence[str]) -> Decision:
    """What the pairs so far say, by the history as it was when the run was first judged."""
    manifest = run.manifest
    policy = load_time_policy(manifest.policy)
    own = run.root / "noise.json"
    if not own.is_file():
        known = history_file(manifest.board, manifest.matrix)
        results.write(own, load(known, manifest.board, manifest.matrix))
    base, candidate = (results.read(run.side(s) / "result.json", SideResult) for s in SIDES)
    pairs = make_pairs(base, candidate, cells, list(policy.figures), manifest.seed)
    found = decide(pairs, cells, policy, results.read(own, NoiseRecord), manifest.seed)
    judged = with_elements(found.cells, (base, candidate), pairs, policy.counted)
    return replace(found, cells=judged, sentence=f"{found.sentence}{also(judged)}")


def with_elements(
    cells: Sequence[CellVerdict], sides: Sequence[SideResult], pairs: Pairs, rule: CountedRule
) -> list[CellVerdict]:
    """The cells with what their traces count besides time, in the boots of usable pairs alone."""
    used = {record.pair for record in pairs.records if not record.unused}
    found = []
    for cell in cells:
        base, candidate = (
            [
                record
                for boot, record in zip(side.boots, side.cells.get(cell.cell, []), strict=False)
                if boot.boot in used
            ]
            for side in sides
        )
        moved = compare_counted(base, candidate, rule)
        found.append(cell.model_copy(update={"elements": moved}))
    return found


def shares(verdict: VerdictRecord) -> list[TimeShare]:
    """How much longer each figure takes by a verdict's pairs, with an interval (docs/time.md).

    Cells of one boot share its noise, so a pair of boots counts once: the mean of its log ratios
    over the cells. The interval is Student's over the pairs, as for a number of pairs that was
    decided beforehand. In the order of the policy; empty without pairs.
    """
    if verdict.sequential is None or not verdict.cells:
        return []
    used = [not record.unused for record in verdict.sequential.pairs]
    figures = dict.fromkeys(g.figure for cell in verdict.cells for g in cell.growth)
    found = (_time_share(figure, verdict.cells, used) for figure in figures)
    return [one for one in found if one is not None]


def _time_share(
    figure: str, cells: Sequence[CellVerdict], used: Sequence[bool]
) -> TimeShare | None:
    rows = [g for cell in cells for g in cell.growth if g.figure == figure]
    values = np.array([[np.nan if r is None else np.log1p(r) for r in g.ratios] for g in rows])
    values = values[:, np.array(used, np.bool_)]
    values = values[:, ~np.isnan(values).any(axis=0)].mean(axis=0)
    if len(values) < FEWEST_FOR_SHARE:
        return None
    reach = (
        student.ppf((1 + SHARE_LEVEL) / 2, len(values) - 1)
        * values.std(ddof=1)
        / len(values) ** 0.5
    )
    growth, low, high = (
        round(float(np.expm1(v)), 5)
        for v in (values.mean(), values.mean() - reach, values.mean() + reach)
    )
    limit = min(g.unacceptable for g in rows)
    return TimeShare(
        part=figure,
        growth=growth,
        low=low,
        high=high,
        pairs=len(values),
        moved=_way(low, high, limit),
    )


def _way(low: float, high: float, limit: float) -> Literal["grew", "shrank", "same", "unknown"]:
    if low > 0 or high < 0:
        return "grew" if low > 0 else "shrank"
    return "same" if -limit < low and high < limit else "unknown"
