"""The run directories that the report's golden tests read, one function a case.

The committed files in ``data/report/`` are what the tests use. After a change of the models, run
``PYTHONPATH=src python -m tests.golden.report_cases`` to make them again.
"""

from __future__ import annotations

from iotoll.records.models import Clock, FailureRecord, Outcome, Section
from tests.golden.report_builder import FULL, SMALL, Case, nanoseconds

COMPILER = """\
  CC      drivers/ufs/core/ufshcd.o
drivers/ufs/core/ufshcd.c: In function \u2018ufshcd_queuecommand\u2019:
drivers/ufs/core/ufshcd.c:2951:9: error: implicit declaration of \u2018ufshcd_is_awake\u2019
 2951 |         if (ufshcd_is_awake(hba) && lrbp->cmd->sc_data_direction != DMA_NONE)
      |         ^~~~~~~~~~~~~~~
make[5]: *** [scripts/Makefile.build:229: drivers/ufs/core/ufshcd.o] Error 1
make: *** [Makefile:224: __sub-make] Error 2
"""
HOSTILE = '<script>alert(1)</script> [bold]$x$[/bold] \x1b[31mred\x1b[0m & "quotes"'
UFS_RULE = "drivers/ufs/ selects every UFS cell"


def regression() -> None:
    """A UFS patch that costs 300 instructions a submission: the full matrix of 32 cells."""
    case = Case("regression", FULL, recorder="counted")
    planted = {("ufs", Section.SUBMISSION): 300, ("ufs", Section.RETURN): 160}

    def special(cell: str, section: Section) -> dict[str, object]:
        if "128k-seqwrite" in cell and "sync" in cell and section is Section.VFS_FS:
            why = "boots of one kernel differ by 39 %: write-back splits and merges differ"
            return {
                "gated": False,
                "why": why,
                "delta": -812.0,
                "relative": -0.037,
                "moved": "same",
            }
        return {}

    case.manifest()
    case.selection(FULL, "block/blk-mq.c", "block/ is on the path of every device", "block/")
    case.result("base")
    case.result("candidate", planted)
    case.verdict(
        Outcome.REGRESSION,
        "The candidate makes submission more expensive in 14 of 16 UFS cells, by 300 instructions.",
        case.compare(planted, special),
    )


def passing() -> None:
    """Two devices, no section moved, one became cheaper: a pass that names the improvement."""
    case = Case("pass", board="virt-x86_64")
    planted = {("nvme", Section.COMPLETION): -120}
    case.manifest()
    case.selection(SMALL, "drivers/nvme/host/pci.c", "asked for by hand", "cells")
    case.result("base")
    case.result("candidate", planted)
    sentence = "No section of 4 cells grew; NVMe completion became cheaper."
    case.verdict(Outcome.PASS, sentence, case.compare(planted))


def identical() -> None:
    """Both kernels built to the same bytes: nothing was booted."""
    case = Case("identical")
    case.manifest()
    case.selection(SMALL, "drivers/ufs/core/ufshcd.c", UFS_RULE, "drivers/ufs/")
    for side in ("base", "candidate"):
        case.source("base" if side == "base" else "candidate")
        case.build("base" if side == "base" else "candidate", "same")
    sentence = "Base and candidate build to the same kernel image."
    case.verdict(Outcome.PASS, sentence, identical=True)


def documentation() -> None:
    """Only documentation changed: no cell selected, nothing built."""
    case = Case("documentation")
    case.manifest()
    path = "Documentation/scsi/ufs.rst"
    case.selection([], path, "only documentation changed, which no kernel runs", "Documentation/")
    case.source("candidate", ["docs: ufs: fix a typo"])
    case.verdict(Outcome.PASS, "The candidate changes documentation only: no cell selected.")


