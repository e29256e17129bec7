"""When a run counts lines of cache: by its policy, its option, and what the patch changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import SourceRecord
from iotoll.run.setup import Setup
from iotoll.verdict.policy import load_policy
from tests.unit.runs import make_run


@pytest.mark.parametrize(
    ("structures", "asked", "when", "counts"),
    [
        ([], False, "structures", False),
        (["struct nvme_iod"], False, "structures", True),
        ([], True, "structures", True),
        ([], True, "never", True),
        (["struct nvme_iod"], False, "never", False),
        ([], False, "always", True),
    ],
)
def test_lines_are_counted_for_changed_structures_and_on_request(
    tmp_path: Path, structures: list[str], asked: bool, when: str, counts: bool
) -> None:
    run = make_run(tmp_path, lines=asked)
    path = run.side("candidate") / "source.json"
    source = results.read(path, SourceRecord)
    results.write(path, source.model_copy(update={"structures": structures}))
    setup = Setup(run, Progress(quiet=True))
    policy = load_policy("instructions")
    lines = policy.lines.model_copy(update={"when": when})
    setup.policy = policy.model_copy(update={"lines": lines})
    assert setup.caches == ("cortex-a73" if counts else None)
