"""What every command shares: its end on an error or a signal, and its output options."""

from __future__ import annotations

import contextlib
import errno
import gc
import math
import os
import platform
import re
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from iotoll.core.errors import (
    BrokenError,
    InfrastructureError,
    IotollError,
    ResultError,
    UsageError,
    os_fix,
)
from iotoll.core.nearest import ALIKE, nearest
from iotoll.core.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

    from iotoll.core.progress import Progress

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130  # as a shell reports a process that SIGINT ended
CLOSED_PIPE = 141  # as a shell reports a process that SIGPIPE ended: ``iotoll ... | head``


class FiniteRange(click.FloatRange):
    """A number within limits that is one: click's own takes nan and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; fails with a usage error."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


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
    def full(self) -> bool:
        """Whether all of it is asked for, and not the first screen alone."""
        context = click.get_current_context(silent=True)
        return context is not None and bool(context.meta.get(_FULL))

    def show(self, lines: Sequence[str]) -> None:
        """Print lines: the first screen of them, and how many more there are; all with --full."""
        click.echo("\n".join(first_lines(lines, self.full)))

    @property
    def console(self) -> Console:
        """Standard output."""
        from rich.console import Console

        return Console()


_FULL = "iotoll.full"
SCREEN = 25
"""Lines that a command prints without --full."""


def first_lines(lines: Sequence[str], full: bool = False) -> list[str]:
    """The lines that fit on a screen; the last one says how many more there are."""
    lines = "\n".join(lines).splitlines()
    if full or len(lines) <= SCREEN:
        return list(lines)
    return [*lines[: SCREEN - 1], f"... {len(lines) - SCREEN + 1} more lines: --full"]


def full_option(command: F) -> F:
    """--full, on every command that prints more than a screen; `Output.full` has it."""

    def keep(context: click.Context, _: click.Parameter, value: bool) -> None:
        context.meta[_FULL] = value

    return click.option(
        "--full", is_flag=True, expose_value=False, callback=keep, help="Print more than a screen."
    )(command)


def output_options(command: F) -> F:
    """--quiet, --full and --json, on every command that has something to say."""
    command = full_option(command)
    command = click.option(
        "--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."
    )(command)
    return click.option("--quiet", is_flag=True, help="Print only the verdict or result.")(command)


def guarded(command: click.Command, readers: Collection[str] = ()) -> None:
    """Run a command; never shows a traceback for an expected failure.

    ``readers`` are commands that only read what their user names: a damaged file is a usage error.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    gc.set_threshold(*_COLLECTOR)
    try:
        code = _end_of(command, readers)
        raise SystemExit(_flushed(code))
    finally:
        # At its end Python would look through a run's records for garbage: two tenths of a second.
        gc.freeze()


