"""Which kernel sources a run compares: finds the tree, applies the candidate, selects the cells.

A tree is Debian's ``linux-source`` package (the default), a source archive, or the user's git
tree. All of them become a `KernelTree` in the cache; nothing is ever written to the user's own.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from iotoll.core.digest import file_sha256, json_sha256, text_sha256
from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.lock import held
from iotoll.core.nearest import near_path
from iotoll.core.paths import cache_dir
from iotoll.core.proc import SANDBOX_TREE, no_programs
from iotoll.core.progress import Progress
from iotoll.kernels import bases, importer
from iotoll.kernels.compiled import options_of
from iotoll.kernels.tree import KernelTree, clean_env, run_tool
from iotoll.patch import candidate as candidates
from iotoll.patch import diff, selection
from iotoll.patch.candidate import Candidate, Patch
from iotoll.records import results, sealed
from iotoll.records.models import RunManifest, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir

DEBIAN_FOLDER = Path("/usr/src")
OLDEST = (6, 6)
"""The first kernel whose ufshcd-pci knows QEMU's UFS host by itself."""
RELEASES = {"6.1": "Debian 12"}
"""Versions of which one Debian release alone has a source package."""
_SETTLED = 60.0
"""Seconds for which an archive must have been left alone before its digest is noted."""
_MAX_CHANGE = 8 << 20  # bytes of a diff that a run keeps; nobody is pointed into a larger one


@dataclass(frozen=True)
class Located:
    """A kernel tree found by name: its place in the cache and where it comes from.

    Exactly one of ``archive`` and ``repository`` (the user's git tree) is set.
    """

    tree: KernelTree
    archive: Path | None = None
    archive_sha256: str | None = None
    repository: Path | None = None


def locate(name: str, debian_folder: Path = DEBIAN_FOLDER) -> Located:
    """Find the tree ``name``: ``debian``, an archive or a git tree; raises when there is none."""
    path = _debian_archive(debian_folder, name) if candidates.is_debian(name) else Path(name)
    trees = cache_dir() / "trees"
    if path.is_file():
        sha256 = archive_sha256(path)
        return Located(KernelTree(trees / f"archive-{sha256[:16]}"), path, sha256)
    objects = _objects_folder(path)
    return Located(KernelTree(trees / f"git-{json_sha256(str(objects))[:16]}"), repository=path)


