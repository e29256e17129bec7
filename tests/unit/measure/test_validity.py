"""Each rule by which a boot's times may not be used, and that none sees a measured value."""

from __future__ import annotations

import inspect

import pytest

from iotoll.measure import validity
from iotoll.measure.validity import broken_rule, load_rules, mismatch
from iotoll.records.facts import read_facts
from iotoll.records.models.run import FactRecord

GOOD = {
    "governor": "performance",
    "cpu_limit_khz": "1844000,2362000",
    "cooling": "0",
    "temperature_mc": "48000",
    "tainted": "0",
    "config": "c" * 64,
    "ufs.model": "THGBF7G8K4LBATRC",
    "ufs.rev": "0100",
    "ufs.ioerr_cnt": "0x3",
    "ufs.iotmo_cnt": "0x0",
    "ufs.eol_info": "0x01",
    "ufs.life_time_estimation_a": "0x02",
    "ufs.life_time_estimation_b": "0x01",
    "ufs.fill_percent": "41",
}


def verdict(before: dict[str, str], after: dict[str, str]) -> str | None:
    facts = FactRecord(before={**GOOD, **before}, after={**GOOD, **after})
    return broken_rule(facts, "c" * 64, load_rules())


def test_a_good_boot_breaks_none() -> None:
    assert verdict({}, {}) is None


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"cooling": "2"}, "thermal throttling: cooling is 2, at most 0"),
        ({}, {"cpu_limit_khz": "1402000"}, "frequency limit changed: cpu_limit_khz was 1844000,"),
        ({"governor": "schedutil"}, {}, "wrong governor: governor is schedutil, not performance"),
        ({"governor": "performance,powersave"}, {}, "wrong governor: governor is performance,p"),
        ({}, {"tainted": "512"}, "tainted kernel: tainted is 512, at most 0"),
        ({"config": "d" * 64}, {}, "configuration is not the build's: config is dddddddddddd, not"),
        ({}, {"ufs.ioerr_cnt": "0x5"}, "I/O errors: ufs.ioerr_cnt grew by 2"),
        ({}, {"ufs.iotmo_cnt": "0x1"}, "I/O time-outs and retries: ufs.iotmo_cnt grew by 1"),
        ({"ufs.eol_info": "0x02"}, {}, "device near its end of life: ufs.eol_info is 0x02"),
        ({"ufs.life_time_estimation_a": "0x0b"}, {}, "device worn (health A)"),
        ({"ufs.life_time_estimation_b": "0x0b"}, {}, "device worn (health B)"),
        ({"ufs.fill_percent": "98"}, {}, "file system too full: ufs.fill_percent is 98"),
        ({"ufs.fill_percent": "?"}, {}, "ufs.fill_percent is ?, which is not a number"),
    ],
)
def test_each_rule_is_named(before: dict[str, str], after: dict[str, str], words: str) -> None:
    found = verdict(before, after)
    assert words in str(found)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ufs.model", "KLUDG8V1EE", "another device model: ufs.model THGBF7G8K4LBATRC and KLU"),
        ("ufs.rev", "0200", "another firmware: ufs.rev 0100 and 0200"),
        ("nvme.firmware_rev", "2B", "another NVMe firmware: nvme.firmware_rev 1B and 2B"),
        ("serial", "0123456789AB", "another board: serial 9876543210 and 0123456789AB"),
        ("emmc.fwrev", "0x7", "another eMMC firmware: emmc.fwrev 0x6 and 0x7"),
    ],
)
def test_boots_of_another_device_are_no_pair(name: str, value: str, words: str) -> None:
    known = {**GOOD, "serial": "9876543210", "nvme.firmware_rev": "1B", "emmc.fwrev": "0x6"}
    base, candidate = FactRecord(before=known), FactRecord(before={**known, name: value})
    assert mismatch(base, candidate, load_rules()).startswith(words)
    assert mismatch(base, base, load_rules()) == ""


def test_every_rule_is_tested_above() -> None:
    source = inspect.getsource(inspect.getmodule(verdict))  # type: ignore[arg-type]
    assert [rule.name for rule in load_rules() if rule.name not in source] == []


def test_a_board_without_a_fact_breaks_no_rule_about_it() -> None:
    assert broken_rule(FactRecord(before={"tainted": "0"}), "", load_rules()) is None


def test_no_rule_can_see_a_measured_value() -> None:
    """Neither the module nor its functions know of records, sections or durations."""
    source = inspect.getsource(validity)
    assert not any(word in source for word in ("CellRecord", "SideResult", "Stats", "elapsed"))


def test_what_a_board_says_is_bounded() -> None:
    text = "a 1\n\nb  two words \nnothing\n" + "".join(f"x{n} {'y' * 999}\n" for n in range(999))
    facts = read_facts(text)
    assert facts["a"] == "1" and facts["b"] == "two words" and "nothing" not in facts
    assert len(facts) < 200 and len(facts["x3"]) == 200
