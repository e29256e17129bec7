"""Records in serial logs: whole ones come out, damaged ones are named, none is ever guessed."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotoll.cli import main
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.measure import serial
from iotoll.measure.serial import Received, receive

CHUNK = 120


def line(text: str) -> bytes:
    """A line as docs/dut.md describes it; written here without the board's code."""
    body = f"#iotoll1 {text}".encode()
    return body + f" {zlib.crc32(body):08x}\n".encode()


def message(text: str, cell: str = "ufs-4k", **changed: object) -> list[bytes]:
    """Header, chunks and trailer of a document; ``changed`` replaces words of the header."""
    packed = zlib.compress(text.encode())
    chunks = [packed[i : i + CHUNK] for i in range(0, len(packed), CHUNK)]
    digest = hashlib.sha256(text.encode()).hexdigest()
    words: dict[str, object] = {
        "id": digest[:8],
        "cell": cell,
        "packing": "zlib",
        "size": len(text.encode()),
        "packed": len(packed),
        "chunks": len(chunks),
        "sha256": digest,
    }
    about = " ".join(str(w) for w in {**words, **changed}.values())
    data = [
        line(f"D {digest[:8]} {n}/{len(chunks)} {base64.b64encode(c).decode()}")
        for n, c in enumerate(chunks, 1)
    ]
    return [line(f"H {about}"), *data, line(f"E {about}")]


def document(seed: int = 0, size: int = 600) -> str:
    """JSON text that does not pack well, so that it has several chunks."""
    rng = random.Random(seed)
    return json.dumps([rng.randrange(1 << 30) for _ in range(size)])


TEXT = document()
LINES = message(TEXT)
NUMBER = hashlib.sha256(TEXT.encode()).hexdigest()[:8]


def one(log: bytes) -> Received:
    (found,) = receive(log)
    assert found.record == NUMBER
    return found


def test_a_whole_record() -> None:
    assert len(LINES) > 10
    assert one(b"".join(LINES)) == Received(NUMBER, "ufs-4k", TEXT)
    assert one(b"".join(LINES)).request is None


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\r\r\n", b"\n\r", b" \n", b"\x1b[0m\r\n"])
def test_line_ends_may_change(end: bytes) -> None:
    assert one(b"".join(LINES).replace(b"\n", end)).text == TEXT


def test_prefixes_and_other_lines_do_not_matter() -> None:
    log = b"".join(b"2026-01-01T00:00:00 target: " + part + b"[    1.5] x\nfoo\n" for part in LINES)
    assert one(b"\xff\x00" * 50 + b"login: \n" + log).text == TEXT


def test_order_and_repetitions_do_not_matter() -> None:
    mixed = LINES * 2
    random.Random(1).shuffle(mixed)
    assert one(b"".join(mixed)).text == TEXT


def test_header_or_trailer_alone_will_do() -> None:
    assert one(b"".join(LINES[:-1])).text == TEXT
    assert one(b"".join(LINES[1:])).text == TEXT


def test_missing_chunks_are_named() -> None:
    gone = [part for i, part in enumerate(LINES) if i not in (3, 7, 8, 9)]
    found = one(b"".join(gone))
    assert (found.text, found.missing) == (None, (range(3, 4), range(7, 10)))
    assert found.request == f"--record {NUMBER} --chunks 3,7-9"
    assert found.problem == f"4 of {len(LINES) - 2} chunks are missing: 3,7-9"
    again = b"".join([LINES[0], LINES[3], *LINES[7:10], LINES[-1]])
    assert one(b"".join(gone) + b"later:\n" + again).text == TEXT


def test_without_header_and_trailer_one_chunk_is_asked_for() -> None:
    found = one(b"".join(LINES[1:-1]))
    assert (found.cell, found.text, found.missing) == (None, None, ())
    assert found.request == f"--record {NUMBER} --chunks 1"


@pytest.mark.parametrize("place", [1, 20, 60, 100, 190])
def test_kernel_messages_inside_a_line(place: int) -> None:
    burst = b"[   12.345678] nvme nvme0: hello\r\n<6>[   12.345679] sd 0:0:0:0: more\r\n"
    cut = [part[:place] + burst + part[place:] if i % 3 == 1 else part
           for i, part in enumerate(LINES)]  # fmt: skip
    if place > 9:  # before that the magic itself is cut
        assert one(b"".join(cut)).text == TEXT
    else:
        assert one(b"".join(cut)).missing


def test_a_line_that_is_cut_twice() -> None:
    burst = b"[    1.000000] a\n[    1.000001] b\n"
    cut = LINES[4][:50] + burst + LINES[4][50:90] + burst + LINES[4][90:]
    assert one(b"".join([*LINES[:4], cut, *LINES[5:]])).text == TEXT


def test_wrapped_lines() -> None:
    wrapped = [part[:80] + b"\r\n" + part[80:160] + b"\r\n" + part[160:] for part in LINES]
    assert one(b"".join(wrapped)).text == TEXT


def test_two_records_do_not_mix() -> None:
    other = document(1)
    log = b"".join(a + b for a, b in zip(LINES, message(other, "nvme-4k"), strict=False))
    log += b"".join(LINES[-2:] + message(other, "nvme-4k")[-3:])
    assert [(r.cell, r.text) for r in receive(log)] == [("ufs-4k", TEXT), ("nvme-4k", other)]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_is_never_believed(data: st.DataObject) -> None:
    log = bytearray(b"".join(LINES))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(log) - 1))
        if data.draw(st.booleans()):
            log[at] = data.draw(st.integers(0, 255))
        else:
            del log[at : at + data.draw(st.integers(1, 300))]
    for found in receive(bytes(log)):
        assert found.text in (None, TEXT)
        assert (found.text is None) == (found.problem is not None) == (found.request is not None)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=2000), st.integers(0, 2000))
