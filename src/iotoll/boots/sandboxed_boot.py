"""Boots a candidate at a desk in the sandbox, where QEMU sees no file of the user's.

Outside, `boot` starts ``iotoll.ci.inside boot PLAN`` and listens; inside, `inside` does what
`iotoll.boots.local.boot_again` does. Only the side's own boots are written.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable

from pydantic import TypeAdapter

from iotoll.boards.board import HostBoard, VirtualBoard
from iotoll.boards.uml import registers
from iotoll.boots.local import BootPlan, boot_again
from iotoll.core.errors import BrokenError, BrokenStep, InfrastructureError
from iotoll.core.proc import tail, use_small_pages
from iotoll.kernels import sandbox
from iotoll.kernels.sandbox import Surroundings
from iotoll.records import results
from iotoll.records.failure import failure_of
from iotoll.records.models import BootRecord, FailureRecord, Outcome

_PLAN = TypeAdapter(BootPlan)
_BEGUN, _SAID = "iotoll-fio-run ", "iotoll-says "


def boot(
    plan: BootPlan,
    on_cell: Callable[[int], None],
    cancelled: threading.Event | None,
    tell: Callable[[str], None],
) -> BootRecord:
    """As `iotoll.boots.local.boot_again`, in the sandbox."""
    folder = plan.folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    failed = folder / f"{plan.number}.failure.json"
    failed.unlink(missing_ok=True)
    said: list[str] = []

    def hear(line: str) -> None:
        if match := re.fullmatch(rf"{_BEGUN}(\d{{1,9}})\n", line):
            on_cell(int(match[1]))
        elif line.startswith(_SAID):
            tell(line.removeprefix(_SAID).strip())
        else:
            said.append(line)

    # As what it is: a board's own fields are not those of every board.
    text = _PLAN.dump_json(plan, serialize_as_any=True).decode()
    words = [*sandbox.INSIDE, "boot", text]
    if isinstance(plan.board, HostBoard):
        registers()  # in there it would be built for each boot
    around = Surroundings(
        cache=sandbox.tools(),
        shown=[plan.kernel.parent, plan.job],
        hear=hear,
        cancelled=cancelled,
    )
    status = sandbox.run(words, folder, None, around=around)
    if failed.is_file():
        _raise(results.read(failed, FailureRecord))
    if status != 0:
        raise InfrastructureError(
            f"{plan.name}: the boot in the sandbox ended with status {status}", tail("".join(said))
        )
    return results.read(plan.folder / "boot.json", BootRecord)


def inside(text: str) -> int:
    """Boot what ``text`` says, a plan as JSON; a failure is left in a file beside its folder."""
    use_small_pages()
    data = json.loads(text)
    kind = HostBoard if data["board"]["arch"] == "um" else VirtualBoard
    plan = _PLAN.validate_python({**data, "board": kind.model_validate(data["board"])})
    begun = -1

    def on_cell(count: int) -> None:
        nonlocal begun
        if count != begun:
            begun = count
            print(f"{_BEGUN}{count}", flush=True)

    try:
        boot_again(plan, on_cell, None, lambda text: print(f"{_SAID}{text}", flush=True))
    except (BrokenError, InfrastructureError) as error:
        failure = failure_of(error, "boot")
        results.write(plan.folder.parent / f"{plan.number}.failure.json", failure)
        return failure.outcome.exit_code
    return 0


def _raise(failure: FailureRecord) -> None:
    if failure.outcome is Outcome.BROKEN:
        step: BrokenStep = "boot" if failure.step == "boot" else "workload"
        raise BrokenError(step, failure.message, failure.log_tail)
    raise InfrastructureError(failure.message, failure.log_tail)
