"""``iotoll experiment culprits``: are all commits of a range found, and do they add up?

Ranges are real git histories, and git, the searches, the log and the gate's rule are the real ones.
Kernels are not built: what each commit costs is planted, and an I/O's counts follow from it. So
every commit's step is known, which of real kernels it is not. `iotoll experiment ranges` has those.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from iotoll.bisect.account import Accountant
from iotoll.bisect.find import Asked, Finder
from iotoll.bisect.history import History
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import Meter
from iotoll.bisect.rest import search_on
from iotoll.bisect.setting import Part, Setting
from iotoll.core.digest import json_sha256
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import CellRecord, OrderedIos, Section

CELLS = ("ufs-4k-randread-t1-direct", "ufs-4k-randwrite-t1-direct", "nvme-4k-randread-t1-direct")
SECTIONS = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
IOS, DRIVER = 256, "drivers/ufs/core/ufshcd.c"
TIMER = 790
"""What one I/O of each kernel costs more, which another one does in the next kernel."""
KINDS = ("one", "several", "opposing", "conditional", "cancelling", "net zero")


@dataclass(frozen=True)
class Cost:
    """``size`` instructions in every ``nth`` I/O of a part, once commit ``needs`` is in too."""

    part: tuple[str, Section]
    size: int
    nth: int = 1
    needs: int = 0

    @property
    def tenths(self) -> int:
        """Of the mean I/O."""
        return round(10 * self.size * -(-IOS // self.nth) / IOS)


@dataclass(frozen=True)
class Planted:
    """A range: its kind, commits, what each costs, and which commits pairs cancel each other."""

    kind: str
    commits: int
    costs: Mapping[int, Sequence[Cost]]
    pairs: Sequence[tuple[int, int]] = ()

    @property
    def visible(self) -> dict[int, dict[Part, int]]:
        """Tenths by commit and part."""
        found: dict[int, dict[Part, int]] = {}
        for at, costs in self.costs.items():
            for cost in costs:
                place = found.setdefault(max(at, cost.needs), {})
                part = cost.part[0], cost.part[1].value
                place[part] = place.get(part, 0) + cost.tenths
        return found


def plant(seed: int, number: int, commits: int) -> Planted:
    """Range ``number`` of a seed; its kind and its count of culprits follow from the number."""
    chance = random.Random(f"culprits {seed} {number}")
    kind = KINDS[number % len(KINDS)]
    count = {"one": 1, "opposing": chance.randint(2, 5), "several": chance.randint(2, 5)}
    places = sorted(chance.sample(range(1, commits + 1), 7))
    costs: dict[int, list[Cost]] = {}
    for turn, at in enumerate(places[: count.get(kind, chance.randint(1, 3))]):
        way = -1 if kind == "opposing" and turn % 2 else 1
        costs[at] = [_cost(chance, way) for _ in range(chance.randint(1, 2))]
        if kind == "conditional" and turn == 0:
            costs[at].append(Cost(_part(chance), chance.randint(20, 90), 1, places[5]))
    pairs = []
    if kind in ("cancelling", "net zero"):
        costs = costs if kind == "cancelling" else {}
        one = _cost(chance, 1)
        costs[places[4]] = [one]
        costs[places[6]] = [Cost(one.part, -one.size, one.nth)]
        pairs.append((places[4], places[6]))
    return Planted(kind, commits, _separate(costs), pairs)


def _separate(costs: Mapping[int, list[Cost]]) -> dict[int, list[Cost]]:
    """No two costs of one commit in one part, whose sizes would be another size."""
    return {at: list({cost.part: cost for cost in own}.values()) for at, own in costs.items()}


def _part(chance: random.Random) -> tuple[str, Section]:
    return chance.choice(CELLS), chance.choice(SECTIONS)


def _cost(chance: random.Random, way: int) -> Cost:
    if chance.random() < 0.25:
        return Cost(_part(chance), way * chance.randint(100, 600), chance.choice((4, 8, 16)))
    return Cost(_part(chance), way * chance.randint(8, 300))


@dataclass
class Simulated(Meter):
    """Builds and boots nothing: a commit's counts are those that are planted up to it."""

    planted: Planted = field(default_factory=lambda: Planted("", 0, {}))
    places: dict[str, int] = field(default_factory=dict)

    def _build(self, commit: str, cells: Sequence[str]) -> tuple[None, str]:  # type: ignore[override]
        results.write_text(self.root / "sources" / commit, DRIVER + "\n")
        image = json_sha256([self.planted.kind, self.places[commit]])
        if self.image(commit) is None:
            self.log.add("built", commit=commit, image=image, cached=False, seconds=1.0)
        return None, image

    def _boot(  # type: ignore[override]
        self, run: None, commit: str, image: str, cells: Sequence[str], folder: Path
    ) -> None:
        at = self.places[commit]
        example = results.read(data_dir("results-schema") / "valid" / "cell.json", CellRecord)
        for cell in cells:
            counts = {section: self._counts(cell, section, at) for section in SECTIONS}
            whole = [sum(row) for row in zip(*counts.values(), strict=True)]
            ios = OrderedIos(thread=[0] * IOS, sections=counts, whole=whole)
            changes = {"cell": cell, "in_order": ios, "invalid": None, "work": None}
            results.write(folder / f"{cell}.json", example.model_copy(update=changes))
        changed = [f"planted_{place}" for place in self.planted.costs if place <= at]
        results.write_text(folder / "changed.json", json.dumps(changed))
        results.write_text(folder / "done", "")
        self._note_boot(commit, image, cells, False, 0.0)

    def _counts(self, cell: str, section: Section, at: int) -> list[int]:
        line = [1000 + i % 3 for i in range(IOS)]
        for place, costs in self.planted.costs.items():
            for cost in costs:
                if cost.part == (cell, section) and max(place, cost.needs) <= at:
                    for i in range(0, IOS, cost.nth):
                        line[i] += cost.size
        line[(37 * at + 11) % IOS] += TIMER
        return line


