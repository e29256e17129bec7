"""The command ``watch``."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from iotoll.core.cli_support import Output, output_options


@click.command("watch")
@click.argument("config", type=click.Path(path_type=Path))
@output_options
def watch_command(config: Path, quiet: bool, as_json: bool) -> None:
    """Gate the new series of a mailing list's archive, as CONFIG says, and write replies.

    One call reads what is new, gates what is complete, and ends: a timer calls it again. Run again
    it resumes, and no series is gated twice. Replies are files, unless CONFIG has a command that
    sends them. The exit code is 0 whatever the series' verdicts are: the page shows them.
    """
    # The published formats take half a second to import, which --help does without.
    from iotoll.lists.config import load_config
    from iotoll.lists.watch import run

    loaded = load_config(config)
    output = Output(quiet, as_json)
    found = run(loaded, output.progress)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1, sort_keys=True))
        return
    counts = Counter(one.outcome or one.state for one in found)
    click.echo(
        ", ".join(f"{word} {number}" for word, number in sorted(counts.items())) or "no mail"
    )
    if not quiet:
        click.echo(f"page: {Path(loaded.folder) / 'index.html'}")
