"""The words around the figures: the verdict's headline, the run's summary and its provenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iotoll.records.models import Clock, Finding, Outcome, SourceRecord, VerdictRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES
from iotoll.records.text import NBSP, clean, clock_note, number, plural
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import blocking, findings, headline_of, lines_of
from iotoll.reports.page.modelled import TITLE, model_facts
from iotoll.reports.page.view import CellView
from iotoll.verdict.limits import FIRST

GLYPHS = {
    "pass": "✓",
    "regression": "▲",
    "inconclusive": "?",
    "infrastructure": "!",
    "broken": "✕",
    "measured": "•",
    "smoke": "○",
    "unfinished": "…",
}
"""Kind of headline → the sign that says it without colour."""

_MEANINGS = {
    Outcome.INCONCLUSIVE: "The data cannot tell yet: this is neither a pass nor a regression.",
    Outcome.INFRASTRUCTURE: "A tool, the board, the disk or the network failed. This says nothing "
    "about the candidate.",
    Outcome.BROKEN: "The candidate does not build, boot or run the workload.",
}

_SAME_IMAGE = (
    "Base and candidate are the same image, byte for byte: nothing was booted. With this board's "
    "kernel config the patch changes no instruction."
)
_UNMEASURED = (
    "This is neither a pass nor a regression, and further boots of the same kind would not change "
    "that."
)
"""On the clock `instructions` no further boots are awaited: `inconclusive` has another cause."""

KIND_LABELS = {
    "regression": "▲ regression",
    "accepted": "◆ accepted",
    "undecided": "? undecided",
    "improvement": "▼ improvement",
    "ungated": "○ not gated",
}
"""Kind of a group of movements → its sign and word."""

Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Headline:
    """The first thing read: ``kind`` is a key of `GLYPHS`, ``word`` its plain name.

    ``more`` are the other findings, one line each.
    """

    kind: str
    word: str
    sentence: str
    exit_code: int | None
    notes: tuple[str, ...]
    more: tuple[str, ...] = ()

    @property
    def glyph(self) -> str:
        """The sign of this kind."""
        return GLYPHS[self.kind]


def headline(evidence: Evidence, found: Sequence[Finding] | None = None) -> Headline:
    """Return what the run concludes, in words."""
    verdict = evidence.verdict
    standing = clock_note(evidence.clock, evidence.virtual, evidence.native)
    if verdict is None:
        return _unjudged(evidence, standing)
    told = blocking(findings(evidence) if found is None else found)
    sentence, more = _lines(evidence, verdict, told)
    notes = [standing] if evidence.sides else []
    if (other := verdict.other) and other.board:
        notes.append(clean(other.reading))
        if other.outcome is not Outcome.PASS and not other.times:
            notes.append(f"{other.board} ({other.outcome.value}): {clean(other.sentence)}")
    elif other:
        word = "blocks" if other.blocks else "is shown only"
        notes.append(
            f"Clock '{other.clock.value}' ({other.outcome.value}, {word}; {other.run}): "
            f"{clean(other.sentence)}"
        )
        notes.append(other.reading)
    if verdict.identical_images:
        notes.append(_SAME_IMAGE)
    if not verdict.cells:
        # Cells carry what moved with all its figures; without them these sentences are all.
        notes += [clean(text) for text in (*verdict.regressions, *verdict.improvements)]
    if verdict.outcome in (Outcome.INFRASTRUCTURE, Outcome.BROKEN) or verdict.can_gate:
        meaning = _MEANINGS.get(verdict.outcome)
        if verdict.outcome is Outcome.INCONCLUSIVE and verdict.clock is Clock.INSTRUCTIONS:
            meaning = _UNMEASURED
        notes = [meaning, *notes] if meaning else notes
        word = verdict.outcome.value.capitalize()
        return Headline(
            verdict.outcome.value, word, sentence, verdict.exit_code, tuple(notes), more
        )
    if verdict.sequential is not None and evidence.native:
        notes.insert(0, f"This board informs and blocks nothing: {verdict.outcome.value}.")
    elif verdict.sequential is not None:
        words = "An experiment: judged as a board's times would be, but it can never gate."
        notes.insert(0, f"{words} Its outcome: {verdict.outcome.value}.")
    else:
        notes.insert(0, f"Recorded as '{verdict.outcome.value}', but nobody judged these values.")
    return Headline(
        "smoke", "Cannot gate", clean(verdict.sentence), verdict.exit_code, tuple(notes)
    )


def _unjudged(evidence: Evidence, standing: str) -> Headline:
    if evidence.manifest.kind == "measure" and evidence.sides:
        count = max(len(side.cells) for side in evidence.sides.values())
        sentence = f"One kernel, {plural(count, 'cell')}: values only, nothing to compare with."
        return Headline("measured", "Measured", sentence, None, (standing,))
    sentence = "This run has no verdict yet: repeat the command to continue it."
    return Headline("unfinished", "Unfinished", sentence, None, ())


def _lines(
    evidence: Evidence, verdict: VerdictRecord, told: Sequence[Finding]
) -> tuple[str, tuple[str, ...]]:
    """The first line: the first finding that blocks, or the verdict's own words; then the rest."""
    lines = lines_of(told)
    whole = headline_of(evidence, told)
    if told and whole.startswith(lines[0]):
        return lines[0], tuple(lines[1:])
    passed = verdict.outcome is Outcome.PASS
    return whole if passed else clean(verdict.sentence), tuple(lines)


