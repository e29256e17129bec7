"""Inlined functions and lines: instructions counted one by one, and the lines of a change."""

from __future__ import annotations

import numpy as np

from iotoll.explain.pieces import Label, PieceCounter, added_lines, executions_by_line, make_pieces
from iotoll.kernels.debuginfo import Frame, FunctionLines
from tests.unit.explain.kernels import BASE, NOP, RET, record, symbols

CODE = {"other": [NOP] * 2, "driver": [NOP] * 5 + [RET]}
OWN = Frame("driver", "d.c", 10)
INNER = Frame("checksum", "sum.h", 7), Frame("driver", "d.c", 11)
LINES = FunctionLines("d.c", 9, ((OWN,), INNER, INNER, (OWN,), (), (OWN,)))
DRIVER = BASE + 8


def test_instructions_are_counted_one_by_one() -> None:
    blocks = [(BASE, 2), (DRIVER, 3), (DRIVER + 8, 4)]
    # The second run of the longest block was left early, after its first instruction.
    runs = [(0, 2), (1, 3), (2, 4), (2, 1), (0, 2)]
    found = record(blocks, runs, [])
    kernel = symbols(CODE)
    pieces = make_pieces(kernel, {"driver": LINES})
    counter = PieceCounter(found, pieces, kernel)
    whole = counter.count([(0, len(runs))])
    assert whole.tolist() == [1, 1, 3, 1, 1, 1]
    assert counter.count([(0, 2), (3, 4)]).tolist() == [1, 1, 2, 0, 0, 0]
    assert pieces.labels == (Label("driver", ("checksum",)),)
    assert counter.by_label(whole).tolist() == [4]
    assert pieces.places[pieces.labels[0]] == INNER[0]
    assert executions_by_line(pieces, whole) == {
        ("d.c", 10): 1,
        ("sum.h", 7): 3,
        ("d.c", 11): 3,
    }


def test_without_known_lines_nothing_is_counted() -> None:
    kernel = symbols(CODE)
    pieces = make_pieces(kernel, {})
    counter = PieceCounter(record([(BASE, 2)], [(0, 2)], []), pieces, kernel)
    assert counter.count([(0, 1)]).tolist() == []
    assert np.array_equal(counter.by_label(counter.count([(0, 1)])), np.zeros(0))


CHANGE = b"""\
diff --git a/d.c b/d.c
index 1..2 100644
--- a/d.c
+++ b/d.c
@@ -9,3 +9,4 @@ int driver(void)
 {
-	a();
+	b();
+++ c;
 }
diff --git a/gone.c b/gone.c
deleted file mode 100644
--- a/gone.c
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/new.c b/new.c
new file mode 100644
--- /dev/null
+++ b/new.c
@@ -0,0 +1,2 @@
+int x;
+int y;
\\ No newline at end of file
"""


def test_added_lines_have_the_numbers_of_the_candidate() -> None:
    assert added_lines(CHANGE) == {"d.c": [10, 11], "new.c": [1, 2]}
