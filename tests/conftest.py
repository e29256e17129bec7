"""Golden files, and what a skip means on a machine that should run everything.

Golden files are compared by default, and written again with ``pytest --update-goldens``. With
``CI=true`` or ``IOTOLL_TEST_STRICT=1`` a test of tests/vm or tests/lab that skips is a failure,
unless its reason is one of `ALLOWED_SKIPS`; ``IOTOLL_TEST_STRICT=0`` switches that off.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from iotoll_lab.local.root import get_root

from iotoll.core.progress import Progress

Check = Callable[[str, str], None]

# A busy machine is no property of the code. With CI=true hypothesis does this by itself.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("desk")

LONG = "IOTOLL_TEST_LONG"
"""Set, it lets tests with the mark `long` run."""

ALLOWED_SKIPS = {
    r"set IOTOLL_TEST_LONG=1": "make test-long runs it",
    r"is not built, which takes (long|minutes)": "an hour of kernel builds, for boards of labs",
    r"needs a kernel tree from Linux 6\.16 on": "Debian's source is older than OK3576-C's drivers",
    r"linux-source-6\.1\.tar": "make test-long installs it; Debian 13 does not have it",
    r"buildah is not installed": "make test-long installs it, on Debian 12",
    r"arm-linux-gnueabihf": "ZedBoard's compiler is not among the packages that tests install",
}
"""What may be missing where everything else must be there: pattern of the reason → why."""


SLOW = {
    "tests/trace/test_blocks.py::test_g4_1": "prints 200 recordings for a second reader",
    "tests/trace/test_blocks.py::test_g4_6": "analyses long recordings in processes of their own",
    "tests/trace/test_oracle": "compiles libtracecmd's own reader, and records traces",
    "tests/unit/boards/test_flash.py": "writes whole flash images, and runs LAVA's tools on them",
    "tests/unit/boards/test_qemu.py::test_qemu_": "waits for a QEMU that does not end",
    "tests/unit/kernels/test_reuse.py": "builds trees by make, again and again",
    "tests/unit/labs/lava/test_runner.py": "waits as a client does whose boards boot",
    "tests/unit/run/test_named_files.py": "starts whole commands in sandboxes",
    "tests/unit/kernels/test_sandbox.py": "starts namespaces and overlays, as a CI job does",
    "tests/unit/run/test_sandboxed.py": "the same, with whole builds",
    "tests/unit/test_wrong_input.py::test_full_disks": "mounts disks, and fills each",
    "tests/unit/test_wrong_input.py::test_what_may_not_be_read": "starts readers as another user",
    "tests/unit/test_docs.py::test_the_pages_of_the_studies": "draws every picture again",
    "tests/unit/reports/test_report_flames.py::test_a_flame_graph": "writes a whole Allure report",
    "tests/unit/test_pytest_plugin.py": "runs pytest in pytest, and Allure's generator in Node",
    "tests/unit/verdict/time/test_simulate.py": "simulates hundreds of merge requests",
    "tests/unit/reports/test_trace_command.py::test_more_ios": "analyses more I/Os than are kept",
    "tests/unit/reports/test_trace_perfetto.py": "reads every slice back",
    "tests/unit/nightly/test_history.py::test_kill_9": "kills a writer again and again",
    "tests/unit/nightly/test_history.py::test_object_store": "starts a server of object stores",
    "tests/unit/patch/test_hostile.py::test_f6_9": "reads patches of many megabytes",
    "tests/unit/bisect/test_bisect": "searches whole git repositories",
    "tests/unit/bisect/test_ledger.py": "searches whole git repositories",
    "tests/unit/gate/test_reproduce.py": "derives whole verdicts from traces",
    "tests/trace/test_independent.py": "analyses every fixture a second time, slowly",
    "tests/unit/kernels/test_build.py::test_what_ignores": "waits until a build takes too long",
    "tests/unit/lists/test_check.py::test_b4": "starts b4, and iotoll from it",
    "tests/unit/boots/test_waiting.py::test_a_process_that_gets_a_fifth": "stops a process",
    "tests/unit/kernels/test_build.py::test_time_out": "waits until a build takes too long",
    "tests/unit/kernels/test_places.py::test_g1_11_a_build_of_the_same": "waits for a build",
    "tests/unit/lab/experiments/test_exact.py": "moves a clock of its own for seconds",
    "tests/unit/lab/simboard/": "waits as one does for a board that boots",
    "tests/unit/ci/test_pull.py": "waits as a lab does for its next job",
    "tests/unit/gate/test_several.py": "starts whole gates, side by side",
    "tests/unit/test_exit_codes.py": "starts every command",
    "tests/unit/labs/ssh/test_ssh_runner.py": "loses the line at each step, and waits for it",
    "tests/unit/nightly/test_series.py::test_g3_2_g3_6": "plays two hundred nights",
    "tests/unit/patch/test_candidate.py::test_no_bytes": "reads a thousand random patches",
    "tests/unit/core/test_nearest.py::test_g2_11_each_kind": "starts commands with wrong words",
    "tests/unit/ci/test_github.py": "starts the action's own steps",
    "tests/unit/lab/experiments/test_rule.py::test_the_power": "judges a table of costs",
    "tests/gitlab/test_client.py": "waits as a client does whose server is away",
    "tests/gitlab/test_nightly.py": "runs pipelines by gitlab-ci-local, in Node",
    "tests/gitlab/test_kinds.py": "the same, for every kind of pipeline",
}
"""What `make check` leaves to `make test`, for its time: beginning of the node id → why."""


FIRST = (
    "tests/vm/test_gate.py",
    "tests/lab/test_faults.py",
    "tests/lab/test_gate.py",
    "tests/lab/test_blame.py",
    "tests/vm/test_kernel_build.py",
    "tests/vm/test_pipeline.py",
    "tests/vm/test_explain.py",
    "tests/vm/test_hostile.py",
    "tests/lab/test_hikey960.py",
    "tests/lab/test_health.py",
    "tests/vm/test_exact.py",
    "tests/vm/test_simboard.py",
    "tests/vm/test_boards.py",
    "tests/vm/test_x86.py",
    "tests/browser/",
    "tests/vm/test_dut.py",
    "tests/vm/test_lists.py",
    "tests/trace/test_oracle_events.py",
    "tests/trace/test_independent.py",
    "tests/unit/bisect/test_bisect.py",
    "tests/unit/nightly/test_history.py",
    "tests/unit/verdict/time/test_simulate.py",
    "tests/unit/reports/test_report_page.py",
    "tests/unit/test_pytest_plugin.py",
    "tests/unit/kernels/",
    "tests/unit/bisect/test_bisect_shared.py",
    "tests/gitlab/",
)
"""Files that take longest, in this order: they begin first, so that all processes end together."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens", action="store_true", help="write golden files instead of comparing"
    )


