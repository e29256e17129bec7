"""Models of what a run concludes: figures per side, comparisons, the verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.records.models.analysis import CellRecord
from iotoll.records.models.base import Clock, Model, Outcome, Section, Unit
from iotoll.records.models.run import BootRecord, BuildRecord, FailureRecord, Side, SourceRecord

_NEARLY_ALL = 0.9
"""No rule of any version lets so large a share of the I/Os grow past the threshold."""


class SideResult(Model):
    """``sides/SIDE/result.json``: all cells of one kernel, with where they come from."""

    schema_version: str = "iotoll.result/1"
    side: Side
    clock: Clock
    unit: Unit
    source: SourceRecord | None = None
    build: BuildRecord
    boots: list[BootRecord]
    cells: dict[str, list[CellRecord]] = Field(description="per cell, one record per boot")
    changed: list[str] | None = Field(
        None,
        description="of a candidate: functions with other machine code than the base's, or that one"
        " of the two has not, where the images tell and the cells' work was counted",
    )

    def boots_of(self, cell: str) -> list[int]:
        """The numbers of the boots that ran a cell, in the order of its records."""
        return [boot.boot for boot in self.boots if cell in boot.cells]


class Cluster(Model):
    """I/Os that differ from their pair by the same amount, and those by as much the other way."""

    delta: int = Field(description="candidate minus base, never 0")
    ios: int
    opposite: int = Field(description="I/Os that differ by -delta: noise is symmetric, costs not")
    share: float = Field(description="ios of all pairs")


class TrialRecord(Model):
    """What the rule found at the size of difference that decided: its numbers, line by line.

    The chance of `agree` of `moved` rounds follows from them, and so does the mean cost.
    """

    of: Literal["I/Os", "rounds"] = Field(description="what is counted: rounds by their means")
    size: int = Field(description="larger differences than this count")
    above: int = Field(description="how many grew by more")
    below: int = Field(description="how many shrank by more")
    total: int
    own: float = Field(description="the largest net share between two boots of the base")
    moved: int = Field(description="rounds with a net direction: each is one chance")
    agree: int = Field(description="of these, the ones with the direction of all")
    typical: float = Field(description="median size of the differences that count, in that way")
    boots: list[float] = Field(description="net share of each boot, in that direction")


class PairedIosRecord(Model):
    """I/O by I/O: each of the candidate's less its pair, the base's of the same thread and number.

    ``clusters`` are the commonest differences but 0, with their share of all pairs.
    """

    pairs: int
    exact: float = Field(description="share of I/Os that cost what their pair does")
    commonest: int = Field(description="the commonest difference")
    commonest_share: float
    mean: float = Field(description="mean difference, whatever its cause")
    above: int = Field(description="I/Os that grew by more than `size`")
    below: int = Field(description="I/Os that shrank by more than `size`")
    size: int = Field(description="the differences that decided are larger than this")
    noise: float | None = Field(
        None,
        description="net share of I/Os that differ by more than `size` in two boots of the base",
    )
    clusters: list[Cluster] = Field(default_factory=list)
    rare: Cluster | None = Field(
        None,
        description="what some I/Os have beside the median difference, by the same rule: their"
        " median, and how many have as much the other way",
    )
    unpaired: int = Field(0, description="I/Os without a pair, or of which one side has no value")
    trial: TrialRecord | None = Field(None, description="what decided; absent where nothing moved")


class Comparison(Model):
    """Candidate against base for one part of the I/Os of a cell; in the verdict's unit."""

    base: float
    candidate: float
    delta: float = Field(description="candidate minus base; positive is more expensive")
    relative: float = Field(description="delta / base")
    threshold: float = Field(description="a larger delta is a regression")
    gated: bool = Field(description="false: shown only, by policy or because unrepeatable")
    moved: Literal["grew", "shrank", "same", "unknown"] = Field(
        description="unknown: the sides cannot be compared, and `why` says the reason"
    )
    confidence: str = Field(description="how sure, in words, from the evidence of this cell")
    why: str = Field("", description="why it is not gated, or what qualifies the comparison")
    accepted: str | None = Field(None, description="the reason for which its growth is accepted")
    share: float = Field(1.0, description="share of the I/Os that moved by about `delta`")
    paired: PairedIosRecord | None = Field(None, description="absent on the clock `time`")

    @property
    def has_moved(self) -> bool:
        """Whether it left its threshold, whichever way, gated or not."""
        return self.moved in ("grew", "shrank")

    @property
    def blocks(self) -> bool:
        """Whether it is growth that the policy gates and nobody accepted."""
        return self.gated and self.moved == "grew" and self.accepted is None

    def contradiction(self) -> str:
        """As `Model.contradiction`, for the figures of one comparison."""
        if self.moved != "same" or not self.gated or self.why or self.paired is None:
            return ""
        nearly_all = self.paired.above > _NEARLY_ALL * max(self.paired.pairs, 1)
        if (
            nearly_all
            and self.delta > self.threshold
            and (self.paired.noise or 0) < _NEARLY_ALL / 2
        ):
            return (
                f"{self.paired.above} of {self.paired.pairs} I/Os grew, by {self.delta:+g} where"
                f" {self.threshold:g} is allowed, and it says that nothing moved"
            )
        return ""


