"""The verdict of a run whose boots were collected, or which further boots it needs first.

Nothing here boots: `conclude` states what is wanted, and `iotoll.gate.flow` runs it and asks again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from iotoll.boards.board import HostBoard
from iotoll.boots.host_load import FACT, QUIET
from iotoll.boots.pair_order import boot_order
from iotoll.boots.schedule import PARALLEL
from iotoll.core.errors import BrokenError, InfrastructureError, ResultError
from iotoll.core.progress import Progress
from iotoll.kernels import compiled
from iotoll.kernels.compiled import SOURCES
from iotoll.measure.fio_words import fio_warnings
from iotoll.records import results
from iotoll.records.failure import failure_of
from iotoll.records.models import (
    BootRecord,
    Clock,
    Outcome,
    SelectionRecord,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.records.text import some_of
from iotoll.run.setup import Setup

_NAMED = 3

PREVIOUS = "verdict.previous.json"
"""The verdict that a run had before the last command, where the outcome is another one now."""


def keep_verdict(run: RunDir) -> Path:
    """Put the verdict of a run aside, if it has one; returns where it then is."""
    kept = run.root / PREVIOUS
    if run.verdict.is_file():
        run.verdict.replace(kept)
    return kept


def tell_change(kept: Path, verdict: VerdictRecord | None, progress: Progress) -> None:
    """Say when a run's verdict is another one than it had; that one then stays beside it."""
    if verdict is None or not kept.is_file():
        return
    try:
        before = results.read(kept, VerdictRecord).outcome
    except ResultError:
        return
    if before is verdict.outcome:
        kept.unlink()
    else:
        progress.say(f"the verdict was {before.value}, now {verdict.outcome.value}: see {kept}")


def _died(run: RunDir) -> list[tuple[Side, str]]:
    """Boots of which an earlier try crashed or hung and the last one did not, by side, in words.

    A crash that comes and goes may be the board's or the patch's, so a pass says so and is none.
    """
    found: list[tuple[Side, str]] = []
    for side in SIDES:
        for path in sorted(run.side(side).glob("boots/*/boot.json")):
            record = results.read(path, BootRecord)
            if record.died:
                why = record.died[0].rstrip(".")
                text = f"Boot {record.boot} of the {side} failed once ({why})"
                found.append((side, f"{text}, and ran when it was repeated."))
    return found


def with_coverage(
    run: RunDir,
    sentence: str,
    warnings: list[str],
    outcome: Outcome | None = None,
    *,
    identical: bool = False,
) -> dict[str, Any]:
    """Fields of a verdict, which names what of the change is not in the kernel or steers it.

    A pass of a patch of which nothing was measured is none: it becomes inconclusive. ``identical``
    says that both kernels are the same bytes.
    """
    found = compiled.of_run(run)
    selected = results.read(run.selection, SelectionRecord) if run.selection.is_file() else None
    unmeasured = selected.unmeasured if selected else {}
    left_out = selected.left_out if selected else {}
    notes = [f"no cell runs {path}: {why}" for path, why in unmeasured.items()]
    notes += tried_notes(selected) if selected else []
    notes += [
        f"family {name} was not run: --board {board} --cells {name} runs it"
        for name, board in left_out.items()
    ]
    said = sentence
    if found is not None:
        # That nothing was measured comes first.
        parts = (found.sentence, sentence) if found.nothing else (sentence, found.sentence)
        said = " ".join(parts).strip()
        notes = [*found.notes, *notes]
    died = _died(run) if outcome not in (None, Outcome.BROKEN, Outcome.INFRASTRUCTURE) else []
    said = " ".join([*(text for _, text in died), said])
    notes = [*(text for _, text in died), *notes]
    fields: dict[str, Any] = {"sentence": said, "warnings": [*notes, *warnings]}
    if outcome is Outcome.PASS and any(side == "candidate" for side, _ in died):
        other = Outcome.INCONCLUSIVE
        fields |= {"outcome": other, "exit_code": other.exit_code}
    if selected and selected.cells and outcome is Outcome.PASS:
        missed = {*_not_in(found, selected, identical), *unmeasured, *selected.harmless}
        if selected.changed_paths and missed.issuperset(selected.changed_paths):
            needs = "; ".join(dict.fromkeys(unmeasured.values()))
            said_so = f"No cell runs what this patch changes{needs and ': ' + needs}. "
            why = "" if found and found.nothing else said_so
            other = Outcome.INCONCLUSIVE
            fields |= {"outcome": other, "exit_code": other.exit_code, "sentence": why + said}
    return fields


