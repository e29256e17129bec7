"""Versions and tags: CONTRIBUTING.md, Releases.

python tools/release.py check          # every file states the same version (make lint)
python tools/release.py set 0.3.0      # write it to all of them
python tools/release.py tag 0.3.0      # after make test and make dist: check, and tag
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    "src/iotoll/__init__.py": r'(?m)^__version__ = "([^"]+)"$',
    "pyproject.toml": r'(?ms)^\[project\]$.*?^version = "([^"]+)"$',
    "lab/pyproject.toml": r'(?ms)^\[project\]$.*?^version = "([^"]+)"$',
    "Cargo.toml": r'(?ms)^\[workspace\.package\]$.*?^version = "([^"]+)"$',
    "uv.lock": r'(?m)^name = "iotoll"\nversion = "([^"]+)"$',
}
"""Where the version stands. Cargo.lock has it once for each crate of the workspace."""
LOCKED = r'(?m)^name = "{}"\nversion = "([^"]+)"$'
VERSION = re.compile(r"\d+\.\d+\.\d+")
HEADING = r"(?m)^## {} \(\d{{4}}-\d{{2}}-\d{{2}}\)$"
WHEELS = ("x86_64", "aarch64")


def places(root: Path) -> dict[str, list[str]]:
    """Regular expressions by file; the one group of each is a version."""
    found = {name: [pattern] for name, pattern in PLACES.items()}
    members = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["members"]
    found["uv.lock"].append(LOCKED.format("iotoll-lab"))
    found["templates/github.yml"] = [r"/iotoll:(\S+)\n", r"/iotoll@v(\S+)\n"]
    found["Cargo.lock"] = [LOCKED.format(Path(member).name) for member in members]
    return found


def versions(root: Path) -> dict[str, set[str]]:
    """The versions that each file states; none is a version too: an empty text."""
    found: dict[str, set[str]] = {}
    for name, patterns in places(root).items():
        text = (root / name).read_text()
        matches = [re.search(pattern, text) for pattern in patterns]
        found[name] = {match[1] if match else "" for match in matches}
    return found


def differing(found: Mapping[str, set[str]]) -> list[str]:
    """One line for each file that does not state what ``iotoll.__version__`` is."""
    first = next(iter(PLACES))
    (wanted,) = found[first]
    return [
        f"{name}: states {', '.join(sorted(stated)) or 'no version'}, {first} states {wanted}:"
        f" python tools/release.py set {wanted}"
        for name, stated in found.items()
        if stated != {wanted}
    ]


def section(changelog: str, version: str) -> str:
    """What CHANGELOG.md says of a version; empty where it has no heading with a date for it."""
    heading = re.search(HEADING.format(re.escape(version)), changelog)
    return changelog[heading.end() :].partition("\n## ")[0].strip() if heading else ""


def check(root: Path = ROOT) -> list[str]:
    """What `make lint` refuses."""
    found = versions(root)
    problems = differing(found)
    version = next(iter(found[next(iter(PLACES))]))
    if not section((root / "CHANGELOG.md").read_text(), version):
        problems.append(f"CHANGELOG.md: no section '## {version} (YYYY-MM-DD)' with text")
    return problems


def set_version(version: str, root: Path = ROOT) -> None:
    """Write a version to every file that states one."""
    for name, patterns in places(root).items():
        text = (root / name).read_text()
        for pattern in patterns:
            match = re.search(pattern, text)
            if match is None:
                sys.exit(f"release: {name}: states no version where {pattern!r} looks for one")
            text = text[: match.start(1)] + version + text[match.end(1) :]
        (root / name).write_text(text)


def untaggable(version: str, root: Path = ROOT) -> list[str]:
    """Why this commit cannot get the tag."""
    problems = check(root)
    stated = next(iter(versions(root)[next(iter(PLACES))]))
    if stated != version:
        problems.append(f"the files state {stated}: python tools/release.py set {version}")
    if _git(root, "status", "--porcelain"):
        problems.append("the work tree has changes: commit them")
    if _git(root, "tag", "--list", f"v{version}"):
        problems.append(f"there is a tag v{version}: a release is never made again")
    for cpu in WHEELS:
        if not [*root.glob(f"dist/iotoll-{version}-*_{cpu}.whl")]:
            problems.append(f"dist/ has no wheel of {version} for {cpu}: make dist")
    return problems


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def main(words: list[str]) -> None:
    """As the module's docstring says; exit code 2 for a usage error, 1 for a problem."""
    match words:
        case ["check"]:
            problems = check()
        case ["set", version] if VERSION.fullmatch(version):
            set_version(version)
            problems = []
        case ["tag", version] if VERSION.fullmatch(version):
            problems = untaggable(version)
            if not problems:
                text = section((ROOT / "CHANGELOG.md").read_text(), version)
                tag = f"v{version}"
                # Verbatim: git takes a line that begins with # for a comment.
                message = f"iotoll {version}\n\n{text}"
                _git(ROOT, "tag", "--annotate", "--cleanup=verbatim", "--message", message, tag)
                print(f"tagged v{version}; now: git push origin v{version}")
        case _:
            print(f"usage:\n\n{(__doc__ or '').partition('Releases.')[2].strip()}", file=sys.stderr)
            raise SystemExit(2)
    for problem in problems:
        print(f"release: {problem}", file=sys.stderr)
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