def is_strict() -> bool:
    """Whether a missing prerequisite of tests/vm and tests/lab is a failure."""
    named = os.environ.get("IOTOLL_TEST_STRICT")
    return named == "1" if named else os.environ.get("CI") == "true"


def forbidden_skip(nodeid: str, reason: str) -> bool:
    """Whether a machine that should run everything must not skip this test for this reason."""
    if not nodeid.startswith(("tests/vm/", "tests/lab/")):
        return False
    return not any(re.search(pattern, reason) for pattern in ALLOWED_SKIPS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skip a failure where it is one."""
    report = yield
    if report.skipped and is_strict() and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if forbidden_skip(item.nodeid, reason):
            report.outcome = "failed"
            report.longrepr = f"must not skip here (IOTOLL_TEST_STRICT=0 allows it): {reason}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first. Tests that boot boards or a lab have their own, longer limits.

    What `make check` does without is marked `slow`: the tests of `SLOW`, and those that need root.
    """
    items.sort(key=_place)
    for item in items:
        if item.nodeid.startswith(tuple(SLOW)) or "lab_root" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("long") and not os.environ.get(LONG):
            # As a mark, it skips before fixtures boot anything.
            why = f"takes long, and goes the way of other tests: set {LONG}=1"
            item.add_marker(pytest.mark.skip(reason=why))
        slow = item.nodeid.startswith(("tests/vm/", "tests/lab/"))
        if slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(3600))


def _place(item: pytest.Item) -> int:
    """Where a test's file stands in `FIRST`; a sort keeps the order of the others."""
    places = (number for number, name in enumerate(FIRST) if item.nodeid.startswith(name))
    return next(places, len(FIRST))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Check:
    """Compare text with a golden file, named relative to ``tests/golden/data``."""
    update = bool(request.config.getoption("--update-goldens", default=False))

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / "data" / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"{path} is missing: pytest --update-goldens"
        assert text == path.read_text(), f"differs from {path}; see --update-goldens"

    return check


@pytest.fixture(scope="session", autouse=True)
def heed_interrupts() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def lab_root() -> Path:
    """The lab's root file system, with LAVA's own Python modules; made if need be.

    Skips, saying why, where no lab can be.
    """
    if os.geteuid() != 0:
        pytest.skip("a lab needs root, for its namespaces and mounts")
    for tool in ("mmdebstrap", "unshare", "setpriv", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return get_root(Progress())
