/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The model of caches: see cache.h. */
#include "cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Code is known by its virtual address, data by its physical one: the same number must not be the
 * same line, so this bit of a line's number is inverted for code. Physical addresses are too short
 * to have it.
 */
#define OTHER_SPACE (UINT64_C(1) << 59)

static bool is_power_of_two(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

bool caches_make(struct caches *caches, uint64_t line, const uint64_t sizes[CACHES],
                 const uint64_t ways[CACHES])
{
    *caches = (struct caches){0};
    if (!is_power_of_two(line) || line < LINE_LEAST)
        return false;
    caches->line_bits = (unsigned)__builtin_ctzll(line);
    for (int i = 0; i < CACHES; i++) {
        struct cache *cache = &caches->level[i];

        if (ways[i] == 0 || ways[i] > 1024 || sizes[i] % (line * ways[i]) != 0 ||
            !is_power_of_two(sizes[i] / (line * ways[i]))) {
            caches_free(caches);
            return false;
        }
        cache->sets = sizes[i] / (line * ways[i]);
        cache->ways = (uint32_t)ways[i];
        cache->tags = calloc(cache->sets * ways[i], sizeof(*cache->tags));
        if (!cache->tags) {
            caches_free(caches);
            return false;
        }
    }
    return true;
}

void caches_free(struct caches *caches)
{
    for (int i = 0; i < CACHES; i++)
        free(caches->level[i].tags);
    *caches = (struct caches){0};
}

/* Whether a cache holds a line; afterwards it does, as the one used last of its set. */
static bool holds(struct cache *cache, uint64_t line)
{
    uint64_t *set = cache->tags + (line & (cache->sets - 1)) * cache->ways;
    uint64_t tag = line + 1; /* 0 is no line */
    uint32_t way = 0;
    bool found;

    if (set[0] == tag)
        return true;
    while (way < cache->ways && set[way] != tag)
        way++;
    found = way < cache->ways;
    if (!found)
        way = cache->ways - 1;
    memmove(set + 1, set, way * sizeof(*set));
    set[0] = tag;
    return found;
}

unsigned caches_touch(struct caches *caches, uint64_t address, bool is_code)
{
    uint64_t line = address >> caches->line_bits;

    if (is_code)
        line ^= OTHER_SPACE;
    if (holds(&caches->level[is_code ? CACHE_CODE : CACHE_DATA], line))
        return 0;
    return holds(&caches->level[CACHE_SECOND], line) ? TOUCH_MISS_L1
                                                     : TOUCH_MISS_L1 | TOUCH_MISS_L2;
}

uint64_t caches_line(const struct caches *caches, uint64_t address)
{
    return address >> caches->line_bits << caches->line_bits;
}
