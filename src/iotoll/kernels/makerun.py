"""Runs a long build command: live progress, a log, a time limit, and no process left behind."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from iotoll.core.errors import InfrastructureError
from iotoll.core.proc import end_group
from iotoll.core.progress import Step

_OBJECT = re.compile(r"^  (?:CC|AS|LD|AR|HOSTCC|VDSO\w*|GEN|UPD)\s+(?:\[M\]\s+)?(\S+)")
_LINK = re.compile(r"^  (?:AR|LD)\s+vmlinux\.[ao]$")
_ANSI = re.compile(r"\x1b\[[0-9;]*[mK]")
_NOT_THE_SOURCE = tuple(
    (re.compile(words), mend)
    for words, mend in (
        ("No space left on device", "the disk is full: free some space"),
        ("Disk quota exceeded", "the disk quota is used up: free some space"),
        ("Killed signal terminated program", "the compiler was killed: free some memory"),
        (r"Cannot allocate memory|out of memory|memory exhausted", "no memory is left: free some"),
        (
            r"\*\*\* .*\b(Terminated|Killed|Interrupt|Hangup)$",
            "make was ended from outside: repeat",
        ),
        ("unable to execute", "a tool of the compiler is missing: run iotoll doctor"),
    )
)
_QUOTED_SOURCE = re.compile(r"^\s*\d* \|")  # what the compiler shows of the candidate's own text
_CHATTER = re.compile(r"^make(\[\d+\])?: (Entering|Leaving) directory|^  CALL ")
_CAUSE = (
    re.compile(r"^\S+:\d+(?::\d+)?: (?:fatal )?error: "),
    re.compile(r"\berror: "),
    re.compile(r"undefined reference to|multiple definition of"),
    re.compile(r"No rule to make target"),
    re.compile(r"^\S*Kconfig\S*:\d+: \S"),  # kconfig's own; its warnings have no space there
    re.compile(r"\*\*\* "),
)
_BEFORE, _AFTER, _LAST = 3, 12, 25


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    step: Step,
    timeout: float,
    running: Path,
    keep_open: Sequence[int] = (),
    on_link: Callable[[], object] = lambda: None,
) -> int:
    """Run ``command``, append its output to ``log``, and return its exit code.

    ``timeout`` is in seconds; over it, or on Ctrl-C, the whole process group is ended. The file
    ``running`` exists while the command runs, and afterwards only if it had to be killed so hard
    that its output cannot be trusted. ``keep_open`` are file descriptors that the command inherits
    (so that a lock outlives a killed iotoll for as long as its compilers write). ``on_link`` is
    called when the kernel is linked, which leaves all processors but one idle. Raises
    InfrastructureError on time-out, and when the command cannot be started.
    """
    deadline = time.monotonic() + timeout
    with log.open("a", buffering=1, encoding="utf-8", errors="replace") as stream:
        running.touch()
        process = _start(command, env, keep_open)
        try:
            objects = 0
            for line in _lines(process, deadline):
                stream.write(_ANSI.sub("", line))
                match = _OBJECT.match(line)
                if match:
                    objects += 1
                    step.update(note=f"{objects} objects, {match[1]}")
                if _LINK.match(line):
                    on_link()
            code = process.wait(max(0.1, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise InfrastructureError(
                f"the build took longer than {timeout:.0f} s: use a faster machine or more time",
                tail(log),
            ) from error
        finally:
            if end_group(process):
                running.unlink(missing_ok=True)
    return code


def not_the_source(log: Path) -> str | None:
    """Return why a failed build is the machine's fault, or None when nothing says so."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    own = [line for line in lines if not _QUOTED_SOURCE.match(line)]
    found = (mend for words, mend in _NOT_THE_SOURCE if any(words.search(line) for line in own))
    return next(found, None)


def cause(log: Path, hide: Sequence[str] = ()) -> tuple[str, str]:
    """Return the first error line of a failed build, and the lines around it.

    Texts in ``hide`` (folder names) are left out.
    """
    text = log.read_text(encoding="utf-8", errors="replace")
    for prefix in hide:
        text = text.replace(prefix, "")
    lines = [line for line in text.splitlines() if not _CHATTER.match(line)]
    for pattern in _CAUSE:
        index = next((i for i, line in enumerate(lines) if pattern.search(line)), None)
        if index is not None:
            around = lines[max(0, index - _BEFORE) : index + _AFTER]
            return lines[index].strip(), "\n".join(around)
    return "make failed", tail(log)


def tail(log: Path) -> str:
    """Return the last lines of a log, newest last."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LAST:])


def _start(
    command: Sequence[str], env: Mapping[str, str], keep_open: Sequence[int]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A group, no session: Linux shares processors out between sessions first of all, so
            # that what is nice in another one would take half of make's.
            process_group=0,
            pass_fds=tuple(keep_open),
        )
    except OSError as error:
        raise InfrastructureError(f"cannot start {command[0]}: {error.strerror}") from error


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[str]:
    """Yield a process's output line by line; raises TimeoutError at the deadline."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise TimeoutError
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf-8", "replace") + "\n" for line in lines)
    if rest:
        yield rest.decode("utf-8", "replace") + "\n"
