"""What of a change is in the kernel that was built, and what of it decides how it was built.

An option that stays off, or a driver that the board does not have, makes a patch look tested that
never ran. And a makefile of the candidate's can do what it likes with the candidate's image.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iotoll.records import results, sealed
from iotoll.records.models import SourceRecord
from iotoll.records.rundir import SIDES, RunDir
from iotoll.records.text import some_of

SOURCES = "sources.txt"
"""The file beside an image that lists the source files that went into it, one a line."""
_SHOWN = 5
HOST_SOURCES = "host-sources.txt"
"""Beside it: the source files of programs that make compiled for this machine, and ran."""
_BUILD_FILE = re.compile(
    r"(?:^|/)(?:Makefile|Kbuild|Kconfig)[^/]*$|^(?:scripts|tools)/|^arch/\w+/tools/"
    r"|\.(?:mk|lds\.S|awk|bc|pl|py|sed|sh|tbl)$"
)
"""What make and kconfig read or run, by its name; host programs are known from make's notes."""
_NEW_OPTION = re.compile(r"^\+(?:menu)?config[ \t]+(\w+)", re.M)
_ADDS = re.compile(r"^([\w-]+?)-(?:y|objs|m|\$\(CONFIG_(\w+)\))[ \t]*[:+]?=(.*)$", re.M)
_SOURCE_ENDINGS = (b".c", b".h", b".S", b".s", b".dts", b".dtsi", b".lds", b".inc")
_CODE = tuple(ending.decode() for ending in _SOURCE_ENDINGS)
_HOST = re.compile(rb"(?:saved)?cmd_\S+ := (?:ccache )?gcc (?!.*-D__KERNEL__)(?=.*-Wp,-MMD,)")
"""The first line of make's note of an object for this machine; a kernel's has another option."""
_LINKED = re.compile(r"\.|init|arch/\w+/boot(?:/.*)?")
"""Folders in which make still works when it links the kernel."""


class Notes:
    """What make notes of its objects in its O= folder ``out``, in files called ``.*.cmd``.

    `gather` reads most of them, in another thread, while make still links.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._known: dict[Path, tuple[int, int]] = {}
        self._last: dict[Path, tuple[int, int]] = {}
        self._lines: dict[str, set[bytes]] = {SOURCES: set(), HOST_SOURCES: set()}

    def gather(self) -> None:
        """Read the notes of folders with which make is done once it links the kernel."""
        for path, facts in self._found().items():
            folder = path.parent.relative_to(self._out).as_posix()
            if not _LINKED.fullmatch(folder):
                self._read(path)
                self._known[path] = facts

    def times(self) -> list[int]:
        """When each note was written, in nanoseconds since 1970; after make's end."""
        self._last = self._found()
        return [written for written, _ in self._last.values()]

    def write_sources(self, source: Path, folder: Path) -> None:
        """List the files below ``source`` that the objects were made of, in two files."""
        found = self._last or self._found()
        if any(found.get(path) != facts for path, facts in self._known.items()):
            self._forget()
        for path in found.keys() - self._known.keys():
            self._read(path)
        below = _Below(self._out, source)
        # A file is read whatever its name ends in; other words with such a beginning are options'.
        tops = tuple({f"{path}/".encode() for path in (source, source.resolve())})
        for file, lines in self._lines.items():
            words = {w.rstrip(b";") for line in lines for w in line.split()}
            found_in = (w for w in words if w.endswith(_SOURCE_ENDINGS) or w.startswith(tops))
            paths = {w.decode(errors="replace") for w in found_in}
            names = sorted({name for word in paths if (name := below.name(word))})
            results.write_text(folder / file, "".join(f"{name}\n" for name in names))

    def _forget(self) -> None:
        self._known.clear()
        for lines in self._lines.values():
            lines.clear()

    def _found(self) -> dict[Path, tuple[int, int]]:
        """When each note was written, in nanoseconds, and its bytes."""
        found = {path: path.stat() for path in self._out.rglob(".*.cmd")}
        return {path: (facts.st_mtime_ns, facts.st_size) for path, facts in found.items()}

    def _read(self, path: Path) -> None:
        # Each line looked at once: these notes have two million, of which nearly all are the same.
        lines = path.read_bytes().split(b"\n")
        self._lines[SOURCES].update(lines)
        if _HOST.match(lines[0]):
            self._lines[HOST_SOURCES].update(lines)


