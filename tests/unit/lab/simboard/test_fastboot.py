"""Fastboot: the real client flashes the board, and a client that lies does no harm."""

from __future__ import annotations

import random
import shutil
import socket
from pathlib import Path

import pytest

from tests.unit.lab.simboard.conftest import Running

REAL = pytest.mark.skipif(
    shutil.which("fastboot") is None, reason="fastboot is not installed (apt-get install fastboot)"
)


def partition(running: Running, name: str) -> bytes:
    return running.board._flash.read(name)


@REAL
def test_variables(running: Running) -> None:
    running.to_fastboot()
    for name, value in (
        ("product", "HiKey960"),
        ("serialno", running.serial),
        ("max-download-size", str(3 << 20)),
        ("partition-size:system", hex(8 << 20)),
        ("partition-type:system", "ext4"),
        ("partition-type:boot", "raw"),
        ("nonsense", ""),
    ):
        done = running.fastboot("getvar", name)
        assert done.returncode == 0
        assert done.stderr.splitlines()[0].strip() == f"{name}: {value}".strip()


@REAL
def test_devices_lists_boards_in_fastboot_only(running: Running) -> None:
    assert running.serial not in running.fastboot("devices").stdout
    running.to_fastboot()
    assert f"{running.serial}\tfastboot\n" in running.fastboot("devices").stdout


@REAL
def test_small_image_is_flashed_as_it_is(running: Running, tmp_path: Path) -> None:
    running.to_fastboot()
    path = tmp_path / "image"
    path.write_bytes(random.Random(1).randbytes(700_000))
    done = running.fastboot("flash", "boot", str(path))
    assert done.returncode == 0, done.stderr
    assert partition(running, "boot")[:700_000] == path.read_bytes()
    assert "Flashing partition boot" in running.heard()


@REAL
def test_large_image_comes_in_sparse_pieces(running: Running, tmp_path: Path) -> None:
    running.to_fastboot()
    path = tmp_path / "image"
    path.write_bytes(random.Random(1).randbytes(5 << 20) + bytes(2 << 20))
    done = running.fastboot("flash", "system", str(path))
    assert done.returncode == 0, done.stderr
    assert "sparse 'system' 2/" in done.stderr, "more than one download"
    assert partition(running, "system")[: 7 << 20] == path.read_bytes()


@REAL
@pytest.mark.parametrize(
    ("name", "size", "words"),
    [("boot", (1 << 20) + 1, "larger than the partition"), ("vendor", 10, "No such partition")],
)
def test_refusal_is_told_to_the_client(
    running: Running, tmp_path: Path, name: str, size: int, words: str
) -> None:
    running.to_fastboot()
    path = tmp_path / "image"
    path.write_bytes(b"x" * size)
    done = running.fastboot("flash", name, str(path))
    assert done.returncode != 0
    assert words in done.stderr


@REAL
def test_erase_and_reboot(running: Running, tmp_path: Path) -> None:
    running.to_fastboot()
    path = tmp_path / "image"
    path.write_bytes(b"x" * 9000)
    assert running.fastboot("flash", "userdata", str(path)).returncode == 0
    assert running.fastboot("erase", "userdata").returncode == 0
    assert not any(partition(running, "userdata"))
    said = running.heard().count("Android Fastboot mode")
    assert running.fastboot("reboot").returncode == 0
    running.until(lambda: running.heard().count("Android Fastboot mode") == said + 1)


# A client that does not keep to the protocol.


def connect(running: Running) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.ask("state")["fastboot"]), 10)
    connection.sendall(b"FB01")
    assert connection.recv(4, socket.MSG_WAITALL) == b"FB01"
    return connection


def send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(8, "big") + data)


def answer(connection: socket.socket) -> bytes:
    size = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
    return connection.recv(size, socket.MSG_WAITALL)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (b"flash:boot", b"FAILNo data to flash"),
        (b"boot", b"FAILNo image in memory"),
        (b"download:ffffffff", b"FAILFailed to get the number of bytes"),
        (b"download:zz", b"FAILFailed to get the number of bytes"),
        (b"download:0", b"FAILFailed to get the number of bytes"),
        (b"getvar:partition-size:nonsense", b"FAILSomething went wrong"),
        (b"\xff\x00", b"FAILCommand not recognised"),
    ],
)
def test_nonsense_is_refused(running: Running, command: bytes, words: bytes) -> None:
    running.to_fastboot()
    with connect(running) as connection:
        send(connection, command)
        assert answer(connection).startswith(words)
        send(connection, b"getvar:version")
        assert answer(connection) == b"OKAY0.7", "the session goes on"


@pytest.mark.parametrize(
    "data",
    [b"FB99", b"FB01" + b"\xff" * 8, b"FB01" + (10**6).to_bytes(8, "big") + b"x" * 100, b""],
)
def test_broken_client_is_thrown_out_and_the_next_is_served(running: Running, data: bytes) -> None:
    running.to_fastboot()
    with socket.create_connection(
        ("127.0.0.1", running.ask("state")["fastboot"]), 10
    ) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(100):
            pass
    with connect(running) as connection:
        send(connection, b"getvar:product")
        assert answer(connection) == b"OKAYHiKey960"


def test_download_longer_than_announced_is_refused(running: Running) -> None:
    running.to_fastboot()
    with connect(running) as connection:
        send(connection, b"download:00000004")
        assert answer(connection) == b"DATA00000004"
        send(connection, b"12345")
        assert connection.recv(1) == b""


def test_bad_sparse_image_leaves_the_board_in_fastboot(running: Running) -> None:
    running.to_fastboot()
    with connect(running) as connection:
        image = b"\x3a\xff\x26\xed" + b"\xff" * 60
        send(connection, b"download:%08x" % len(image))
        assert answer(connection).startswith(b"DATA")
        send(connection, image)
        assert answer(connection) == b"OKAY"
        send(connection, b"flash:system")
        assert b"bad sparse image" in answer(connection)
    assert running.ask("state")["state"] == "fastboot"
