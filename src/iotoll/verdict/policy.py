"""Gate policies as data: ``pipelines/policies/*.toml``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from iotoll.boards.cells import parse_cell
from iotoll.core.digest import file_sha256
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml, named_file
from iotoll.records.models.base import Clock, Model, Section
from iotoll.verdict.time.levels import confirm_levels

AT_ONCE = "shown only: I/Os are in flight at once, so each has work of the others"
"""Why the whole I/O blocks nothing where several are submitted at once."""


class CountRule(Model):
    """What is counted for each I/O, and by how much it may grow: up to ``threshold`` nothing moved.

    ``per_request``: the threshold is for each request of an I/O. ``affected``: the threshold of
    what functions differ by that the candidate affects, where that of all others is larger.
    ``few``: the least growth of the mean I/O where fewer than half of the I/Os moved, as a share of
    the base's I/O.
    """

    threshold: int = Field(ge=0)
    affected: int | None = Field(None, ge=0)
    unit: str = "instructions"
    per_request: bool = False
    few: float = Field(0.0, ge=0, lt=1)
    gated: bool = True
    why: str = ""


class MovedRule(Model):
    """When a count has moved: numbers of the one rule (`iotoll.verdict.instructions.decide`).

    ``sizes`` and ``mean`` are in thresholds of the count, so that they have no unit.
    """

    sizes: list[int] = Field(description="larger differences that are asked, in thresholds")
    share: float = Field(gt=0, lt=1, description="least net share of a cell's I/Os")
    pool_share: float = Field(gt=0, lt=1, description="the same over the cells of a device")
    own: float = Field(ge=1, description="times the net share between two boots of the base")
    rounds: int = Field(gt=1, description="of a boot at most: I/Os that follow share a state")
    chance: float = Field(gt=0, lt=1, description="a fair coin decides the rounds so, at most")
    mean: float = Field(ge=0, description="least growth of the mean I/O, in thresholds")
    boot: float = Field(ge=0, le=1, description="of the share that each boot must show")
    lag: float = Field(gt=0, le=1, description="more pairs alike, before I/O i is paired with i+1")

    def sizes_of(self, count: CountRule) -> list[int]:
        """The sizes of difference that are asked, smallest first; of 0, those of 1 follow."""
        return [count.threshold, *(max(count.threshold, 1) * times for times in self.sizes)]


class PerturbRule(Model):
    """How many boots a side has where the first one shows something, each a stated bit later.

    The first is enough where the share ``ios`` of a cell's I/Os moved, and the functions that the
    candidate changed have the share ``changed`` of it.
    """

    boots: int = Field(ge=1, le=9)
    ios: float = Field(0.9, gt=0, le=1)
    changed: float = Field(0.5, gt=0, le=1)


class WorkRule(Model):
    """When work outside I/Os is a cost (`iotoll.verdict.work`): instructions per I/O of a cell.

    In each boot it must exceed ``changed`` in the functions alone whose machine code the candidate
    changed, since what these execute is no noise; or in all functions together the ``threshold``,
    the ``share`` of the base's total, and what two boots of the base differ by.
    """

    threshold: int = Field(500, ge=0)
    share: float = Field(0.03, ge=0)
    changed: int = Field(16, ge=0)
    gated: bool = True
    why: str = ""


class ElementRule(Model):
    """How many more of an element (``pipelines/elements.toml``) an I/O may have.

    More than ``threshold`` block (None: none does); more than ``shown`` are shown.
    """

    threshold: int | None = Field(None, ge=0)
    shown: int = Field(0, ge=0)


class CountedRule(Model):
    """When an element has moved that was counted once a boot, not I/O by I/O; it never blocks.

    By the medians of at least ``boots`` boots of each side. They differ by at least ``own`` times
    what two boots of one side do, by ``least`` per I/O, and by the ``share`` of the base's.
    """

    boots: int = Field(3, ge=2)
    own: float = Field(2.0, ge=1)
    least: float = Field(0.01, gt=0)
    share: float = Field(0.01, ge=0)


class LinesRule(Model):
    """When lines of cache and misses are counted, which makes each boot longer.

    ``structures``: where the candidate changes members of one. ``caches``: of lava-jobs/caches.
    """

    when: Literal["structures", "always", "never"] = "structures"
    caches: str = "cortex-a73"


class CellException(Model):
    """Another rule for the sections of some cells; ``cells`` are glob patterns.

    The section ``whole`` is the I/O from call to return.
    """

    cells: list[str]
    sections: list[Section | Literal["whole"]]
    threshold: int | None = Field(None, ge=0)
    gated: bool | None = None
    why: str


class SharedClockRule(Model):
    """For boards whose CPUs take turns on one clock (`Policy.on_shared_clock`)."""

    threshold: int = Field(
        0, ge=0, description="in place of a smaller one, but in functions that the patch affects"
    )


class AcceptRule(Model):
    """Whether growth may be accepted by a trailer of the candidate, and whose word it takes.

    ``who``: ``nobody``; ``author``: the trailer alone is enough; ``approver``: somebody must
    approve it as well (``iotoll gate --approved-by``). ``at_most``: the largest growth of one
    section that may be accepted, as a share of it.
    """

    who: Literal["nobody", "author", "approver"] = "nobody"
    at_most: float = Field(1.0, gt=0)


class LimitsRule(Model):
    """What follows where a limit differs that nobody accepts (`iotoll.verdict.limits`).

    ``differ``: the outcome. ``ignore``: glob patterns of names whose differences say nothing.
    """

    differ: Literal["regression", "inconclusive"] = "regression"
    ignore: list[str] = Field(default_factory=list)


class ThroughputRule(Model):
    """How much longer an I/O of the named cells may take on the modelled device, as a share."""

    cells: list[str] = Field(default_factory=list, description="glob patterns")
    at_most: float = Field(0.02, gt=0, lt=1)


class ExplainRule(Model):
    """Whether a verdict is explained by itself (`iotoll explain`), on an exact board.

    ``when``: ``regression``, ``always`` or ``never``. ``cells``: the most that are dissected,
    those that grew most first. ``ran``: the gate's own first boot of the candidate tells which of
    the changed code ran.
    """

    when: Literal["regression", "always", "never"] = "regression"
    cells: int = Field(4, ge=1)
    ran: bool = True


class ConfirmRule(Model):
    """Whether a verdict also says how much time it is on this machine's CPU (docs/time.md).

    ``when``: ``regression``, ``always`` or ``never``; ``iotoll gate --confirm time`` always.
    ``board`` is a native one, ``pairs`` how many pairs of boots it has.
    """

    when: Literal["regression", "always", "never"] = "never"
    board: str = "host-uml"
    pairs: int = Field(12, ge=3, le=99)


class Policy(Model):
    """A policy file of the clock `instructions`."""

    name: str
    sha256: str
    clock: Clock
    min_ios: int = Field(gt=0)
    marks: float = Field(
        ge=0, lt=1, description="share of I/Os whose sections may be bounded by other marks"
    )
    unpaired: float = Field(ge=0, lt=1, description="share of I/Os that may have no pair")
    moved_between: Literal["block", "allow"] = Field(
        description="a cost that moved from one section of an I/O to another"
    )
    moved: MovedRule
    perturb: PerturbRule
    blocks: list[Clock] = Field(
        default_factory=lambda: list(Clock), description="clocks whose regression blocks"
    )
    accept: AcceptRule = Field(default_factory=AcceptRule)
    limits: LimitsRule = Field(default_factory=LimitsRule)
    throughput: ThroughputRule = Field(default_factory=ThroughputRule)
    explain: ExplainRule = Field(default_factory=ExplainRule)
    confirm: ConfirmRule = Field(default_factory=ConfirmRule)
    sections: dict[Section, CountRule]
    whole: CountRule
    work: WorkRule = Field(default_factory=WorkRule)
    elements: dict[str, ElementRule] = Field(
        default_factory=dict, description="all others are shown where they move"
    )
    counted: CountedRule = Field(default_factory=CountedRule)
    lines: LinesRule = Field(default_factory=LinesRule)
    exceptions: list[CellException] = Field(default_factory=list)
    shared_clock: SharedClockRule = Field(default_factory=SharedClockRule)

    def on_shared_clock(self) -> Policy:
        """This policy for a board whose CPUs take turns.

        Smaller differences are none there, but in functions that the candidate affects.
        """
        least = self.shared_clock.threshold

        def raised(rule: CountRule) -> CountRule:
            if rule.threshold >= least:
                return rule
            return rule.model_copy(update={"threshold": least, "affected": rule.threshold})

        return self.model_copy(
            update={
                "sections": {name: raised(rule) for name, rule in self.sections.items()},
                "whole": raised(self.whole),
            }
        )

    def rule(self, cell: str, section: Section | None) -> CountRule:
        """The rule for a section of a cell, None is the whole I/O; later exceptions win.

        From call to return an I/O has the work of all that are in flight with it. By how many that
        are depends on how long each takes: with less work in each, more of the others may be in it.
        """
        rule = self.whole if section is None else self.sections[section]
        if section is None and parse_cell(cell).depth > 1:
            rule = rule.model_copy(update={"gated": False, "why": AT_ONCE})
        name = "whole" if section is None else section
        for other in self.exceptions:
            if name in other.sections and any(fnmatchcase(cell, p) for p in other.cells):
                update = other.model_dump(exclude={"cells", "sections"}, exclude_none=True)
                if other.threshold is not None:
                    update["affected"] = None
                rule = rule.model_copy(update=update)
        return rule

    def element(self, key: str) -> CountRule:
        """What an element may grow by, by its name with or without a device."""
        found = self._element(key)
        if found.threshold is None:
            return self.shown(key)
        return CountRule(threshold=found.threshold, unit=key)

    def shown(self, key: str) -> CountRule:
        """From where on an element is shown, although it does not block."""
        found = self._element(key)
        why = "shown only: the policy has no threshold"
        if found.threshold is not None:
            why = f"shown only: up to {found.threshold} more are allowed"
        return CountRule(threshold=found.shown, unit=key, gated=False, why=why)

    def _element(self, key: str) -> ElementRule:
        found = self.elements.get(key) or self.elements.get(key.partition(".")[0])
        return found or ElementRule()


class GrowthRule(Model):
    """How a figure may grow on the clock `time`, as shares."""

    tolerated: float = Field(ge=0, lt=1)
    unacceptable: float = Field(gt=0, lt=1)


class TimePolicy(Model):
    """A policy file of the clock `time` (`iotoll.verdict.time`)."""

    name: str
    sha256: str
    clock: Literal[Clock.TIME]
    looks: list[int] = Field(min_length=1)
    alarm_error: float = Field(gt=0, lt=0.5)
    alarm_spending: Literal["obrien-fleming", "pocock"]
    block_error: float = Field(gt=0, lt=0.5)
    pass_error: float = Field(gt=0, lt=0.5)
    pass_spending: list[float]
    widest: float = Field(0.1, gt=0, lt=1, description="limit of a value that is too noisy")
    left_out: float = Field(0.1, ge=0, lt=1, description="share of cells that may be too noisy")
    blocks: list[Clock]
    accept: AcceptRule = Field(default_factory=AcceptRule)
    limits: LimitsRule = Field(default_factory=LimitsRule)
    counted: CountedRule = Field(default_factory=CountedRule)
    figures: dict[Literal["overhead", "vfs_fs", "submission", "completion"], GrowthRule] = Field(
        min_length=1
    )

    @model_validator(mode="after")
    def _looks_fit(self) -> TimePolicy:
        if self.looks != sorted(set(self.looks)) or not 2 <= self.looks[0] <= self.looks[-1] <= 20:
            raise ValueError("looks: pairs from 2 to 20, each more than the one before")
        spent = self.pass_spending
        if (
            len(spent) != len(self.looks)
            or spent != sorted(spent)
            or spent[-1] != 1
            or spent[0] < 0
        ):
            raise ValueError("pass_spending: one share a look, not decreasing, the last one 1")
        for name, rule in self.figures.items():
            if rule.tolerated >= rule.unacceptable:
                raise ValueError(f"figures.{name}: tolerated must be below unacceptable")
        if not confirm_levels(self.looks, self.block_error):
            raise ValueError("block_error: too small for that many pairs' sign flips: more looks")
        return self


def load_policy(name: str) -> Policy:
    """Load a policy of the clock `instructions` by name or path.

    Raises UsageError when it is not valid, or of the other clock.
    """
    policy = load_any_policy(name)
    if isinstance(policy, TimePolicy):
        raise UsageError(f"policy {name} is of the clock 'time': name one of 'instructions'")
    return policy


def load_time_policy(name: str) -> TimePolicy:
    """As `load_policy`, for the clock `time`."""
    policy = load_any_policy(name)
    if isinstance(policy, Policy):
        raise UsageError(f"policy {name} is of the clock 'instructions': name one of 'time'")
    return policy


def load_any_policy(name: str) -> Policy | TimePolicy:
    """Load a policy of either clock; raises UsageError when it is not valid."""
    path: Path = named_file(data_dir("pipelines") / "policies", name)
    data = load_toml(path)
    data = {"name": path.stem, "sha256": file_sha256(path), **data}
    try:
        if data.get("clock") == Clock.TIME:
            return TimePolicy.model_validate(data)
        policy = Policy.model_validate(data)
    except ValidationError as error:
        raise first_error(path, error) from error
    if Section.HARDWARE in policy.sections:
        raise UsageError(f"{path}: sections.hardware: it has no meaning on this clock: drop it")
    return policy
