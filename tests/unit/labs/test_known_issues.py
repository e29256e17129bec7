"""The packs of known issues: each pattern finds the line it was written for, and no healthy one."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from iotoll.core.paths import data_dir

PACKS = ("hikey960", "uboot")
ISSUES: list[dict[str, Any]] = [
    issue
    for name in PACKS
    for issue in tomllib.loads((data_dir("lava-jobs") / f"known-issues/{name}.toml").read_text())[
        "issue"
    ]
]
SEEN = {
    "hikey960-fastboot-not-found": "< waiting for 0123456789ABCDEF >",
    "hikey960-fastboot-lost": "FAILED (status read failed (No such device))",
    "hikey960-no-such-partition": "FAILED (remote: No such partition.)",
    "hikey960-image-too-large": "FAILED (remote: 'Error flashing partition.')",
    "hikey960-ddr-training": "ch 0 gt_errfail, STATUS:0x00000060",
    "hikey960-boot-loader-loop": "bbox: record exce_type is 0x00000075",
    "hikey960-uefi-exception": "Synchronous Exception at 0x0000000000CA5010",
    "hikey960-ufs-link": "[ 36.106284] ufshcd-hi3660 ff3b0000.ufs: dme-link-startup: error code 1",
    "hikey960-pcie-no-link": "[    1.204381] kirin-pcie f4000000.pcie: Phy link never came up",
    "hikey960-serial-noise": "\x80\xff\xfe\x80\x80\x80\xc0\xc0\xff\xff\x80\x80\xe0\xe0\xe0\xe0\xe0",
    "uboot-no-network-chip": "eth@30be0000 Waiting for PHY auto negotiation to complete. TIMEOUT !",
    "uboot-no-address": "Retry time exceeded; starting again",
    "uboot-file-not-loaded": "TFTP error: 'File not found' (1)",
    "uboot-refuses-a-file": "Bad Linux ARM64 Image magic!",
    "uboot-lacks-a-command": "Unknown command 'booti' - try 'help'",
    "uboot-did-not-start": "SPL: failed to boot from all boot devices",
}
HEALTHY = """\
NOTICE:  BL1: Booting BL31
hikey960 boardid:5301 xloader use UART6
ufs retry: 6 count v_tx:0 v_rx:0
Android Fastboot mode - version 0.7.
Press RETURN or SPACE key to quit.
Flashing partition system
Press ESCAPE for boot options
[    0.000000] Linux version 6.12.117
[    1.000000] Waiting for root device PARTLABEL=system...
[    1.100000] ufshcd-hisi ff3b0000.ufs: ufshcd_populate_vreg: Unable to find vcc-supply regulator
[    1.200000] kirin-pcie f4000000.pcie: PCIe Gen.2 x1 link up
[    2.000000] EXT4-fs (sdd10): mounted filesystem
Sending sparse 'system' 1/2 (131068 KB)            OKAY [  2.173s]
U-Boot 2025.01 (Jan 06 2025 - 22:44:11 +0000)
Waiting for PHY auto negotiation to complete.. done
BOOTP broadcast 1
BOOTP broadcast 2
DHCP client bound to address 192.0.2.7 (502 ms)
TFTP from server 192.0.2.1; our IP address is 192.0.2.7
Loading: #################################################################
Bytes transferred = 10635272 (a24808 hex)
## Flattened Device Tree blob at 87000000
   Booting using the fdt blob at 0x87000000
Starting kernel ...
""".splitlines()


@pytest.mark.parametrize("issue", ISSUES, ids=lambda issue: str(issue["id"]))
def test_pattern_finds_what_was_seen_and_nothing_healthy(issue: dict[str, Any]) -> None:
    assert set(issue) == {"id", "phase", "pattern", "outcome", "note", "source"}
    assert issue["phase"] in ("any", "deploy", "boot", "workload")
    assert issue["outcome"] in ("infrastructure", "broken")
    pattern = re.compile(issue["pattern"])
    assert pattern.search(SEEN[issue["id"]])
    assert not [line for line in HEALTHY if pattern.search(line)]


def test_ids_are_there_once() -> None:
    assert sorted(issue["id"] for issue in ISSUES) == sorted(SEEN)