def _end_of(command: click.Command, readers: Collection[str]) -> int | str | None:
    """Run a command; returns its exit code, once an error was said."""
    stdout = sys.stdout
    try:
        _check_words()
        command(standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except SystemExit as done:
        # The ends of rich and of click at a closed pipe are 1, which would read as a regression;
        # click has put another stream in the place of standard output.
        closed = isinstance(done.__context__, BrokenPipeError) or sys.stdout is not stdout
        return CLOSED_PIPE if closed else done.code
    except click.ClickException as error:
        _say(partial(_show, error))
        return UsageError.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say(partial(click.echo, "iotoll: interrupted; the same command resumes", err=True))
        return INTERRUPTED
    except BrokenPipeError:
        return CLOSED_PIPE
    except Exception as error:
        line, code = told(error, readers)
        _say(partial(click.echo, f"iotoll: {line}", err=True))
        if isinstance(error, BrokenError | InfrastructureError) and error.log_tail:
            _say(partial(click.echo, plain(error.log_tail), err=True))
        return code
    return 0


def _say(words: Callable[[], None]) -> None:
    """Say something last on standard error, if that can still be written."""
    with contextlib.suppress(OSError):
        words()


def _flushed(code: int | str | None) -> int | str | None:
    """Write what is still to be written; returns the exit code, another one where that fails.

    Python would do it after its end, say so in words of its own, and end with 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # What is left in the stream's buffer would fail again.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
            if isinstance(error, BrokenPipeError):
                code = CLOSED_PIPE
            elif stream is not sys.stderr:
                line, status = told(error)
                if code != status:
                    _say(partial(click.echo, f"iotoll: {line}", err=True))
                code = status
    return code


_COLLECTOR = (50_000, 20, 50)
"""How many objects, and how many younger collections, come before Python looks for garbage.

With Python's own numbers that takes a tenth of a gate's analysis, which makes hardly any.
"""
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM)
"""What a user's file fails with through no fault of the user's."""
_MACHINE_CODE = InfrastructureError.exit_code
_LONGEST = 2000
_WORD = 1 << 16  # characters of an argument; Linux hands no longer one on to git


def told(error: Exception, readers: Collection[str] = ()) -> tuple[str, int]:
    """One line about an error, and the exit code; a bug of ours leaves a report in a file."""
    if isinstance(error, IotollError):
        return _line(str(error)), _code(error, readers)
    if isinstance(error, OSError) and _is_named(error):
        line = _line(f"{error.filename}: {error.strerror}: {os_fix(error)}")
        code = InfrastructureError if error.errno in _MACHINE else UsageError
        return line, code.exit_code
    if isinstance(error, OSError) and error.filename is None and error.errno in _MACHINE:
        # Of what is open already, which is mostly standard output.
        return _line(f"cannot write: {error.strerror}: {os_fix(error)}"), _MACHINE_CODE
    # Python's own exit code for a bug, 1, would read as a regression.
    return _crash_report(error), InfrastructureError.exit_code


def _code(error: IotollError, readers: Collection[str]) -> int:
    """The exit code: 2 also where what failed is a path that the user named."""
    if isinstance(error, ResultError):
        wrong = len(sys.argv) > 1 and sys.argv[1] in readers
        return UsageError.exit_code if wrong else error.exit_code
    cause = error.__cause__ if isinstance(error, InfrastructureError) else None
    if isinstance(cause, OSError) and cause.errno not in _MACHINE and _is_named(cause):
        return UsageError.exit_code
    return error.exit_code


def _line(text: str) -> str:
    """A message as one line: what it repeats of the user's words may hold anything."""
    line = " ".join(plain(text).split("\n"))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-200:]}"


def _show(error: click.ClickException) -> None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        hint = f"Try '{context.command_path} --help' for help."
        click.echo(f"{context.get_usage()}\n{hint}\n", err=True)
    said = " ".join(error.format_message().split())
    click.echo(f"Error: {_line(said + _meant(said, context))}", err=True)


def _meant(said: str, context: click.Context | None) -> str:
    """The command that was probably meant, where a group has none of the name that was given."""
    if context is None or not isinstance(context.command, click.Group):
        return ""
    word = re.fullmatch(r"No such command '(.*)'\.", said)
    near = nearest(word[1], context.command.list_commands(context), ALIKE) if word else ""
    return f" Did you mean {near}?" if near else ""


def _is_named(error: OSError) -> bool:
    """Whether a system call failed for a path of the command line, or one in or beside it."""
    if not isinstance(error.filename, str):
        return False
    failed = Path(error.filename).absolute()
    if error.errno == errno.ENAMETOOLONG:
        return True
    for word in sys.argv[1:]:
        path = Path(word.partition("=")[2] if word.startswith("--") else word).absolute()
        if failed.is_relative_to(path) or failed.parent == path.parent:
            return True
    return False


def _check_words() -> None:
    """Raise UsageError for a word that no file can have as its name, nor any record hold."""
    for word in sys.argv[1:]:
        if len(word) > _WORD:
            raise UsageError(f"{word[:40]}...: an argument of {len(word)} characters: shorten it")
        try:
            word.encode()
        except UnicodeEncodeError as error:
            shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise UsageError(f"{shown}: is not UTF-8: rename the file") from error
        _check_file(word.partition("=")[2] if word.startswith("--") else word)


def _check_file(path: str) -> None:
    """Raise UsageError for a path that no command can read or write: some never end."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise UsageError(f"{path}: its symbolic links lead in a circle") from error
        return
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        raise UsageError(f"{path}: is a device, a pipe or a socket: name a plain file")


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
