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

static uint64_t total(const struct tracing *tracing, uint64_t executed)
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
    tracing->now.disturbed = true;
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

void tracing_read(struct tracing *tracing, uint64_t executed)
{
    tracing->now.read = total(tracing, executed);
    tracing->now.disturbed = false;
}

void tracing_clock(struct tracing *tracing, uint64_t executed, uint64_t time)
{
    uint64_t now = total(tracing, executed);
    uint8_t bytes[20];
    uint32_t size;

    if (!tracing->now.disturbed)
        tracing->usual = now - tracing->now.read;
    else if (time < tracing->last_time)
        /* An interrupt came behind the counter's reading, and read it as well. */
        now = tracing->now.read + tracing->usual;
    size = put(bytes, (int64_t)(time - tracing->last_time));
    size += put(bytes + size, (int64_t)(now - tracing->last_total));
    if (fwrite(bytes, size, 1, tracing->file) != 1)
        tracing->failed = true;
    tracing->last_time = time;
    tracing->last_total = now;
}

bool tracing_end(struct tracing *tracing)
{
    return fflush(tracing->file) == 0 && !tracing->failed;
}

int64_t read_edges(const char *path, struct edge **edges)
{
    void *entries;
    int64_t count = read_entries(path, sizeof(**edges), &entries);

    *edges = entries;
    return count;
}
