"""The command line: finds the command that is named, and imports that one alone.

Names, groups, short helps and examples stand here as data, so that ``iotoll --help`` and the
shell's completion import no command; tests compare them with the commands themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import NamedTuple, cast

import click
from click.shell_completion import CompletionItem, get_completion_class

from iotoll import __version__
from iotoll.core.cli_support import guarded
from iotoll.core.errors import UsageError

GROUPS = ("Judge", "Look", "Investigate", "Lab", "CI")
"""The headings of ``iotoll --help``, in their order."""


class Entry(NamedTuple):
    """One command: its heading, where it is (``module:name``), and what the help shows of it."""

    group: str
    target: str
    help: str
    examples: tuple[str, ...]


COMMANDS = {
    "gate": Entry(
        "Judge",
        "iotoll.gate.command:gate_command",
        "Compare a candidate kernel with its base: patch in, verdict out.",
        (
            "iotoll gate --candidate my.patch",
            "iotoll gate --tree ~/linux --base v6.12.50 --candidate my-branch",
            "iotoll gate --base-image A --candidate-image B --cells 'ufs-4k-*'",
        ),
    ),
    "measure": Entry(
        "Judge",
        "iotoll.gate.command:measure_command",
        "Measure one kernel: its values per cell, and no verdict.",
        ("iotoll measure --tree ~/linux --base v6.12.50",),
    ),
    "study": Entry(
        "Judge",
        "iotoll.studies.command:study_command",
        "Measure what a published study measured, and set its numbers beside ours.",
        ("iotoll study ufs-nvme", "iotoll study ufs-nvme --out runs/ufs-nvme"),
    ),
    "reproduce": Entry(
        "Judge",
        "iotoll.gate.reproduce:reproduce_command",
        "Derive the verdict of RESULT (a run directory or a file in it) again.",
        ("iotoll reproduce runs/NAME", "iotoll reproduce runs/NAME --again"),
    ),
    "nightly": Entry(
        "Judge",
        "iotoll.nightly.command:nightly_command",
        "Measure the tips that CONFIG names, add them to the history, and write the trend.",
        ("iotoll nightly nightly.toml",),
    ),
    "check": Entry(
        "Judge",
        "iotoll.lists.check:check_command",
        "Check one PATCH (- for standard input) for b4: a line for each finding, none for a pass.",
        ("iotoll check 0001-my.patch", "iotoll check --b4-json -"),
    ),
    "watch": Entry(
        "Judge",
        "iotoll.lists.command:watch_command",
        "Gate the new series of a mailing list's archive, as CONFIG says, and write replies.",
        ("iotoll watch watch.toml",),
    ),
    "report": Entry(
        "Look",
        "iotoll.report:report_command",
        "Write a run directory's report again and print it.",
        ("iotoll report runs/NAME", "iotoll report runs/NAME --quiet"),
    ),
    "judge": Entry(
        "Look",
        "iotoll.gate.judge_command:judge_command",
        "Judge the stored counts of RUN (a run directory or file in it) by the rule, and show why.",
        (
            "iotoll judge runs/NAME",
            "iotoll judge runs/NAME --explain ufs-4k-randread-t1-direct submission",
        ),
    ),
    "compare": Entry(
        "Look",
        "iotoll.reports.compare:compare_command",
        "Show the sections of two finished runs side by side, per cell.",
        ("iotoll compare runs/A runs/B", "iotoll compare runs/A runs/B --json"),
    ),
    "record": Entry(
        "Look",
        "iotoll.reports.trace.record:record_command",
        "Print the trace-cmd command that records all that analyze needs, or run it.",
        ("iotoll record --device sda --for 10", "iotoll record --device nvme0n1 --run"),
    ),
    "analyze": Entry(
        "Look",
        "iotoll.reports.trace.command:analyze_command",
        "Cut the I/Os of traces into latency sections, and show or export them.",
        (
            "iotoll analyze trace.dat --comm fio",
            "iotoll analyze trace.dat --perfetto io.pftrace --slowest 5",
            "iotoll analyze before.dat after.dat --compare",
        ),
    ),
    "publish": Entry(
        "Look",
        "iotoll.reports.publish.command:publish_command",
        "Write the published formats of a RUN directory (docs/reports.md).",
        (
            "iotoll publish runs/NAME --out public",
            "iotoll publish runs/NAME --out public --only junit",
        ),
    ),
    "history": Entry(
        "Look",
        "iotoll.nightly.history.command:history_group",
        "The history of all runs: add runs to it, and query it.",
        (
            "iotoll history add runs/NAME --branch mainline",
            "iotoll history query 'SELECT branch, night, status FROM runs'",
        ),
    ),
    "trend": Entry(
        "Look",
        "iotoll.nightly.trend.command:trend_command",
        "Show what grew over the nights of a history, since when, and how much budget is left.",
        ("iotoll trend --branch mainline", "iotoll trend --out public --budget instructions=40"),
    ),
    "change": Entry(
        "Look",
        "iotoll.nightly.trend.command:change_command",
        "Set the state of a CHANGE in a history, or show its log.",
        (
            "iotoll change 0123456789ab",
            "iotoll change 0123456789ab --state accepted --words 'needed for zoned devices'",
        ),
    ),
    "plan": Entry(
        "Look",
        "iotoll.labs.plan:plan_command",
        "Estimate how many boards and runners a load needs, by simulating LAVA's scheduler.",
        ("iotoll plan --requests 200 --families 3", "iotoll plan --requests 1000 --boards 200"),
    ),
    "list": Entry(
        "Look",
        "iotoll.listing:list_command",
        "List the available boards, cells, matrices, policies or studies.",
        ("iotoll list boards", "iotoll list cells --matrix small --json"),
    ),
    "explain": Entry(
        "Investigate",
        "iotoll.explain.command:explain_command",
        "Show which functions account for the differences of RUN (a run directory or file in it).",
        ("iotoll explain runs/NAME", "iotoll explain runs/NAME --json"),
    ),
    "bisect": Entry(
        "Investigate",
        "iotoll.bisect.command:bisect_command",
        "Name the commits between A and B that changed the instructions of an I/O.",
        (
            "iotoll bisect --tree ~/linux --good v6.12.50 --bad v6.12.51",
            "iotoll bisect --tree ~/linux --good A --bad B --cell ufs-4k-randread-t1-direct",
        ),
    ),
    "bisect-step": Entry(
        "Investigate",
        "iotoll.bisect.command:step_command",
        "Judge one revision for `git bisect run`: exit code 0 good, 1 bad, 125 cannot be tested.",
        ("iotoll bisect-step --good A --cell ufs-4k-randread-t1-direct --section submission",),
    ),
    "ledger": Entry(
        "Investigate",
        "iotoll.bisect.ledger_command:ledger_command",
        "Account for every instruction between A and B, commit by commit.",
        ("iotoll ledger v6.12.50..v6.12.51 --tree ~/linux --max-builds 20",),
    ),
    "step": Entry(
        "Investigate",
        "iotoll.gate.command:step_command",
        "Run one step of a run directory alone (gate --until source makes one).",
        ("iotoll step judge runs/NAME",),
    ),
    "noise": Entry(
        "Investigate",
        "iotoll.verdict.time.command:noise_command",
        "Add RUNS of one kernel against itself (gate --aa) to the noise history of their board.",
        ("iotoll noise runs/AA-1 runs/AA-2",),
    ),
    "simulate": Entry(
        "Investigate",
        "iotoll.verdict.time.command:simulate_command",
        "Estimate how often the gate would be wrong on a board, and how many boots it needs.",
        ("iotoll simulate --noise 2 --growth 3 --boot-seconds 90",),
    ),
    "receive": Entry(
        "Lab",
        "iotoll.measure.serial:receive_command",
        "Extract the records of iotoll-dut from the LOG of a serial console.",
        ("iotoll receive console.log --out records",),
    ),
    "image": Entry(
        "Lab",
        "iotoll.boards.command:image_command",
        "Make and check the images of a real BOARD (lava-jobs/hardware/, or a file).",
        ("iotoll image hikey960 --tree ~/linux --base v6.12.50",),
    ),
    "lava": Entry(
        "Lab",
        "iotoll.gate.lava_command:lava_command",
        "Run boots as LAVA jobs, step by step; `iotoll gate --runner lava` does all of it.",
        ("iotoll lava render runs/NAME", "iotoll lava submit runs/NAME"),
    ),
    "doctor": Entry(
        "Lab",
        "iotoll.doctor:doctor_command",
        "Check what is present, what is missing, and how to get it.",
        ("iotoll doctor", "iotoll doctor --board virt-x86_64"),
    ),
    "ci": Entry(
        "CI",
        "iotoll.ci.command:ci_command",
        "The jobs of a GitLab pipeline (docs/gitlab.md); each also runs at a desk.",
        ("iotoll ci select --clone ~/linux --base v6.12.50 --candidate my-branch",),
    ),
    "pull-lab": Entry(
        "CI",
        "iotoll.ci.pull:pull_command",
        "Run the jobs that KernelCI has for this lab, as CONFIG says, and post their results.",
        ("iotoll pull-lab pull-lab.toml",),
    ),
    "completion": Entry(
        "CI",
        "iotoll.cli:completion_command",
        "Print the code that makes a shell complete iotoll's commands and options.",
        ('eval "$(iotoll completion bash)"',),
    ),
}
"""Every command of iotoll alone, by its name."""

READERS = frozenset(
    [name for name, entry in COMMANDS.items() if entry.group == "Look"]
    + ["reproduce", "noise", "receive"]
)
"""Commands that boot nothing: a damaged file of a run is one that their user named."""

SUBCOMMANDS = {
    "lava render": ("iotoll lava render runs/NAME --out rendered",),
    "lava submit": ("iotoll lava submit runs/NAME",),
    "lava wait": ("iotoll lava wait runs/NAME",),
    "lava collect": ("iotoll lava collect runs/NAME",),
    "lava cancel": ("iotoll lava cancel runs/NAME",),
    "lava control": ("iotoll lava control runs/NAME --device hi960-hikey-01",),
    "lava health-check": ("iotoll lava health-check runs/NAME",),
    "lava device": ("iotoll lava device virt-arm64 virt-01",),
    "lava check": ("iotoll lava check local --board hikey960",),
    "lava forget": ("iotoll lava forget runs/NAME 17",),
    "history add": ("iotoll history add runs/NAME --branch mainline",),
    "history query": (
        "iotoll history query 'SELECT branch, night, status FROM runs'",
        "iotoll history query --json 'SELECT count(*) FROM measurements'",
    ),
    "history export": ("iotoll history export --table runs --out runs.csv",),
    "history compact": ("iotoll history compact",),
    "history migrate": ("iotoll history migrate --history old",),
    "ci select": ("iotoll ci select --clone ~/linux --base v6.12.50 --candidate my-branch",),
    "ci build": ("iotoll ci build virt-arm64 candidate --clone ~/linux",),
    "ci gate": ("iotoll ci gate virt-arm64",),
    "ci lava": ("iotoll ci lava hikey960",),
    "ci cancel": ("iotoll ci cancel hikey960",),
    "ci accept": ("iotoll ci accept --approval iotoll-approval.json",),
    "ci collect": ("iotoll ci collect",),
    "ci judge": ("iotoll ci judge",),
    "ci report": ("iotoll ci report",),
    "ci post": ("iotoll ci post",),
    "ci bisect": ("iotoll ci bisect --clone ~/linux --good v6.12.50 --bad v6.12.51",),
    "ci bisect-post": ("iotoll ci bisect-post --no-issue",),
}
"""The examples of each command of a group, by both names."""

LAB_COMMANDS = frozenset({"experiment", "lab", "simboard"})
"""Commands of the distribution iotoll-lab, which need not be installed."""
_GROUP = "iotoll.commands"
"""Entry points: modules with a `COMMANDS` and a `SUBCOMMANDS` of their distribution."""


@cache
def _others() -> tuple[ModuleType, ...]:
    return tuple(point.load() for point in entry_points(group=_GROUP))


def all_commands() -> dict[str, Entry]:
    """Every command by its name, also those that other distributions add."""
    found = dict(COMMANDS)
    for module in _others():
        found |= module.COMMANDS
    return found


def all_examples() -> dict[str, tuple[str, ...]]:
    """As `SUBCOMMANDS`, with those of other distributions."""
    found = dict(SUBCOMMANDS)
    for module in _others():
        found |= module.SUBCOMMANDS
    return found


class Lazy(click.Group):
    """Imports a command when it is run, or when its own help is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help."""
        return list(all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name with its examples; None when there is none."""
        # Only what iotoll does not have itself is looked for elsewhere: that takes some time.
        entry = COMMANDS.get(cmd_name) or all_commands().get(cmd_name)
        if entry is None:
            if cmd_name in LAB_COMMANDS:
                raise UsageError(
                    f"{cmd_name} is a command of iotoll-lab, which is not installed: `make lab` in"
                    " iotoll's repository installs it"
                )
            return None
        module, name = entry.target.split(":")
        command = cast(click.Command, getattr(importlib.import_module(module), name))
        command.epilog = _epilog(entry.examples)
        # click keeps a command's help option as it was first asked for, maybe without this one.
        command.context_settings.setdefault("help_option_names", HELP)
        if isinstance(command, click.Group):
            for name, member in command.commands.items():
                member.context_settings.setdefault("help_option_names", HELP)
                member.epilog = _epilog(all_examples().get(f"{cmd_name} {name}", ()))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section of the help per group."""
        for group in GROUPS:
            rows = [(name, e.help) for name, e in all_commands().items() if e.group == group]
            with formatter.section(group):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin with ``incomplete``."""
        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in all_commands().items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


HELP = ["-h", "--help"]
"""Options that show a command's help."""


def _epilog(examples: Iterable[str]) -> str | None:
    lines = [f"  {line}" for line in examples]
    return "\n".join(["\b", "Examples:", *lines]) if lines else None


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": HELP, "max_content_width": 100},
)
@click.version_option(__version__)
def cli() -> None:
    """Gate Linux storage patches on software overhead per I/O.

    Exit codes: 0 pass, 1 regression, 2 usage error, 3 inconclusive, 4 infrastructure, 5 broken.
    """


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the code that makes a shell complete iotoll's commands and options.

    Put the line of the examples into ~/.bashrc, or the same with zsh into ~/.zshrc. For fish:
    iotoll completion fish > ~/.config/fish/completions/iotoll.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click.Choice lets no other through
    click.echo(kind(cli, {}, "iotoll", "_IOTOLL_COMPLETE").source())


def main() -> None:
    """Entry point of the ``iotoll`` command."""
    guarded(cli, READERS)
