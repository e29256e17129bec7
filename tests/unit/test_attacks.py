"""Attacks that were tried on a desk and a pipeline, as docs/threat-model.md lists them."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.bisect.history import History
from iotoll.ci.plan import allure_history
from iotoll.ci.repository import place
from iotoll.cli import cli
from iotoll.core.errors import ResultError, UsageError
from iotoll.kernels import cache
from iotoll.kernels.compiled import options_of
from iotoll.labs.lava.classify import without_figures
from iotoll.records import results
from iotoll.records.models import PlanRecord, RunManifest, SourceRecord, VerdictRecord
from iotoll.verdict.accept import parse

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 50\nEXTRAVERSION =\n"
PATCH = "diff --git a/fs/x.c b/fs/x.c\n--- a/fs/x.c\n+++ b/fs/x.c\n@@ -1 +1 @@\n-int a;\n+int b;\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))


def git(repository: Path, *words: str) -> str:
    command = ["git", "-c", "user.email=a@b.c", "-c", "user.name=A", *words]
    done = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A git tree with a base and a change of ``fs/x.c``."""
    root = tmp_path / "tree"
    (root / "fs").mkdir(parents=True)
    (root / "Makefile").write_text(MAKEFILE)
    (root / "fs/x.c").write_text("int a;\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    git(root, "branch", "base")
    (root / "fs/x.c").write_text("int b;\n")
    git(root, "commit", "-qam", "change")
    return root


def source(tree: Path, out: Path, *words: str) -> BaseException | None:
    """``iotoll gate --until source``; returns what it raised."""
    asked = words or ("--base", "base", "--candidate", "HEAD")
    line = ["gate", "--tree", str(tree), *asked, "--out", str(out), "--until", "source"]
    return CliRunner().invoke(cli, line).exception


def touches(path: Path) -> str:
    return f"sh -c 'touch {path}; cat'"


def fsmonitor(tree: Path, mark: Path) -> None:
    git(tree, "config", "core.fsmonitor", touches(mark))


def filters(tree: Path, mark: Path) -> None:
    for kind in ("clean", "smudge"):
        git(tree, "config", f"filter.a=b.{kind}", touches(mark))
    git(tree, "config", "filter.a=b.required", "true")
    git(tree, "config", "filter.evil.clean", touches(mark))
    (tree / ".git/info/attributes").write_text("*.c filter=evil\n*.h filter=a=b\n")


def included(tree: Path, mark: Path) -> None:
    other = tree / ".git/other"
    other.write_text(f'[core]\n\tfsmonitor = "{touches(mark)}"\n')
    git(tree, "config", "include.path", str(other))


def hooks(tree: Path, mark: Path) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        path = tree / ".git/hooks" / name
        path.write_text(f"#!/bin/sh\ntouch {mark}\n")
        path.chmod(0o755)
    git(tree, "config", "core.hooksPath", str(tree / ".git/hooks"))


def viewers(tree: Path, mark: Path) -> None:
    for name in ("diff.external", "core.pager", "diff.evil.textconv", "gpg.program", "core.editor"):
        git(tree, "config", name, touches(mark))
    git(tree, "config", "log.showSignature", "true")
    (tree / ".git/info/attributes").write_text("*.c diff=evil\n")


@pytest.mark.parametrize("attack", [fsmonitor, filters, included, hooks, viewers])
def test_g1_a_trees_own_settings_run_no_program(
    tree: Path, tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    mark = tmp_path / "mark"
    attack(tree, mark)
    mark.unlink(missing_ok=True)
    later = time.time() + 5  # git looks into files whose times differ from its index
    os.utime(tree / "fs/x.c", (later, later))
    assert source(tree, tmp_path / "out") is None
    head = git(tree, "-c", "core.fsmonitor=", "rev-parse", "HEAD")
    mark.unlink(missing_ok=True)
    assert History(tree).known(head).subject == "change"
    History(tree).changed([head])
    assert not mark.exists()


def test_g1_uncommitted_changes_are_noted_without_filters(tree: Path, tmp_path: Path) -> None:
    filters(tree, tmp_path / "mark")
    (tree / "fs/x.c").write_text("int c;\n")
    assert source(tree, tmp_path / "out") is None
    record = results.read(tmp_path / "out/sides/base/source.json", SourceRecord)
    assert record.notes and not (tmp_path / "mark").exists()


@pytest.mark.parametrize("name", ["--output={}", "base..--output={}", "--upload-pack=touch {}"])
def test_g1_a_revision_is_no_option_of_gits(tree: Path, tmp_path: Path, name: str) -> None:
    mark = tmp_path / "mark"
    error = source(tree, tmp_path / "out", "--base", "base", "--candidate", name.format(mark))
    assert isinstance(error, UsageError) and not mark.exists()


def test_g1_a_replaced_commit_is_compared_as_what_its_id_says(tree: Path, tmp_path: Path) -> None:
    git(tree, "replace", git(tree, "rev-parse", "HEAD"), git(tree, "rev-parse", "base"))
    assert source(tree, tmp_path / "out") is None
    record = results.read(tmp_path / "out/sides/candidate/source.json", SourceRecord)
    assert record.changed_paths == ["fs/x.c"]


def test_g1_alternates_and_file_names_do_nothing(tree: Path, tmp_path: Path) -> None:
    (tree / ".git/objects/info").mkdir(exist_ok=True)
    (tree / ".git/objects/info/alternates").write_text("/etc\n/root/.ssh\n")
    long = tree / "fs" / ("n" * 200)
    long.mkdir()
    for path in (long / ("m" * 200), tree / "fs/a\x1b]0;x\x07\u202e.c", tree / "fs/b\nc: d.c"):
        path.write_text("x")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "names")
    assert source(tree, tmp_path / "out") is None
    for path in (tmp_path / "out").rglob("*.json"):
        assert "\x1b" not in path.read_text() and "\u202e" not in path.read_text()


def test_g1_attributes_of_a_tree_select_everything(tree: Path, tmp_path: Path) -> None:
    (tree / ".gitattributes").write_text("*.c text eol=crlf ident\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "attributes")
    assert source(tree, tmp_path / "out") is None
    assert json.loads((tmp_path / "out/selection.json").read_text())["full_matrix"]


def add(archive: tarfile.TarFile, name: str, data: bytes = b"", **fields: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for field, value in fields.items():
        setattr(member, field, value)
    archive.addfile(member, io.BytesIO(data))


MEMBERS: dict[str, list[tuple[str, bytes, dict[str, object]]]] = {
    "dots": [("linux/../../../../../../../../{mark}", b"x", {})],
    "absolute": [("{mark}", b"x", {})],
    "link": [
        ("linux/l", b"", {"type": tarfile.SYMTYPE, "linkname": "{folder}"}),
        ("linux/l/mark", b"x", {}),
    ],
    "hard": [("linux/h", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})],
    "device": [("linux/d", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5})],
    "pipe": [("linux/p", b"", {"type": tarfile.FIFOTYPE})],
    "git": [(".git/config", b"[core]\n\tfsmonitor = touch {mark}\n", {})],
}


@pytest.mark.parametrize("name", MEMBERS)
def test_g1_an_archive_of_a_kernel_writes_nothing_outside(tmp_path: Path, name: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "linux.tar.xz"
    words = {"mark": str(mark), "folder": str(tmp_path)}
    with tarfile.open(path, "w:xz") as archive:
        add(archive, "linux/Makefile", MAKEFILE.encode())
        add(archive, "linux/fs/x.c", b"int a;\n")
        for member, data, fields in MEMBERS[name]:
            shown = {k: v.format(**words) if isinstance(v, str) else v for k, v in fields.items()}
            text = data.decode().format(**words).encode() if name == "git" else data
            add(archive, member.format(**words), text, **shown)
    patch = tmp_path / "p.patch"
    patch.write_text(PATCH)
    error = source(path, tmp_path / "out", "--candidate", str(patch))
    assert error is None or isinstance(error, SystemExit | UsageError) or "p.patch" in str(error)
    assert not mark.exists()
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_fifo() or p.is_block_device()]


def test_g1_a_packed_kernel_is_never_larger_than_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_LARGEST_IMAGE", 1 << 20)
    image = tmp_path / "Image.gz"
    image.write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(UsageError, match=r"Image.gz: cannot be read .larger than 1 MiB unpacked"):
        cache.take(image, "arm64", tmp_path)


def test_g1_a_config_in_an_image_is_never_larger_than_a_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "_LARGEST_CONFIG", 1 << 20)
    image = b"IKCFG_ST" + gzip.compress(b"#" * (2 << 20)) + b"IKCFG_ED"
    assert b"not known" in cache.embedded_config(image)
    assert cache.embedded_config(b"IKCFG_ST" + gzip.compress(b"CONFIG_X=y\n")) == b"CONFIG_X=y\n"


