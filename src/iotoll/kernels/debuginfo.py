"""File, line and inlined functions of a kernel's machine code, for chosen functions.

The image that was measured has no debug information, and stays so. The few source files that hold
the functions are compiled once more, by make's own saved command with ``-g`` beside it, into the
cache. What comes out is used for a function only if its machine code is, but for the places that
the linker fills in, the code of the measured image. Addresses are looked up by binutils' addr2line.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from iotoll.core.digest import json_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import cache_dir
from iotoll.core.progress import Progress
from iotoll.core.scratch import scratch
from iotoll.kernels.kernel_job import TARGETS, KernelJob
from iotoll.kernels.places import held_place, warm_place
from iotoll.kernels.source import open_tree
from iotoll.kernels.symbols import ARM64, X86_64
from iotoll.kernels.tree import KernelTree, clean_env, run_tool
from iotoll.kernels.x86 import JUMP, SHORT_JUMP, instructions

_SIZE = 4  # bytes of an instruction of arm64
_WIDE = (1, 24)  # R_X86_64_64 and R_X86_64_PC64: relocations of 8 bytes
_MOST_FILES = 8
"""Source files that may define a function; of a name in more of them nothing is known."""
_MOST_USERS = 8
"""Source files that are compiled for functions that a changed header is part of."""
_COMMAND = re.compile(r"^(?:saved)?cmd_\S+ := (.+)$", re.M)
_HARMLESS = re.compile(
    r"-[IDU].*|-O\w*|-c|-nostdinc|-pipe|-std=\w+|-W(?![alp],)[\w=+-]+|-Wa,-m[\w.+=-]+"
    r"|-m[\w.+=,-]+|--param=[\w-]+=\d+"
    r"|-f(?!plugin|dump|profile|auto-profile|lto|use-ld|callgraph|opt-info|save-|stack-usage"
    r"|test-coverage|diagnostics-(?:format|add-output|set-output)|self-test)[\w.+=,/-]+"
)
_DEFINES = re.compile(rb"^(?:[A-Za-z_][^\n;=#]*?\b)?(\w+)\(", re.M)


@dataclass(frozen=True)
class Frame:
    """One level of an instruction: the function, and the line that it is from or calls at."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class FunctionLines:
    """Where the code of a function is from.

    ``frames`` has for each instruction, in order, its frames, the innermost inlined function
    first; an empty tuple where the compiler names no line.
    """

    file: str
    line: int
    frames: tuple[tuple[Frame, ...], ...]


def find_lines(
    job: KernelJob,
    code: Mapping[str, bytes],
    sources: Sequence[str],
    first: Iterable[str],
    progress: Progress,
) -> dict[str, FunctionLines]:
    """The lines of functions, by name; functions of which nothing is known are left out.

    ``code`` is the machine code of each in the measured image, ``sources`` are the files that the
    image was made of, ``first`` those to try first. Raises UsageError or InfrastructureError where
    the tree cannot be read; a file that does not compile is passed over.
    """
    if job.source.git_tree is None:
        return {}
    tree = open_tree(job.source.tree, progress)
    if not tree.has(job.source.git_tree):
        return {}
    with (
        _built_place(tree, job, progress) as place,
        progress.step("read lines of functions") as step,
    ):
        finder = _Finder(job, place)
        places = _places(place.src, code, sources, set(first))
        found: dict[str, FunctionLines] = {}
        order = sorted({path for paths in places.values() for path in paths})
        for number, path in enumerate(order):
            wanted = [n for n in code if n not in found and path in places.get(n, ())]
            step.update(number, len(order), path)
            if wanted and (unit := finder.compile(path)):
                known = {n: code[n] for n in wanted}
                found |= read_unit(unit, known, finder.tool, finder.folder)
    return found