@dataclass(frozen=True)
class Row:
    """What was found of one range: by bisect, and by a ledger.

    The ledger is of every commit where some cancel each other.
    """

    number: int
    kind: str
    culprits: int
    exact: bool
    builds: int
    ledger_exact: bool
    ledger_builds: int


@click.command("culprits")
@click.option("--ranges", default=60, show_default=True, type=click.IntRange(1))
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="First range.")
@click.option("--commits", default=40, show_default=True, type=click.IntRange(16))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option("--out", type=click.Path(path_type=Path), help="Table as JSON.")
def culprits_command(ranges: int, first: int, commits: int, seed: int, out: Path | None) -> None:
    """Plant one to five culprits in simulated ranges, and count how many are named exactly.

    Conditional costs, costs in some I/Os, opposing and cancelling commits are among them.
    """
    rows = []
    for number in range(first, first + ranges):
        with tempfile.TemporaryDirectory(prefix="iotoll-culprits-") as name:
            rows.append(searched(Path(name), number, plant(seed, number, commits)))
        row = rows[-1]
        click.echo(
            f"{number:3} {row.kind:11} {row.culprits} culprits: bisect"
            f" {'exact' if row.exact else 'NOT exact'} ({row.builds} builds), ledger"
            f" {'exact' if row.ledger_exact else 'NOT exact'} ({row.ledger_builds})"
        )
    if out is not None:
        results.write_text(out, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    for kind in KINDS:
        own = [row for row in rows if row.kind == kind]
        if own:
            click.echo(
                f"{kind}: {len(own)} ranges, bisect exact {sum(r.exact for r in own)},"
                f" ledger exact {sum(r.ledger_exact for r in own)}"
            )


def searched(folder: Path, number: int, planted: Planted) -> Row:
    """Search one range both ways.

    A bisect is exact when it names each commit whose cost is not cancelled within the range, with
    its size in every part, and names nothing that is not planted; a pair that cancels may be named.
    """
    commits = _repository(folder / "linux.git", planted.commits, set(planted.visible))
    history, ends = History(folder / "linux.git"), (commits[0], commits[-1])
    places = {commit: at for at, commit in enumerate(commits)}
    truth = planted.visible
    hidden = {at for pair in planted.pairs for at in pair}
    meter = _meter(folder, "bisect", planted, places, commits[0])
    asked = Asked(*ends, CELLS)
    found = Finder(meter, history, asked, Progress(quiet=True)).find()
    whole = search_on(meter, history, asked, found, Progress(quiet=True))
    named = {places[one.commits[0]]: dict(one.step.deltas) for one in whole.culprits}
    sizes = {at: parts for at, parts in truth.items() if at not in hidden or at in named}
    every = _meter(folder, "ledger", planted, places, commits[0])
    account = Accountant(every, history, Progress(quiet=True), None, every=bool(planted.pairs))
    listed = account.account(*ends, list(CELLS))
    rows = {places[row.commits[0]]: dict(row.deltas) for row in listed.rows}
    zero = planted.kind == "net zero" and "--every" in found.why
    return Row(
        number,
        planted.kind,
        len(truth),
        (_near(named, sizes) and not whole.left) if not zero else not named,
        meter.spent.builds,
        _near(rows, truth) and not listed.left,
        every.spent.builds,
    )


def _near(found: Mapping[int, Mapping[Part, int]], truth: Mapping[int, Mapping[Part, int]]) -> bool:
    """The same commits and parts; sizes but for the rounding of tenths."""
    return {at: set(parts) for at, parts in found.items()} == {
        at: set(parts) for at, parts in truth.items()
    } and all(
        abs(found[at][part] - tenths) <= 1
        for at, parts in truth.items()
        for part, tenths in parts.items()
    )


def _meter(
    folder: Path, name: str, planted: Planted, places: dict[str, int], first: str
) -> Simulated:
    setting = Setting(str(folder / "linux.git"), "virt-arm64", "default", "instructions")
    root = folder / name
    root.mkdir()
    return Simulated(
        root,
        setting,
        first,
        Log(root / NAME, {"range": name}),
        Progress(quiet=True),
        planted=planted,
        places=places,
    )


def _repository(root: Path, commits: int, costly: set[int]) -> list[str]:
    """A line of commits by one `git fast-import`; a quarter of the others changes a document."""
    subprocess.run(["git", "init", "-q", "--bare", "--template=", str(root)], check=True)
    stream = []
    for at in range(commits + 1):
        path = DRIVER if at % 4 or at in costly or not at else "Documentation/index.rst"
        text, message = f"state {at}\n", f"change {at}\n"
        stream.append(
            f"commit refs/heads/main\nmark :{at + 1}\ncommitter A <a@example.org> {at} +0000\n"
            f"data {len(message)}\n{message}"
            + (f"from :{at}\n" if at else "")
            + f"M 100644 inline {path}\ndata {len(text)}\n{text}\n"
        )
    marks = root / "marks"
    words = ["git", "-C", str(root), "fast-import", "--quiet", f"--export-marks={marks}"]
    subprocess.run(words, input="".join(stream).encode(), check=True)
    rows = [line.split() for line in marks.read_text().splitlines()]
    by_mark = {int(mark[1:]): sha for mark, sha in rows}
    return [by_mark[at + 1] for at in range(commits + 1)]
