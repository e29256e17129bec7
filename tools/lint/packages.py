#!/usr/bin/env python3
"""Measures how src/iotoll is divided into packages, and prints one line per measure.

    tools/lint/packages.py [--source src/iotoll] [--json] [--check]
    tools/lint/packages.py --before [7dcac24]     the same of an earlier commit, beside today's

A package, here, is a package or module directly below src/iotoll. `--check` ends with 1 where a
package imports one that stands above it in docs/architecture.md, where a module has no package,
where a file or function is longer than the project allows, where a small module has a single
importer, and where an import inside a function has no comment that says why. The contract that
`make lint` holds is import-linter's (pyproject.toml); this script shows how far away from it a tree
is, also an older one.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAT = "7dcac24"
"""The last commit with modules instead of packages."""
PACKAGES = (
    "core",
    "records",
    "patch",
    "kernels",
    "boards",
    "boots",
    "measure",
    "verdict",
    "reports",
    "labs",
    "run",
    "explain",
    "gate",
    "studies",
    "nightly",
    "bisect",
    "lists",
    "ci",
)
"""Each imports only packages before it."""
ENTRIES = ("cli", "__init__", "__main__", "doctor", "listing", "pytest_plugin", "report")
"""Modules beside the packages: what starts iotoll. They may import every package."""
LAB = ROOT / "lab/src/iotoll_lab"
"""The second distribution."""
LONGEST_FILE, LONGEST_FUNCTION = 800, 50
"""In lines."""
SMALL = 70
"""A module of fewer lines that one other alone imports belongs into that one."""


@dataclass
class Measured:
    """One tree: imports between packages, and sizes in lines."""

    modules: int = 0
    imports: int = 0
    between: dict[str, set[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    homeless: list[str] = field(default_factory=list)
    circles: list[str] = field(default_factory=list)
    crumbs: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    public: int = 0
    documented: int = 0
    values: int = 0
    typed: int = 0


def measure(source: Path, beside: Path | None = None) -> Measured:
    """Read every module below ``source``, the folder of the package iotoll.

    ``beside`` is another distribution's, whose modules import those of ``source``.
    """
    found, trees = Measured(), dict[str, ast.Module]()
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        if inside.parts[0] == "_data":
            continue
        text = path.read_text()
        tree = ast.parse(text)
        package = inside.parts[0].removesuffix(".py")
        found.modules += 1
        trees[".".join(inside.with_suffix("").parts).removesuffix(".__init__")] = tree
        found.files[str(inside)] = text.count("\n")
        found.between.setdefault(package, set())
        if package not in PACKAGES and package not in ENTRIES:
            found.homeless.append(str(inside))
        for module in _imported(tree):
            _note_import(found, str(inside), package, module.split(".")[1])
        if any(_imports(node) for _, node in _functions(tree)) and not _WHY.search(text):
            found.unexplained.append(f"{inside} imports inside a function: a comment must say why")
        for name, node in _functions(tree):
            _note_function(found, f"{inside}:{name}", node)
    graph = {
        name: set(_modules(tree, source.name, trees.keys())) - {name}
        for name, tree in trees.items()
    }
    found.circles = circles(graph)
    for path in sorted(beside.rglob("*.py")) if beside else ():
        tree = ast.parse(path.read_text())
        graph[str(path)] = set(_modules(tree, source.name, trees.keys()))
    found.crumbs = crumbs(graph, found.files)
    return found


_WHY = re.compile(r"^\s*#.*\b([Ii]mport|[Ll]oad)", re.MULTILINE)


def _imports(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in ast.walk(node))


def circles(graph: dict[str, set[str]]) -> list[str]:
    """The modules that import themselves over others, also where a function hides an import."""
    return sorted(name for name in graph if name in _reached(name, graph))


def crumbs(graph: dict[str, set[str]], files: dict[str, int]) -> list[str]:
    """The small modules that a single other one imports; what none imports is an entry point."""
    found = []
    for file, lines in files.items():
        name = file.removesuffix(".py").replace("/", ".")
        importers = [other for other, targets in graph.items() if name in targets]
        if lines < SMALL and len(importers) == 1:
            found.append(f"{file} has {lines} lines, and only {importers[0]} imports it")
    return found


def _modules(tree: ast.Module, top: str, known: Set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{top}."):
            module = (node.module or "").removeprefix(top).removeprefix(".")
            for alias in node.names:
                inner = f"{module}.{alias.name}".removeprefix(".")
                yield inner if inner in known else module
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix(f"{top}.") for a in node.names)


def _imported(tree: ast.Module) -> Iterator[str]:
    """The modules of iotoll that are imported anywhere in a module, each statement once."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "iotoll":
                yield from (f"iotoll.{alias.name}" for alias in node.names)
            elif node.module.startswith("iotoll."):
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("iotoll."))


