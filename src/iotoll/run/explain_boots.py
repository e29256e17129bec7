"""The recorded boots of `iotoll explain`: those of both sides run side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from iotoll.boots.local import BootPlan, boot
from iotoll.boots.schedule import PARALLEL
from iotoll.core.progress import Progress


def boot_recorded(plans: Sequence[BootPlan], progress: Progress, what: str) -> None:
    """Boot each plan once, one per host CPU and at most `PARALLEL` at a time.

    What an exact board executes does not depend on what runs beside it. Raises what the first boot
    that fails raises; the others are ended then.
    """
    total = sum(plan.runs for plan in plans)
    begun = dict.fromkeys(range(len(plans)), 0)
    cancelled = threading.Event()
    title = f"boot {plans[0].board.name} ({', '.join(plan.side for plan in plans)}; {what})"
    with progress.step(title, total) as step:

        def one(index: int, plan: BootPlan) -> None:
            def on_cell(count: int) -> None:
                begun[index] = count
                done = sum(begun.values())
                step.update(done, total, f"fio run {done} of {total}")

            boot(plan, on_cell, cancelled)

        pool = ThreadPoolExecutor(max(1, min(PARALLEL, os.cpu_count() or 1)))
        try:
            futures = [pool.submit(one, index, plan) for index, plan in enumerate(plans)]
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in (f for f in futures if f in ended):
                future.result()
        finally:
            # Ctrl-C, or a boot that failed: the other board need not go on.
            cancelled.set()
            pool.shutdown(wait=True, cancel_futures=True)
