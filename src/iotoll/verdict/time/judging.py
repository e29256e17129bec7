"""A run directory's pairs of boots, judged by its policy and by its board's history of noise."""

from __future__ import annotations

from collections.abc import Sequence

from iotoll.records import results
from iotoll.records.models import NoiseRecord, SideResult
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.judge import Decision, decide
from iotoll.verdict.time.noise import history_file, load
from iotoll.verdict.time.pairs import make_pairs


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
    return decide(pairs, cells, policy, results.read(own, NoiseRecord), manifest.seed)
