/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often each piece of code ran: see counts.h. */
#include "counts.h"

#include <stdlib.h>
#include <string.h>

bool counts_functions(struct counts *counts, const struct span *spans, uint32_t count)
{
    counts->spans = spans;
    counts->function_count = count + 1;
    counts->functions = calloc(count + 1, sizeof(*counts->functions));
    return counts->functions;
}

uint32_t counts_function(const struct counts *counts, uint64_t address)
{
    uint32_t none = counts->function_count - 1, low = 0, high = none;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (counts->spans[middle].to > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low < none && counts->spans[low].from <= address ? low : none;
}

static bool add_piece(struct function *function, uint32_t piece)
{
    if (function->count == function->room) {
        uint32_t room = function->room ? 2 * function->room : 8;
        uint32_t *pieces = realloc(function->pieces, room * sizeof(*pieces));

        if (!pieces)
            return false;
        function->pieces = pieces;
        function->room = room;
    }
    function->pieces[function->count++] = piece;
    return true;
}

uint32_t counts_piece(struct counts *counts, uint64_t address, uint64_t instructions)
{
    uint32_t number, known;

    if (!counts->pieces.count)
        blocks_number(&counts->pieces, 0, 1);
    known = counts->pieces.count;
    number = blocks_number(&counts->pieces, address, instructions);
    if (number >= PIECES_MAX)
        return NO_BLOCK;
    /* One that is new has not run yet, so what `entered` says of it is right: 0. */
    if (number == known &&
        !add_piece(&counts->functions[counts_function(counts, address)], number))
        return NO_BLOCK;
    return number;
}

bool counts_cpu(struct counts *counts, uint32_t cpu)
{
    struct cpu_counts *one;

    if (cpu >= CPUS_MAX)
        return false;
    one = &counts->cpus[cpu];
    /* Pages that no piece has are never touched. */
    one->begun = calloc(PIECES_MAX, sizeof(*one->begun));
    one->entered = calloc(PIECES_MAX, sizeof(*one->entered));
    one->idle = calloc(PIECES_MAX, sizeof(*one->idle));
    one->stamps = calloc(counts->function_count, sizeof(*one->stamps));
    one->seen = calloc(counts->function_count, sizeof(*one->seen));
    if (cpu >= counts->cpu_count)
        counts->cpu_count = cpu + 1;
    return one->begun && one->entered && one->idle && one->stamps && one->seen;
}

void counts_now(struct counts *counts, uint32_t cpu, const uint64_t *now)
{
    counts->cpus[cpu].now = now;
}

static void write_part(struct counts *counts, struct part part, const void *entries)
{
    if (fwrite(&part, sizeof(part), 1, counts->file) != 1)
        counts->failed = true;
    if (part.count && fwrite(entries, part.width, part.count, counts->file) != part.count)
        counts->failed = true;
}

static void begin(struct cpu_counts *one, uint32_t pieces)
{
    memcpy(one->begun, one->now, pieces * sizeof(*one->begun));
    memset(one->idle, 0, pieces * sizeof(*one->idle));
}

/* Writes what a CPU has run in the window that ends. */
static void finish(struct counts *counts, uint32_t cpu)
{
    struct cpu_counts *one = &counts->cpus[cpu];
    struct counted *found = malloc(counts->pieces.count * sizeof(*found));
    struct part part = {PART_WINDOW, counts->marks / 2, cpu, sizeof(*found), 0};

    counts_leave(counts, cpu);
    if (!found) {
        counts->failed = true;
        return;
    }
    for (uint32_t i = 0; i < counts->pieces.count; i++) {
        uint64_t times = one->now[i] - one->begun[i];

        if (!times)
            continue;
        if (times > UINT32_MAX)
            counts->failed = true;
        found[part.count++] = (struct counted){i, (uint32_t)times, (uint32_t)one->idle[i]};
    }
    write_part(counts, part, found);
    free(found);
}

void counts_mark(struct counts *counts)
{
    for (uint32_t cpu = 0; cpu < counts->cpu_count; cpu++) {
        if (counts->open)
            finish(counts, cpu);
        else
            begin(&counts->cpus[cpu], PIECES_MAX < counts->pieces.count ? PIECES_MAX
                                                                       : counts->pieces.count);
    }
    counts->open = !counts->open;
    counts->marks++;
}

void counts_idle(struct counts *counts, uint32_t cpu, uint32_t function)
{
    struct cpu_counts *one = &counts->cpus[cpu];
    const struct function *entered = &counts->functions[function];

    if (!one->idles) {
        one->idles = true;
        one->span++;
    }
    if (one->stamps[function] == one->span)
        return;
    one->stamps[function] = one->span;
    one->seen[one->seen_count++] = function;
    for (uint32_t i = 0; i < entered->count; i++)
        one->entered[entered->pieces[i]] = one->now[entered->pieces[i]];
}

void counts_leave(struct counts *counts, uint32_t cpu)
{
    struct cpu_counts *one = &counts->cpus[cpu];

    for (uint32_t i = 0; i < one->seen_count; i++) {
        const struct function *function = &counts->functions[one->seen[i]];

        for (uint32_t j = 0; j < function->count; j++) {
            uint32_t piece = function->pieces[j];

            one->idle[piece] += one->now[piece] - one->entered[piece];
        }
    }
    one->seen_count = 0;
    one->idles = false;
}

bool counts_end(struct counts *counts)
{
    struct part pieces = {PART_PIECES, 0, 0, sizeof(struct piece), counts->pieces.count};
    struct part end = {PART_END, counts->marks, 0, 0, 0};

    write_part(counts, pieces, counts->pieces.list);
    write_part(counts, end, NULL);
    return fflush(counts->file) == 0 && !counts->failed;
}

void counts_free(struct counts *counts)
{
    for (uint32_t cpu = 0; cpu < counts->cpu_count; cpu++) {
        struct cpu_counts *one = &counts->cpus[cpu];

        free(one->begun);
        free(one->entered);
        free(one->idle);
        free(one->stamps);
        free(one->seen);
    }
    for (uint32_t i = 0; i < counts->function_count; i++)
        free(counts->functions[i].pieces);
    free(counts->functions);
    blocks_free(&counts->pieces);
}
