"""The step *run* on a board that is reached by ssh: boots a kernel there, runs the job, fetches.

Until the kernel under test was started, a lost connection is the network's or the board's fault.
After that it may be the kernel's: such a boot is tried once more, the candidate's after one of the
base, and only what repeats counts (`iotoll.boots.schedule.boot_until_sure`). The workload itself
needs no connection: one that is lost and comes back costs nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from iotoll.boards.board import RealBoard
from iotoll.boards.ramdisk import EPOCH
from iotoll.boards.rootfs import make_tree
from iotoll.boots import proof
from iotoll.boots.console import ConsoleState, read_console
from iotoll.boots.local import CONSOLE_LIMIT, HANDOVER_LIMIT, BootPlan, record_of, unpack
from iotoll.boots.schedule import boot_until_sure, mark_done
from iotoll.core.digest import file_sha256
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.core.proc import tail
from iotoll.core.progress import Progress, Step
from iotoll.core.scratch import scratch
from iotoll.labs.ssh.config import SshBoard
from iotoll.labs.ssh.connection import BOOT_ID, Connection, LostError
from iotoll.records import results
from iotoll.records.models import BuildRecord
from iotoll.records.rundir import RunDir

ROOT = "/run/iotoll"
"""On the board: a file system in memory with the DUT's root, and what the workload leaves."""
KERNEL = "/run/iotoll-kernel"
KEPT = f"{ROOT}/tmp/iotoll-kept"
TRIES = 3
"""Times that something is sent or fetched, before a line that is lost each time is given up."""
REBOOT = "panic=10 oops=panic norandmaps"
"""Of a kernel that is started by kexec: one that crashed gives the board back."""

_LOAD = r"""
kernel=$1 words=$2
[ -n "$words" ] || words=$(sed 's/BOOT_IMAGE=[^ ]* *//' /proc/cmdline)
set -- --command-line="$words $3"
[ ! -f "$kernel/ramdisk" ] || set -- "$@" --initrd="$kernel/ramdisk"
[ ! -f "$kernel/dtb" ] || set -- "$@" --dtb="$kernel/dtb"
command -v kexec >/dev/null || {
    echo "the board has no kexec: apt-get install kexec-tools" >&2
    exit 1
}
# -a: by the file, if the kernel can (CONFIG_KEXEC_FILE). The other call, -c, refuses a board whose
# kernel left the firmware's kaslr-seed in the device tree, as one without CONFIG_RANDOMIZE_BASE
# does (kexec-tools, setup_2nd_dtb); but it alone takes a dtb.
how=-a
[ ! -f "$kernel/dtb" ] || how=-c
kexec "$how" -l "$kernel/Image" "$@"
"""
_START = """
if [ -d /run/systemd/system ]; then systemctl kexec
else sync; (sleep 1; kexec -e) >/dev/null 2>&1 </dev/null & fi
"""
_CLEAN = """
[ ! -f "$1/pid" ] || kill -9 -- "-$(cat "$1/pid")" 2>/dev/null
while umount -l "$1" 2>/dev/null; do :; done
mkdir -p "$1" && mount -t tmpfs -o mode=755 iotoll "$1"
"""
_FETCH = 'cd "$1" && tar cf - *'
_END = '[ ! -f "$1/pid" ] || kill -9 -- "-$(cat "$1/pid")"; umount -l "$1"'
# A board that rebooted meanwhile has neither file: its boot's id says so.
_LOOK = f"""cat {BOOT_ID} && {{ cat "$1/status" 2>/dev/null || echo; }}
tail -c "+$2" "$1/console" 2>/dev/null || :"""


@dataclass
class _Workload:
    """What is known of a workload that runs: the board's boot, and its console so far."""

    boot_id: str
    console: bytearray
    is_over: bool = False

    @property
    def state(self) -> ConsoleState:
        return read_console(self.console[:CONSOLE_LIMIT].decode(errors="replace"))