def verdict_sentence(evidence: Evidence, found: Sequence[Finding] | None = None) -> str:
    """Return all that blocks, in one line; what the verdict itself says where nothing does."""
    found = findings(evidence) if found is None else found
    return headline_of(evidence, found)


def summary(evidence: Evidence) -> Facts:
    """Return the few facts of provenance that a reader wants next to the verdict."""
    manifest, verdict = evidence.manifest, evidence.verdict
    facts: Facts = [("Candidate", candidate_title(evidence))]
    source = evidence.sources.get("base") or evidence.sources.get("candidate")
    if source:
        facts.append(("Kernel", _kernel_short(source)))
    board = verdict.board if verdict else manifest.board
    real = "native, User Mode Linux" if evidence.native else "real"
    kind = f"virtual, QEMU {manifest.accelerator.upper()}" if evidence.virtual else real
    facts.append(("Board", f"{board} ({kind})"))
    note = clock_note(evidence.clock, evidence.virtual, evidence.native).rstrip(".")
    note = note[0].lower() + note[1:]
    known = note.startswith(evidence.clock.value)
    facts.append(("Clock", note if known else f"{evidence.clock.value}: {note}"))
    count = len(evidence.selection.cells) if evidence.selection else None
    selected = f": {plural(count, 'cell')} selected" if count is not None else ""
    facts.append(("Matrix", f"{manifest.matrix}{selected}, {_boots(evidence)}"))
    if manifest.kind == "gate":
        facts.append(("Policy", verdict.policy if verdict else manifest.policy))
    return facts


def _boots(evidence: Evidence) -> str:
    """How often each side booted a cell, further boots included; before it did, what was asked."""
    verdict = evidence.verdict
    if verdict and verdict.sequential:
        return f"{plural(verdict.sequential.used, 'boot')} a side"
    counts = {
        side: max((len(result.boots_of(cell)) for cell in result.cells), default=0)
        for side, result in evidence.sides.items()
    }
    parts = evidence.manifest.parts
    is_divided = parts > 1 and any(len(r.boots) > counts[s] for s, r in evidence.sides.items())
    divided = f", cells divided over {parts} boots" if is_divided else ""
    if len(set(counts.values())) == 2:
        each = (
            f"{plural(counts['base'], 'boot')} of the base, {counts['candidate']} of the candidate"
        )
        return each + divided
    most = max(counts.values(), default=evidence.manifest.boots)
    return f"{plural(most, 'boot')} a side{divided}"


def candidate_title(evidence: Evidence) -> str:
    """Return the patch's subject, or what else the candidate is."""
    source = evidence.sources.get("candidate")
    if source and source.patch_subjects:
        first, *more = [clean(subject) for subject in source.patch_subjects]
        return first + (f" (and {len(more)} more)" if more else "")
    manifest = evidence.manifest
    if manifest.candidate is None:
        return "none: one kernel measured"
    return f"{manifest.candidate_kind} {clean(manifest.candidate)}"


def _kernel_short(source: SourceRecord) -> str:
    identity = source.commit or source.tree_sha256
    word = "commit" if source.commit else "tree"
    return f"Linux {source.version} ({word} {identity[:12]})"


