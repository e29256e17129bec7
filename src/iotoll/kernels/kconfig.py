"""Config fragments (``kernel-configs/*.config``): what they ask for, and whether they got it.

kconfig drops a symbol in silence when a dependency is missing or its name is wrong. A kernel
without UFS or kprobes would then be found out only by a failing boot, so every request is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir

_SET = re.compile(r"^CONFIG_(\w+)=(.+)$")
_UNSET = re.compile(r"^# CONFIG_(\w+) is not set$")
_OR = re.compile(r"^# or CONFIG_(\w+)=(.+)$")
_OPTION = re.compile(r"^# compiler option (-[\w=-]+)$")


@dataclass(frozen=True)
class Request:
    """One line of a fragment: ``value`` is what follows ``=``, ``n`` for "is not set".

    ``others`` are symbols and values that will do as well, from lines ``# or CONFIG_X=y`` behind
    it: what a later kernel has instead, or ``n`` for a symbol that an earlier one has not. kconfig
    does not read those lines, so nothing is set.
    """

    symbol: str
    value: str
    fragment: str
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Lost:
    """A request that the final ``.config`` does not fulfil; ``got`` is its value there or ``n``."""

    request: Request
    got: str

    def __str__(self) -> str:
        request = self.request
        return (
            f"CONFIG_{request.symbol}={request.value} of fragment {request.fragment} became"
            f" {self.got}"
        )


def fragment_path(name: str) -> Path:
    """Return the file of fragment ``name``: of kernel-configs/, or a path to the user's own."""
    for path in (data_dir("kernel-configs") / f"{name}.config", Path(name)):
        if path.is_file():
            return path.resolve()
    known = ", ".join(sorted(p.stem for p in data_dir("kernel-configs").glob("*.config")))
    raise UsageError(f"kernel config fragment {name}: no such fragment: choose from {known}")


def read_fragment(path: Path) -> list[Request]:
    """Read a fragment; raises UsageError with file and line of a bad line."""
    requests = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if match := _SET.match(line):
            requests.append(Request(match[1], match[2], path.name))
        elif match := _UNSET.match(line):
            requests.append(Request(match[1], "n", path.name))
        elif match := _OR.match(line):
            if not requests:
                raise UsageError(f"{path}:{number}: {line!r} has no request before it: move it")
            other = (match[1], match[2])
            requests[-1] = replace(requests[-1], others=(*requests[-1].others, other))
        elif line.startswith("# compiler option") and not _OPTION.match(line):
            raise UsageError(f"{path}:{number}: {line!r}: write one option, as -fname=value")
        elif line and not line.startswith("#"):
            raise UsageError(f"{path}:{number}: {line!r} is not CONFIG_X=… : fix the line")
    return requests


def compiler_options(fragments: Iterable[Path]) -> list[str]:
    """Options for the compiler of C code, from lines ``# compiler option -fX``, in order.

    For what no symbol of kconfig can ask for; they follow the kernel's own options, so they win.
    """
    lines = (line.strip() for path in fragments for line in path.read_text().splitlines())
    return [match[1] for match in map(_OPTION.match, lines) if match]


def read_config(path: Path) -> dict[str, str]:
    """Read a final ``.config``: symbol (without ``CONFIG_``) → value; unset symbols are absent."""
    matches = (_SET.match(line) for line in path.read_text().splitlines())
    return {match[1]: match[2] for match in matches if match}


def lost(fragments: Iterable[Path], config: Path) -> list[Lost]:
    """Return the requests that ``config`` does not fulfil; the last one for a symbol counts."""
    wanted = {r.symbol: r for path in fragments for r in read_fragment(path)}
    final = read_config(config)
    return [
        Lost(request, final.get(request.symbol, "n"))
        for request in wanted.values()
        if not any(
            final.get(symbol, "n") == value
            for symbol, value in ((request.symbol, request.value), *request.others)
        )
    ]