class SshRunner:
    """Boots the plans of one run on one board, one after the other; resumable."""

    def __init__(self, run: RunDir, board: SshBoard, progress: Progress) -> None:
        self.run = run
        self.board = board
        self.progress = progress
        self.tell = progress.say

    def boots(self, plans: Sequence[BootPlan], step: Step) -> None:
        """Run the boots to their ends and mark each that ended well as done.

        Raises BrokenError or InfrastructureError as a boot on this machine would.
        """
        total, done = sum(plan.runs for plan in plans), 0
        for plan in plans:
            before = done

            def on_cell(count: int, before: int = before) -> None:
                step.update(before + count, total, f"fio run {before + count} of {total}")

            try:
                boot_until_sure(self.run, plan, partial(self.boot, on_cell=on_cell), self.tell)
            except BrokenError as error:
                if plan.side == "base":
                    why = f"the base kernel fails: {error}"
                    raise InfrastructureError(why, error.log_tail) from error
                raise
            mark_done(self.run, plan)
            done += plan.runs

    def boot(self, plan: BootPlan, on_cell: Callable[[int], None] = lambda _: None) -> None:
        """Boot the board once; leaves console.log, batch folders and boot.json in its folder.

        Raises BrokenError where the board did not come back, or another kernel runs on it than the
        one that was started, or the workload failed; InfrastructureError for anything else.
        """
        shutil.rmtree(plan.folder, ignore_errors=True)
        plan.folder.mkdir(parents=True)
        started = time.monotonic()
        with Connection(self.board) as board:
            workload = _Workload(self._boot_kernel(board, plan), bytearray())
            try:
                self._through(board, workload, lambda: self._begin(board, plan))
                self._watch(board, workload, on_cell)
                _judge(workload.state)
                self._through(board, workload, lambda: self._fetch(board, plan))
            finally:
                text = bytes(workload.console[:CONSOLE_LIMIT]).decode(errors="replace")
                results.write_text(plan.folder / "console.log", text)
                with contextlib.suppress(InfrastructureError):
                    board.run(_END, ROOT, seconds=20)
        record = record_of(plan, ["ssh", self.board.boot], time.monotonic() - started)
        proof.check(plan.name, plan.kernel, plan.board.name, record.facts.before, plan.key)
        results.write(plan.folder / "boot.json", record)

    # To the kernel under test.

    def _boot_kernel(self, board: Connection, plan: BootPlan) -> str:
        """Have the board run the plan's kernel; returns the id of that boot."""
        if self.board.boot == "running":
            return board.reach(self.board.boot_seconds)
        before = self._awake(board)
        if self.board.boot == "kexec":
            self._load(board, plan)
            with contextlib.suppress(LostError):  # the answer, or the connection, may be gone
                board.run(_START, seconds=30)
        else:
            self._command("command", self.board.command, plan)
        board.forget()
        try:
            boot_id = board.reach(self.board.boot_seconds, lambda found: found != before)
        except LostError as error:
            why = f"the board did not come back with the kernel: {error}"
            raise BrokenError("boot", why) from error
        build = results.read(plan.kernel.with_name("build.json"), BuildRecord)
        notes = board.run("cat /sys/kernel/notes")
        if build.build_ids and not any(bytes.fromhex(one) in notes for one in build.build_ids):
            raise BrokenError(
                "boot", "the board came back with another kernel than the one started"
            )
        return boot_id

    def _awake(self, board: Connection) -> str:
        """The id of the boot before, from a board that is reset if it does not answer."""
        try:
            return board.boot_id()
        except LostError:
            if self.board.boot == "command":
                return ""
            if not self.board.reset:
                raise
        self.tell(f"{self.board.host} does not answer: it is reset")
        self._command("reset", self.board.reset)
        return board.reach(self.board.boot_seconds)

    def _load(self, board: Connection, plan: BootPlan) -> None:
        files = {"Image": plan.kernel, "dtb": _dtb(plan)}
        files["ramdisk"] = Path(self.board.ramdisk) if self.board.ramdisk else None
        board.run('rm -rf "$1" && mkdir -p "$1"', KERNEL)
        for name, path in files.items():
            if path is not None:
                board.send(path, f"{KERNEL}/{name}")
                sha256 = board.run('sha256sum <"$1"', f"{KERNEL}/{name}").split()[:1]
                if sha256 != [file_sha256(path).encode()]:
                    raise InfrastructureError(f"{path.name} did not arrive whole on the board")
        board.run(_LOAD, KERNEL, self.board.cmdline, REBOOT)

    def _command(self, name: str, words: Sequence[str], plan: BootPlan | None = None) -> None:
        """Run a command of the desk file on this machine."""
        dtb = _dtb(plan) if plan else None
        more = {"IOTOLL_IMAGE": str(plan.kernel.resolve())} if plan else {}
        more |= {"IOTOLL_DTB": str(dtb.resolve())} if dtb else {}
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.board.boot_seconds,
                env={**os.environ, **more},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfrastructureError(f"the desk file's {name} {words[0]}: {error}") from error
        if done.returncode:
            said = tail((done.stderr or done.stdout).decode(errors="replace"))
            raise InfrastructureError(
                f"the desk file's {name} {words[0]} failed with status {done.returncode}", said
            )

    # The workload.

    def _through(self, board: Connection, workload: _Workload, action: Callable[[], None]) -> None:
        """Do something that a lost connection may interrupt: then again, from its beginning.

        Raises BrokenError where the board does not come back, or not from the same boot.
        """
        for left in reversed(range(TRIES)):
            try:
                action()
                return
            except LostError as error:
                if not left:
                    raise
                self._reconnect(board, workload, error)

    def _begin(self, board: Connection, plan: BootPlan) -> None:
        """Send the DUT's root with the job, in place of an earlier one, and start it."""
        with scratch() as folder:
            root, packed = folder / "root", folder / "root.tar.gz"
            make_tree(plan.board.arch, None, plan.job, root, self.progress)
            shutil.copytree(data_dir("lava-jobs") / "desk", root / "iotoll/desk")
            _pack(root, packed)
            board.run(_CLEAN, ROOT)
            with packed.open("rb") as stream:
                board.run('tar xzf - -C "$1"', ROOT, data=stream, seconds=900)
        board.run('sh "$1/iotoll/desk/start.sh" "$1" "$2"', ROOT, plan.key)

    def _watch(
        self, board: Connection, workload: _Workload, on_cell: Callable[[int], None]
    ) -> None:
        """Wait for the workload's end, through lost connections."""
        began = heard = time.monotonic()
        while not workload.is_over:
            size = len(workload.console)
            try:
                _look(board, workload)
            except LostError as error:
                self._reconnect(board, workload, error)
                continue
            on_cell(workload.state.cells)
            now = time.monotonic()
            heard = now if len(workload.console) != size else heard
            if now - heard > self.board.silence_seconds:
                raise _hang(workload, f"no line for {self.board.silence_seconds:.0f} s")
            if now - began > self.board.total_seconds:
                raise _hang(workload, f"not over after {self.board.total_seconds:.0f} s")
            if len(workload.console) > CONSOLE_LIMIT:
                raise _hang(workload, f"over {CONSOLE_LIMIT >> 20} MiB of lines")
            if not workload.is_over:
                time.sleep(self.board.poll_seconds)

    def _reconnect(self, board: Connection, workload: _Workload, lost: LostError) -> None:
        """Reach the board again; raises BrokenError where it did not go on meanwhile."""
        self.tell(f"{lost}: waiting for it")
        try:
            found = board.reach(self.board.boot_seconds)
        except LostError as error:
            raise _hang(workload, f"the board fell silent, and {error}") from error
        if found != workload.boot_id:
            raise _hang(workload, "the board rebooted")

    def _fetch(self, board: Connection, plan: BootPlan) -> None:
        handover = plan.folder / "handover.tar"
        with handover.open("wb") as out:
            board.run(_FETCH, KEPT, out=out, most=HANDOVER_LIMIT, seconds=900)
        unpack(handover, plan.folder)
        handover.unlink()


