"""Every golden job definition against LAVA's own strict schema, run where LAVA is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from iotoll_lab.local.services import ENVIRONMENT

pytestmark = pytest.mark.lab
JOBS = sorted((Path(__file__).parents[1] / "golden/data/lava/jobs").glob("*.yaml"))
CHECK = """
import sys
from lava_common.schemas import validate
from lava_common.yaml import yaml_safe_load
validate(yaml_safe_load(sys.stdin), strict=True)
"""


def refused(root: Path, definition: str) -> str:
    """LAVA's words against a definition; empty when it has none."""
    done = subprocess.run(
        ["chroot", root, "python3", "-c", CHECK],
        input=definition,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr.splitlines()[-1]


def test_there_are_definitions() -> None:
    assert len(JOBS) >= 2


@pytest.mark.parametrize("path", JOBS, ids=lambda p: p.stem)
def test_definition_is_valid(lab_root: Path, path: Path) -> None:
    assert refused(lab_root, path.read_text()) == ""


def test_schema_sees_an_unknown_key_and_a_wrong_type(lab_root: Path) -> None:
    text = JOBS[0].read_text()
    assert "extra keys not allowed" in refused(lab_root, text + "strange: 1\n")
    assert "expected str" in refused(lab_root, text.replace("job_name: ", "job_name: 1 # "))
