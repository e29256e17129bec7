"""What every command shares: its end on an error or a signal, and its output options."""

from __future__ import annotations

import os
import platform
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

import click

from iotoll.core.errors import BrokenError, InfrastructureError, IotollError, UsageError
from iotoll.core.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

    from iotoll.core.progress import Progress

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130  # as a shell reports a process that SIGINT ended


@dataclass(frozen=True)
class Output:
    """What a command prints: all of it, the verdict alone, or JSON."""

    quiet: bool
    as_json: bool

    @property
    def progress(self) -> Progress:
        """Steps on standard error; silent when asked to be."""
        # rich takes a tenth of a second to import, which --help does without.
        from iotoll.core.progress import Progress

        return Progress(self.quiet or self.as_json)

    @property
    def console(self) -> Console:
        """Standard output."""
        from rich.console import Console

        return Console()


def output_options(command: F) -> F:
    """--quiet and --json, on every command that has something to say."""
    command = click.option(
        "--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."
    )(command)
    return click.option("--quiet", is_flag=True, help="Print only the verdict or result.")(command)


def guarded(command: click.Command) -> None:
    """Run a command; never shows a traceback for an expected failure."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _check_words()
        command(standalone_mode=False)
    except click.exceptions.Exit as done:
        raise SystemExit(done.exit_code) from done
    except click.ClickException as error:
        error.show()
        raise SystemExit(2) from error
    except (KeyboardInterrupt, click.Abort):
        click.echo("iotoll: interrupted; the same command resumes", err=True)
        raise SystemExit(INTERRUPTED) from None
    except IotollError as error:
        click.echo(f"iotoll: {plain(str(error))}", err=True)
        if isinstance(error, BrokenError | InfrastructureError) and error.log_tail:
            click.echo(plain(error.log_tail), err=True)
        raise SystemExit(error.exit_code) from error
    except BrokenPipeError:
        raise SystemExit(0) from None
    except Exception as error:
        # A bug of ours. Python's own exit code for it, 1, would read as a regression.
        click.echo(f"iotoll: {_crash_report(error)}", err=True)
        raise SystemExit(InfrastructureError.exit_code) from None


def _check_words() -> None:
    """Raise UsageError for a name that is not UTF-8: no record or report could hold it."""
    for word in sys.argv[1:]:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise UsageError(f"{shown}: is not UTF-8: rename the file") from error


def _crash_report(error: Exception) -> str:
    """Write what a bug leaves into a file; returns one line that says so."""
    what = plain(" ".join(f"{type(error).__name__}: {error}".split()))[:200]
    text = "".join(traceback.format_exception(error))
    lines = [f"iotoll {version('iotoll')}", sys.version, platform.platform(), repr(sys.argv), text]
    try:
        handle, name = tempfile.mkstemp(prefix="iotoll-crash-", suffix=".txt")
        with os.fdopen(handle, "w", errors="backslashreplace") as out:
            out.write("\n".join(lines))
    except (OSError, PackageNotFoundError) as problem:
        return f"a bug of iotoll's: {what} (no report could be written: {problem})"
    return f"a bug of iotoll's: {what}: please report it with {name}"


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
