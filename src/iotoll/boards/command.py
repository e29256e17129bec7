"""``iotoll image``: the images that a real board is flashed or booted with."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from iotoll.boards import flash
from iotoll.boards.hardware import Hardware, load_hardware
from iotoll.core.errors import UsageError
from iotoll.core.paths import dut_command
from iotoll.core.progress import Progress
from iotoll.records.models import ImageRecord


@click.command("image")
@click.argument("board")
@click.option("--tree", default="debian", help="Kernel git tree or source archive.")
@click.option("--base", help="Git revision in --tree.")
@click.option("--image", type=click.Path(path_type=Path), help="Ready-made kernel; needs --dtb.")
@click.option(
    "--dtb",
    type=click.Path(path_type=Path),
    help="Device tree: a blob, or its name in the kernel tree (VENDOR/BOARD.dtb).",
)
@click.option(
    "--job", type=click.Path(path_type=Path), help="Rendered job to include (a run's jobs/NAME)."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder. Default: images/BOARD.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="Print only errors.")
def image_command(
    board: str,
    tree: str,
    base: str | None,
    image: Path | None,
    dtb: Path | None,
    job: Path | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make and check the images of a real BOARD (lava-jobs/hardware/, or a file).

    Kernel and device tree with the board's config fragments, a boot image where its boot loader
    wants one, and the DUT's root file system. Same sources, same bytes.
    """
    progress = Progress(quiet or as_json)
    hardware = load_hardware(board)
    folder = out or Path("images") / hardware.name
    if image is None:
        kernel = flash.build_kernel(hardware, tree, base, folder, progress, dtb)
    elif dtb is None:
        raise UsageError("--image: also give the device tree blob that was built with it: --dtb")
    else:
        kernel = flash.ready_made(hardware, image, dtb, folder)
    record = flash.package(hardware, kernel, folder, progress, _dut(hardware, progress), job)
    if as_json:
        click.echo(json.dumps({"out": str(folder), **record.model_dump(mode="json")}, indent=1))
    elif not quiet:
        _show(record, folder)


def _dut(hardware: Hardware, progress: Progress) -> Path | None:
    try:
        return dut_command(hardware.arch)
    except UsageError as error:
        progress.say(f"the board will have no iotoll-dut: {error}")
        return None


def _show(record: ImageRecord, folder: Path) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False)
    for title in ("file", "bytes", "partition", "SHA-256"):
        table.add_column(title, justify="right" if title == "bytes" else "left")
    for name, file in record.files.items():
        table.add_row(name, str(file.size), file.partition or "", file.sha256[:16])
    console.print(table)
    for check in record.checks:
        console.print(f"ok  {check}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"images of {record.board}: {folder}", markup=False, highlight=False)