def tried_notes(selected: SelectionRecord) -> list[str]:
    """What a verdict says of cells that were tried (`iotoll.gate.reach`); nothing without any."""
    tried = selected.tried
    if tried is None:
        return []
    notes = [
        f"{some(tried.functions)} ran in no selected cell: tried"
        f" {'family' if len(tried.families) == 1 else 'families'} {', '.join(tried.families)}"
    ]
    if tried.unreached:
        named = ", ".join(f"{name}()" for name in tried.unreached)
        notes.append(f"no cell that was tried runs {named}")
    notes += [
        f"family {name} was not tried, as it needs another kernel: --cells {name}"
        for name in tried.left
    ]
    return notes


def some(functions: Sequence[str]) -> str:
    """Functions in words: the first of them, and how many more there are."""
    return some_of([f"{name}()" for name in functions], _NAMED)


def _not_in(
    found: compiled.Coverage | None, selected: SelectionRecord, identical: bool
) -> Collection[str]:
    """Changed files of which the kernel has nothing.

    Where a driver is left out, an image of the same bytes tells nothing of the header and the
    makefile that came with it.
    """
    if found is None:
        return ()
    if not identical or set(selected.harmless).issuperset(found.unbuilt):
        return found.unbuilt
    headers = (path for path in found.changed if path.endswith(".h"))
    return {*found.unbuilt, *found.steering, *headers}


@dataclass(frozen=True)
class MoreBoots:
    """Boots that a verdict needs in addition, in their order, ``abreast`` at a time.

    ``cells`` are the cells that they run; None for all that are selected.
    """

    why: str
    boots: Sequence[tuple[Side, int]]
    abreast: int
    cells: Sequence[str] | None = None

    def of(self, side: Side) -> bool:
        """Whether they are of this side alone."""
        return all(one == side for one, _ in self.boots)


def conclude(setup: Setup, after: MoreBoots | None = None) -> VerdictRecord | MoreBoots:
    """The verdict, or what it needs; ``after`` is what was asked for last, which has run."""
    if not setup.cells:
        why = results.read(setup.run.selection, SelectionRecord).why
        listed = (setup.run.build("base") / SOURCES).is_file()
        confirmed = ", and no object of the board's kernel is made of it" if listed else ""
        return new_verdict(setup, Outcome.PASS, f"Nothing to measure: {why}{confirmed}.")
    if _is_same_source(setup):
        sentence = (
            "Base and candidate are the same source, so there is nothing to compare: name another "
            "--base or --candidate."
        )
        return new_verdict(setup, Outcome.INCONCLUSIVE, sentence, identical_images=True)
    if setup.identical_images():
        sentence = "Base and candidate build the same kernel image, byte for byte."
        return new_verdict(setup, Outcome.PASS, sentence, identical_images=True)
    found = _by_boots(setup, after)
    return found if isinstance(found, MoreBoots) else _with_limits(setup, found)


def _with_limits(setup: Setup, verdict: VerdictRecord) -> VerdictRecord:
    """What limits the kernels have is in every verdict whose boots ran."""
    from iotoll.verdict.limits import state

    if not all((setup.run.side(side) / "result.json").is_file() for side in setup.sides):
        return verdict  # a smoke test needs no values
    base, candidate = (setup.result(side) for side in setup.sides)
    return state(verdict, base, candidate, setup.policy)