def _note_import(found: Measured, file: str, package: str, target: str) -> None:
    found.imports += 1
    if target == package or target.startswith("_"):
        return
    found.between[package].add(target)
    if package in PACKAGES and (
        target not in PACKAGES or PACKAGES.index(target) > PACKAGES.index(package)
    ):
        found.wrong.append(f"{file} imports {target}")


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def _note_function(
    found: Measured, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    found.functions[f"{name}:{node.lineno}"] = (node.end_lineno or node.lineno) - node.lineno + 1
    if not node.name.startswith("_"):
        found.public += 1
        found.documented += ast.get_docstring(node) is not None
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    arguments = [a for a in arguments if a.arg not in ("self", "cls")]
    found.values += len(arguments) + 1
    found.typed += sum(a.annotation is not None for a in arguments) + (node.returns is not None)


def floors(between: dict[str, set[str]]) -> int:
    """The longest chain of imports between packages; packages that import each other are one
    floor.
    """
    reach = {package: _reached(package, between) for package in between}
    group = {
        package: min(
            o for o in between if o == package or (o in reach[package] and package in reach[o])
        )
        for package in between
    }

    def depth(name: str) -> int:
        below = {
            group[other]
            for package, targets in between.items()
            if group[package] == name
            for other in targets
            if other in group and group[other] != name
        }
        return 1 + max((depth(other) for other in below), default=0)

    return max((depth(name) for name in set(group.values())), default=0)


def _reached(package: str, between: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = list(between[package])
    while todo:
        name = todo.pop()
        if name not in seen and name in between:
            seen.add(name)
            todo.extend(between[name])
    return seen


def spread(sizes: list[int]) -> str:
    """Median, 90th percentile and maximum, in lines."""
    ordered = sorted(sizes)
    p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    return f"{statistics.median_low(ordered)} / {p90} / {ordered[-1]}"


def table(found: Measured) -> dict[str, str]:
    """Name and value of each measure."""
    between = {
        package: found.between[package] for package in found.between if package not in ENTRIES
    }
    circles = sum(package in _reached(package, between) for package in between)
    # Without packages there is no direction.
    wrong = "unknown" if found.homeless else str(len(found.wrong))
    return {
        "packages": str(len(between)),
        "floors": str(floors(between)),
        "packages in a circle of imports": str(circles),
        "modules": str(found.modules),
        "modules in a circle of imports": str(len(found.circles)),
        "modules without a package": str(len(found.homeless)),
        "lines": str(sum(found.files.values())),
        "files under 70 lines": str(sum(10 < n < SMALL for n in found.files.values())),
        "of these, with a single importer": str(len(found.crumbs)),
        "imports inside iotoll": str(found.imports),
        "imports in the wrong direction": wrong,
        "lines per file (median / p90 / max)": spread(list(found.files.values())),
        "lines per function (median / p90 / max)": spread(list(found.functions.values())),
        "public functions with a docstring": f"{found.documented} of {found.public}",
        "arguments and results with a type": f"{found.typed} of {found.values}",
    }


def earlier(revision: str) -> dict[str, str]:
    """The measures of a commit of this repository; raises ValueError where it is not known."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "src/iotoll"],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace").strip())
    with (
        tempfile.TemporaryDirectory() as name,
        tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar,
    ):
        tar.extractall(name, filter="data")
        return table(measure(Path(name) / "src/iotoll"))


def problems(found: Measured) -> list[str]:
    """What `--check` refuses, one line each."""
    too_long = [
        f"{name} has {lines} lines, at most {limit} are allowed"
        for sizes, limit in (
            (found.files, LONGEST_FILE),
            (found.functions, LONGEST_FUNCTION),
        )
        for name, lines in sizes.items()
        if lines > limit
    ]
    homeless = [f"{name} has no package" for name in found.homeless]
    circles = [f"{name} is in a circle of imports" for name in found.circles]
    return homeless + circles + found.wrong + too_long + found.crumbs + found.unexplained


def main() -> int:
    """Print the measures; 1 where `--check` found a problem."""
    parser = argparse.ArgumentParser(description="The measures of src/iotoll's packages.")
    parser.add_argument("--source", type=Path, default=ROOT / "src/iotoll", metavar="FOLDER")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--check", action="store_true", help="end with 1 where a rule is broken")
    parser.add_argument(
        "--before", nargs="?", const=FLAT, metavar="REVISION", help="an earlier commit beside it"
    )
    options = parser.parse_args()
    if not options.source.is_dir():
        parser.error(f"--source {options.source}: no such folder")
    found = measure(options.source, LAB)
    measures = table(found)
    if options.before:
        try:
            before = earlier(options.before)
        except ValueError as error:
            parser.error(f"--before {options.before}: {error}")
        print(f"{'':<42}{options.before:<20}now")
        print("\n".join(f"{name:<42}{before[name]:<20}{now}" for name, now in measures.items()))
    elif options.as_json:
        print(json.dumps(measures, indent=1))
    else:
        print("\n".join(f"{name:<42}{value}" for name, value in measures.items()))
    refused = problems(found) if options.check else []
    if options.check:  # in iotoll-lab a package may be anything
        lab = measure(LAB)
        lab.homeless, lab.wrong = [], []
        refused += [f"lab: {line}" for line in problems(lab)]
    for line in refused:
        print(f"packages: {line}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
