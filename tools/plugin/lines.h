/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which lines of cache a CPU touches between its marks, and what they miss in a model of caches; without QEMU.
 *
 * Only what windows.h keeps is seen: the kernel's code and its accesses to memory, without tracing. A line
 * counts once between two system calls: it is touched again by the next one. Code is known by its virtual
 * address, data by its physical one.
 */
#ifndef IOTOLL_LINES_H
#define IOTOLL_LINES_H

#include "cache.h"
#include "windows.h"

enum { LINES_DATA, LINES_CODE, MISSES_L1D, MISSES_L1I, MISSES_L2, LINE_COUNTS };

/* An entry of PART_TOUCHES: what a block had that ran before a mark. Most blocks have nothing. */
struct line_counts {
    uint32_t mark;
    uint32_t block;
    uint16_t counts[LINE_COUNTS];
    uint16_t none;
};

struct lines {
    struct caches caches;
    uint64_t *keys;  /* lines that were touched, by their hash; 0: empty */
    uint32_t *calls; /* in which system call each was, the last time */
    uint64_t room, count;
    uint32_t call;
    struct list found;
    bool is_on;
    bool failed;
};

/* False: no memory. `lines->caches` is made. */
bool lines_make(struct lines *lines);

/* The next system call begins. */
void lines_call(struct lines *lines);

/* The block that runs executes, or accesses, these bytes. */
void lines_touch(struct lines *lines, const struct windows *windows, uint64_t address,
                 uint64_t bytes, bool is_code);

void lines_free(struct lines *lines);

#endif