class SectionComparison(Comparison):
    """Candidate against base for one section of one cell."""

    section: Section


class WorkFunction(Model):
    """What one function executed in a cell, instructions per I/O, wherever it ran."""

    name: str
    base: float
    candidate: float
    changed: bool = Field(False, description="its machine code is another one in the candidate")


class WorkComparison(Comparison):
    """All that the CPUs executed for a cell, per I/O, less what the I/Os' own parts grew by.

    ``delta`` is what is left: work outside I/Os. ``candidate`` is ``base`` and that.
    """

    total: float = Field(description="all of the candidate: `candidate` and `inside`")
    inside: float = Field(description="what sections or whole I/O grew by: theirs, not told twice")
    changed: float = Field(
        0.0, description="of `delta`, what the functions have whose machine code changed"
    )
    own: float | None = Field(
        None, description="the largest difference between two boots of the base; absent with one"
    )
    functions: list[WorkFunction] = Field(
        default_factory=list, description="those that differ most, in any task or interrupt"
    )


class ElementComparison(Comparison):
    """An element of cost that moved (``pipelines/elements.toml``), in counts per I/O."""

    element: str = Field(description="its name, and behind a dot the device whose registers it is")
    section: Section | None = Field(None, description="absent: the whole I/O")
    functions: list[WorkFunction] = Field(
        default_factory=list,
        description="those that differ most, per I/O, in any task or interrupt; of what is called,"
        " who calls it",
    )


class PoolRecord(Model):
    """What no single cell shows and several do together: one section over some cells."""

    device: str
    threads: int | None = Field(None, description="cells of so many threads alone")
    section: Section | None = Field(None, description="absent: the whole I/O")
    cells: int
    moved: Literal["grew", "shrank"]
    paired: PairedIosRecord
    sentence: str


class LimitRecord(Model):
    """A limit that the candidate's kernel reports otherwise than the base's."""

    name: str = Field(description="as the board's facts have it, such as ufs.queue.max_sectors_kb")
    base: str = Field(description="value; of several boots, joined by |; absent: not reported")
    candidate: str
    gated: bool = Field(description="false: the base does not report it")
    accepted: str | None = Field(None, description="the reason for which it may differ")


class ThroughputRecord(Model):
    """Time per I/O of a cell that keeps the modelled device of an exact board busy, ns."""

    cell: str
    base: float | None = None
    candidate: float | None = None
    relative: float = 0.0
    threshold: float = Field(description="a larger relative growth is a regression")
    moved: Literal["grew", "shrank", "same", "unknown"]
    why: str = Field("", description="why it is not judged")
    accepted: str | None = Field(None, description="the reason for which it may grow")


