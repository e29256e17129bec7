/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many instructions the guest's own tracing executed until each of its time stamps, without QEMU.
 * Each CPU has a state of its own.
 *
 * Tracing is what runs between an instruction that begins it and one that ends it: both are known from
 * the kernel's image (the block behind a tracepoint's branch, and where that block goes on with the
 * traced code), or are the exception of a kernel probe's breakpoint and its return. What an interrupt
 * does meanwhile is not tracing, unless it is traced itself.
 *
 * Each time the trace clock is read, it is written what tracing executed so far, on all CPUs. So between
 * any two events of the trace it is known exactly. With several CPUs, the clock counts what all of them
 * execute, so it is also written which CPU read it, and what that CPU executed besides tracing.
 *
 * The file is TRACING_MAGIC, then for each reading of the clock two LEB128 numbers: the difference of
 * its value to the last one's (zigzag: interrupts and other CPUs may read it in between), and tracing's
 * instructions since then (zigzag likewise). With several CPUs it is TRACING_MAGIC_SEVERAL, and two more
 * numbers (zigzag): the CPU, and what it executed besides since its last reading.
 */
#ifndef IOTOLL_TRACING_H
#define IOTOLL_TRACING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TRACING_MAGIC "IOTOLLT1"
#define TRACING_MAGIC_SEVERAL "IOTOLLT2"
/* Exceptions within each other. */
#define TRACING_DEEP 16

enum edge_kind { EDGE_BEGIN = 1, EDGE_END = 2, EDGE_END_BEHIND = 3, EDGE_BRANCH = 4 };

/*
 * An instruction at which tracing begins, or ends: before it runs, or behind it. Behind a tracepoint's
 * branch it begins while the branch is there (the kernel puts a NOP in its place otherwise). Only an edge of the
 * same group ends what one has begun: code that tracing calls may be traced, too.
 */
struct edge {
    uint64_t address;
    uint32_t kind;
    uint32_t group;
};

/* What was executed when the counter behind the trace clock was read. */
struct reading {
    uint64_t tracing; /* by tracing, on all CPUs */
    uint64_t own;     /* by this CPU besides */
};

struct tracing_state {
    bool on;
    uint32_t group;
    struct reading read; /* of the function that reads the clock, the last time in this state */
};

struct tracing {
    struct tracing_state now;
    uint64_t begun; /* instructions executed when it was switched on */
    uint64_t total; /* tracing's own, without what goes on */
    bool at_break;  /* a probe's breakpoint is about to raise its exception */
    struct tracing_state before_break;
    struct tracing_state stack[TRACING_DEEP];
    uint32_t depth;
    uint64_t last_own;
    bool failed;
};

/* What all CPUs write into. */
struct tracing_file {
    FILE *file;
    bool is_of_several;
    uint64_t last_time;
    uint64_t last_tracing;
    bool failed;
};

/* All take how many instructions were executed when it happens. */
void tracing_edge(struct tracing *tracing, uint64_t executed, const struct edge *edge);
void tracing_break(struct tracing *tracing, uint64_t executed);
void tracing_exception(struct tracing *tracing, uint64_t executed);
void tracing_return(struct tracing *tracing, uint64_t executed);

/* What tracing executed so far. */
uint64_t tracing_total(const struct tracing *tracing, uint64_t executed);

/*
 * The function that reads the clock begins; its counter is read, of which the last time counts; it
 * returns a value.
 */
void tracing_read(struct tracing *tracing, struct reading now);
void tracing_clock(struct tracing *tracing, struct tracing_file *file, uint32_t cpu, uint64_t time);

/* Begins the file; false: it cannot be written. */
bool tracing_begin(struct tracing_file *file, bool is_of_several);

/* Whether all was written. The caller closes the file. */
bool tracing_end(struct tracing_file *file);

/* Reads a file of edges, which rise, into memory that the caller frees; -1 if it cannot be read. */
int64_t read_edges(const char *path, struct edge **edges);

/* The number of the first of so many edges, which rise, that is not before an address. */
int64_t edge_from(const struct edge *edges, int64_t count, uint64_t address);

#endif
