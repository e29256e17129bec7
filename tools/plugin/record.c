/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The plugin's core: see record.h. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4096u

static uint32_t hash(uint64_t address, uint64_t instructions)
{
    uint64_t mixed = (address >> 2) * UINT64_C(0x9e3779b97f4a7c15) + instructions;

    return (uint32_t)(mixed ^ mixed >> 32);
}

/* Where a block stands in the table of slots, or would. */
static uint32_t slot_of(const struct blocks *blocks, uint64_t address, uint64_t instructions)
{
    uint32_t mask = blocks->slot_count - 1;
    uint32_t slot = hash(address, instructions) & mask;

    for (;; slot = (slot + 1) & mask) {
        uint32_t number = blocks->slots[slot];
        const struct block *known = &blocks->list[number];

        if (number == NO_BLOCK ||
            (known->address == address && known->instructions == instructions))
            return slot;
    }
}

/* Doubles the room. The table of slots is kept at most half full. */
static bool grow(struct blocks *blocks)
{
    uint32_t room = blocks->room ? blocks->room * 2 : FIRST_ROOM;
    struct block *list = realloc(blocks->list, room * sizeof(*list));
    uint32_t *slots;

    if (!list)
        return false;
    blocks->list = list;
    slots = malloc(2 * (size_t)room * sizeof(*slots));
    if (!slots)
        return false;
    memset(slots, 0xff, 2 * (size_t)room * sizeof(*slots));
    free(blocks->slots);
    blocks->slots = slots;
    blocks->slot_count = 2 * room;
    blocks->room = room;
    for (uint32_t i = 0; i < blocks->count; i++)
        slots[slot_of(blocks, list[i].address, list[i].instructions)] = i;
    return true;
}

uint32_t blocks_number(struct blocks *blocks, uint64_t address, uint64_t instructions)
{
    uint32_t slot;

    if (blocks->count == blocks->room && !grow(blocks))
        return NO_BLOCK;
    slot = slot_of(blocks, address, instructions);
    if (blocks->slots[slot] == NO_BLOCK) {
        if (blocks->count > BLOCK_MAX)
            return NO_BLOCK;
        blocks->list[blocks->count] = (struct block){address, instructions};
        blocks->slots[slot] = blocks->count++;
    }
    return blocks->slots[slot];
}

bool blocks_write(const struct blocks *blocks, FILE *file)
{
    return fwrite(blocks->list, sizeof(*blocks->list), blocks->count, file) == blocks->count &&
           fflush(file) == 0;
}

void blocks_free(struct blocks *blocks)
{
    free(blocks->list);
    free(blocks->slots);
    *blocks = (struct blocks){0};
}

/* The lines from an address to before another: looked up, and written while recording is on. */
static void touch(struct recorder *recorder, uint64_t from, uint64_t to, bool is_code)
{
    uint64_t size = UINT64_C(1) << recorder->caches->line_bits;

    for (uint64_t at = caches_line(recorder->caches, from); at < to; at += size) {
        uint64_t line = at | caches_touch(recorder->caches, at, is_code);

        if (is_code)
            line |= TOUCH_CODE;
        if (!recorder->on)
            continue;
        if (fwrite(&line, sizeof(line), 1, recorder->lines) != 1)
            recorder->failed = true;
        recorder->touched++;
        recorder->line_count++;
    }
}

void recorder_access(struct recorder *recorder, uint64_t address, uint64_t bytes)
{
    if (recorder->begun)
        touch(recorder, address, address + bytes, false);
}

/* Writes how many lines the run touched that ends, its own instructions' included. */
static void close_touches(struct recorder *recorder, uint64_t length)
{
    uint16_t touched;

    if (recorder->block != NO_BLOCK) {
        uint64_t from = recorder->known->list[recorder->block].address;

        touch(recorder, from, from + 4 * length, true);
    }
    touched = (uint16_t)recorder->touched;
    if (!recorder->on)
        return;
    if (touched != recorder->touched ||
        fwrite(&touched, sizeof(touched), 1, recorder->touches) != 1)
        recorder->failed = true;
    recorder->touched = 0;
}

