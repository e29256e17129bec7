"""`iotoll study` and `iotoll report` of a study, as far as nothing boots."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import RunManifest
from iotoll.run.manifest import RunRequest
from iotoll.studies import flow as study_flow
from iotoll.studies.data import load_study
from iotoll.studies.evaluate import Measured
from iotoll.studies.flow import Asked, resume_command, run_study
from iotoll.studies.page import study_html
from iotoll.studies.plain_text import commit_text
from tests.unit.studies.studies import CELL, MODEL, SMALL, evaluated, record, small


def test_report_knows_a_studys_folder(tmp_path: Path) -> None:
    study = small(tmp_path)
    found = evaluated(study, Measured({CELL: record()}, {"ufs": MODEL}))
    folder = tmp_path / "out"
    results.write(folder / "study.json", found)
    runner = CliRunner()
    done = runner.invoke(cli, ["report", str(folder), "--commit"])
    assert done.exit_code == 0 and done.stdout == commit_text(found)
    done = runner.invoke(cli, ["report", str(folder)])
    assert done.exit_code == 0 and "small: agrees: 1, shape holds: 1" in done.stdout
    assert (folder / "index.html").read_text() == study_html(found)


def test_an_unfinished_study_is_named_with_what_resumes_it(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    out = tmp_path / "out"
    begun = ["study", str(path), "--base", "v6.12", "--out", str(out)]
    asked = Asked(
        load_study(str(path)),
        RunRequest(("iotoll", *begun[:4]), "measure", candidate.classify(None, base="v6.12"), ""),
        None,
        out,
        Progress(quiet=True),
    )
    with pytest.raises(UsageError):
        # The default tree is an archive: it has no revision.
        run_study(asked)
    done = CliRunner().invoke(cli, ["report", str(out), "--cover"])
    assert isinstance(done.exception, UsageError)
    said = f"{out} is an unfinished study: {shlex.join(['iotoll', *begun])} resumes it"
    assert str(done.exception) == said


def test_in_the_default_folder_the_command_that_resumes_needs_no_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = results.read(data_dir("results-schema") / "valid/run.json", RunManifest)
    manifest = example.model_copy(update={"command": ["iotoll", "study", "emmc"]})
    results.write(Path("runs/study-emmc/variants/base/run/run.json"), manifest)
    assert resume_command(Path("runs/study-emmc")) == "iotoll study emmc"
    assert resume_command(Path("runs/study-emmc/variants/base/run")) is None
    assert resume_command(Path("runs")) is None


@pytest.mark.parametrize("option", ["--commit", "--cover"])
def test_text_for_a_mail_is_no_json(option: str, tmp_path: Path) -> None:
    found = evaluated(small(tmp_path), Measured({CELL: record()}, {"ufs": MODEL}))
    results.write(tmp_path / "out/study.json", found)
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "out"), option, "--json"])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == f"{option} and --json: name one of them"


def test_a_study_that_destroys_data_must_be_told_to(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["study", "raw-device", "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, UsageError)
    assert "--destroy-data" in str(done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["queues", "--board", "virt-x86_64"], "leave --board out"),
        (["hpb", "--board", "hikey960"], "is real: its devices are not modelled"),
        (["ufs-nvme", "--board", "zedboard"], "has none of its devices"),
        (["ufs-nvme", "--board", "hikey960"], "--runner lava"),
        (["nothing"], "There are: "),
        # A lab's virtual board would run without the models, and the page would claim them.
        (["hpb", "--runner", "lava"], "no job changes their models"),
        (["queues", "--runner", "lava"], "nothing of it runs"),
        (["hpb", "--image", __file__], "variant config-off has another kernel"),
    ],
)
def test_a_board_that_a_study_cannot_use_is_one_line(
    words: list[str], said: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(cli, ["study", *words, "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception) and "\n" not in str(done.exception)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "other/variants/strange").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    for name, said in (
        ("", "is not empty, nor a study's folder"),
        ("other", "holds another study, with a variant strange"),
        ("file", "File exists"),
        ("file/below", "Not a directory"),
    ):
        done = CliRunner().invoke(cli, ["study", "emmc", "--out", str(tmp_path / name)])
        assert isinstance(done.exception, UsageError)
        assert said in str(done.exception) and "\n" not in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine.txt", "other"]


def test_all_variants_are_read_before_the_first_one_boots(tmp_path: Path) -> None:
    later = f'''
[variants.later]
why = "a device that the board does not have"
cells = ["{CELL}"]
[variants.later.devices.ufs.model]
read_nss = 1
[[tables]]'''
    path = tmp_path / "small.toml"
    path.write_text(SMALL.replace("[[tables]]", later.strip(), 1))
    out = tmp_path / "out"
    done = CliRunner().invoke(cli, ["study", str(path), "--out", str(out)])
    assert isinstance(done.exception, UsageError) and "read_nss" in str(done.exception)
    assert not (out / "variants/base/run/sides").exists()


def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs the small study up to its build, with ``--fresh`` or without; nothing is built."""
    monkeypatch.setattr(study_flow, "execute_alone", lambda flow, until: None)
    path = tmp_path / "small.toml"
    path.write_text(SMALL)

    def run(*words: str) -> None:
        out = tmp_path / "out"
        done = CliRunner().invoke(
            cli, ["study", str(path), "--until", "build", *words, "--out", str(out)]
        )
        assert done.exception is None, str(done.exception)

    return run


def test_fresh_forgets_earlier_boots_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = forgetful(tmp_path, monkeypatch)
    run()
    out = tmp_path / "out"
    boot = out / "variants/base/run/sides/base/boots/1/boot.json"
    for text in ("of an earlier command", "of the finished study"):
        boot.parent.mkdir(parents=True)
        boot.write_text(text)
        (out / "study.json").write_text(text)
        run()
        assert boot.is_file() and (out / "study.json").is_file()
        run("--fresh")
        assert not boot.parent.exists() and not (out / "study.json").exists()
        # Interrupted here, the same command keeps what it has booted itself.
        boot.parent.mkdir(parents=True)
        boot.write_text("of this command")
        run("--fresh")
        assert boot.is_file()
        shutil.rmtree(boot.parent)
        (out / "variants/.fresh").unlink()  # as the end of the study does


def test_one_study_is_run_by_one_command_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = forgetful(tmp_path, monkeypatch)
    run()
    held = alone(tmp_path / "out/variants/.lock", UsageError("held already"))
    said = "another iotoll works on this study: wait for it, or choose another --out"
    with held, pytest.raises(AssertionError, match=said):
        run()
    run()


def test_a_labs_boots_are_never_taken_from_an_earlier_run(tmp_path: Path) -> None:
    words = ["emmc", "--board", "zedboard", "--runner", "lava", "--fresh"]
    done = CliRunner().invoke(cli, ["study", *words, "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, UsageError)
    assert "--fresh: a lab takes no boot" in str(done.exception)