def soon(work: Callable[[], object], seconds: float = 10.0) -> None:
    began = time.monotonic()
    work()
    assert time.monotonic() - began < seconds


def test_g1_a_makefile_whose_variables_name_each_other_is_read_once() -> None:
    circle = "".join(f"a{i}-y := y.o a{i}.o a{(i + 1) % 9000}.o\n" for i in range(9000))
    soon(lambda: options_of("drivers/x/y.c", lambda path: circle if "x/" in path else ""))
    text = "obj-$(CONFIG_X) += big.o\nbig-objs := part.o\npart-y := y.o\n"
    assert options_of("drivers/x/y.c", lambda path: text if "x/Make" in path else "") == ["X"]


def test_g1_a_console_line_without_end_is_read_in_a_moment() -> None:
    soon(lambda: without_figures("x " * 500_000))
    assert without_figures("set MEASUREMENT 5 to 7") == ""


def test_g1_a_waiver_without_end_is_read_in_a_moment() -> None:
    with pytest.raises(ValueError, match="not understood"):
        soon(lambda: parse("a" * 100 + " " * 1_000_000 + "b"))
    for text in ("ufs-* submission +1e9 x", "ufs-* submission +nan x", "ufs-* submission -5 x"):
        with pytest.raises(ValueError, match="not understood"):
            parse(text)


def test_g1_two_projects_share_no_history(tmp_path: Path) -> None:
    plan = results.read(Path("results-schema/valid/plan.json"), PlanRecord)
    names = {
        allure_history(plan.model_copy(update={"project": name}), "virtual/virt-arm64")
        for name in ("a/b", "a-b", "a-/b", "../../a/b", "a b")
    }
    assert len(names) == 5
    assert {path.parent for path in names} == {tmp_path / "cache/allure"}
    assert place("a/b") != place("a-b") and place("../../x").parent.name == "repositories"


def test_g1_json_without_end_and_numbers_of_no_size_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for text in ("[" * 100_000, '{"a":' * 50_000, "1" * 5_000_000, '{"created": 1e999}', "\x00"):
        path.write_text(text)
        with pytest.raises(ResultError) as caught:
            results.read(path, RunManifest)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000
    with pytest.raises(ResultError):
        results.read(path, VerdictRecord)
