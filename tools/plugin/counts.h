/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often each piece of the kernel's code ran between two moments, without QEMU.
 *
 * A piece is one of QEMU's blocks. It counts whole when it begins: what follows a fault or an access to
 * a device in it counts twice, some ten instructions. All code of user space is piece 0, which counts
 * instructions. What a CPU does while it idles is told apart: it idles from where a function of the idle
 * loop begins a block to where an exception, or a call that works for others, does (plugin.c has the
 * addresses). What runs in between is noticed by function, when one is entered: that is cheap.
 *
 * The file is COUNTS_MAGIC and parts: a struct part, then `count` entries of `width` bytes each, all
 * little-endian. A reader skips parts that it does not know.
 *   PART_WINDOW  struct counted, of one CPU in window `number`, which begin and end at marks
 *   PART_PIECES  struct piece, in the order of their numbers
 *   PART_END     nothing: `number` marks were seen, and the file is whole
 */
#ifndef IOTOLL_COUNTS_H
#define IOTOLL_COUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "record.h"

#define COUNTS_MAGIC "IOTOLLC1"
/* Pieces that a CPU has counters for: a boot of the whole matrix has some 150,000. */
#define PIECES_MAX (1u << 20)
#define CPUS_MAX 64

enum part_kind { PART_WINDOW = 1, PART_PIECES = 2, PART_END = 3 };

struct part {
    uint32_t kind;
    uint32_t number;
    uint32_t cpu;
    uint32_t width;
    uint64_t count;
};

struct counted {
    uint32_t piece;
    uint32_t times; /* idle ones included */
    uint32_t idle;
};

struct piece {
    uint64_t address;
    uint64_t instructions;
};

/* Of one CPU. `now` are the counters that QEMU's code adds to; only they change between calls. */
struct cpu_counts {
    const uint64_t *now;
    uint64_t *begun;   /* at the window's beginning */
    uint64_t *entered; /* when this piece's function was entered first since the CPU idles */
    uint64_t *idle;    /* in this window */
    uint32_t *stamps;  /* of functions: the span of idling in which `entered` is valid */
    uint32_t *seen;    /* functions that were entered in this span */
    uint32_t seen_count;
    uint32_t span;
    bool idles;
};

/* The pieces that begin in one function. */
struct function {
    uint32_t *pieces;
    uint32_t count;
    uint32_t room;
};

struct counts {
    FILE *file;
    struct blocks pieces;
    const struct span *spans; /* of the functions, which rise */
    struct function *functions;
    uint32_t function_count; /* one more: what belongs to none of the spans */
    struct cpu_counts cpus[CPUS_MAX];
    uint32_t cpu_count;
    uint32_t marks;
    bool open; /* a window has begun and not ended */
    bool failed;
};

/* The functions of a kernel. False: no memory. */
bool counts_functions(struct counts *counts, const struct span *spans, uint32_t count);

/* The number of the function that an address is in. */
uint32_t counts_function(const struct counts *counts, uint64_t address);

/* The piece of an address; NO_BLOCK where there are too many. Piece 0 exists from the first call on. */
uint32_t counts_piece(struct counts *counts, uint64_t address, uint64_t instructions);

/* A CPU is there, the last of so many. False: too many, or no memory. */
bool counts_cpu(struct counts *counts, uint32_t cpu);

/* The counters of a CPU, which may have moved. */
void counts_now(struct counts *counts, uint32_t cpu, const uint64_t *now);

/* A mark: every other one ends the window that the one before began. All CPUs' counters are known. */
void counts_mark(struct counts *counts);

/* A CPU that idles, or begins to, is about to enter a function. */
void counts_idle(struct counts *counts, uint32_t cpu, uint32_t function);

/* A CPU does not idle any more. */
void counts_leave(struct counts *counts, uint32_t cpu);

/* Writes what is left; whether the file is whole. The caller closes it. */
bool counts_end(struct counts *counts);

void counts_free(struct counts *counts);

#endif
