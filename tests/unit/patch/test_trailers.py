"""Trailers of commit messages."""

from __future__ import annotations

import pytest

from iotoll.patch.candidate import MAX_TRAILERS, trailers

DIFF = "---\n a.c | 1 +\n\ndiff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1 +1,2 @@\n x\n"


def test_values_come_in_order_of_the_messages() -> None:
    one = f"Why.\n\nIotoll-Accept: ufs-* submission +350 one\nSigned-off-by: A <a@b>\n{DIFF}"
    assert trailers([one, "iotoll-accept:  nvme-* return +5% two \n"]) == [
        "ufs-* submission +350 one",
        "nvme-* return +5% two",
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"No trailer.\n{DIFF}+Iotoll-Accept: ufs-* submission +1 in the diff\n",
        f"Why.\n{DIFF}Iotoll-Accept: ufs-* submission +1 below the message\n",
        "> Iotoll-Accept: ufs-* submission +1 quoted\n",
        "  Iotoll-Accept: ufs-* submission +1 indented\n",
        "See Iotoll-Accept: ufs-* submission +1 in a sentence\n",
        "--- a/x\nIotoll-Accept: ufs-* submission +1 in a bare diff\n",
    ],
)
def test_only_a_line_of_the_message_is_a_trailer(text: str) -> None:
    assert trailers([text]) == []


def test_a_value_goes_on_in_indented_lines() -> None:
    assert trailers(["Iotoll-Accept: ufs-* submission +350 a long\n reason\nNext: x\n"]) == [
        "ufs-* submission +350 a long reason"
    ]


def test_a_flood_is_bounded() -> None:
    found = trailers(["Iotoll-Accept: " + "x" * 10_000 + "\n"] * 1000)
    assert len(found) == MAX_TRAILERS
    assert all(len(value) <= 500 for value in found)
