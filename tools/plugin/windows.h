/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each CPU executed between its marks, without its tracing, and without QEMU.
 *
 * A mark is a reading of the trace clock, a switch of tasks, an exception that interrupts tracing, or one
 * that user space takes. The stretch between two marks is a window. Windows repeat nearly always: each has a
 * number, and what it consists of is written once. Two windows are the same if the same blocks ran as often,
 * whatever the order: each block has a fixed pseudo-random value, and the values of a window's blocks are
 * added.
 *
 * A window's content are the blocks in their order, cut where tracing began or ended in one of them, where
 * a fault did, or behind an access to a device; and these accesses. Of a window with more than
 * WINDOW_ORDERED of them it is known how often each was there, and no order. What runs in user space is
 * counted.
 *
 * The file is WINDOWS_MAGIC and parts as in counts.h (struct part, then `count` entries of `width` bytes):
 *   PART_BLOCKS    struct window_block, in the order of their numbers; none of those that were translated
 *                  after what is measured had ended. How far x86-64 gets between its write to the register
 *                  that powers it off and QEMU's end is the host's matter
 *   PART_SIZES     u32, of the same: bytes; only where instructions have several lengths
 *   PART_SPECIAL   struct special, of the blocks in that order: instructions of which a reader wants to
 *                  know the words as they ran; the kernel patches some of its image's when it starts
 *   PART_DEVICES   names of WINDOW_NAME bytes
 *   PART_ACCESSES  struct window_access, in the order of their numbers
 *   PART_CONTENTS  u32 of all windows: a block or an access (ENTRY_ACCESS) each; of windows without
 *                  order each once, and behind it how often it was there
 *   PART_WINDOWS   struct window, in the order of their numbers
 * and for each CPU, which the part names:
 *   PART_MARKS     struct window_mark; those of the clock are as many as tracing.h's file has of the CPU
 *   PART_SWITCHES  struct window_switch, of the marks of that kind in their order
 *   PART_VALUES    struct window_value: what functions were called with
 *   PART_TOUCHES   struct line_counts (lines.h); only where lines of cache are counted
 *   PART_OPENED    u32: how many marks the CPU had each time that what is measured began
 * and at last
 *   PART_LAST      nothing: the file is whole
 * What is stored of it is packed, and has the functions of its blocks before PART_LAST (src/iotoll/boots/counts.py).
 */
#ifndef IOTOLL_WINDOWS_H
#define IOTOLL_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "machine.h"
#include "record.h"

#define WINDOWS_MAGIC "IOTOLLW1"
#define WINDOW_ORDERED (1u << 13)
#define WINDOW_NAME 64
#define ENTRY_ACCESS (1u << 31)

enum window_part {
    PART_BLOCKS = 1,
    PART_SPECIAL = 2,
    PART_DEVICES = 3,
    PART_ACCESSES = 4,
    PART_CONTENTS = 5,
    PART_WINDOWS = 6,
    PART_MARKS = 7,
    PART_SWITCHES = 8,
    PART_LAST = 9,
    PART_VALUES = 11, /* 10 is what is added when it is stored */
    PART_TOUCHES = 12,
    PART_OPENED = 14, /* 13 as well */
    PART_SIZES = 15,
};

enum mark_kind { MARK_CLOCK = 0, MARK_SWITCH = 1, MARK_EXCEPTION = 2, MARK_ENTRY = 3 };

struct window_block {
    uint64_t address;
    uint32_t instructions;
    uint32_t special; /* how many of PART_SPECIAL are its own */
};

struct special {
    uint32_t place; /* instructions from the block's first one */
    uint32_t word; /* machine.h */
};

struct window_access {
    uint64_t address; /* of the instruction */
    uint32_t device;
    uint32_t is_store;
};

struct window {
    uint32_t entries; /* of PART_CONTENTS */
    uint32_t is_ordered;
    uint64_t instructions;
};

struct window_mark {
    uint32_t window; /* that ends with it; NO_BLOCK: none was kept */
    uint32_t kind;
    uint32_t user; /* instructions of user space in it */
};

struct window_switch {
    uint64_t from; /* structures of tasks */
    uint64_t to;
};

struct window_value {
    uint32_t mark;  /* its window is the one that ends with it */
    uint32_t place; /* of the function's first block in the window's content; NO_BLOCK: not known */
    uint32_t which; /* of the values that were asked for */
    uint32_t amount;
};

/* A block as it was translated; lives as long as the windows do. */
struct stretch {
    uint64_t value;
    uint32_t number;
    uint32_t instructions;
    uint64_t address;
    uint64_t end;
    uint16_t *places; /* bytes from the first instruction to each and to the end; NULL: 4 for each */
    uint64_t first_special; /* in the list of all */
    uint32_t special;
};

