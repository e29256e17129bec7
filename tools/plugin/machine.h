/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What of an instruction the other files want to know, for each architecture and without QEMU.
 *
 * An instruction is a word. Of arm64 it is the instruction. Of x86-64, whose instructions have up to 15
 * bytes, it has what they do, from the lowest byte on: WORD_LOCK, WORD_REP ... for prefixes, the map of the
 * opcode (0: one byte, 1: 0F, 2: 0F38, 3: 0F3A), the opcode, and the byte behind it (ModRM, where it has one).
 */
#ifndef IOTOLL_MACHINE_H
#define IOTOLL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum machine { MACHINE_ARM64, MACHINE_X86_64 };

/* Bytes of an instruction, at most. */
#define INSTRUCTION_MAX 15

#define WORD_LOCK 0x01u
#define WORD_OPERAND 0x02u /* 66 */
#define WORD_REP 0x04u     /* F3 */
#define WORD_REPNE 0x08u   /* F2 */
#define WORD_SEGMENT 0x10u
#define WORD_WIDE 0x20u /* REX.W */

/* The word of an instruction of so many bytes. */
uint32_t machine_word(enum machine machine, const uint8_t *bytes, size_t size);

/* Barriers, atomics, what maintains caches and TLBs, system instructions: of windows.h's PART_SPECIAL. */
bool machine_is_special(enum machine machine, uint32_t word);

/* It may access memory as a driver accesses a device. */
bool machine_is_access(enum machine machine, uint32_t word);

/* The breakpoint of a kernel probe. */
bool machine_is_probe(enum machine machine, uint32_t word);

/* It reads the counter behind the trace clock. */
bool machine_reads_counter(enum machine machine, uint32_t word);

/* It returns from an exception. */
bool machine_is_return(enum machine machine, uint32_t word);

/* What waits in the place of a tracepoint's branch. */
bool machine_is_nop(enum machine machine, uint32_t word);

/* Of x86-64: a jump by a distance of four bytes. */
bool machine_is_jump(uint32_t word);

#endif
