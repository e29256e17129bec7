"""G1.1 with a kernel's own makefiles: images after other builds against clean ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotoll.core.errors import IotollError
from iotoll.kernels import kernel_job, source
from tests.vm.conftest import succeed

pytestmark = pytest.mark.vm


def test_g1_1_images_after_other_builds_are_the_clean_builds(tmp_path: Path) -> None:
    try:
        kernel_job.installed_toolchain("arm64")
        source.locate("debian")
    except IotollError as error:
        pytest.skip(str(error))
    out = tmp_path / "builds"
    words = ("--only", "uapi,unmade", "--changes", "5", "--out", out)
    done = succeed("experiment", "builds", *words)
    found = json.loads((out / "builds.json").read_text())
    assert found["builds"] == found["same"] == 5
    assert {row["state"] for row in found["rows"]} == {"none", "uapi", "unmade"}
    assert {row["way"] for row in found["rows"]} >= {"move", "sandbox", "future"}
    assert "clean builds" in done.stdout
