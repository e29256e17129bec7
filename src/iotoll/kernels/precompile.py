"""Compiles the files that a change touches before make comes to them; make finds them in ccache.

Make first reads the makefiles of all folders, which takes as long as to compile a driver's file,
and on one processor. What is compiled here is stored nowhere but in ccache, whose key is
all that the compiler reads: the kernel is made by make alone, and a compilation that differs in
anything from make's own is of no use, and does no harm. Where make comes to a file that is just
being compiled it waits, and does not compile it a second time.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from iotoll.core.digest import json_sha256
from iotoll.core.proc import stop
from iotoll.core.scratch import scratch
from iotoll.kernels.reuse import key_folder

MOST = 8
"""Files of one change; what touches more is another revision, with which make has enough to do."""
_NOTED = re.compile(r"(?:saved)?cmd_\S+ := (.*)")  # saved since Linux 6.2
_DEPENDENCIES = "-Wp,-MMD,"
_WRAPPER = """\
#!/bin/sh
# make's ccache: a file that is being precompiled is waited for
PATH=${{PATH#*:}}
case "$*" in
# what a makefile asks of the compiler, which reads no file, was asked by the build before
*' -I'*|*' -i'*|*@*) ;;
*' /dev/null -o '*) CPATH={asked} ;;
esac
for source; do :; done
case $source in
{cases}
esac
exec ccache "$@"
"""


class Precompiler:
    """The compilations of one build, one at a time, while the context lasts.

    ``out`` is make's O= folder with the notes of an earlier build, ``env`` the environment of its
    compilers, and ``keep_open`` are file descriptors that they inherit.
    """

    def __init__(self, out: Path, env: Mapping[str, str], keep_open: Sequence[int] = ()) -> None:
        self._out = out
        # Kbuild takes this one from its compilers (unexport LC_ALL), and ccache's keys have it.
        self._env = {name: value for name, value in env.items() if name != "LC_ALL"}
        self._keep_open = tuple(keep_open)
        self._over = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stack = ExitStack()

    def start(self, source: Path, paths: Sequence[str], before: str = "") -> dict[str, str]:
        """Compile what of ``paths`` below ``source`` an object is made of; returns at once.

        Returns variables of make's environment: with them it waits for what is being compiled. The
        build ``before``, by the key of its job, has asked the compiler for nearly all options that
        makefiles try, and ccache has its answers.
        """
        paths = [path for path in paths if path.endswith(".c")]
        if len(paths) > MOST:
            return {}
        known = {p: words for p in paths if (words := command(self._out, p, self._work))}
        if not known:
            return {}
        waiting = self._work / "ccache"
        cases = [
            f'{shlex.quote(words[-1])}) exec flock --no-fork {self._lock_of(path)} ccache "$@" ;;'
            for path, words in known.items()
        ]
        asked = shlex.quote(key_folder(before)) if before else "$CPATH"
        waiting.write_text(_WRAPPER.format(cases="\n".join(cases), asked=asked))
        waiting.chmod(0o700)
        self._thread = threading.Thread(target=self._run, args=(source, known), daemon=True)
        self._thread.start()
        return {"PATH": os.pathsep.join([str(self._work), self._env.get("PATH", os.defpath)])}

    @property
    def is_working(self) -> bool:
        """Whether something is still to be compiled."""
        return self._thread is not None and self._thread.is_alive()

    def __enter__(self) -> Precompiler:
        self._work = self._stack.enter_context(scratch())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._over = True
            if self._process is not None:
                stop(self._process)
        if self._thread is not None:
            self._thread.join()
        self._stack.close()

    def _run(self, source: Path, known: Mapping[str, Sequence[str]]) -> None:
        for path, words in known.items():
            with self._lock_of(path).open("w") as held:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # make is at it
                if not self._is_made(source, path) and not self._compile(words):
                    return

    def _lock_of(self, path: str) -> Path:
        """What is locked by whoever compiles a file."""
        return self._work / f"lock-{json_sha256(path)[:16]}"

    def _is_made(self, source: Path, path: str) -> bool:
        """Whether make was quicker."""
        try:
            made = (self._out / path).with_suffix(".o").stat().st_mtime_ns
            return made > (source / path).stat().st_mtime_ns
        except OSError:
            return False

    def _compile(self, words: Sequence[str]) -> bool:
        """Run one compiler to its end, whatever that is; False when the build is over."""
        with self._lock:
            if self._over:
                return False
            try:
                self._process = subprocess.Popen(
                    words,
                    cwd=self._out,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    process_group=0,
                    pass_fds=self._keep_open,
                )
            except OSError:
                return False  # make will say it better
        self._process.wait()
        return not self._over


def command(out: Path, path: str, scratch: Path) -> list[str]:
    """Make's command for the object of a source file, but with what it writes in ``scratch``.

    From the note ``.NAME.o.cmd`` of an earlier build in ``out``; empty where there is none, or it
    is not a compilation with ccache.
    """
    name = f"{Path(path).stem}.o"
    note = out / Path(path).parent / f".{name}.cmd"
    try:
        with note.open(errors="replace") as stream:
            found = _NOTED.match(stream.readline())
        words = shlex.split(found[1].replace("$$", "$")) if found else []
    except (OSError, ValueError):
        return []
    # What follows changes the object that the compiler made, for which make needs no cache.
    words = words[: next((i for i, word in enumerate(words) if word == ";"), None)]
    if words[:1] != ["ccache"] or "-c" not in words or "-o" not in words[:-1]:
        return []
    words[words.index("-o") + 1] = str(scratch / name)
    return [
        f"{_DEPENDENCIES}{scratch / f'.{name}.d'}" if word.startswith(_DEPENDENCIES) else word
        for word in words
    ]