@contextmanager
def _built_place(tree: KernelTree, job: KernelJob, progress: Progress) -> Iterator[KernelTree]:
    """A work tree with the job's sources: where it is built, as others read it too; else its own.

    To check sources out where another kernel was built has make look at all of its files again.
    """
    with warm_place(tree, job) as warm:
        if warm is not None:
            yield warm
            return
    with held_place(tree, job, progress) as place:
        place.checkout(job.source.git_tree or "")
        yield place


def find_changed_lines(
    job: KernelJob,
    base: KernelJob,
    code: Mapping[str, bytes],
    paths: Iterable[str],
    sources: Sequence[str],
    quiet: Progress,
) -> dict[str, FunctionLines] | None:
    """The lines of functions of changed files, compiled beside the base's build; by name.

    Nothing is checked out, and nobody is waited for or kept waiting by more than other candidates'
    builds are: None where the base's build is not there, or somebody changes it. The files of
    ``paths`` are the candidate's, all others the base's. What a changed header is part of is looked
    for in the other ``sources``, in `_MOST_USERS` files. The rest is as in `find_lines`.
    """
    if job.source.git_tree is None:
        return {}
    tree = open_tree(job.source.tree, quiet)
    with warm_place(tree, base) as place:
        if place is None or not tree.has(job.source.git_tree):
            return None
        finder = _Finder(job, place, base)
        with scratch() as folder:
            changed = [path for path in paths if path.endswith((".c", ".h"))]
            _show(tree, job.source.git_tree, changed, folder)
            units = sorted(path for path in changed if path.endswith(".c"))
            found = _compiled(finder, units, code, folder)
            left = [one for one in code if one not in found]
            if len(units) < len(changed) and left:
                places = _places(place.src, left, sources, set())
                often = Counter(path for several in places.values() for path in several)
                users = [path for path, _ in often.most_common(_MOST_USERS)]
                # Beside the changed files a source finds these first.
                _show(tree, job.source.git_tree, users, folder)
                found |= _compiled(finder, users, {one: code[one] for one in left}, folder)
            return found


def _show(tree: KernelTree, git_tree: str, paths: Iterable[str], folder: Path) -> None:
    """Put files of a tree into a folder; those that it has not are left out."""
    for path in paths:
        shown = tree.git("show", f"{git_tree}:{path}", check=False)
        if shown.returncode == 0:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(shown.stdout)


def _compiled(
    finder: _Finder, paths: Iterable[str], code: Mapping[str, bytes], folder: Path
) -> dict[str, FunctionLines]:
    """The lines of those of the functions that are in these files of a folder."""
    found: dict[str, FunctionLines] = {}
    for path in paths:
        wanted = {name: one for name, one in code.items() if name not in found}
        if wanted and (unit := finder.compile(path, folder)):
            found |= read_unit(unit, wanted, finder.tool, finder.folder)
    return found


def _places(
    src: Path, names: Iterable[str], sources: Sequence[str], first: set[str]
) -> dict[str, list[str]]:
    """The source files that seem to define each function: a line begins with it, or a type."""
    wanted: dict[bytes, list[str]] = {}
    for name in names:
        wanted.setdefault(source_name(name).encode(), []).append(name)
    found: dict[str, list[str]] = {}
    for path in sorted((p for p in sources if p.endswith(".c")), key=lambda p: (p not in first, p)):
        try:
            text = (src / path).read_bytes()
        except OSError:
            continue
        for word in {m[1] for m in _DEFINES.finditer(text)} & wanted.keys():
            for name in wanted[word]:
                found.setdefault(name, []).append(path)
    return {name: paths for name, paths in found.items() if len(paths) <= _MOST_FILES}


def source_name(symbol: str) -> str:
    """The name in the source: the compiler's copies have endings such as ``.isra.0``."""
    return symbol.partition(".")[0]