class _Below:
    """Names of files below ``source``, which ``out`` names relative to itself, or absolutely."""

    def __init__(self, out: Path, source: Path) -> None:
        self.out = out
        self.root = f"{source.resolve()}/"
        self.folders: dict[str, Path] = {}

    def name(self, word: str) -> str | None:
        """The file's path below the source, without symbolic links; None where it is elsewhere."""
        folder, name = os.path.split(word)
        if folder not in self.folders:
            self.folders[folder] = (self.out / folder).resolve()
        place = self.folders[folder] / name
        found = str(place.resolve() if place.is_symlink() else place)
        return found[len(self.root) :] if found.startswith(self.root) else None


@dataclass(frozen=True)
class Coverage:
    """``changed`` files of a candidate; those ``unbuilt``; its ``options`` that stay off.

    ``steering`` are changed files that decide how it is built. ``damaged`` says that change.diff
    is not what was applied, so that new options are not known.
    """

    changed: tuple[str, ...]
    unbuilt: tuple[str, ...]
    options: tuple[str, ...]
    steering: tuple[str, ...]
    damaged: bool = False
    needed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Unbuilt files, and the options without which kbuild leaves them out."""

    @property
    def nothing(self) -> bool:
        """Whether no changed file is in the kernel, nor decides how it is built."""
        return bool(self.changed) and len(self.unbuilt) == len(self.changed)

    @property
    def sentence(self) -> str:
        """What a verdict must say of it; empty when all is in the kernel."""
        said = []
        if self.nothing:
            said.append(f"Nothing of this patch is in the board's kernel: {self._unbuilt}.")
        if self.options:
            option = "new option" if len(self.options) == 1 else "new options"
            said.append(f"Off in the board's kernel: {option} {_listed(self.options)}.")
        if self.steering:
            said.append(f"The patch changes how it is built: {_listed(self.steering)}.")
        return " ".join(said)

    @property
    def _unbuilt(self) -> str:
        words = [
            f"{p} (it needs {', '.join(o)})" if (o := self.needed.get(p)) else p
            for p in sorted(self.unbuilt, key=lambda p: not p.endswith(_CODE))
        ]
        return _listed(words)

    @property
    def notes(self) -> list[str]:
        """What a reader must know besides `sentence`, a line each."""
        lines = []
        if self.damaged:
            lines.append(
                "change.diff is not what was applied (its SHA-256 is another one): it was not read,"
                " so no place in it is named; run the step source again"
            )
        if self.unbuilt and not self.nothing:
            lines.append(
                f"not in the board's kernel ({len(self.unbuilt)} of {len(self.changed)} changed"
                f" files): {self._unbuilt}"
            )
        if self.steering:
            lines.append(
                "look yourself at what it changes of the build: a makefile can tell this build from"
                " another"
            )
        return lines


def of_run(run: RunDir) -> Coverage | None:
    """The coverage of a run's candidate; None where its sources are not known.

    Where its build left no list of them, no changed file counts as unbuilt.
    """
    source, listed = run.side("candidate") / "source.json", run.build("candidate") / SOURCES
    if run.manifest.candidate_kind in ("images", "none") or not source.is_file():
        return None
    record = results.read(source, SourceRecord)
    change = (sealed.change(run) or b"").decode(errors="replace")
    config = run.build("candidate") / "config"
    text = config.read_text(errors="replace") if config.is_file() else None
    known = listed.is_file()
    sources = listed.read_text(errors="replace").splitlines() if known else record.changed_paths
    new = change if text is not None else ""
    host = _host_sources(run)
    found = find(record.changed_paths, sources, new, text or "", record.options, host)
    damaged = run.change.is_file() and not change
    return replace(found, damaged=damaged)


def read_by_builds(paths: Iterable[str], folders: Iterable[Path]) -> set[str]:
    """Those of ``paths`` of which objects were made, by the lists that builds left in ``folders``.

    A header counts as well where one of its name is read: it may be found in that one's place.
    """
    files = [folder / name for folder in folders for name in (SOURCES, HOST_SOURCES)]
    texts = [path.read_text(errors="replace") for path in files if path.is_file()]
    known = {line for text in texts for line in text.splitlines()}
    headers = {name for path in known if (name := path.rpartition("/")[2]).endswith(".h")}
    return {path for path in paths if path in known or path.rpartition("/")[2] in headers}


def _host_sources(run: RunDir) -> set[str]:
    """Those of both sides: what a candidate left may be forged, the base's is not."""
    files = [run.build(side) / HOST_SOURCES for side in SIDES]
    texts = [path.read_text(errors="replace") for path in files if path.is_file()]
    return {line for text in texts for line in text.splitlines()}