class PairRecord(Model):
    """One pair of boots, in the order in which they ran."""

    pair: int = Field(description="number of the boot on either side")
    first: Side = Field(description="which side booted first")
    device: str = Field(description="the board that ran both")
    seconds: float = Field(description="board time of both boots")
    unused: str = Field("", description="why no value of it is used")


class GrowthRecord(Model):
    """How one figure of a cell changed over the pairs; shares: 0.02 is 2 % more expensive."""

    figure: str = Field(description="overhead (sections 1, 2 and 4 together), or a section")
    growth: float = Field(description="candidate over base, less 1")
    low: float = Field(description="it grew by at least this, with the policy's alarm_error")
    high: float = Field(description="it grew by at most this, with the policy's pass_error")
    tolerated: float
    unacceptable: float
    state: Literal["grew", "alarm", "within", "open"]
    improved: bool = False
    pairs: int = Field(description="pairs that have a valid value")
    noise: float = Field(description="standard deviation of one pair, as a share")
    freedom: float = Field(description="degrees of freedom of that, history included")
    limit: float | None = Field(
        None,
        gt=0,
        description="not judged at ``unacceptable``: the growth ruled out instead, huge for none",
    )
    slow: int = Field(
        0, description="pairs set aside in which the candidate was far above the base"
    )
    why: str = Field("", description="why it is not judged, or not within")
    exact: float | None = Field(None, description="p value of the sign flips, where asked for")
    ratios: list[float | None] = Field(
        description="growth in each pair, in order; null where it is not valid"
    )
    accepted: str | None = Field(None, description="the reason for which its growth is accepted")

    @property
    def section(self) -> Section | None:
        """The section that it is of; None for what several make together."""
        return next((s for s in Section if s.value == self.figure), None)

    @property
    def bounds(self) -> str:
        """The interval in words."""
        return f"between {self.low:+.1%} and {self.high:+.1%}"


class SequentialRecord(Model):
    """How a verdict on the clock `time` came about: pairs, errors, noise."""

    looks: list[int]
    pairs: list[PairRecord]
    used: int = Field(description="pairs that the decision looked at")
    figures: int = Field(description="values that could raise an alarm")
    board_minutes: float
    alarm_error: float
    block_error: float
    pass_error: float
    promise: str = Field(description="the errors in one plain sentence")
    inflation: float = Field(description="today's variance over the board's history")
    history: int = Field(description="pairs of one kernel with itself in the history")
    seed: int = Field(description="of the order in which the sides booted")
    would_do: int | None = Field(None, description="pairs that would probably decide")
    not_judged: list[str] = Field(
        default_factory=list,
        description="values that were too noisy for the policy's limit, named",
    )
    experiment: bool = Field(False, description="times of a virtual board, judged on purpose")

    @property
    def most_pairs(self) -> int:
        """The most pairs that are run: for each that counts, one more may be set aside."""
        return 2 * self.looks[-1]


class TimeShare(Model):
    """How much longer one part of the I/Os takes on the CPU of the machine that ran the gate."""

    part: str = Field(description="overhead (sections 1, 2 and 4 together), or a section")
    growth: float = Field(description="candidate over base, less 1: mean over cells and pairs")
    low: float = Field(description="lower end of the 95 % interval of that")
    high: float
    pairs: int
    moved: Literal["grew", "shrank", "same", "unknown"] = Field(
        description="same: the interval has 0 and lies within what the policy calls unacceptable;"
        " unknown: it has 0, and is wider"
    )


class OtherClock(Model):
    """The verdict on the same candidate by another clock, shown beside this one."""

    clock: Clock
    outcome: Outcome
    sentence: str
    regressions: list[str]
    run: str = Field(description="its run directory's name")
    blocks: bool = Field(description="whether the policy lets it block")
    reading: str = Field(description="what the two together mean")
    board: str = Field("", description="the native board that confirms; empty: another run's")
    times: list[TimeShare] = Field(
        default_factory=list, description="of that board: how much time each part takes more"
    )
    missing: list[str] = Field(
        default_factory=list, description="changed files of which its kernel has nothing"
    )