def provenance(evidence: Evidence) -> list[tuple[str, Facts]]:
    """Return every recorded input of the verdict, in titled groups."""
    manifest, verdict = evidence.manifest, evidence.verdict
    run: Facts = [("Command", " ".join(manifest.command)), ("Started", manifest.created)]
    run += [("Matrix", manifest.matrix)]
    policy = verdict.policy if verdict else manifest.policy
    run += [("Policy", policy)]
    if verdict:
        run += [("Policy hash", f"sha256 {verdict.policy_sha256}")]
    groups = [("Run", run)]
    groups += [(f"Kernel: {side}", _kernel_facts(evidence, side)) for side in SIDES]
    groups += [("Board and tools", _board_facts(evidence)), (TITLE, model_facts(evidence))]
    groups += [("Limits", limit_facts(evidence))]
    return [(title, facts) for title, facts in groups if facts]


def _kernel_facts(evidence: Evidence, side: Side) -> Facts:
    facts: Facts = []
    if source := evidence.sources.get(side):
        facts += [("Source", f"{source.tree}, Linux {source.version}")]
        if source.commit:
            facts += [("Commit", source.commit)]
        facts += [("Base", clean(source.base_why))] if side == "base" and source.base_why else []
        facts += [("Tree", f"sha256 {source.tree_sha256}")]
        facts += [("Patch subject", clean(s)) for s in source.patch_subjects]
        if source.patch_sha256:
            facts += [("Patch hash", f"sha256 {source.patch_sha256}")]
    if build := evidence.builds.get(side):
        made = "ready-made image" if build.ready_made else f"built in {build.seconds:.0f}{NBSP}s"
        facts += [("Image", f"{build.arch}, {made}, sha256 {build.image_sha256}")]
        facts += [(".config", f"sha256 {build.config_sha256}")]
        facts += [("Fragments", ", ".join(build.fragments))] if build.fragments else []
        facts += [("Toolchain", build.toolchain)]
    return facts


def _board_facts(evidence: Evidence) -> Facts:
    facts: Facts = []
    for side, result in evidence.sides.items():
        for boot in result.boots:
            took = f"{plural(len(boot.cells), 'cell')} in {boot.seconds:.0f}{NBSP}s"
            facts += [(f"Boot {boot.boot}, {side}", f"{boot.board}, {boot.accelerator}, {took}")]
    boots = [boot for result in evidence.sides.values() for boot in result.boots]
    if not boots:
        return facts
    for name in sorted({name for boot in boots for name in boot.tools}):
        versions = dict.fromkeys(boot.tools.get(name, "?") for boot in boots)
        facts += [(name, " / ".join(versions))]
    facts += [("Board data", f"sha256 {h}") for h in dict.fromkeys(b.board_sha256 for b in boots)]
    facts += [("Board command", " ".join(boots[0].command))]
    if costs := boots[0].event_cost:
        listed = ", ".join(f"{name} {number(cost)}" for name, cost in sorted(costs.items()))
        facts += [("Cost of one event", f"{listed} ({evidence.clock.unit.value})")]
    return facts


def limit_facts(evidence: Evidence) -> Facts:
    """The limits that differ; of one kernel, those that decide about a request."""
    firsts = {side: result.boots[0].facts.limits for side, result in evidence.sides.items()}
    known = {side: limits for side, limits in firsts.items() if limits}
    if not known:
        return []
    first = next(iter(known.values()))
    verdict = evidence.verdict
    differing = {one.name: one for one in verdict.limits} if verdict else {}
    facts = [
        (clean(name), clean(f"{one.base} -> {one.candidate}")) for name, one in differing.items()
    ]
    if len(known) == 1:
        told = {n: v for n, v in first.items() if n.partition(".")[2] in FIRST}
        facts += [(clean(name), clean(value)) for name, value in told.items()]
    more = len(first) - sum(name in first for name, _ in facts)
    same = ", the same of both kernels" if len(known) > 1 else ""
    return [*facts, ("Others", f"{plural(more, 'limit')}{same}: boots/1/boot.json of a side")]


def selection_by_reason(evidence: Evidence) -> list[tuple[str, list[str]]]:
    """Return the selected cells grouped by the reason that selected them."""
    reasons: dict[str, list[str]] = {}
    for choice in evidence.selection.cells if evidence.selection else []:
        reasons.setdefault(choice.why, []).append(choice.cell)
    return list(reasons.items())


def remarks(views: Iterable[CellView]) -> Facts:
    """Return the cells that must not be taken at face value, each with its reasons."""
    found: Facts = []
    for view in views:
        reasons = [*view.troubles]
        if view.outcome is not None and view.outcome not in (Outcome.PASS, Outcome.REGRESSION):
            word = view.outcome.value
            reasons.insert(0, f"{word}: {view.why}" if view.why else word)
        if reasons:
            found.append((view.name.full, "; ".join(clean(reason) for reason in reasons)))
    return found
