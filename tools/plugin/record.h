/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the plugin records, without QEMU: blocks of instructions, the order in which they ran, and
 * the values of registers at chosen instructions (marks).
 *
 * Files, all little-endian arrays without a header:
 *   PREFIX.blocks  two u64 for each block: address of its first instruction, number of instructions
 *   PREFIX.runs    one u32 for each execution: number of the block << RUN_BITS | instructions executed
 *   PREFIX.marks   four u64 for each mark: runs before it, instructions before it, probe, value
 * With caches (cache.h) also:
 *   PREFIX.lines   one u64 for each line that a run touched: its address, physical for data, with the
 *                  flags TOUCH_... in the low bits; instructions after the data
 *   PREFIX.touches one u16 for each run: how many lines it touched
 */
#ifndef IOTOLL_RECORD_H
#define IOTOLL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cache.h"

/* A translation block of QEMU has at most 512 instructions. */
#define RUN_BITS 10
#define RUN_MAX ((1u << RUN_BITS) - 1)
#define BLOCK_MAX ((1u << (32 - RUN_BITS)) - 1)
#define NO_BLOCK UINT32_MAX

struct block {
    uint64_t address;
    uint64_t instructions;
};

/* All blocks that were translated; each pair of address and length once. */
struct blocks {
    struct block *list;
    uint32_t count;
    uint32_t room;
    uint32_t *slots; /* numbers of blocks, by hash; NO_BLOCK: empty */
    uint32_t slot_count;
};

struct span {
    uint64_t from;
    uint64_t to;
};

struct recorder {
    FILE *runs;
    FILE *marks;
    const struct span *spans; /* values of probe 0 between which is recorded; none: from its first */
    size_t span_count;
    bool on;
    bool failed; /* a file could not be written, or a run was longer than RUN_MAX */
    uint32_t block;
    uint64_t began; /* instructions executed when the block was entered */
    uint64_t run_count;
    uint64_t mark_count;
    struct caches *caches; /* none: no lines are recorded */
    const struct blocks *known; /* with caches: to see which lines a run's instructions are in */
    FILE *lines;
    FILE *touches;
    uint32_t touched; /* lines by the run that goes on */
    bool begun;       /* a first mark was seen: until then, caches stay empty */
    uint64_t line_count;
};

/* Returns the number of a block, a new one if it is not known; NO_BLOCK where there are too many. */
uint32_t blocks_number(struct blocks *blocks, uint64_t address, uint64_t instructions);
bool blocks_write(const struct blocks *blocks, FILE *file);
void blocks_free(struct blocks *blocks);

/* The CPU enters a block, after `executed` instructions since its start. */
void recorder_enter(struct recorder *recorder, uint64_t executed, uint32_t block);

/*
 * A probe's instruction is about to run. `rest` is the block that begins with it. Probe 0 is the
 * clock: its values switch recording on and off.
 */
void recorder_mark(struct recorder *recorder, uint64_t executed, uint64_t probe, uint64_t value,
                   uint32_t rest);

/* The run that goes on reads or writes memory, at a physical address. Only with caches. */
void recorder_access(struct recorder *recorder, uint64_t address, uint64_t bytes);

/* Ends the last run, and returns whether everything was written. The caller closes the files. */
bool recorder_end(struct recorder *recorder, uint64_t executed);

/* Reads "A:B+A:B+..." (or with commas) of hexadecimal or decimal numbers; returns their count, -1 if invalid. */
int parse_pairs(const char *text, struct span *pairs, int most);

/* Makes caches from size and ways of each (bytes), and the bytes of a line; false as caches_make. */
bool caches_of(struct caches *caches, const struct span pairs[CACHES + 1]);

/* Reads a file of entries of `width` bytes into memory that the caller frees; -1 if it cannot be read. */
int64_t read_entries(const char *path, size_t width, void **entries);

/* Reads a file of pairs of u64 into memory that the caller frees; -1 if it cannot be read. */
int64_t read_spans(const char *path, struct span **spans);

#endif
