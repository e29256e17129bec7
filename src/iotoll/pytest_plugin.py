"""pytest plugin: a run directory as fixtures, to judge it with tests of one's own.

``pytest --iotoll-run runs/NAME`` gives:

- ``iotoll_run``: the whole run;
- ``iotoll_cell``: a test that asks for it runs once per cell;
- ``iotoll_comparison``: once per cell and section that were compared;
- ``iotoll_check``: once per outcome (`iotoll.reports.publish.checks`), so also for cells without
  figures. What is skipped or in error there skips the test, or is an error in its set-up.

Without ``--iotoll-run`` such tests skip. With allure-pytest's ``--alluredir`` each test carries
board, kernel, patch, section, links and the cell's figures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from iotoll.core.errors import InfrastructureError, IotollError, UsageError
from iotoll.records.rundir import RunDir
from iotoll.reports.publish.checks import Check, Status
from iotoll.reports.publish.judged import JudgedCell, JudgedRun, JudgedSection
from iotoll.reports.publish.links import parse_link, run_links

NO_RUN = "no run directory is named: pytest --iotoll-run runs/NAME"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --iotoll-run and --iotoll-link."""
    group = parser.getgroup("iotoll", "judge a run directory of iotoll")
    group.addoption("--iotoll-run", metavar="DIR", help="run directory to judge")
    group.addoption(
        "--iotoll-link",
        metavar="LABEL=URL",
        action="append",
        default=[],
        help="link to attach to every test; repeatable",
    )


_RUN = pytest.StashKey[JudgedRun | None]()


def pytest_configure(config: pytest.Config) -> None:
    """Open the run directory, so that a wrong one ends pytest before any test."""
    named = config.getoption("--iotoll-run")
    config.stash[_RUN] = None
    if named is None:
        return
    try:
        links = [parse_link(text) for text in config.getoption("--iotoll-link")]
        run = JudgedRun(RunDir.open(Path(named)), links)
        _ = run.checks
    except IotollError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_RUN] = run


def check_name(check: Check) -> str:
    """The name of a check as a test parameter: ``ufs-4k-randread-t1-direct: submission``."""
    return f"{check.cell}: {check.name}" if check.cell else check.name


def _names(run: JudgedRun) -> dict[str, Callable[[], list[str]]]:
    """Fixture to the values that a test which asks for it is run with."""
    return {
        "iotoll_cell": lambda: list(run.cells),
        "iotoll_comparison": lambda: [check_name(c) for c in run.checks if c.comparison],
        "iotoll_check": lambda: [check_name(c) for c in run.checks],
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once per cell, comparison or check of the run."""
    run = metafunc.config.stash[_RUN]
    for fixture in ("iotoll_cell", "iotoll_comparison", "iotoll_check"):
        if fixture not in metafunc.fixturenames:
            continue
        values = _names(run)[fixture]() if run else []
        why = "this run has none" if run else NO_RUN
        empty = pytest.param("none", marks=pytest.mark.skip(reason=why))
        metafunc.parametrize(fixture, values or [empty], indirect=True)


@pytest.fixture(scope="session")
def iotoll_run(pytestconfig: pytest.Config) -> JudgedRun:
    """The run directory named with --iotoll-run."""
    run = pytestconfig.stash[_RUN]
    if run is None:
        pytest.skip(NO_RUN)
    return run


@pytest.fixture
def iotoll_cell(request: pytest.FixtureRequest, iotoll_run: JudgedRun) -> JudgedCell:
    """One cell of the run; the test runs once for each."""
    return iotoll_run.cells[request.param]


@pytest.fixture
def iotoll_comparison(request: pytest.FixtureRequest, iotoll_run: JudgedRun) -> JudgedSection:
    """One compared section of one cell; the test runs once for each."""
    check = _check(iotoll_run, request.param)
    if check.comparison is None:
        raise UsageError(f"{request.param} was not compared")
    return JudgedSection(iotoll_run.cells[check.cell], check.comparison, check)


@pytest.fixture
def iotoll_check(request: pytest.FixtureRequest, iotoll_run: JudgedRun) -> Check:
    """One outcome of the run; skips, or fails the set-up, where nothing was judged."""
    check = _check(iotoll_run, request.param)
    if check.status is Status.SKIPPED:
        pytest.skip(check.reason)
    if check.status is Status.ERROR:
        raise InfrastructureError(check.reason)
    return check


def _check(run: JudgedRun, name: str) -> Check:
    return next(check for check in run.checks if check_name(check) == name)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Describe the test to Allure, also one whose set-up skips or fails."""
    try:
        return (yield)
    finally:
        run = item.config.stash[_RUN]
        if run and item.config.getoption("--alluredir", default=None):
            _describe(item, run)


def _describe(item: pytest.Item, run: JudgedRun) -> None:
    # Imported by a run with Allure alone: pytest loads this plugin in every run.
    from iotoll.reports.publish import alluremeta

    values = getattr(getattr(item, "callspec", None), "params", {})
    check = next((c for c in run.checks if check_name(c) in values.values()), None)
    cell = check.cell if check else values.get("iotoll_cell", "")
    links = [*run.links, *run_links(run.evidence)]
    alluremeta.describe(run.evidence, check, run.cells.get(cell), links)
