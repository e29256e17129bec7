"""Was it the lab, or the candidate? The end of a failed job, judged by rules that see no values.

`evidence` reads a job and leaves out whatever the board measured; `JobEvidence` alone is
judged. So no rule, whatever a known-issue file says, can depend on a measured value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iotoll.boots.console import HANG, ConsoleState, read_console
from iotoll.core.errors import BrokenError, BrokenStep, HangError, InfrastructureError
from iotoll.core.proc import tail
from iotoll.labs.lava.issues import Issue
from iotoll.labs.lava.job_log import JobLog, LogLine

LINE_LIMIT = 2000
"""Characters of a line that patterns see."""
UNKNOWN = "unknown"

# A record's lines, whole or cut off; what LAVA prints and repeats of a measurement; what is left of
# either when the kernel printed into it: runs of base64 and of digits.
_FIGURES = re.compile(
    r"#iotoll1 D [0-9a-f]* ?[0-9/]* ?[A-Za-z0-9+/]*={0,2}(?: [0-9a-f]{8}\b)?"
    r"|#iotoll1 [HE](?: [\w.-]+){0,8}"
    r"|<?(?:LAVA_SIGNAL_)?TESTCASE.*"
    r"|[A-Za-z0-9+/]{32,}={0,2}"
)

# The kernel's own first words, or U-Boot's last ones: a kernel may die before it has a console.
_BOOTING = re.compile(r"Linux version |Booting Linux |^Starting kernel \.\.\.", re.MULTILINE)


@dataclass(frozen=True)
class JobEvidence:
    """What a job's end is judged by.

    ``health``, ``error_type`` and ``error`` are LAVA's; ``phase`` is the last one that began;
    ``lines`` is the log without figures, ``console`` the board's part of it.
    """

    health: str
    error_type: str
    error: str
    phase: str
    lines: tuple[LogLine, ...]

    @property
    def console(self) -> str:
        """What the board said."""
        return "".join(f"{line.text}\n" for line in self.lines if line.board)


def evidence(health: str, error_type: str, error: str, log: JobLog) -> JobEvidence:
    """What is to be judged of a job that ended."""
    lines = tuple(
        LogLine(line.phase, line.board, text)
        for line in log.lines
        if (text := without_figures(line.text)) or not line.text
    )
    phase = lines[-1].phase if lines else "start"
    if phase == "finish":
        phase = next((line.phase for line in reversed(lines) if line.phase != "finish"), "start")
    return JobEvidence(health, error_type, without_figures(error), phase, lines)


def without_figures(text: str) -> str:
    """A line of a log without what a board measured; of any length, in time that grows with it."""
    return "" if "MEASUREMENT" in text else _FIGURES.sub("", text)[:LINE_LIMIT]


def classify(found: JobEvidence, issues: Sequence[Issue]) -> BrokenError | InfrastructureError:
    """What a failed job's end means; the message ends with the rule that decided, in brackets.

    A HangError blames nobody until it repeats.
    """
    console = read_console(found.console)
    if console.crashed and console.failed_at:
        return BrokenError(console.failed_at, f"{console.reason} [crash]", console.log_tail)
    hang = None if console.done else HANG.search(found.console)
    if hang:
        step: BrokenStep = "workload" if console.started else "boot"
        return HangError(step, f"{hang[0].strip()} [hang]", console.log_tail)
    last = _end(found, console)
    log_tail = tail(found.console)
    for issue in issues:
        for line in (*found.lines, last):
            if issue.phase in ("any", line.phase) and issue.compiled.search(line.text):
                what = found.error if line is last and found.error else line.text.strip()
                message = f"{what} ({issue.note.rstrip('.')}) [{issue.id}]"
                if issue.outcome == "infrastructure":
                    return InfrastructureError(message, log_tail)
                step = "workload" if found.phase == "workload" else "boot"
                kind = HangError if issue.outcome == "hang" else BrokenError
                return kind(step, message, log_tail)
    if console.failed_at:
        return BrokenError(console.failed_at, f"{console.reason} [workload]", console.log_tail)
    return InfrastructureError(f"{last.text} [{UNKNOWN}]", log_tail)


def _end(found: JobEvidence, console: ConsoleState) -> LogLine:
    """The end as one line, in the form that known-issues/generic.toml describes."""
    booting = _BOOTING.search(found.console)
    kernel = "working" if console.started else "booting" if booting else "silent"
    if console.done:
        kernel = "done"  # what LAVA still waited for was said, and did not arrive
    kind = found.error_type or "no"
    text = f"job {found.health}: {kind} error in {found.phase}, kernel {kernel}: {found.error}"
    return LogLine(found.phase, False, text[:LINE_LIMIT])
