"""x86-64 instructions: their lengths and fields, and which of two functions differ."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from iotoll.kernels.changed import changed_functions, changed_places
from iotoll.kernels.symbols import X86_64, Symbols
from iotoll.kernels.x86 import decode, instructions, signed

BASE = 0xFFFF_FFFF_8100_0000
RET, NOP5, INT3 = "c3", "0f1f440000", "cc"


def symbols(functions: Mapping[str, str | Sequence[str]], gap: int = 0) -> Symbols:
    """Functions one after the other, each aligned to 64 bytes; ``gap`` such places are before."""
    starts, code = [], b"\x90" * 64 * gap
    for parts in functions.values():
        starts.append(BASE + len(code))
        code += bytes.fromhex(parts if isinstance(parts, str) else "".join(parts))
        code += b"\xcc" * (-len(code) % 64)
    return Symbols(np.array(starts, np.uint64), tuple(functions), code, BASE, X86_64)


def near(opcode: str, place: int, target: int) -> str:
    """A branch or an operand of four bytes that counts from behind them."""
    return opcode + struct.pack("<i", target - place - len(opcode) // 2 - 4).hex()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("90", "nop"),
        ("0f1f440000", "nopl 0(%rax,%rax,1)"),
        ("66662e0f1f840000000000", "data16 cs nopw 0(%rax,%rax,1)"),
        ("f30f1efa", "endbr64"),
        ("4157", "push %r15"),
        ("48897c2408", "mov %rdi,8(%rsp)"),
        ("488b0578563412", "mov 0x12345678(%rip),%rax"),
        ("65488b042540ba0200", "mov %gs:0x2ba40,%rax"),
        ("65ff0d11223344", "decl %gs:0x44332211(%rip)"),
        ("48c7c700000081", "mov $0xffffffff81000000,%rdi"),
        ("49b88877665544332211", "movabs $0x1122334455667788,%r8"),
        ("66c705010203041234", "movw $0x3412,0x4030201(%rip)"),
        ("c70501020304ffffffff", "movl $-1,0x4030201(%rip)"),
        ("8184248000000001020304", "addl $0x4030201,0x80(%rsp)"),
        ("f6400801", "testb $1,8(%rax)"),
        ("f7d8", "neg %eax"),
        ("f7c100010000", "test $0x100,%ecx"),
        ("66f7c10001", "test $0x100,%cx"),
        ("f04c0fb111", "lock cmpxchg %r10,(%rcx)"),
        ("f30fa7c8", "rep xcryptecb"),
        ("f348a5", "rep movsq"),
        ("0faef0", "mfence"),
        ("0f01f8", "swapgs"),
        ("48cf", "iretq"),
        ("480f07", "sysretq"),
        ("c20800", "ret $8"),
        ("c8100001", "enter $16,$1"),
        ("e811223344", "call"),
        ("66e811223344", "call, of another operand size"),
        ("7412", "je"),
        ("0f8411223344", "je"),
        ("0f3a0fc108", "palignr $8,%mm1,%mm0"),
        ("660f3a44c811", "pclmulqdq $0x11,%xmm0,%xmm1"),
        ("f2480f38f1c1", "crc32q %rcx,%rax"),
        ("c5f877", "vzeroupper"),
        ("c5fe6f4720", "vmovdqu 0x20(%rdi),%ymm0"),
        ("c4e37d3946f001", "vextracti128 $1,%ymm0,-0x10(%rsi)"),
        ("62f17c4828847f00010000", "vmovaps 0x100(%rdi,%rdi,2),%zmm0"),
        ("a10011223344556677", "movabs 0x7766554433221100,%eax"),
        ("67a100112233", "mov 0x33221100,%eax"),
        ("3e41ffe3", "notrack jmp *%r11"),
        ("48692c25000000017f000000", "imul $0x7f,0x1000000,%rbp"),
    ],
)
def test_lengths(code: str, what: str) -> None:
    data = np.frombuffer(bytes.fromhex(code), np.uint8)
    assert decode(data).length[0] == len(data), what
    again = np.concatenate([data, data, np.frombuffer(bytes.fromhex("90c3"), np.uint8)])
    found, owner = instructions(again)
    assert found.place.tolist() == [0, len(data), 2 * len(data), 2 * len(data) + 1], what
    assert not owner.any()


def test_fields() -> None:
    data = np.frombuffer(bytes.fromhex("c70501020384fffffffff0480fb11165488b4208"), np.uint8)
    found, _ = instructions(data)
    assert found.opcode.tolist() == [0xC7, 0x1B1, 0x8B]
    assert (found.moved[0], found.moved_size[0], bool(found.relative[0])) == (2, 4, True)
    assert signed(data, found.moved, found.moved_size).tolist() == [-0x7BFCFDFF, 0, 8]
    assert signed(data, found.fixed, found.fixed_size)[0] == -1
    assert found.locked.tolist() == [False, True, False]
    assert found.segmented.tolist() == [False, False, True]
    assert found.wide.tolist() == [False, True, True]


def test_functions_of_several_chunks_are_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [bytes.fromhex(one) for one in ("4157c3", "e811223344c3", "", "0f8411223344", "74")]
    code = np.frombuffer(b"".join(parts), np.uint8)
    ends = np.cumsum([len(part) for part in parts])
    whole = instructions(code, ends - [len(part) for part in parts], ends)
    monkeypatch.setattr("iotoll.kernels.x86._CHUNK", 4)
    again = instructions(code, ends - [len(part) for part in parts], ends)
    assert whole[0].place.tolist() == again[0].place.tolist() == [0, 2, 3, 8, 9, 15]
    assert whole[0].length.tolist()[:5] == again[0].length.tolist()[:5]
    assert whole[1].tolist() == again[1].tolist() == [0, 0, 1, 1, 3, 4]


DATA = BASE + 0x40_0000


def kernel(gap: int = 0, shift: int = 0, **others: str) -> Symbols:
    """Functions that call, jump, and take addresses; ``others`` replace some of their code."""
    caller = BASE + 64 * gap + 64
    cold = caller + 128
    parts = {
        "callee": "31c0" + RET,
        "caller": near("e8", caller, caller - 64)
        + near("488b05", caller + 5, DATA + shift)
        + near("488d3d", caller + 12, caller + 64)
        + near("0f84", caller + 19, cold)
        + RET,
        "jumps": "7405" + NOP5 + "31c0" + "ebf5" + RET,
        "caller.cold": "0f0b" + near("e9", cold + 2, caller + 25),
        "table": "48c7c7" + struct.pack("<I", (caller + 64) & 0xFFFFFFFF).hex()
        + "65488b0425" + struct.pack("<I", 0x2BA40 + shift).hex() + RET,
    }  # fmt: skip
    return symbols({**parts, **others}, gap)


def test_code_that_moved_is_not_changed() -> None:
    base = kernel()
    for other in (kernel(gap=3), kernel(shift=64), kernel(gap=70, shift=8)):
        assert base.code("caller") != other.code("caller") or base.code("table") != other.code(
            "table"
        )
        assert changed_functions(base, other) == ()


def test_changed_and_new_functions() -> None:
    base = kernel()
    other = kernel(gap=1, callee="31c9" + RET, new=RET)
    assert changed_functions(base, other) == ("callee", "new")
    # Whom it calls is told: the images have functions' names.
    place = BASE + 64 + 64
    calls_another = base.code("caller").hex()[10:]
    other = kernel(caller=near("e8", place - 64, place) + calls_another)
    assert changed_functions(base, other) == ("caller",)
    # As is a number.
    assert changed_functions(base, kernel(callee="b801000000" + RET)) == ("callee",)


def test_padding_and_the_forms_of_jumps_are_no_change() -> None:
    base = symbols({"f": "7402" + "31c0" + RET})
    for same in ("740790" + "31c0" + "66" * 3 + "90" + RET, "0f8402000000" + "31c0" + RET):
        other = symbols({"f": same})
        assert changed_functions(base, other) == (), same
    assert changed_functions(base, symbols({"f": "7400" + "31c0" + RET})) == ("f",)
    assert changed_functions(base, symbols({"f": "7502" + "31c0" + RET})) == ("f",)
    assert changed_functions(base, symbols({"f": "740231c0" + RET + "00" * 20})) == ()


def test_only_what_the_base_has_not_is_changed_code() -> None:
    base = symbols({"f": "31c0" + NOP5 + "ffc0" + RET})
    other = symbols({"f": "31c0" + NOP5 + "ffc0" + "ffc1" + RET})
    assert changed_places(base, other, "f").tolist() == [3]
    assert other.instructions("f")[:5].tolist() == [BASE + at for at in (0, 2, 7, 9, 11)]
    assert changed_places(None, other, "f").tolist() == [0, 2, 3, 4]
    # A jump over more than before is the same jump.
    skips, longer = symbols({"f": "740231c0" + RET}), symbols({"f": "740431c0ffc1" + RET})
    assert changed_places(skips, longer, "f").tolist() == [2]
