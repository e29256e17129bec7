"""Power, states and faults of a simulated board, without a system on it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotoll.errors import InfrastructureError, UsageError
from iotoll.simboard import client, command, profile
from tests.unit.simboard.conftest import Running, free_port

PROMPT = "Android Fastboot mode"


def read_until(connection: socket.socket, words: bytes, seconds: float = 10) -> bytes:
    connection.settimeout(seconds)
    data = b""
    while words not in data:
        more = connection.recv(4096)
        assert more, f"the line was closed after {data!r}"
        data += more
    return data


def test_prompt_comes_after_reset_and_not_before(running: Running) -> None:
    with running.uart() as line:
        running.ask("power", how="reset")
        assert running.ask("state")["state"] == "rom"
        assert not running.ask("state")["usb"]
        read_until(line, b"Press RETURN or SPACE key to quit.")
    assert running.ask("state")["state"] == "fastboot"


def test_on_does_nothing_to_a_board_that_is_on(running: Running) -> None:
    running.to_fastboot()
    assert running.ask("power", how="on")["state"] == "fastboot"
    assert running.ask("power", how="off")["state"] == "off"
    assert running.ask("power", how="on")["state"] == "rom"


def test_two_see_the_same_line(running: Running) -> None:
    with running.uart() as one, running.uart() as two:
        running.ask("power", how="on")
        assert read_until(one, b"quit.") == read_until(two, b"quit.")


def test_board_without_a_boot_image_is_stuck_until_reset(running: Running) -> None:
    running.to_fastboot()
    with running.uart() as line:
        line.sendall(b" ")
        read_until(line, b"ERROR: Image at boot partition: no Android boot image")
        line.sendall(b" ")
    assert running.ask("state")["state"] == "stuck"
    running.to_fastboot()


def test_other_keys_do_not_leave_fastboot(running: Running) -> None:
    running.to_fastboot()
    with running.uart() as line:
        line.sendall(b"abc\x1b")
        time.sleep(0.2)
    assert running.ask("state")["state"] == "fastboot"


# Faults.


def test_uart_can_be_cut_and_comes_back(running: Running) -> None:
    with running.uart() as line:
        running.ask("fault", fault="uart-cut", value=0.3)
        line.settimeout(5)
        with contextlib.suppress(ConnectionError):
            assert line.recv(1) == b""
    with pytest.raises(OSError):
        running.uart().close()

    def answers() -> bool:
        with contextlib.suppress(OSError), running.uart():
            return True
        return False

    running.until(answers)


@pytest.mark.parametrize(("fault", "same_length"), [("uart-garble", True), ("uart-drop", False)])
def test_serial_line_can_be_disturbed(running: Running, fault: str, same_length: bool) -> None:
    running.ask("fault", fault=fault, value=0.2)
    with running.uart() as line:
        running.ask("power", how="on")
        running.until(lambda: "quit." in running.heard())
        time.sleep(0.1)
        got = line.recv(4096)
    said = (running.folder / "uart.log").read_bytes()
    assert got != said
    assert (len(got) == len(said)) == same_length


def test_fastboot_can_be_lost_while_the_prompt_shows(running: Running) -> None:
    running.ask("fault", fault="fastboot-lost")
    running.ask("power", how="reset")
    running.until(lambda: PROMPT in running.heard())
    assert client.boards(running.state)[0]["usb"] is False
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        words = [sys.executable, "-m", "iotoll.simboard", "fastboot", "--state", str(running.state)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
        subprocess.run(
            [*words, "-s", "SERIAL1", "reboot"], capture_output=True, timeout=1.5, env=environment
        )
    assert b"< waiting for SERIAL1 >" in (caught.value.stderr or b"")
    running.ask("fault", fault="clear")
    assert running.ask("state")["usb"]


def test_serial_number_can_change_at_reset(running: Running) -> None:
    running.to_fastboot()
    assert running.ask("state")["serial"] == "SERIAL1"
    running.ask("fault", fault="serial-changes")
    running.to_fastboot()
    first = running.ask("state")["serial"]
    running.to_fastboot()
    assert len({"SERIAL1", first, running.ask("state")["serial"]}) == 3


def test_dead_board_says_nothing(running: Running) -> None:
    running.ask("fault", fault="dead")
    running.ask("power", how="reset")
    time.sleep(0.3)
    assert running.heard() == ""
    assert running.ask("state")["state"] == "rom"


def test_relay_can_stick(running: Running) -> None:
    running.ask("fault", fault="relay-stuck")
    with pytest.raises(InfrastructureError, match="relay does not answer"):
        running.ask("power", how="reset")
    running.ask("fault", fault="clear")
    running.to_fastboot()


def test_fault_can_wait_for_a_line(running: Running) -> None:
    state = running.ask("fault", fault="reset", when="Fastboot mode")
    assert state["faults"] == ["reset at 'Fastboot mode'"]
    running.ask("power", how="on")
    running.until(lambda: running.heard().count(PROMPT) == 2)
    time.sleep(0.3)
    assert running.heard().count(PROMPT) == 2, "once only"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"do": "dance"}, "no such command"),
        ({"do": "power", "how": "up"}, "choose from on, off, reset"),
        ({"do": "fault", "fault": "fire"}, "choose from clear"),
        ({"do": "fault", "fault": "uart-garble", "value": 2}, "fraction"),
        ({"do": "fault", "fault": "uart-cut", "value": -1}, "negative"),
        ({}, "do"),
    ],
)
def test_wrong_requests_are_one_line(
    running: Running, request_: dict[str, object], words: str
) -> None:
    with pytest.raises(InfrastructureError, match=words) as caught:
        client.ask(running.folder, request_)
    assert "\n" not in str(caught.value)


# The command.


def test_no_such_board() -> None:
    with pytest.raises(InfrastructureError, match="iotoll simboard serve nobody"):
        command.main(["power", "--state", "/nonexistent", "nobody", "on"])


def test_profile_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist; there are: hikey960"):
        profile.load("hikey970")
    path = tmp_path / "mine.toml"
    path.write_text('hardware = "hikey960"\n')
    with pytest.raises(UsageError, match=r"mine.toml .*soc"):
        profile.load(str(path))


def test_served_board_ends_at_a_signal_and_leaves_nothing(tmp_path: Path) -> None:
    words = ["serve", "--state", str(tmp_path), "--port", str(free_port()), "two"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    process = subprocess.Popen([sys.executable, "-m", "iotoll.simboard", *words], env=environment)
    path = tmp_path / "two/board.json"
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    assert json.loads(path.read_text())["pid"] == process.pid
    assert client.ask(tmp_path / "two", {"do": "state"})["serial"] == "TWO"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not path.exists()
