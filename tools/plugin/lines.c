/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines of cache that are touched between marks: see lines.h. */
#include "lines.h"

#include <stdlib.h>

#define FIRST_ROOM (UINT64_C(1) << 16)
/* Code and data have lines of the same numbers. */
#define CODE_KEY (UINT64_C(1) << 62)

static bool make_room(struct lines *lines, uint64_t room)
{
    lines->keys = calloc(room, sizeof(*lines->keys));
    lines->calls = calloc(room, sizeof(*lines->calls));
    lines->room = room;
    return lines->keys && lines->calls;
}

bool lines_make(struct lines *lines)
{
    lines->call = 1;
    lines->is_on = make_room(lines, FIRST_ROOM);
    return lines->is_on;
}

static uint64_t slot_of(const struct lines *lines, uint64_t key)
{
    uint64_t slot = key * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (lines->room - 1);

    while (lines->keys[slot] && lines->keys[slot] != key)
        slot = (slot + 1) & (lines->room - 1);
    return slot;
}

static void grow(struct lines *lines)
{
    struct lines old = *lines;

    if (!make_room(lines, 2 * old.room)) {
        free(lines->keys);
        free(lines->calls);
        *lines = old;
        lines->failed = true;
        return;
    }
    for (uint64_t i = 0; i < old.room; i++) {
        uint64_t slot;

        if (!old.keys[i])
            continue;
        slot = slot_of(lines, old.keys[i]);
        lines->keys[slot] = old.keys[i];
        lines->calls[slot] = old.calls[i];
    }
    free(old.keys);
    free(old.calls);
}

/* Whether a line is touched for the first time since the system call began. */
static bool is_first(struct lines *lines, uint64_t line, bool is_code)
{
    uint64_t key = (line + 1) ^ (is_code ? CODE_KEY : 0), slot = slot_of(lines, key);

    if (lines->calls[slot] == lines->call)
        return false;
    if (!lines->keys[slot]) {
        lines->keys[slot] = key;
        lines->count++;
    }
    lines->calls[slot] = lines->call;
    if (2 * lines->count > lines->room)
        grow(lines);
    return true;
}

void lines_call(struct lines *lines)
{
    lines->call++;
}

/* What the block that runs has so far before the next mark. */
static struct line_counts *counts_of(struct lines *lines, const struct windows *windows)
{
    uint32_t mark = (uint32_t)windows->marks.count, block = windows->running->number;
    struct line_counts *last = lines->found.entries, *added;

    if (lines->found.count) {
        last += lines->found.count - 1;
        if (last->mark == mark && last->block == block)
            return last;
    }
    added = list_more(&lines->found, sizeof(*added));
    if (added)
        *added = (struct line_counts){.mark = mark, .block = block};
    else
        lines->failed = true;
    return added;
}

void lines_touch(struct lines *lines, const struct windows *windows, uint64_t address,
                 uint64_t bytes, bool is_code)
{
    unsigned bits = lines->caches.line_bits;
    uint64_t last = (address + bytes - 1) >> bits;

    if (!windows->adds || !windows->running)
        return;
    for (uint64_t line = address >> bits; line <= last; line++) {
        unsigned missed = caches_touch(&lines->caches, line << bits, is_code);
        bool first = is_first(lines, line, is_code);
        struct line_counts *counts = first || missed ? counts_of(lines, windows) : NULL;

        if (!counts)
            continue;
        counts->counts[is_code ? LINES_CODE : LINES_DATA] += first;
        counts->counts[is_code ? MISSES_L1I : MISSES_L1D] += (missed & TOUCH_MISS_L1) != 0;
        counts->counts[MISSES_L2] += (missed & TOUCH_MISS_L2) != 0;
    }
}

void lines_free(struct lines *lines)
{
    caches_free(&lines->caches);
    free(lines->keys);
    free(lines->calls);
    free(lines->found.entries);
}
