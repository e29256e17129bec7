"""The run directories that tests of reports and formats look at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from iotoll.records.rundir import RunDir

DATA = Path(__file__).parent / "data"
REAL = sorted((DATA / "runs").iterdir())
"""Measured on the virtual board (`tests.golden.keep_run`)."""

CASES = [*REAL, *sorted((DATA / "report").iterdir())]
"""Those, and the report's golden cases: every outcome, with invented figures."""

IDS = [f"{path.parent.name}-{path.name}" for path in CASES]
HOSTILE = (
    "</script><script>document.title='owned'</script>"
    "<img src=x onerror=\"document.title='owned'\"> `|` $`x`$ ](https://evil.example) "
    "https://evil.example @all #1 !2 ~bug /merge {{7*7}} \x1b[31m\u202e\ud7ff\ufffe end"
)
"""A patch's title that tries to be markup, a mention, an order, a link."""


def real(name: str) -> RunDir:
    """A measured run, where it lies: for readers only."""
    return RunDir.open(DATA / "runs" / name)


def hostile(folder: Path, name: str = "regression") -> RunDir:
    """A copy of a measured run whose texts attack whoever shows them."""
    shutil.copytree(DATA / "runs" / name, folder)
    _change(folder / "sides/candidate/source.json", patch_subjects=[HOSTILE])
    data = json.loads((folder / "verdict.json").read_text())
    data["sentence"] = f"{HOSTILE}\n/merge\n\n# {HOSTILE}"
    for cell in data["cells"]:
        cell["why"] = HOSTILE
        for section in cell["sections"]:
            section["confidence"] = section["why"] = HOSTILE
    if "failure" in data:
        data["failure"]["message"] = HOSTILE
        data["failure"]["log_tail"] = f"```\n/close\n~~~\n{HOSTILE}\n````\n/merge\n</details>\n"
    (folder / "verdict.json").write_text(json.dumps(data))
    return RunDir.open(folder)


def _change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