/* What the translation of a block says of its instructions. */
struct translated {
    enum machine machine;
    uint32_t instructions;
    const uint32_t *words;  /* machine.h */
    const uint16_t *places; /* as in struct stretch, of x86-64; else NULL */
};

/* Where so many instructions of a block end. */
static inline uint64_t stretch_at(const struct stretch *stretch, uint32_t instructions)
{
    return stretch->address +
           (stretch->places ? stretch->places[instructions] : 4 * (uint64_t)instructions);
}

/* Of one kind, as many as there are. */
struct list {
    void *entries;
    uint64_t count;
    uint64_t room;
};

/* What all CPUs have in common: blocks, and windows that are known. */
struct window_store {
    FILE *file;
    struct blocks blocks;
    struct list stretches; /* pointers, by the block's number */
    struct list special, devices, accesses, contents, known;
    struct list sums; /* of the known windows */
    uint32_t *slots;  /* numbers of known windows, by their sum; NO_BLOCK: empty */
    uint64_t slot_count;
    uint64_t measured; /* blocks when what is measured ended; UINT64_MAX: it goes on, or has not begun */
    bool failed;
};

/* Of one CPU. What each block that runs reads and writes is together, in one line of the host's cache. */
struct windows {
    _Alignas(64) uint64_t executed; /* instructions of the kernel, tracing's included */
    const struct stretch *running;
    /* Of the window that goes on: */
    uint64_t instructions;
    uint64_t sum;
    uint32_t *content;
    uint32_t count;
    bool adds;    /* open and not away */
    bool is_open; /* something is measured: windows are kept */
    bool is_away; /* tracing runs */
    uint64_t user; /* instructions of user space until its beginning */
    struct list tallies[2]; /* of blocks and of accesses that `content` has no room for: how often */
    struct list touched;    /* which of these are not 0 */
    struct window_store *store;
    struct list marks, switches, values, opened;
    const struct list *touches; /* struct line_counts; NULL: not counted */
    uint32_t touch_width;
};

/* A place for one more entry at a list's end; NULL: no memory. */
void *list_more(struct list *list, size_t width);

/* False: no memory. */
bool store_make(struct window_store *store);
bool windows_make(struct windows *windows, struct window_store *store);

/* The block of an address, with its instructions; NULL: no memory, or too many blocks. */
const struct stretch *windows_stretch(struct window_store *store, uint64_t address,
                                      const struct translated *code);

/* Makes room for entries of the window that goes on, of which the order is lost. */
void windows_spill(struct windows *windows);

/* To the window that goes on: adds a block or an access at its end. */
static inline void windows_add(struct windows *windows, uint32_t entry, uint64_t value)
{
    windows->sum += value;
    if (windows->count == WINDOW_ORDERED)
        windows_spill(windows);
    windows->content[windows->count++] = entry;
}

/* A block begins to run. */
static inline void windows_enter(struct windows *windows, const struct stretch *stretch)
{
    windows->running = stretch;
    windows->executed += stretch->instructions;
    if (windows->adds) {
        windows->instructions += stretch->instructions;
        windows_add(windows, stretch->number, stretch->value);
    }
}

/*
 * Between two blocks: what is measured begins, or ends. Before and behind it, marks have no window; and none is
 * there but those of the clock. `user` are all instructions of user space so far.
 */
void windows_open(struct windows *windows, bool is_open, uint64_t user);

/* Tracing begins before the instruction at an address of the block that runs. */
void windows_leave(struct windows *windows, uint64_t address);

/* Tracing has ended before the instruction at an address of the block that runs; 0: another one begins. */
void windows_return(struct windows *windows, uint64_t address);

/* The block that runs is left before the instruction at an address, which it does not reach. */
void windows_stop(struct windows *windows, uint64_t address);

/* The instruction at an address accessed a device, and the block that runs is left behind it, at its end. */
void windows_access(struct windows *windows, uint64_t address, uint64_t end, const char *device,
                    bool is_store);

/* A mark before the instruction at an address of the block that runs, or 0: before another one; `user` are all instructions of user space so far. */
void windows_mark(struct windows *windows, uint64_t address, enum mark_kind kind, uint64_t user);

/* The same at a switch of tasks. */
void windows_switch(struct windows *windows, uint64_t address, uint64_t user, uint64_t from,
                    uint64_t to);

/* The function that just began was called with a value that was asked for. */
void windows_value(struct windows *windows, uint32_t which, uint64_t amount);

/* Writes all of so many CPUs; whether the file is whole. The caller closes it. */
bool store_end(struct window_store *store, struct windows *const *cpus, uint32_t count);

void store_free(struct window_store *store);
void windows_free(struct windows *windows);

#endif