def _by_boots(setup: Setup, after: MoreBoots | None) -> VerdictRecord | MoreBoots:
    """As `conclude`, of boots that ran."""
    if setup.judges_time:
        return _by_time(setup)
    if setup.run.manifest.clock is Clock.TIME:
        sentence = (
            "A smoke test: both kernels ran the workload, but time on a virtual board cannot gate."
        )
        return new_verdict(setup, Outcome.INCONCLUSIVE, sentence, can_gate=False)
    if not setup.is_exact:
        sentence = (
            f"Board {setup.board.name} is not exact: its counts also depend on the host, so no "
            "I/O can be compared with its pair. Use an exact board, such as virt-arm64."
        )
        return new_verdict(setup, Outcome.INCONCLUSIVE, sentence, can_gate=False)
    return _by_pairs(setup, after)


def _is_same_source(setup: Setup) -> bool:
    """Whether somebody names one source twice, not to compare a kernel with itself on purpose."""
    paths = [setup.run.side(side) / "source.json" for side in setup.sides]
    if setup.run.manifest.aa or len(paths) < 2 or not all(path.is_file() for path in paths):
        return False
    base, candidate = (results.read(path, SourceRecord).git_tree for path in paths)
    return base is not None and base == candidate


def _by_pairs(setup: Setup, after: MoreBoots | None) -> VerdictRecord | MoreBoots:
    """I/O by I/O; what shows in one boot of each side must show in the further ones.

    The base's further boots come first: most noise that met the candidate meets the base as well.
    """
    # It needs numpy, which takes a tenth of a second to import.
    from iotoll.verdict.instructions import rule

    policy = setup.instructions_policy
    base, candidate = (setup.result(side) for side in setup.sides)
    # A regression that trailers accept is none, so all must be decided then.
    judged = rule.judge(base, candidate, policy, setup.cells, by_evidence=not trailers(setup.run))
    asked = setup.run.manifest.boots
    further = 1 + max(asked, len(setup.run.first_boots("base")))
    numbers = range(further, further + policy.perturb.boots - asked)
    several = [c for c in setup.cells if len(base.cells.get(c, [])) >= policy.perturb.boots]
    few = set(judged.open).difference(several)
    what = (
        f"{len(judged.open)} cells are of a device that moved or whose I/Os lack pairs:"
        f" {len(numbers)} boots of the"
    )
    if few and after is None and setup.run.manifest.runner == "lava":
        # A lab stores no boots, and may want both boots of a pair on one board.
        why = (
            f"{what} base and as many of the candidate, whose cells begin later, must show it also"
        )
        boots = [(side, number) for number in numbers for side in setup.sides]
        return MoreBoots(why, boots, PARALLEL, judged.open)
    if few and after is None:
        why = f"{what} base, whose cells begin a stated bit later, show how far it moves by itself"
        return MoreBoots(why, [("base", number) for number in numbers], PARALLEL, judged.open)
    if judged.open and not few and (after is None or after.of("base")):
        why = f"{what} candidate, whose cells begin as much later, must show it also"
        # The same cells as the base's boots, since what precedes a cell is part of it.
        return MoreBoots(why, [("candidate", number) for number in numbers], PARALLEL, several)
    return new_verdict(
        setup,
        judged.outcome,
        judged.sentence,
        cells=judged.cells,
        regressions=judged.regressions,
        improvements=judged.improvements,
        pools=judged.pools,
        headline=judged.headline,
        warnings=_warnings(setup),
    )


def trailers(run: RunDir) -> list[str]:
    """What the candidate's commit messages accept, a line for each trailer."""
    source = run.side("candidate") / "source.json"
    return (results.read(source, SourceRecord).accepts if source.is_file() else None) or []