def inconclusive() -> None:
    """A real board's clock: two cells cannot tell yet, one lost events."""
    case = Case("inconclusive", SMALL, Clock.TIME, "hikey960", nanoseconds, "unknown")
    bad = {SMALL[3]: "40,210 of 60,690 trace events lost: over the limit of 1 %"}
    case.manifest()
    case.selection(SMALL, "drivers/nvme/host/pci.c", "asked for by hand", "cells")
    case.result("base", invalid=bad)
    case.result("candidate", {("ufs", Section.SUBMISSION): 210})
    cells = case.compare({("ufs", Section.SUBMISSION): 210})
    why = "the 95 % interval, -90 to +510 ns, spans the threshold: 6 more boots would settle it"
    judged = [
        c.model_copy(
            update={
                "outcome": Outcome.INCONCLUSIVE,
                "why": why,
                "sections": [
                    s.model_copy(update={"moved": "same"} if s.moved == "grew" else {})
                    for s in c.sections
                ],
            }
        )
        if c.cell.startswith("ufs")
        else c
        for c in cells[:3]
    ]
    lost = cells[3].model_copy(
        update={"outcome": Outcome.INCONCLUSIVE, "why": "base is not usable", "sections": []}
    )
    sentence = "2 of 4 cells cannot tell yet: 6 more boots would settle it."
    case.verdict(Outcome.INCONCLUSIVE, sentence, [*judged, lost])


def infrastructure() -> None:
    """QEMU was killed: no figures of the candidate."""
    case = Case("infrastructure")
    case.manifest()
    case.selection(SMALL, "drivers/ufs/core/ufshcd.c", UFS_RULE, "drivers/ufs/")
    case.result("base")
    case.source("candidate")
    failure = FailureRecord(
        outcome=Outcome.INFRASTRUCTURE,
        step="run candidate",
        message="qemu-system-aarch64 was killed by signal 9 after 41 s: free memory and repeat",
        log_tail="[   12.104] ufshcd 0000:00:02.0: ready\nqemu-system-aarch64: terminating\n",
    )
    sentence = "The candidate's boot failed: qemu-system-aarch64 was killed by signal 9."
    case.verdict(Outcome.INFRASTRUCTURE, sentence, failure=failure)


def broken() -> None:
    """The candidate does not compile; its subject and the log are hostile to the page."""
    case = Case("broken")
    case.manifest()
    case.selection(SMALL, "drivers/ufs/core/ufshcd.c", UFS_RULE, "drivers/ufs/")
    case.source("base")
    case.source("candidate", [HOSTILE])
    failure = FailureRecord(
        outcome=Outcome.BROKEN,
        step="build",
        message="the candidate does not compile: drivers/ufs/core/ufshcd.c:2951",
        log_tail=COMPILER + HOSTILE + "\n",
    )
    sentence = "The candidate does not compile: drivers/ufs/core/ufshcd.c:2951."
    case.verdict(Outcome.BROKEN, sentence, failure=failure)


def measured() -> None:
    """One kernel measured: figures, no verdict."""
    case = Case("measured", recorder="counted", detailed=True)
    case.manifest("measure", None)
    case.selection(SMALL, "-", "asked for by hand", "cells")
    case.result("base")


def smoke() -> None:
    """The time clock of a virtual board: figures that cannot gate."""
    case = Case("smoke", SMALL[:2], Clock.TIME, "virt-arm64", nanoseconds, "unknown")
    case.manifest()
    case.selection(SMALL[:2], "drivers/ufs/core/ufshcd.c", UFS_RULE, "drivers/ufs/")
    case.result("base")
    case.result("candidate")
    sentence = "Both kernels ran 2 cells; times of a virtual board cannot gate."
    case.verdict(Outcome.PASS, sentence, case.compare({}), can_gate=False)


CASES = (
    regression,
    passing,
    identical,
    documentation,
    inconclusive,
    infrastructure,
    broken,
    measured,
    smoke,
)

if __name__ == "__main__":
    for make in CASES:
        make()
