/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest's own tracing executes: see tracing.h. */
#include "tracing.h"

#include "record.h"

/* The group of what a probe's breakpoint begins: no edge ends it, the return from its exception does. */
#define GROUP_BREAK UINT32_MAX

static void change(struct tracing *tracing, uint64_t executed, struct tracing_state state)
{
    if (tracing->now.on && !state.on)
        tracing->total += executed - tracing->begun;
    else if (!tracing->now.on && state.on)
        tracing->begun = executed;
    tracing->now = state;
}

uint64_t tracing_total(const struct tracing *tracing, uint64_t executed)
{
    return tracing->total + (tracing->now.on ? executed - tracing->begun : 0);
}

void tracing_edge(struct tracing *tracing, uint64_t executed, const struct edge *edge)
{
    if (edge->kind == EDGE_BEGIN || edge->kind == EDGE_BRANCH) {
        if (!tracing->now.on)
            change(tracing, executed, (struct tracing_state){.on = true, .group = edge->group});
    } else if (tracing->now.on && tracing->now.group == edge->group) {
        change(tracing, executed, (struct tracing_state){.on = false});
    }
}

void tracing_break(struct tracing *tracing, uint64_t executed)
{
    tracing->before_break = tracing->now;
    tracing->at_break = true;
    change(tracing, executed, (struct tracing_state){.on = true, .group = GROUP_BREAK});
}

void tracing_exception(struct tracing *tracing, uint64_t executed)
{
    if (!tracing->at_break && !tracing->now.on && !tracing->depth)
        return;
    if (tracing->depth == TRACING_DEEP) {
        tracing->failed = true;
        return;
    }
    tracing->stack[tracing->depth++] = tracing->at_break ? tracing->before_break : tracing->now;
    if (!tracing->at_break)
        change(tracing, executed, (struct tracing_state){.on = false});
    tracing->at_break = false;
}

void tracing_return(struct tracing *tracing, uint64_t executed)
{
    if (!tracing->depth)
        return;
    change(tracing, executed, tracing->stack[--tracing->depth]);
}

static uint32_t put(uint8_t *bytes, int64_t value)
{
    uint64_t left = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    uint32_t size = 0;

    do {
        bytes[size++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        left >>= 7;
    } while (left);
    return size;
}

void tracing_read(struct tracing *tracing, struct reading now)
{
    tracing->now.read = now;
}

void tracing_clock(struct tracing *tracing, struct tracing_file *file, uint32_t cpu, uint64_t time)
{
    const struct reading *read = &tracing->now.read;
    uint8_t bytes[40];
    uint32_t size;

    size = put(bytes, (int64_t)(time - file->last_time));
    size += put(bytes + size, (int64_t)(read->tracing - file->last_tracing));
    if (file->is_of_several) {
        size += put(bytes + size, cpu);
        size += put(bytes + size, (int64_t)(read->own - tracing->last_own));
    }
    if (fwrite(bytes, size, 1, file->file) != 1)
        file->failed = true;
    file->last_time = time;
    file->last_tracing = read->tracing;
    tracing->last_own = read->own;
}

bool tracing_begin(struct tracing_file *file, bool is_of_several)
{
    file->is_of_several = is_of_several;
    return fwrite(is_of_several ? TRACING_MAGIC_SEVERAL : TRACING_MAGIC, 8, 1, file->file) == 1;
}

bool tracing_end(struct tracing_file *file)
{
    return fflush(file->file) == 0 && !file->failed;
}

int64_t read_edges(const char *path, struct edge **edges)
{
    void *entries;
    int64_t count = read_entries(path, sizeof(**edges), &entries);

    *edges = entries;
    return count;
}

int64_t edge_from(const struct edge *edges, int64_t count, uint64_t address)
{
    int64_t low = 0, high = count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (edges[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
