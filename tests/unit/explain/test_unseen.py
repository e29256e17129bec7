"""Changed functions without a line in a profile: why, and whose time theirs is part of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from iotoll.explain.unseen import Profiled, Traced, unseen_functions
from iotoll.records.models import UnseenFunction
from iotoll.records.rundir import SIDES
from tests.unit.explain.kernels import BASE, NOP, RET, call, symbols

BTI_C = 0xD503245F
JUMP = 0x14000000
LONG = "blk_mq_sched_insert_requests_longer"


def kernel(**functions: Sequence[int | str]) -> Traced:
    """A kernel of words; a name is ``bl`` to that function, with ``>`` before it ``b``."""
    starts, place = {}, BASE
    for name, words in functions.items():
        starts[name] = place
        place += 4 * len(words)
    code = {
        name: [
            word if isinstance(word, int) else _enter(word, starts[name] + 4 * number, starts)
            for number, word in enumerate(words)
        ]
        for name, words in functions.items()
    }
    return Traced(symbols(code))


def _enter(word: str, place: int, starts: dict[str, int]) -> int:
    called = call(place, starts[word.lstrip(">")])
    return called & 0x3FFFFFF | JUMP if word.startswith(">") else called


def both(base: Traced, candidate: Traced | None = None) -> tuple[Profiled, Profiled]:
    after = candidate or base
    return Profiled(base.symbols, base), Profiled(after.symbols, after)


def test_the_tracer_enters_where_the_compiler_left_room() -> None:
    found = kernel(
        plain=[NOP, NOP, RET],
        assembly=[BTI_C, NOP, NOP, RET],  # caches_clean_inval_pou() begins so, and is not traced
        inline=[RET, NOP, NOP],
        single=[NOP, RET, NOP],
        last=[NOP],
    )
    assert [name for name in found.symbols.names if found.enters(name)] == ["plain"]
    assert not found.enters("nowhere") and not found.has("nowhere")


def test_holders_are_the_nearest_callers_with_a_trace() -> None:
    found = kernel(
        outer=[NOP, NOP, "driver", RET],
        driver=[NOP, NOP, "helper", RET],
        helper=["inner", "helper", RET],
        other=[NOP, NOP, ">inner"],
        inner=["inner", "leaf", RET],
        leaf=[NOP, NOP, RET],
        pointer=[RET],
    )
    assert found.holders("inner") == {"driver", "other"}
    assert found.holders("pointer") == frozenset()


def test_data_behind_the_last_function_calls_nothing() -> None:
    found = kernel(inner=[RET], label=[NOP, NOP, "inner", *[0] * (1 << 14)])
    assert found.holders("inner") == frozenset()


SEEN = kernel(driver=[NOP, NOP, "inner", RET], inner=[RET], idle=[NOP, NOP, RET])


@pytest.mark.parametrize(("lines", "holders"), [({"driver"}, ["driver"]), ({"something"}, [])])
def test_only_holders_that_ran_are_named(lines: set[str], holders: list[str]) -> None:
    found = unseen_functions({"inner", "idle", "driver"}, both(SEEN), ({"driver"}, lines))
    assert [one.name for one in found] == ["idle", "inner"]
    assert found[0] == UnseenFunction(name="idle", sides=list(SIDES), why="idle")
    assert found[1] == UnseenFunction(
        name="inner", sides=list(SIDES), why="untraced", holders=["driver"]
    )
    alone = unseen_functions({"inner"}, both(SEEN), (lines, lines))
    assert alone[0].holders == holders


def test_each_kernel_has_its_own_reason() -> None:
    """The patch makes a function traceable; another one is inlined in the profiled candidate."""
    after = kernel(driver=[NOP, NOP, "inner", RET], inner=[NOP, NOP, RET])
    base = both(SEEN)[0]
    sides = base, Profiled(SEEN.symbols, after)
    found = unseen_functions({"inner", "idle", "new"}, sides, ({"driver"}, {"driver", "inner"}))
    assert found == [
        UnseenFunction(name="idle", sides=["candidate"], why="absent"),
        UnseenFunction(name="inner", sides=["base"], why="untraced", holders=["driver"]),
    ]


def test_a_name_that_stays_cut_holds_all_that_begin_so() -> None:
    found = kernel(**{LONG: [NOP, NOP, RET], LONG + "2": [NOP, NOP, RET]})
    (one,) = unseen_functions({LONG}, both(found), ({LONG[:30]}, {LONG[:30]}))
    assert (one.why, one.holders) == ("cut", [LONG[:30]])
