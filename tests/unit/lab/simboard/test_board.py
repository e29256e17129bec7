"""Power, states and faults of a simulated board, without a system on it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from iotoll_lab.simboard import client, profile

from iotoll.core.errors import UsageError
from tests.unit.lab.simboard.conftest import Running

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
    said = running.heard().encode()
    assert got != said
    assert (len(got) == len(said)) == same_length


def test_fastboot_can_be_lost_while_the_prompt_shows(running: Running) -> None:
    running.ask("fault", fault="fastboot-lost")
    running.ask("power", how="reset")
    running.until(lambda: PROMPT in running.heard())
    assert running.ask("state")["usb"] is False
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        words = running.tool("fastboot", "-s", running.serial, "reboot")
        subprocess.run(words, capture_output=True, timeout=1.5, check=False)
    assert f"< waiting for {running.serial} >".encode() in (caught.value.stderr or b"")
    running.ask("fault", fault="clear")
    assert running.ask("state")["usb"]


def test_serial_number_can_change_at_reset(running: Running) -> None:
    running.to_fastboot()
    assert running.ask("state")["serial"] == running.serial
    running.ask("fault", fault="serial-changes")
    running.to_fastboot()
    first = running.ask("state")["serial"]
    running.to_fastboot()
    assert len({running.serial, first, running.ask("state")["serial"]}) == 3


def test_dead_board_says_nothing(running: Running) -> None:
    running.ask("fault", fault="dead")
    running.ask("power", how="reset")
    time.sleep(0.3)
    assert running.heard() == ""
    assert running.ask("state")["state"] == "rom"


def test_relay_can_stick(running: Running) -> None:
    running.ask("fault", fault="relay-stuck")
    with pytest.raises(client.ClientError, match="relay does not answer"):
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
    with pytest.raises(client.ClientError, match=words) as caught:
        client.ask(running.name, request_)
    assert "\n" not in str(caught.value)


# What a lab calls.


def test_relay_and_serial_line_by_the_labs_commands(running: Running) -> None:
    line = subprocess.Popen(
        running.tool("simboard-uart", running.name), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert line.stdin is not None and line.stdout is not None
    time.sleep(0.3)
    subprocess.run(running.tool("simboard-power", running.name, "reset"), check=True)
    said = b""
    while b"quit." not in said:
        said += line.stdout.read(1)
    line.stdin.write(b" ")
    line.stdin.flush()
    while b"no Android boot image" not in said:
        said += line.stdout.read(1)
    line.stdin.close()
    assert line.wait(10) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simboard-power", "nobody", "on"), "simboard-power: no board nobody runs here"),
        (("simboard-power", "nobody"), "wrong words"),
        (("simboard-uart", "nobody"), "simboard-uart: no board nobody runs here"),
        (("fastboot", "-s"), "fastboot -s: name a serial number"),
    ],
)
def test_errors_of_the_labs_commands_are_one_line(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    client.install(tmp_path)
    command = [sys.executable, str(tmp_path / words[0]), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_second_board_of_one_name_is_refused(running: Running, tmp_path: Path) -> None:
    words = ["simboard", "serve", running.name, "--state", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "iotoll", *words], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 4
    assert "does it run already" in done.stderr
    assert not (tmp_path / running.name / "lu3.img").exists()


def test_profile_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no simulated board '.*': did you mean hikey960\?"):
        profile.load("hikey970")
    path = tmp_path / "mine.toml"
    path.write_text('hardware = "hikey960"\n')
    with pytest.raises(UsageError, match=r"mine.toml .*soc"):
        profile.load(str(path))


def test_served_board_ends_at_a_signal_and_leaves_nothing(tmp_path: Path) -> None:
    name = f"test-{secrets.token_hex(6)}"
    words = ["simboard", "serve", name, "--state", str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-m", "iotoll", *words], env=environment())
    end = time.monotonic() + 30
    while name not in [board["name"] for board in client.boards()]:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    assert client.ask(name, {"do": "state"})["serial"] == name.upper().replace("-", "")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    with pytest.raises(client.ClientError, match="no board"):
        client.ask(name, {"do": "state"})


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "src")}
