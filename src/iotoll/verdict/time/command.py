"""``iotoll simulate`` and ``iotoll noise``: choose a policy, and keep what is known of a board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from iotoll.core.cli_support import FiniteRange
from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import Clock, SideResult
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.noise import extended, history, history_file, load
from iotoll.verdict.time.pairs import make_pairs
from iotoll.verdict.time.sequential import plan_of
from iotoll.verdict.time.simulate import (
    BATCH,
    KINDS,
    BoardNoise,
    Planted,
    Tally,
    batches,
    board_noise,
    interval,
)


@click.command("simulate")
@click.option("--policy", default="time", show_default=True, help="Policy or file.")
@click.option("--cells", default=32, show_default=True, type=click.IntRange(1, 10_000))
@click.option(
    "--noise", default=1.0, show_default=True, type=FiniteRange(0.001), metavar="PERCENT",
    help="Standard deviation of one pair of boots.",
)  # fmt: skip
@click.option(
    "--kind", type=click.Choice(list(KINDS)), default="normal", show_default=True,
    help="t3: heavy tails. drift: each boot is slower than the one before, and wanders.",
)  # fmt: skip
@click.option(
    "--shared", default=0.0, show_default=True, type=FiniteRange(0, 1),
    help="Share of the noise (variance) that all values of a boot have in common.",
)  # fmt: skip
@click.option(
    "--within", default=0.0, show_default=True, metavar="PERCENT",
    type=FiniteRange(0), help="Deviation of one I/O within a boot.",
)  # fmt: skip
@click.option(
    "--ios",
    default=256,
    show_default=True,
    type=click.IntRange(1, 10**7),
    help="I/Os of a boot and cell.",
)
@click.option(
    "--today", default=1.0, show_default=True, type=FiniteRange(0.01),
    help="How many times noisier the board is today than its history.",
)  # fmt: skip
@click.option(
    "--history", default=60, show_default=True, type=click.IntRange(0, 10**6),
    help="Pairs of one kernel with itself that are known of the board.",
)  # fmt: skip
@click.option(
    "--growth", default=0.0, show_default=True, metavar="PERCENT", type=FiniteRange(-99),
    help="Growth of one value of the first cell; 0: an unchanged patch.",
)  # fmt: skip
@click.option(
    "--figure", default="overhead", show_default=True, help="The value of the cell that grows."
)
@click.option("--requests", default=2000, show_default=True, type=click.IntRange(1, 10**9))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option(
    "--boot-seconds", default=0.0, metavar="S", type=FiniteRange(0),
    help="Board time of one boot with the whole matrix: the cost is then given in minutes.",
)  # fmt: skip
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Store the counts here; the same command resumes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="No progress.")
def simulate_command(as_json: bool, quiet: bool, out: Path | None, **options: Any) -> None:
    """Estimate how often the gate would be wrong on a board, and how many boots it needs.

    Merge requests on simulated boards are judged by the gate's own code.
    """
    policy = load_time_policy(options["policy"])
    if options["figure"] not in policy.figures:
        raise UsageError(
            f"--figure {options['figure']}: the policy has {', '.join(policy.figures)}"
        )
    planted = Planted(options["growth"] / 100, (list(policy.figures).index(options["figure"]),))
    noise = _noise(options)
    plan = plan_of(policy, options["cells"])
    tally, begin = Tally(), 0
    identity = json_sha256([policy.sha256, {k: v for k, v in options.items() if k != "requests"}])
    if out and out.is_file():
        tally, begin = _resumed(out, identity)
    progress = Progress(quiet or as_json)
    total = options["requests"]
    with progress.step(f"simulate {total} merge requests", total) as step:
        for batch in batches(plan, noise, planted, total, options["seed"], begin):
            tally.add(batch.judged, planted)
            step.update(tally.requests, total, f"{tally.requests} of {total}")
            if out and tally.requests % BATCH == 0:
                results.write_text(
                    out, json.dumps({"identity": identity, **tally.as_dict()}) + "\n"
                )
    found = _summary(tally, options)
    click.echo(json.dumps(found, indent=1) if as_json else _text(found, options))


def _noise(options: dict[str, Any]) -> BoardNoise:
    return board_noise(
        options["kind"],
        options["noise"] / 100,
        shared=options["shared"],
        within=options["within"] / 100,
        ios=options["ios"],
        today=options["today"],
        history=options["history"],
    )


def _resumed(path: Path, identity: str) -> tuple[Tally, int]:
    try:
        data = json.loads(path.read_text())
        if data.pop("identity") != identity:
            raise UsageError(f"{path} holds another simulation: name another --out, or remove it")
        tally = Tally(**data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} holds no simulation: name another --out") from error
    return tally, tally.requests // BATCH


def _summary(tally: Tally, options: dict[str, Any]) -> dict[str, Any]:
    count = tally.requests
    found: dict[str, Any] = {"requests": count}
    for name in ("blocked", "passed", "inconclusive", "alarmed", "right_figure"):
        hits = getattr(tally, name)
        found[name] = {"count": hits, "share": hits / count, "interval": interval(hits, count)}
    found["pairs"] = {"mean": tally.mean_pairs, "error": tally.pairs_error}
    if options["boot_seconds"]:
        found["board_minutes"] = tally.mean_pairs * 2 * options["boot_seconds"] / 60
    return found


def _text(found: dict[str, Any], options: dict[str, Any]) -> str:
    what = f"one {options['figure']} grew by {options['growth']:g} %" if options["growth"] else ""
    lines = [
        f"{found['requests']} merge requests, {what or 'unchanged'}; pair noise "
        f"{options['noise']:g} % ({options['kind']}), {options['cells']} cells:"
    ]
    for name in ("blocked", "passed", "inconclusive"):
        low, high = found[name]["interval"]
        lines.append(
            f"  {name:<13}{found[name]['share']:8.2%}   95 % interval {low:.2%} to {high:.2%}"
        )
    pairs = found["pairs"]
    lines.append(
        f"  cost         {pairs['mean']:8.2f} pairs of boots on average (± {pairs['error']:.2f})"
    )
    if "board_minutes" in found:
        lines.append(f"               {found['board_minutes']:8.1f} board minutes on average")
    return "\n".join(lines)


@click.command("noise")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The history. Default: the cache's.")
def noise_command(runs: tuple[Path, ...], out: Path | None) -> None:
    """Add RUNS of one kernel against itself (gate --aa) to the noise history of their board."""
    for root in runs:
        run = RunDir.open(root)
        manifest = run.manifest
        if manifest.clock is not Clock.TIME or not manifest.aa:
            raise UsageError(
                f"{root} is not a run of one kernel with itself: gate --clock time --aa"
            )
        base, other = (results.read(run.side(s) / "result.json", SideResult) for s in SIDES)
        if base.build.sha256 != other.build.sha256:
            raise UsageError(f"{root} ran two kernels: their difference is not noise")
        policy = load_time_policy(manifest.policy)
        cells = list(base.cells)
        pairs = make_pairs(base, other, cells, list(policy.figures), manifest.seed)
        path = out or history_file(manifest.board, manifest.matrix)
        before = load(path, manifest.board, manifest.matrix)
        after = extended(before, pairs)
        results.write(path, after)
        known = history(after, pairs.names, [r.device for r in pairs.records])
        deviation = known.variance[0][known.freedom > 0] ** 0.5
        middle = (
            f", middle pair noise {sorted(deviation)[len(deviation) // 2]:.2%}"
            if len(deviation)
            else ""
        )
        click.echo(f"{path}: {len(after.pairs) - len(before.pairs)} pairs added{middle}")
