/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of caches, without QEMU: two of level 1 (instructions, data) and one of level 2 for both.
 *
 * Each is set-associative and replaces the least recently used line of a set. A line that misses is
 * filled in, at level 2 as well, whether it is read or written. There is no prefetching, no
 * speculation and no write-back traffic, and level 2 does not evict what level 1 holds.
 */
#ifndef IOTOLL_CACHE_H
#define IOTOLL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* What an access was, and what it missed; the low bits of a touched line in PREFIX.lines. */
#define TOUCH_CODE 1u
#define TOUCH_MISS_L1 2u
#define TOUCH_MISS_L2 4u
#define LINE_LEAST 16u /* bytes: flags need the low bits of a line's address */

struct cache {
    uint64_t sets; /* a power of two */
    uint32_t ways;
    uint64_t *tags; /* ways of set 0, of set 1, ...; the most recently used first; 0: empty */
};

enum { CACHE_CODE, CACHE_DATA, CACHE_SECOND, CACHES };

struct caches {
    unsigned line_bits;
    struct cache level[CACHES];
};

/*
 * `sizes` and `ways` of the three caches, and the bytes of a line; false where sets or lines would
 * not be powers of two, a line would be shorter than LINE_LEAST, or memory is short.
 */
bool caches_make(struct caches *caches, uint64_t line, const uint64_t sizes[CACHES],
                 const uint64_t ways[CACHES]);
void caches_free(struct caches *caches);

/* Looks an address up, and fills its line in; returns TOUCH_MISS_L1 and TOUCH_MISS_L2, or 0. */
unsigned caches_touch(struct caches *caches, uint64_t address, bool is_code);

/* The address of the first byte of a line. */
uint64_t caches_line(const struct caches *caches, uint64_t address);

#endif