def find(
    changed: Sequence[str],
    sources: Iterable[str],
    change: str,
    config: str,
    needs: Mapping[str, Sequence[str]] | None = None,
    host: Collection[str] = (),
) -> Coverage:
    """Compare changed paths and the change's text with a build's sources and its config.

    ``needs`` are the options that kbuild asks of a changed file (`options_of`), ``host`` the
    sources of programs that the build compiles and runs.
    """
    built = set(sources)
    steering = tuple(path for path in changed if _BUILD_FILE.search(path) or path in host)
    unbuilt = tuple(path for path in changed if path not in built and path not in steering)
    options = dict.fromkeys(_NEW_OPTION.findall(change))
    on = set(re.findall(r"^CONFIG_(\w+)=", config, re.M))
    return Coverage(
        changed=tuple(changed),
        unbuilt=unbuilt,
        options=tuple(name for name in options if name not in on),
        steering=steering,
        needed={
            path: off
            for path in unbuilt
            if (off := [f"CONFIG_{o}" for o in (needs or {}).get(path, ()) if o not in on])
        },
    )


def options_of(path: str, read: Callable[[str], str]) -> list[str]:
    """The options without which kbuild leaves a source file out, from its makefiles.

    ``read`` gives the text of a file of the tree, empty where there is none. Of a file that
    several options build, all are named.
    """
    folder, _, name = path.rpartition("/")
    stem, _, ending = name.rpartition(".")
    if ending not in ("c", "S"):
        return []
    found = _asked(_makefile(folder, read), f"{stem}.o")
    while folder:
        folder, _, name = folder.rpartition("/")
        found += _asked(_makefile(folder, read), f"{name}/")
    return list(dict.fromkeys(found))


def _makefile(folder: str, read: Callable[[str], str]) -> str:
    place = f"{folder}/" if folder else ""
    text = read(f"{place}Kbuild") or read(f"{place}Makefile")
    return text.replace("\\\n", " ")


def _asked(text: str, target: str) -> list[str]:
    """Options of the lines that add ``target``, or an object which it is part of.

    Each line is looked at once, however a makefile's variables name each other.
    """
    adds: dict[str, list[tuple[str, str]]] = {}
    for variable, option, words in _ADDS.findall(text):
        for word in words.split("#")[0].split():
            adds.setdefault(word, []).append((variable, option))
    found: list[str] = []
    waiting = [target]
    while waiting:
        for variable, option in adds.pop(waiting.pop(0), []):
            if option:
                found.append(option)
            if variable not in ("obj", "lib", "core", "drivers"):
                waiting.append(f"{variable}.o")
    return found


def _listed(names: Sequence[str]) -> str:
    return some_of(names, _SHOWN)