class AcceptRecord(Model):
    """A trailer ``Iotoll-Accept`` of the candidate, and what it did (`iotoll.verdict.accept`)."""

    trailer: str = Field(description="its text, as written")
    reason: str = ""
    by: str = Field("", description="who approved it; empty where the policy asks for nobody")
    moves: list[str] = Field(
        description="what it accepts: CELL: SECTION, or limit NAME; empty where nothing"
    )
    why: str = Field("", description="why it accepts nothing, or not all that it names")


class CellVerdict(Model):
    """The outcome of one cell."""

    cell: str
    outcome: Outcome
    sections: list[SectionComparison]
    why: str = ""
    growth: list[GrowthRecord] = Field(
        default_factory=list, description="clock `time`: every value that was judged"
    )
    whole: Comparison | None = Field(
        None, description="clock `instructions`: the I/O from call to return, waiting included"
    )
    work: WorkComparison | None = Field(
        None, description="work outside I/Os; absent where the board does not count it"
    )
    elements: list[ElementComparison] = Field(
        default_factory=list, description="other costs than instructions that moved"
    )

    @property
    def blocks(self) -> bool:
        """Whether growth of it blocks; that of a whole I/O not, where sections were accepted.

        What of a whole I/O these cover, `iotoll.verdict.accept` decided.
        """
        if any(part.blocks for part in (*self.sections, *self.elements)):
            return True
        if any(g.state == "grew" and g.accepted is None for g in self.growth):
            return True
        if self.work is not None and self.work.blocks:
            return True
        return self._whole_blocks and not any(s.accepted for s in self.sections)

    @property
    def _whole_blocks(self) -> bool:
        return self.whole is not None and self.whole.blocks

    @property
    def _parts(self) -> list[tuple[str, Comparison]]:
        named: list[tuple[str, Comparison]] = [(s.section.value, s) for s in self.sections]
        return [*named, ("whole I/O", self.whole)] if self.whole else named

    def contradiction(self) -> str:
        """As `Model.contradiction`: the outcome against what was compared."""
        for name, part in self._parts:
            if found := part.contradiction():
                return f"{self.cell}: {name}: {found}"
        said = f"{self.cell}: it is {self.outcome.value}, and"
        if self.blocks and self.outcome is not Outcome.REGRESSION:
            return f"{said} growth of it blocks"
        if self.outcome is Outcome.REGRESSION and not (self.blocks or self._whole_blocks):
            return f"{said} nothing of it grew that was not accepted"
        if self.outcome is Outcome.PASS and not self.growth:
            gated = [part for _, part in self._parts if part.gated]
            if not gated or any(part.moved == "unknown" for part in gated):
                return f"{said} not all that the policy gates was compared"
        return ""