def _by_time(setup: Setup) -> VerdictRecord | MoreBoots:
    """Pairs of boots, judged at each interim analysis until a decision is reached."""
    # scipy takes a second to import, and the other clock does without.
    from iotoll.verdict.time.judge import decide_run

    decision = decide_run(setup.run, setup.cells)
    manifest = setup.run.manifest
    if decision.wanted:
        why = f"undecided after {decision.sequential.used} pairs: on to {decision.wanted}"
        return MoreBoots(why, boot_order(manifest.seed, decision.wanted), abreast=1)
    experiment = manifest.accelerator != "none"
    busy = _busy(setup) if decision.outcome is Outcome.INCONCLUSIVE else ""
    return new_verdict(
        setup,
        decision.outcome,
        f"{decision.sentence} {busy}".strip(),
        cells=decision.cells,
        regressions=decision.regressions,
        improvements=decision.improvements,
        warnings=_warnings(setup),
        sequential=decision.sequential.model_copy(update={"experiment": experiment}),
        can_gate=not experiment and not manifest.aa and _may_block(setup),
    )


def _may_block(setup: Setup) -> bool:
    """Whether a verdict on this board's time blocks; a native board says so in its file."""
    return not isinstance(setup.board, HostBoard) or setup.board.can_gate


def _shortened(setup: Setup) -> str:
    """Between which events a native board's I/Os lie, as its records say; empty without any."""
    cells: dict[str, list[str]] = {}
    for cell, records in setup.result("base").cells.items():
        ends = [r.marks.get(name) for r in records[:1] for name in ("start", "end")]
        marks = [max(found, key=found.__getitem__) for found in ends if found]
        if len(marks) == 2:
            cells.setdefault(" to ".join(marks), []).append(cell)
    if not cells:
        return ""
    spans = "; ".join(f"{span} ({some_of(named, 4)})" for span, named in cells.items())
    return (
        "this board has no events of system calls: vfs_fs begins and return ends with other events,"
        f" and what lies outside of these is in no section: {spans}"
    )


def _busy(setup: Setup) -> str:
    """What else this machine did while its own CPU was the board's; empty if hardly anything."""
    boots = [boot.facts.before for side in setup.sides for boot in setup.result(side).boots]
    others = [float(facts[FACT]) for facts in boots if FACT in facts]
    if not others or median(others) <= QUIET:
        return ""
    return (
        f"Other work used {median(others):.1f} of this machine's CPUs meanwhile, which makes its"
        " times scatter: gate again when it is quiet."
    )


def _warnings(setup: Setup) -> list[str]:
    native = [_shortened(setup), _busy(setup)] if isinstance(setup.board, HostBoard) else []
    return [text for text in native if text] + [
        f"{side}, {cell}: {text}"
        for side in setup.sides
        for cell, records in setup.result(side).cells.items()
        for record in records
        if record.invalid is None
        for text in fio_warnings(record)
    ]


def failed(setup: Setup, step: str, error: BrokenError | InfrastructureError) -> VerdictRecord:
    """The verdict ``broken`` or ``infrastructure``: by the exception's type, by no value."""
    failure = failure_of(error, step)
    if isinstance(error, BrokenError):
        sentence = _broken_sentence(error)
    else:
        sentence = f"Nothing is said about the candidate: {error}."
    return new_verdict(setup, failure.outcome, sentence, failure=failure)


def _broken_sentence(error: BrokenError) -> str:
    what = {
        "apply": "does not apply",
        "config": "loses a kernel option that the board needs",
        "build": "does not build",
        "boot": "does not boot",
        "workload": "does not survive the workload",
    }[error.step]
    return f"The candidate {what}: {error}."


def new_verdict(setup: Setup, outcome: Outcome, sentence: str, **more: object) -> VerdictRecord:
    """A verdict of this run with what every verdict names."""
    manifest = setup.run.manifest
    values: dict[str, Any] = {
        "outcome": outcome,
        "exit_code": outcome.exit_code,
        "sentence": sentence,
        "clock": manifest.clock,
        "unit": manifest.clock.unit,
        "board": manifest.board,
        "matrix": manifest.matrix,
        "policy": manifest.policy,
        "policy_sha256": setup.policy.sha256,
        "can_gate": manifest.clock is Clock.INSTRUCTIONS,
        **more,
    }
    warnings, same = list(values.get("warnings", [])), bool(more.get("identical_images"))
    values |= with_coverage(setup.run, sentence, warnings, outcome, identical=same)
    return VerdictRecord.model_validate(values)
