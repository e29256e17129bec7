/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of an instruction the other files want to know: see machine.h. */
#include "machine.h"

#include <string.h>

static uint32_t prefix_of(uint8_t byte)
{
    switch (byte) {
    case 0xf0:
    case 0x3e: /* with one CPU the kernel puts it in the place of LOCK */
        return WORD_LOCK;
    case 0x66:
        return WORD_OPERAND;
    case 0xf3:
        return WORD_REP;
    case 0xf2:
        return WORD_REPNE;
    case 0x2e:
    case 0x36:
    case 0x26:
    case 0x64:
    case 0x65:
        return WORD_SEGMENT;
    default:
        return 0;
    }
}

/* Map and opcode of an x86-64 instruction, as 0x1AE; its ModRM byte. */
static uint32_t opcode_of(uint32_t word)
{
    return (word & 0xff00) | (word >> 16 & 0xff);
}

static uint32_t modrm_of(uint32_t word)
{
    return word >> 24;
}

static bool has_memory(uint32_t word)
{
    return modrm_of(word) < 0xc0;
}

/* What takes LOCK has an operand in memory that it changes: of others 3E says how a jump is predicted. */
static bool may_lock(uint32_t word)
{
    uint32_t opcode = opcode_of(word);
    bool is_one_byte = opcode < 0x40 || (opcode >= 0x80 && opcode <= 0x87) || opcode == 0xf6 ||
                       opcode == 0xf7 || opcode == 0xfe ||
                       (opcode == 0xff && (modrm_of(word) >> 3 & 7) < 2);

    return has_memory(word) && (is_one_byte || (opcode >= 0x1a0 && opcode < 0x1d0));
}

static uint32_t x86_word(const uint8_t *bytes, size_t size)
{
    uint8_t code[INSTRUCTION_MAX + 4] = {0};
    uint32_t flags = 0, map = 0;
    size_t at = 0;

    memcpy(code, bytes, size < INSTRUCTION_MAX ? size : INSTRUCTION_MAX);
    for (; at < INSTRUCTION_MAX && (prefix_of(code[at]) || code[at] == 0x67); at++)
        flags |= prefix_of(code[at]);
    if ((code[at] & 0xf0) == 0x40) {
        flags |= code[at] & 8 ? WORD_WIDE : 0;
        at++;
    }
    if (code[at] == 0x0f) {
        at++;
        map = code[at] == 0x38 ? 2 : code[at] == 0x3a ? 3 : 1;
        at += map > 1;
    }
    flags |= map << 8 | (uint32_t)code[at] << 16 |
             (at + 1 < size ? (uint32_t)code[at + 1] << 24 : 0);
    return may_lock(flags) ? flags : flags & ~WORD_LOCK;
}

uint32_t machine_word(enum machine machine, const uint8_t *bytes, size_t size)
{
    uint32_t word = 0;

    if (machine == MACHINE_X86_64)
        return x86_word(bytes, size);
    for (size_t i = 0; i < sizeof(word) && i < size; i++)
        word |= (uint32_t)bytes[i] << 8 * i;
    return word;
}

static bool x86_is_special(uint32_t word)
{
    switch (opcode_of(word)) {
    case 0x86: /* XCHG */
    case 0x87:
        return has_memory(word);
    case 0xcf:  /* IRET */
    case 0xe4:  /* IN and OUT */
    case 0xe5:
    case 0xe6:
    case 0xe7:
    case 0xec:
    case 0xed:
    case 0xee:
    case 0xef:
    case 0xf4:  /* HLT */
    case 0x101: /* INVLPG, SWAPGS ... */
    case 0x106: /* CLTS */
    case 0x108: /* INVD */
    case 0x109: /* WBINVD */
    case 0x122: /* MOV to control registers */
    case 0x130: /* WRMSR */
    case 0x1a2: /* CPUID */
    case 0x1ae: /* fences, CLFLUSH */
    case 0x282: /* INVPCID */
        return true;
    default:
        return word & WORD_LOCK;
    }
}

/* What moves data or computes, other than on the stack. */
static bool x86_is_access(uint32_t word)
{
    uint32_t opcode = opcode_of(word), group = modrm_of(word) >> 3 & 7;

    if (opcode >= 0xa0 && opcode <= 0xaf)
        return opcode != 0xa8 && opcode != 0xa9; /* by an address of its own; strings */
    if (opcode == 0xff)
        return has_memory(word) && group < 2;
    if ((opcode >= 0x50 && opcode < 0x60) || opcode == 0x68 || opcode == 0x6a ||
        (opcode >= 0x70 && opcode < 0x80) || (opcode >= 0x8f && opcode < 0xa0) ||
        (opcode >= 0xa8 && opcode < 0xc0) || opcode == 0xc2 || opcode == 0xc3 ||
        (opcode >= 0xc8 && opcode < 0xd0) || (opcode >= 0xe0 && opcode < 0xf6) ||
        (opcode >= 0xf8 && opcode < 0xfe) || (opcode >= 0x180 && opcode < 0x190))
        return false;
    return has_memory(word);
}

bool machine_is_special(enum machine machine, uint32_t word)
{
    if (machine == MACHINE_X86_64)
        return x86_is_special(word);
    /* Barriers, system instructions and exceptions; exclusive accesses and those of ARMv8.1. */
    return (word & 0xff000000) == 0xd5000000 || (word & 0xff000000) == 0xd4000000 ||
           (word & 0x3f000000) == 0x08000000 || (word & 0x3b200c00) == 0x38200000;
}

bool machine_is_access(enum machine machine, uint32_t word)
{
    if (machine == MACHINE_X86_64)
        return x86_is_access(word);
    return (word & 0x0a000000) == 0x08000000;
}

bool machine_is_probe(enum machine machine, uint32_t word)
{
    uint32_t number = word >> 5 & 0xffff;

    if (machine == MACHINE_X86_64)
        return opcode_of(word) == 0xcc;
    /* BRK with what a kernel probe has: for itself, for a single step, for a function's return. */
    return (word & 0xffe0001f) == 0xd4200000 && (number == 4 || number == 6 || number == 7);
}

bool machine_reads_counter(enum machine machine, uint32_t word)
{
    if (machine == MACHINE_X86_64) /* RDTSC, RDTSCP */
        return opcode_of(word) == 0x131 || (opcode_of(word) == 0x101 && modrm_of(word) == 0xf9);
    /* MRS of CNTPCT_EL0 or CNTVCT_EL0. */
    return (word & 0xffffffe0) == 0xd53be020 || (word & 0xffffffe0) == 0xd53be040;
}

bool machine_is_return(enum machine machine, uint32_t word)
{
    if (machine == MACHINE_X86_64)
        return opcode_of(word) == 0xcf;
    return word == 0xd69f03e0;
}

bool machine_is_nop(enum machine machine, uint32_t word)
{
    if (machine == MACHINE_X86_64)
        return opcode_of(word) == 0x11f || (opcode_of(word) == 0x90 && !(word & WORD_REP));
    return word == 0xd503201f;
}

bool machine_is_jump(uint32_t word)
{
    return opcode_of(word) == 0xe9;
}