def test_any_bytes_around_and_inside(noise: bytes, place: int) -> None:
    log = b"".join(LINES)
    for found in receive(log[:place] + noise + log[place:] + noise):
        assert found.text in (None, TEXT)


def changed(**words: object) -> bytes:
    return b"".join(message(TEXT, **words))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        (changed(packing="zstd"), "packed as zstd"),
        (changed(size=10**9 - 1), "too large"),
        (changed(packed=10**9 - 1), "too large"),
        (changed(sha256=NUMBER + 56 * "0"), "SHA-256"),
        (changed(sha256=64 * "0"), "contradict each other"),
        (changed(size=10), "SHA-256"),
        (changed(packed=10), "SHA-256"),
        (changed(chunks=3), "is said to have"),
        (b"".join(LINES) + changed(cell="other"), "two headers contradict"),
        (b"".join(LINES) + line(f"D {NUMBER} 2/{len(LINES) - 2} AAAA"), "two contents"),
        (line(f"D {NUMBER} 9/3 AAAA"), "a chunk 9 of 3"),
        (line(f"D {NUMBER} 0/3 AAAA"), "a chunk 0 of 3"),
        (line(f"D {NUMBER} 1/3 AAAAA"), "not base64"),
        (line(f"H {NUMBER} x zlib 1 1 999999 {NUMBER}{56 * '0'}"), "are missing: 1-999999"),
    ],
)
def test_contradictions_are_named(log: bytes, problem: str) -> None:
    found = one(log)
    assert found.text is None
    assert found.problem is not None
    assert problem in found.problem
    assert found.request is not None
    assert len(found.request) < 100


def test_a_bomb_is_not_unpacked() -> None:
    text = "0" * 50_000_000
    found = receive(b"".join(message(text, size=1000)))
    assert [f.text for f in found] == [None]


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial, "RECORD_LIMIT", 2)
    with pytest.raises(InfrastructureError, match="over 2 records"):
        receive(b"".join(line(f"D {n:08x} 1/1 AAAA") for n in range(3)))
    monkeypatch.setattr(serial, "LOG_LIMIT", 10)
    with pytest.raises(InfrastructureError, match="11 bytes"):
        receive(b"x" * 11)


def test_a_log_full_of_half_lines_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    repair = serial._repair

    def counting(start: bytes, following: list[bytes]) -> object:
        nonlocal tried
        tried += 1
        return repair(start, following)

    monkeypatch.setattr(serial, "_repair", counting)
    assert receive(b"#iotoll1 D 00000000 1/1 " * 30_000) == []
    assert tried == serial.REPAIR_LIMIT


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "console.log"
    for lines, code in ((LINES, 0), (LINES[:5], 4)):
        log.write_bytes(b"".join(lines))
        monkeypatch.setattr("sys.argv", ["iotoll", "receive", str(log), "--out", str(tmp_path)])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == code
        assert f"ufs-4k {NUMBER}: " in capsys.readouterr().out
    assert (tmp_path / f"ufs-4k-{NUMBER}.json").read_text() == TEXT + "\n"


def test_delivery(tmp_path: Path) -> None:
    said: list[str] = []
    log = tmp_path / "console.log"
    log.write_bytes(b"".join(LINES))
    assert serial.deliver(log, tmp_path / "out", said.append)
    (path,) = (tmp_path / "out").iterdir()
    assert json.loads(path.read_text()) == json.loads(TEXT)
    log.write_bytes(b"".join(LINES[:5]))
    assert not serial.deliver(log, tmp_path / "out", said.append)
    assert said[-1].endswith(
        f"iotoll-dut send --in FILE --record {NUMBER} --chunks 5-{len(LINES) - 2}"
    )
    log.write_bytes(b"nothing")
    assert not serial.deliver(log, tmp_path / "out", said.append)
    with pytest.raises(UsageError, match=r"absent\.log"):
        serial.deliver(tmp_path / "absent.log", tmp_path, said.append)