class _Finder:
    """Compiles single files of one job with debug information, in its build or ``base``'s."""

    folder = Path("/iotoll")
    """What stands in an object for the folder that the compiler ran in: builds have others."""

    def __init__(self, job: KernelJob, tree: KernelTree, base: KernelJob | None = None) -> None:
        self.out = (base or job).out(tree)
        self._cache = cache_dir() / "debug" / json_sha256({"image": job.key, "recipe": 2})[:16]
        self._src = tree.src
        self._arch = job.arch
        self._compiler = TARGETS[job.arch].compiler
        self.tool = TARGETS[job.arch].compiler.removesuffix("gcc") + "addr2line"

    def compile(self, path: str, changed: Path | None = None) -> Path | None:
        """The object of a source file with debug information; None where it cannot be made.

        ``changed`` is a folder of files that are taken instead of those of the tree.
        """
        unit = (self._cache / path).with_suffix(".o")
        if unit.is_file():
            return unit
        object_path = self.out / Path(path).with_suffix(".o")
        saved = object_path.with_name(f".{object_path.name}.cmd")
        if not saved.is_file():
            return None
        match = _COMMAND.search(saved.read_text(errors="replace"))
        made = unit.with_suffix(".part")
        source = (changed or self._src) / path
        command = debug_command(match[1], made, self._compiler, source) if match else None
        if command is None:
            return None
        command[1:1] = self._instead(path, changed) if changed else []
        command.insert(-3, f"-fdebug-prefix-map={self.out}={self.folder}")
        unit.parent.mkdir(parents=True, exist_ok=True)
        done = run_tool(
            command,
            cwd=self.out,
            stdin=None,
            env=clean_env({"CCACHE_DISABLE": "1"}),
        )
        if done.returncode:
            made.unlink(missing_ok=True)
            return None
        made.replace(unit)
        return unit

    def _instead(self, path: str, changed: Path) -> list[str]:
        """Options that find changed files before the tree's, and name them as the tree's."""
        within = ("include", f"arch/{self._arch}/include", "include/uapi")
        return [
            f"-ffile-prefix-map={changed}/=",
            *(f"-I{changed}/{one}" for one in within if (changed / one).is_dir()),
            *("-iquote", str((self._src / path).parent)),
        ]


def debug_command(saved: str, unit: Path, compiler: str, source: Path) -> list[str] | None:
    """Compile ``source`` into ``unit`` as make did, and with debug information.

    make's own file is the candidate's to write, and this runs in no sandbox: only options that
    cannot start a program or write a file are taken. None where there is any other.
    """
    # What follows a semicolon checks or changes the finished object.
    try:
        words = shlex.split(saved.partition(" ; ")[0])
    except ValueError:
        return None
    words = words[1:] if words[:1] == ["ccache"] else words
    if words[:1] != [compiler] or not words[-1].endswith(source.name):
        return None
    options: list[str] = []
    rest = iter(words[1:-1])
    for word in rest:
        if word == "-o":
            next(rest, None)
        elif word in ("-include", "-isystem"):
            options += [word, next(rest, "")]
        elif _HARMLESS.fullmatch(word):
            options.append(word)
        elif not word.startswith("-Wp,-MMD,"):
            return None
    return [compiler, *options, "-gdwarf-4", "-o", str(unit), str(source)]


def read_unit(
    unit: Path, code: Mapping[str, bytes], tool: str, out: Path
) -> dict[str, FunctionLines]:
    """The lines of those functions of an object whose machine code is the image's.

    ``out`` is the folder that the compiler ran in.
    """
    found = {}
    try:
        with unit.open("rb") as stream:
            functions = _functions(ELFFile(stream))
    except (OSError, ELFError) as error:
        raise InfrastructureError(f"{unit}: is not a whole object: {error}: remove it") from error
    for name, image in code.items():
        for function in functions.get(name, ()):
            if function.is_code_of(image):
                if lines := _lines(unit, function, tool, out):
                    found[name] = lines
                break
    return found