def archive_sha256(path: Path) -> str:
    """Digest of an archive: of 150 MB a tenth of a second, so it is noted in the cache.

    The note is of the file as the file system knows it: whoever writes to a file, or sets its
    times, moves the time of its last change, which nobody can set.
    """
    facts, began = path.stat(), time.time()
    known = [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
    note = cache_dir() / "archives" / json_sha256([str(path.resolve()), *known])
    noted = note.read_text() if note.is_file() else ""
    if re.fullmatch(r"[0-9a-f]{64}", noted):
        return noted
    found = file_sha256(path)
    # What changes twice within a clock's step would look the same.
    if facts.st_ctime < began - _SETTLED:
        results.write_text(note, found)
    return found


def open_tree(name: str, progress: Progress) -> KernelTree:
    """Return the tree ``name`` with its objects in the cache, imported if need be."""
    if SANDBOX_TREE in os.environ:
        place = Path(os.environ[SANDBOX_TREE])
        return KernelTree(place.parents[1], place.name)
    return _import(locate(name), progress)


def identity(name: str, revision: str | None) -> str:
    """What tells one state of tree ``name`` from another: a commit, or an archive's digest."""
    located = locate(name)
    if located.repository is None:
        return str(located.archive_sha256)
    return _resolve(located.repository, revision or "HEAD")


def base_of(name: str, revision: str | None, progress: Progress) -> SourceRecord:
    """The source of one kernel of tree ``name``, outside of any run."""
    located = locate(name)
    _import(located, progress)
    commit, _ = _commits(located, Candidate(kind="none", base=revision))
    return _base_record(located, name, commit, progress)


def prepare(
    run: RunDir,
    progress: Progress,
    all_cells: Sequence[str],
    families: selection.Families | None = None,
) -> dict[Side, SourceRecord]:
    """Prepare the sources of every side that is built, and select the cells to run.

    Writes ``sides/SIDE/source.json`` and ``selection.json``; ``all_cells`` is the whole matrix,
    ``families`` are the cells that a patch may add to it. Returns no side for ready-made images,
    and ``base`` alone when one kernel is measured. Raises BrokenError("apply") when the candidate
    does not apply. Done work is not done again.
    """
    manifest = run.manifest
    inputs = _inputs(run, manifest, all_cells) | {"families": families or {}}
    damaged = run.change.is_file() and sealed.change(run) is None
    if run.is_done("prepare", inputs) and not damaged:
        records = _stored(run)
        if manifest.tree is None or _still_there(manifest.tree, records.values(), progress):
            return records
    chosen = candidates.load(manifest)
    records, change = _prepare_tree(run, chosen, progress)
    if "candidate" in records and manifest.tree is not None:
        tree = open_tree(manifest.tree, progress)
        found = _with_options(records["candidate"], tree)
        records["candidate"] = _with_structures(found, records["base"], tree)
    if 0 < len(change) <= _MAX_CHANGE:
        text = change.decode("utf-8", "replace")
        results.write_text(run.change, text)
        update = {"change_sha256": text_sha256(text)}
        records["candidate"] = records["candidate"].model_copy(update=update)
    for side, record in records.items():
        results.write(run.side(side) / "source.json", record)
    for number, patch in enumerate(chosen.patches, 1):
        path = run.side("candidate") / "patches" / f"{number:04}.patch"
        results.write_text(path, patch.text.decode("utf-8", "replace"))
    changed = records["candidate"].changed_paths if "candidate" in records else None
    chosen_cells = selection.choose(changed, all_cells, manifest.cells, families)
    results.write(run.selection, chosen_cells)
    run.mark_done("prepare", inputs)
    return records


def _with_options(record: SourceRecord, tree: KernelTree) -> SourceRecord:
    """The record with the options that kbuild asks of each changed source file."""

    @cache
    def read(path: str) -> str:
        done = tree.git("cat-file", "blob", f"{record.git_tree}:{path}", check=False)
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""

    found = {path: options_of(path, read) for path in record.changed_paths}
    options = {path: names for path, names in found.items() if names}
    return record.model_copy(update={"options": options})


def _with_structures(record: SourceRecord, base: SourceRecord, tree: KernelTree) -> SourceRecord:
    """The record with the structures of C whose members differ from the base's."""

    def read(side: SourceRecord, path: str) -> str:
        done = tree.git("cat-file", "blob", f"{side.git_tree}:{path}", check=False)
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""

    paths = [path for path in record.changed_paths if path.endswith((".c", ".h"))]
    found = {n for p in paths for n in diff.changed_structures(read(base, p), read(record, p))}
    return record.model_copy(update={"structures": sorted(found)})


def _inputs(run: RunDir, manifest: RunManifest, all_cells: Sequence[str]) -> dict[str, Any]:
    """What the step depends on; a patch file that is gone counts as unchanged, so runs resume."""
    sha256 = None
    if manifest.candidate_kind in ("patch", "mbox") and manifest.candidate:
        path = Path(manifest.candidate)
        stored = _stored(run).get("candidate")
        sha256 = file_sha256(path) if path.is_file() else stored and stored.patch_sha256
    return {
        "run": manifest.model_dump(mode="json"),
        "cells": list(all_cells),
        "candidate": sha256,
        "rules": file_sha256(selection.rules_path()),
    }


def _stored(run: RunDir) -> dict[Side, SourceRecord]:
    paths: dict[Side, Path] = {side: run.side(side) / "source.json" for side in SIDES}
    return {s: results.read(p, SourceRecord) for s, p in paths.items() if p.is_file()}


def _still_there(name: str, records: Iterable[SourceRecord], progress: Progress) -> bool:
    """Tell whether the cache still holds the prepared sources (it may have been emptied)."""
    tree = open_tree(name, progress)
    return all(tree.has(record.git_tree) for record in records)


def _prepare_tree(
    run: RunDir, chosen: Candidate, progress: Progress
) -> tuple[dict[Side, SourceRecord], bytes]:
    """The sources of both sides, and the candidate's whole change as one diff."""
    manifest = run.manifest
    if manifest.tree is None:
        return {}, b""
    located = locate(manifest.tree)
    tree = _import(located, progress)
    base_commit, candidate_commit = _commits(located, chosen)
    base = _base_record(located, manifest.tree, base_commit, progress)
    if chosen.patches:
        base = _based(located, base, chosen, progress)
    base_tree, version = str(base.git_tree), base.version
    if chosen.kind == "none":
        if manifest.aa:
            return {"base": base, "candidate": base.model_copy(update={"side": "candidate"})}, b""
        return {"base": base}, b""
    if candidate_commit is not None:
        revision = _revision(located, base, candidate_commit)
        change = tree.diff(base_tree, str(revision.git_tree))
        return {"base": base, "candidate": revision}, change
    # Also the record of a run whose patch does not apply says to what.
    results.write(run.side("base") / "source.json", base)
    with progress.step("apply the candidate"):
        applied = tree.apply(base_tree, chosen.patches, f"Linux {version}")
    for note in (*chosen.notes, *applied.notes):
        progress.say(note)
    changes = {
        "side": "candidate",
        "patch_sha256": chosen.sha256,
        "patch_subjects": list(chosen.subjects),
        "accepts": candidates.trailers(p.text.decode("utf-8", "replace") for p in chosen.patches)
        or None,
        "changed_paths": sorted({*chosen.changed_paths, *tree.changed(base_tree, applied.tree)}),
        "git_tree": applied.tree,
        "notes": [*base.notes, *chosen.notes, *applied.notes],
    }
    change = tree.diff(base_tree, applied.tree)
    return {"base": base, "candidate": base.model_copy(update=changes)}, change


def _based(
    located: Located, base: SourceRecord, chosen: Candidate, progress: Progress
) -> SourceRecord:
    """The base of a patch: as its user named it, as its mail states, or as its blobs show.

    ``base`` is the user's, or else HEAD, or an archive's only version.
    """
    name = f"Linux {base.version}"
    wanted = diff.preimages((p.text for p in chosen.patches), "the candidate")
    if located.repository is None:
        found = bases.of_archive(located.tree, str(base.git_tree), name, chosen.stated, wanted)
    elif chosen.base is not None:
        return base
    else:
        ask = partial(_user_git, located.repository)
        found = bases.find(ask, str(base.commit), chosen.stated, wanted)
    progress.say(f"base: {found.why}")
    if found.commit and found.commit != base.commit:
        base = _base_record(located, base.tree, found.commit, progress)
    base = base.model_copy(update={"base_why": found.why, "base_by": found.by})
    return _with_prerequisites(located.tree, base, found.prerequisites, progress)


def _with_prerequisites(
    tree: KernelTree, base: SourceRecord, commits: Sequence[str], progress: Progress
) -> SourceRecord:
    """The base with the patches that a series says it needs below it."""
    if not commits:
        return base
    patches = [Patch(f"commit {one[:12]}", tree.diff(f"{one}^", one)) for one in commits]
    why = f"{base.base_why}, with {len(patches)} prerequisite patches"
    try:
        applied = tree.apply(str(base.git_tree), patches, f"Linux {base.version}").tree
    except BrokenError as error:
        note = f"prerequisite patches were left out: {error}"
        progress.say(note)
        return base.model_copy(update={"notes": [*base.notes, note]})
    update = {"git_tree": applied, "tree_sha256": json_sha256({"git_tree": applied})}
    return base.model_copy(update={**update, "base_why": why})


def _base_record(located: Located, name: str, commit: str, progress: Progress) -> SourceRecord:
    tree = located.tree
    base_tree = tree.tree_of(commit)
    is_git = located.repository is not None
    return SourceRecord(
        side="base",
        tree=name if is_git else str(located.archive),
        version=tree.version(base_tree),
        commit=commit if is_git else None,
        tree_sha256=located.archive_sha256 or json_sha256({"git_tree": base_tree}),
        git_tree=base_tree,
        notes=_uncommitted(located, progress),
    )


def _revision(located: Located, base: SourceRecord, commit: str) -> SourceRecord:
    tree = located.tree
    assert located.repository is not None and base.git_tree is not None
    git_tree = tree.tree_of(commit)
    log = _user_git(located.repository, "log", "--format=%s", "-50", f"{base.commit}..{commit}")
    bodies = _user_git(located.repository, "log", "--format=%B%x00", f"{base.commit}..{commit}")
    changes = {
        "side": "candidate",
        "accepts": candidates.trailers(reversed(bodies.split("\0"))) or None,
        "version": tree.version(git_tree),
        "commit": commit,
        "patch_subjects": log.splitlines()[::-1],
        "changed_paths": sorted(tree.changed(base.git_tree, git_tree)),
        "git_tree": git_tree,
    }
    return base.model_copy(update=changes)


def _commits(located: Located, chosen: Candidate) -> tuple[str, str | None]:
    """Resolve what the user named to the commits of base and (for revisions) candidate."""
    repository = located.repository
    if repository is None:
        if chosen.base is not None:
            raise UsageError(
                f"--base {chosen.base}: {located.archive} is an archive with one version; name a"
                " git --tree"
            )
        return importer.BASE_REF, None
    base = _resolve(repository, chosen.base or "HEAD")
    if chosen.revision is None:
        return base, None
    candidate = _resolve(repository, chosen.revision)
    if chosen.kind == "range":
        try:
            base = _user_git(repository, "merge-base", base, candidate)
        except UsageError as error:
            raise UsageError(
                f"{chosen.base}..{chosen.revision}: no common ancestor in {repository}: fetch more"
                " history (git fetch --unshallow)"
            ) from error
    return base, candidate


def _resolve(repository: Path, revision: str) -> str:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return _user_git(repository, *words)
    except UsageError as error:
        raise UsageError(
            f"{revision}: no such commit in {repository}: fetch it, or name another"
        ) from error


def _uncommitted(located: Located, progress: Progress) -> list[str]:
    if located.repository is None:
        return []
    try:
        words = ("status", "--porcelain", "--untracked-files=no")
        status = _user_git(located.repository, *words, settings=_no_filters(located.repository))
    except UsageError:  # a bare repository has no work tree to be dirty
        return []
    notes = [f"uncommitted changes in {located.repository} are not part of this run"]
    for note in notes if status else []:
        progress.say(note)
    return notes if status else []


def _no_filters(repository: Path) -> dict[str, str]:
    """Settings without the filters of a repository: programs through which git would read files."""
    pattern = r"^filter\..*\.(clean|smudge|process|required)$"
    try:
        text = _user_git(repository, "config", "-z", "--name-only", "--get-regexp", pattern)
    except UsageError:  # it has none
        return {}
    names = [name for name in text.split("\0") if name]
    return {name: "false" if name.endswith(".required") else "" for name in names}


def _user_git(
    repository: Path,
    *args: str,
    settings: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> str:
    """Ask the user's own repository, read only (not even its index is refreshed)."""
    env = clean_env(no_programs(settings))
    done = run_tool(["git", *args], cwd=repository, stdin=stdin, env=env)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(f"git in {repository}: {words[0] if words else args[0] + ' failed'}")
    return done.stdout.decode("utf-8", "replace").strip()


def _objects_folder(path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(f"--tree {path}: no such folder or archive{near_path(path)}")
    try:
        found = _user_git(path, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    except UsageError as error:
        raise UsageError(
            f"--tree {path}: {error}; iotoll needs a git tree (git init, git add, git commit) or a"
            " source archive"
        ) from error
    return Path(found).resolve()


def _debian_archive(folder: Path, name: str) -> Path:
    """Debian's newest kernel source that boots on QEMU's UFS, or the version that is named."""
    wanted = name.removeprefix("debian").removeprefix("-")
    found: list[tuple[tuple[int, ...], Path]] = []
    for path in folder.glob("linux-source-*.tar.*"):
        match = re.match(r"linux-source-(\d+)\.(\d+)\.tar\.(xz|gz|bz2)$", path.name)
        version = (int(match[1]), int(match[2])) if match else (0, 0)
        if version >= OLDEST if not wanted else f"{version[0]}.{version[1]}" == wanted:
            found.append((version, path))
    if wanted and not found:
        has = f" ({RELEASES[wanted]} has it)" if wanted in RELEASES else ""
        raise InfrastructureError(
            f"no kernel source {folder}/linux-source-{wanted}.tar.xz:"
            f" apt-get install linux-source-{wanted}{has}, or name your own --tree"
        )
    if not found:
        oldest = ".".join(map(str, OLDEST))
        raise InfrastructureError(
            f"no kernel source {folder}/linux-source-*.tar.xz of {oldest} or newer:"
            " apt-get install linux-source-6.12, or name your own --tree"
        )
    return max(found)[1]


def _import(located: Located, progress: Progress) -> KernelTree:
    tree = located.tree
    if tree.git_dir.is_dir():
        return tree  # it appears when it is whole; whoever builds in the tree may go on
    with held(tree.root / "lock", progress, "another iotoll run imports this tree: waiting for it"):
        if located.archive is not None:
            importer.from_archive(tree, located.archive, progress)
        else:
            assert located.repository is not None
            importer.from_git(tree, _objects_folder(located.repository))
    return tree