/* Writes the run that ends after `executed` instructions. */
static void close_run(struct recorder *recorder, uint64_t executed)
{
    uint64_t length = executed - recorder->began;
    uint32_t run;

    if (length == 0)
        return;
    if (recorder->caches && recorder->begun)
        close_touches(recorder, length);
    if (!recorder->on)
        return;
    if (length > RUN_MAX || recorder->block == NO_BLOCK) {
        recorder->failed = true;
        return;
    }
    run = recorder->block << RUN_BITS | (uint32_t)length;
    if (fwrite(&run, sizeof(run), 1, recorder->runs) != 1)
        recorder->failed = true;
    recorder->run_count++;
}

void recorder_enter(struct recorder *recorder, uint64_t executed, uint32_t block)
{
    close_run(recorder, executed);
    recorder->block = block;
    recorder->began = executed;
}

static bool is_wanted(const struct recorder *recorder, uint64_t clock)
{
    for (size_t i = 0; i < recorder->span_count; i++)
        if (clock >= recorder->spans[i].from && clock <= recorder->spans[i].to)
            return true;
    return recorder->span_count == 0;
}

void recorder_mark(struct recorder *recorder, uint64_t executed, uint64_t probe, uint64_t value,
                   uint32_t rest)
{
    uint64_t mark[4];

    recorder_enter(recorder, executed, rest);
    if (probe == 0) {
        recorder->on = is_wanted(recorder, value);
        recorder->begun = true;
    }
    if (!recorder->on)
        return;
    mark[0] = recorder->run_count;
    mark[1] = executed;
    mark[2] = probe;
    mark[3] = value;
    if (fwrite(mark, sizeof(mark), 1, recorder->marks) != 1)
        recorder->failed = true;
    recorder->mark_count++;
}

bool recorder_end(struct recorder *recorder, uint64_t executed)
{
    close_run(recorder, executed);
    recorder->on = false;
    if (fflush(recorder->runs) != 0 || fflush(recorder->marks) != 0)
        recorder->failed = true;
    if (recorder->caches && (fflush(recorder->lines) != 0 || fflush(recorder->touches) != 0))
        recorder->failed = true;
    return !recorder->failed;
}

int parse_pairs(const char *text, struct span *pairs, int most)
{
    int count = 0;

    for (;;) {
        char *end;

        if (count == most || *text < '0' || *text > '9')
            return -1;
        pairs[count].from = strtoull(text, &end, 0);
        if (*end != ':' || end[1] < '0' || end[1] > '9')
            return -1;
        pairs[count].to = strtoull(end + 1, &end, 0);
        count++;
        if (*end == '\0')
            return count;
        /* QEMU itself takes commas as the ends of options. */
        if (*end != ',' && *end != '+')
            return -1;
        text = end + 1;
    }
}

bool caches_of(struct caches *caches, const struct span pairs[CACHES + 1])
{
    uint64_t sizes[CACHES], ways[CACHES];

    for (int i = 0; i < CACHES; i++) {
        sizes[i] = pairs[i].from;
        ways[i] = pairs[i].to;
    }
    return caches_make(caches, pairs[CACHES].from, sizes, ways);
}

int64_t read_entries(const char *path, size_t width, void **entries)
{
    FILE *file = fopen(path, "rb");
    int64_t count = -1;
    long size;

    *entries = NULL;
    if (!file)
        return -1;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
        size % (long)width == 0) {
        rewind(file);
        *entries = malloc(size ? (size_t)size : 1);
        count = size / (long)width;
        if (*entries && fread(*entries, width, (size_t)count, file) != (size_t)count)
            count = -1;
    }
    fclose(file);
    return *entries ? count : -1;
}

int64_t read_spans(const char *path, struct span **spans)
{
    void *entries;
    int64_t count = read_entries(path, sizeof(**spans), &entries);

    *spans = entries;
    return count;
}