@dataclass(frozen=True)
class _Function:
    """One function of an object; ``linked`` are what the linker fills in: offsets and bytes."""

    section: str
    offset: int
    code: bytes
    linked: Mapping[int, int]
    machine: str = ARM64

    def is_code_of(self, image: bytes) -> bool:
        """Whether the image's bytes are this code, at all places that the linker leaves alone.

        A branch that waits for a static key is a ``nop`` in a finished object of x86-64 (objtool).
        """
        if not 0 < len(self.code) <= len(image):
            return False
        mine, other = (np.frombuffer(one[: len(self.code)], np.uint8) for one in (self.code, image))
        unlike = mine != other
        for place, size in self.linked.items():
            unlike[max(place, 0) : place + size] = False
        if unlike.any() and self.machine == X86_64:
            found, image_has = (instructions(code)[0] for code in (mine, other))
            waits = np.isin(found.opcode, (JUMP, SHORT_JUMP))
            waits &= np.isin(found.place, image_has.place[image_has.is_nop])
            for place, size in zip(found.place[waits], found.length[waits], strict=True):
                unlike[place : place + size] = False
        return not unlike.any()

    def places(self) -> list[int]:
        """Where in the section each instruction is, padding behind the function left out."""
        if self.machine == X86_64:
            own = instructions(np.frombuffer(self.code, np.uint8))[0].place
            found: list[int] = (self.offset + own).tolist()
            return found
        return list(range(self.offset, self.offset + len(self.code), _SIZE))


def _is_code(elf: ELFFile, number: int) -> bool:
    flags: int = elf.get_section(number)["sh_flags"]
    return bool(flags & SH_FLAGS.SHF_EXECINSTR)


def _functions(elf: ELFFile) -> dict[str, list[_Function]]:
    machine = X86_64 if elf["e_machine"] == "EM_X86_64" else ARM64
    linked: dict[int, dict[int, int]] = {}
    for section in elf.iter_sections():
        # Most places are in debug information.
        if isinstance(section, RelocationSection) and _is_code(elf, section["sh_info"]):
            places = linked.setdefault(section["sh_info"], {})
            for entry in section.iter_relocations():
                wide = machine == X86_64 and entry["r_info_type"] in _WIDE
                places[entry["r_offset"]] = 8 if wide else 4
    found: dict[str, list[_Function]] = {}
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for symbol in table.iter_symbols():
            number = symbol["st_shndx"]
            if symbol["st_info"]["type"] != "STT_FUNC" or not isinstance(number, int):
                continue
            section, start, size = elf.get_section(number), symbol["st_value"], symbol["st_size"]
            places = linked.get(number, {})
            inside = {p - start: n for p, n in places.items() if start <= p < start + size}
            code = section.data()[start : start + size]
            function = _Function(section.name, start, code, inside, machine)
            found.setdefault(symbol.name, []).append(function)
    return found


def _lines(unit: Path, function: _Function, tool: str, out: Path) -> FunctionLines | None:
    places = function.places()
    asked = "".join(f"{place:#x}\n" for place in places).encode()
    command = [tool, "-f", "-i", "-a", "-j", function.section, "-e", str(unit)]
    done = run_tool(command, cwd=unit.parent, stdin=asked, env=clean_env())
    if done.returncode:
        raise InfrastructureError(f"{tool} cannot read {unit}: {done.stderr.decode().strip()}")
    frames = parse_frames(done.stdout.decode("utf-8", "replace"), f"{out}/")
    known = [one for one in frames if one]
    if len(frames) != len(places) or not known:
        return None
    return FunctionLines(known[0][-1].file, known[0][-1].line, tuple(frames))


def parse_frames(text: str, folder: str) -> list[tuple[Frame, ...]]:
    """What ``addr2line -f -i -a`` printed, address by address; files without ``folder``."""
    found: list[list[Frame]] = []
    function = ""
    for line in text.splitlines():
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            found.append([])
            function = ""
        elif not function:
            function = line
        else:
            place, _, number = line.partition(" (")[0].rpartition(":")
            if number.isdigit() and int(number) > 0:
                # The build maps the sources' folder to nothing, but not the one it runs in.
                file = place.removeprefix(folder).removeprefix("./")
                found[-1].append(Frame(function, file, int(number)))
            function = ""
    return [tuple(frames) for frames in found]
