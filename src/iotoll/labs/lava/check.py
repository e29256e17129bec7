"""Is a lab fit for a run? Asked before anything long begins: ``iotoll lava check``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.labs.lava.config import Lab, LabBoard
from iotoll.labs.lava.http import AccessError
from iotoll.labs.lava.server import Servers, device_words

RETRIES = 2
"""How often a request is repeated at once: a dead server is told of in seconds."""


@dataclass(frozen=True)
class LabCheck:
    """One thing that was looked at: ``problem`` is empty if it is well, else what helps is in it.

    ``usage`` says that the user's settings are wrong, not the lab.
    """

    what: str
    found: str = ""
    problem: str = ""
    usage: bool = False

    @property
    def line(self) -> str:
        """One line for the terminal."""
        return f"{self.what}: {self.problem or self.found}"


def checks(lab: Lab, servers: Servers, boards: Sequence[str]) -> Iterator[LabCheck]:
    """Look at server, token, file server and the devices of ``boards``, one after the other.

    Ends with the first problem that hides what comes after it. Nothing is changed or submitted.
    """
    first = _asked("server", lambda: f"{servers.lava.address}, LAVA {servers.lava.version()}")
    yield first
    if first.problem:
        return
    token = _token(servers)
    yield token
    yield _asked("file server", lambda: _files(servers))
    if token.problem:
        return
    for name in boards:
        yield from _board(lab.board(name), name, servers)


def demand(lab: Lab, servers: Servers, boards: Sequence[str]) -> None:
    """Raise what the first problem means: UsageError for settings, else InfrastructureError."""
    for one in checks(lab, servers, boards):
        if one.problem:
            kind = UsageError if one.usage else InfrastructureError
            raise kind(f"lab {lab.name}: {one.line}")


def _asked(what: str, ask: Callable[[], str]) -> LabCheck:
    try:
        return LabCheck(what, ask())
    except InfrastructureError as error:
        return LabCheck(what, problem=str(error))
    except AccessError as error:
        return LabCheck(what, problem=str(error), usage=True)


def _token(servers: Servers) -> LabCheck:
    found = _asked("token", servers.lava.user)
    if found.problem:
        return found
    if not found.found:
        return LabCheck("token", problem="the server does not know whose it is", usage=True)
    return LabCheck("token", f"of user {found.found}")


def _files(servers: Servers) -> str:
    servers.files.http.exists("sha256/")
    return servers.files.http.base


def _board(board: LabBoard, name: str, servers: Servers) -> Iterator[LabCheck]:
    what, lava = f"board {name}", servers.lava
    try:
        fleet = lava.fleet(board.device_type, board.tags)
        working = [one.name for one in fleet if one.works]
        if not working:
            yield LabCheck(
                what,
                problem=f"no device {board.asked} takes jobs: {device_words(fleet)}",
            )
            return
        yield LabCheck(what, f"{board.asked}: {device_words(fleet)}")
        if board.same_board:
            named = [n for n in working if lava.devices(board.device_type, [*board.tags, n]) != [n]]
            if named:
                yield LabCheck(
                    what,
                    problem=f"same_board needs a device's own name among its tags, as"
                    f" {', '.join(named)} has not: lava-server manage devices update"
                    f" {named[0]} --tags {' '.join([*board.tags, named[0]])}",
                )
    except (InfrastructureError, AccessError) as error:
        yield LabCheck(what, problem=str(error), usage=isinstance(error, AccessError))