class VerdictRecord(Model):
    """``verdict.json``: the outcome of the run, and everything it rests on."""

    schema_version: str = "iotoll.verdict/2"
    outcome: Outcome
    exit_code: int
    sentence: str = Field(description="the verdict in one plain sentence")
    clock: Clock
    unit: Unit
    board: str
    matrix: str
    policy: str
    policy_sha256: str
    can_gate: bool = Field(description="false for smoke tests (clock time on a virtual board)")
    identical_images: bool = False
    cells: list[CellVerdict] = Field(default_factory=list)
    improvements: list[str] = Field(default_factory=list)
    regressions: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(
        default_factory=list, description="values of usable cells that fio's own JSON contradicts"
    )
    pools: list[PoolRecord] = Field(
        default_factory=list, description="what moved over several cells and in none of them alone"
    )
    headline: list[str] = Field(
        default_factory=list,
        description="what moved, in a sentence each, as their values alone tell it",
    )
    sequential: SequentialRecord | None = Field(None, description="clock `time` only")
    other: OtherClock | None = Field(None, description="the other clock's verdict, if given")
    accepted: list[AcceptRecord] | None = Field(
        None, description="trailers that ask to accept growth; absent where there is none"
    )
    limits: list[LimitRecord] = Field(
        default_factory=list, description="what the two kernels allow differently"
    )
    throughput: list[ThroughputRecord] = Field(
        default_factory=list, description="of the cells that the policy names; a model's"
    )
    without_limits: Outcome | None = Field(
        None,
        description="the outcome without what differs in limits or throughput; absent: none",
    )
    failure: FailureRecord | None = None

    @property
    def blocks(self) -> bool:
        """Whether a cell, several together, or the other clock block."""
        own = any(c.outcome is Outcome.REGRESSION for c in self.cells)
        own = own or any(pool.moved == "grew" for pool in self.pools)
        return own or self._other_blocks

    @property
    def _differs(self) -> bool:
        """Whether limits differ that the base reports and nobody accepted."""
        return any(one.gated and one.accepted is None for one in self.limits)

    @property
    def _slower(self) -> set[str]:
        """Cells whose throughput fell, and nobody accepted it."""
        return {r.cell for r in self.throughput if r.moved == "grew" and r.accepted is None}

    @property
    def _other_blocks(self) -> bool:
        other = self.other
        return other is not None and other.blocks and other.outcome is Outcome.REGRESSION

    def contradiction(self) -> str:
        """As `Model.contradiction`: the outcome against exit code, failure and cells.

        A forgery that agrees with itself is not noticed: `iotoll reproduce` derives the verdict
        again from what was measured.
        """
        said = f"the outcome is {self.outcome.value}, and"
        if self.exit_code != self.outcome.exit_code:
            return f"{said} the exit code is {self.exit_code}"
        slow = self._slower
        told = (c for c in self.cells if c.outcome is not Outcome.REGRESSION or c.cell not in slow)
        if found := next((text for c in told if (text := c.contradiction())), ""):
            return found
        if self.failure is not None:
            failed = self.failure.outcome
            return f"{said} its failure is {failed.value}" if failed is not self.outcome else ""
        if self.outcome is Outcome.BROKEN:
            return f"{said} no failure says why"
        if self.outcome is Outcome.REGRESSION:
            known = self.blocks or self._differs or self._slower
            return "" if known else f"{said} nothing that grew blocks"
        # A clock that the policy only shows passes where the other one judges beside it.
        if self.blocks and (self.other is None or self._other_blocks):
            return f"{said} growth blocks"
        worst = {c.outcome for c in self.cells if not any(g.limit for g in c.growth)}
        if self.outcome is Outcome.PASS:
            if self._differs and self.can_gate:
                return f"{said} limits differ that nobody accepted"
            if self._slower and self.can_gate:
                return f"{said} throughput fell that nobody accepted"
            bad = worst - {Outcome.PASS, Outcome.REGRESSION}
            if bad:
                return f"{said} a cell is {min(bad).value}"
            if self.regressions and not self.accepted and self.other is None:
                return f"{said} it lists {len(self.regressions)} regressions"
        if self.outcome is Outcome.INFRASTRUCTURE and Outcome.INFRASTRUCTURE not in worst:
            return f"{said} neither a failure nor a cell says so"
        return ""


class NoiseRecord(Model):
    """``noise.json``: pairs of boots of one kernel with itself, per board, cell and value.

    ``pairs`` holds, for each pair, its board and the log of the second over the first, by cell and
    figure; newest last.
    """

    schema_version: str = "iotoll.noise/1"
    board: str
    matrix: str
    pairs: list[NoisePair]


class NoisePair(Model):
    """One pair of boots of one kernel."""

    device: str
    run: str = Field(description="digest of what was booted: the same pair counts once")
    ratios: dict[str, dict[str, float]]
