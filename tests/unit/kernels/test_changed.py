"""Functions in which two kernels may execute something else because of a patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotoll.kernels.changed import affected_functions, differing_functions
from tests.unit.explain.kernels import BASE, NOP, RET, call, symbols

MORE = 0x91000400
"""An addition: code that a function has more."""


Code = Mapping[str, Sequence[str | int]]
"""Functions as words; a name is a call of the function of that name."""


def kernel(code: Code) -> dict[str, list[int]]:
    """The same with calls as words."""
    starts, at = {}, BASE
    for name, words in code.items():
        starts[name] = at
        at += 4 * len(words)
    return {
        name: [
            word if isinstance(word, int) else call(starts[name] + 4 * place, starts[word])
            for place, word in enumerate(words)
        ]
        for name, words in code.items()
    }


LIBRARY: Code = {
    "copy": [NOP, RET],
    "lock": [NOP, RET],
    "timer": ["lock", NOP, RET],
}


def affected(base: Code, candidate: Code) -> set[str]:
    before, after = (symbols(kernel({**LIBRARY, **one})) for one in (base, candidate))
    return set(affected_functions(before, after))


def test_nothing_is_affected_by_code_that_only_moved() -> None:
    send: Code = {"send": ["copy", RET]}
    assert affected({**send}, {"padding": [RET], **send}) == {"padding"}


def test_a_function_with_other_code_is_and_what_it_calls_as_before_is_not() -> None:
    base: Code = {"send": ["lock", "copy", RET]}
    assert affected(base, {"send": ["lock", MORE, "copy", RET]}) == {"send"}


def test_what_changed_code_calls_from_more_or_fewer_places_is() -> None:
    base: Code = {"send": ["lock", RET], "end": ["copy", RET]}
    candidate: Code = {"send": ["lock", "copy", RET], "end": [RET]}
    assert affected(base, {**base, "send": ["lock", "copy", RET]}) == {"send", "copy"}
    assert affected(base, {**base, "send": [RET]}) == {"send", "lock"}
    assert affected(base, candidate) == {"send", "end"}, "the call moved between changed functions"


def test_code_that_moved_out_of_line_is_with_where_it_was_and_is() -> None:
    inlined: Code = {"send": [MORE, "copy", RET]}
    alone: Code = {"send": ["part", RET], "part": [MORE, "copy", RET]}
    assert affected(inlined, alone) == {"send", "part"}
    assert affected(alone, inlined) == {"send", "part"}


def test_what_has_another_name_now_is_told_by_both() -> None:
    base = symbols(kernel({**LIBRARY, "send": ["copy", RET]}))
    candidate = symbols(kernel({**LIBRARY, "issue": ["copy", RET]}))
    assert differing_functions(base, candidate) == ("issue", "send")