def _judge(state: ConsoleState) -> None:
    if state.failed_at:
        raise BrokenError(state.failed_at, state.reason, state.log_tail)
    if not state.done:
        raise BrokenError("workload", "the workload ended without a word", state.log_tail)


def _look(board: Connection, workload: _Workload) -> None:
    """Read what is new on the console, and whether the workload ended."""
    said = board.run(_LOOK, ROOT, str(len(workload.console) + 1))
    boot_id, _, rest = said.partition(b"\n")
    status, _, new = rest.partition(b"\n")
    if boot_id.decode(errors="replace").strip() != workload.boot_id:
        raise _hang(workload, "the board rebooted")
    workload.console += new
    workload.is_over = bool(status.strip())


def _hang(workload: _Workload, why: str) -> BrokenError:
    state = workload.state
    at = f" in step {state.steps[-1]}" if state.steps else ""
    return BrokenError("workload", f"{why}{at}", state.log_tail)


def _dtb(plan: BootPlan) -> Path | None:
    """The device tree that was built, or given, for the board; None where it keeps its own."""
    if not isinstance(plan.board, RealBoard) or not plan.board.dtb:
        return None
    return plan.kernel.with_name(Path(plan.board.dtb).name)


def _pack(root: Path, target: Path) -> None:
    """Pack a tree, with owners of the board's and not of this machine's."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = EPOCH
        return member

    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        archive.add(root, ".", filter=plain)
