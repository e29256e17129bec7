"""Symbols of kernel images: tables that agree are read, others are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iotoll.core.errors import UsageError
from iotoll.explain.record import probes
from iotoll.kernels.symbols import NOWHERE, USER, read_functions, read_symbols
from tests.unit.explain.kernels import (
    BASE,
    LAYOUTS,
    NOP,
    RET,
    X86,
    bzimage,
    kallsyms_image,
    symbols,
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_and_addresses_are_those_of_the_image(tmp_path: Path, layout: str) -> None:
    names = {f"tfunction_{i}": 64 * i for i in range(1200)} | {"Dsome_data": 64 * 1200}
    found = read_symbols(kallsyms_image(tmp_path / "Image", names, layout))
    assert found.names == tuple(f"function_{i}" for i in range(1200)), "data is no function"
    assert found.span("function_7") == (BASE + 4096 + 7 * 64, BASE + 4096 + 8 * 64)
    assert found.span("absent") is None


def test_a_name_of_more_than_127_characters(tmp_path: Path) -> None:
    long = "t" + "a" * 200
    found = read_symbols(kallsyms_image(tmp_path / "Image", {"Tfirst": 0, long: 8}))
    assert found.names == ("first", "a" * 200)


def test_an_image_without_a_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "Image"
    path.write_bytes(bytes(56) + b"ARM\x64" + bytes(4096))
    with pytest.raises(UsageError, match="no symbol table"):
        read_symbols(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_whose_markers_do_not_agree_is_refused(tmp_path: Path, layout: str) -> None:
    names = {f"tf{i}": 4 * i for i in range(1200)}
    path = kallsyms_image(tmp_path / "Image", names, layout)
    data = bytearray(path.read_bytes())
    data[data.index(b"\4tf10") + 5] ^= 0x40  # the length of a name
    path.write_bytes(bytes(data))
    with pytest.raises(UsageError, match="no symbol table"):
        read_symbols(path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bzImage"
    path.write_bytes(bytes(1000))
    with pytest.raises(UsageError, match="arm64 Image"):
        read_symbols(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_symbols(tmp_path / "absent")


def test_addresses_outside_the_image() -> None:
    found = symbols({"one": [NOP, RET], "two": [RET]}, gap=1)
    places = np.array([0x4000, BASE, BASE + 4, BASE + 12, BASE + 16], np.uint64)
    names = [found.name(number) for number in found.index(places).tolist()]
    assert names == [USER, NOWHERE, "one", "two", NOWHERE]


def test_probes_are_the_clocks_return_and_the_switch() -> None:
    found = symbols({"trace_clock_local": [NOP, RET], "cpu_switch_to": [NOP, RET]})
    switch = f"{BASE + 8:#x}"
    assert probes(found) == f"{BASE + 4:#x}:0+{switch}:1+{switch}:0"
    with pytest.raises(UsageError, match="cannot be explained"):
        probes(symbols({"trace_clock_local": [RET, RET], "cpu_switch_to": [RET]}))


@pytest.mark.parametrize("count", [1200, 1201])
def test_functions_of_an_x86_64_image(tmp_path: Path, count: int) -> None:
    names = {"aper_cpu": 0, "anext": 4096} | {f"Tfunction_{i}": 64 * i for i in range(count)}
    path = bzimage(tmp_path / "Image", names | {"Ddata": 64 * count})
    found = read_functions(path)
    assert found.names == tuple(f"function_{i}" for i in range(count))
    assert found.base == X86 and found.span("function_7") == (X86 + 7 * 64, X86 + 8 * 64)
    with pytest.raises(UsageError, match="only those are explained"):
        read_symbols(path)


def test_an_x86_64_image_of_another_packer_is_refused(tmp_path: Path) -> None:
    names = {f"Tf{i}": 64 * i for i in range(1200)}
    for pack, why in ((lambda data: b"(\xb5/\xfd" + data, "GZIP"), (lambda d: b"\x1f\x8b", "read")):
        with pytest.raises(UsageError, match=why):
            read_functions(bzimage(tmp_path / "Image", names, pack))


def test_an_arm64_image_has_the_same_functions_by_either_way(tmp_path: Path) -> None:
    path = kallsyms_image(tmp_path / "Image", {"Tone": 0, "Ttwo": 64})
    assert read_functions(path) is read_symbols(path)
