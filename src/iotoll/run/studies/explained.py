"""``iotoll experiment explained``: costs that are harder to find than those of ``planted``."""

from __future__ import annotations

from pathlib import Path

import click

from iotoll.run.studies.explained_variants import CELLS, shaped
from iotoll.run.studies.gates import gate_options, run_gates


@click.command("explained")
@gate_options()
def explained_command(out: Path | None, **options: object) -> None:
    """Gate and explain PATCHES kernels whose cost is in an inlined or new function, or conditional.

    Is the function named first, with its size? Without --cells three UFS cells run, in which each
    condition holds and does not hold.
    """
    options = {**options, "cells": options["cells"] or CELLS, "explain": True}
    run_gates(shaped, out or Path("runs/explained"), options)
