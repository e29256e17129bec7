/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A TCG plugin that writes which memory the kernel accesses on each CPU of an arm64 board, and changes nothing.
 *
 *   -plugin libiotoll-accesses.so,out=PREFIX,at=ADDRESS:0,edges=FILE,clock=ADDRESS:ADDRESS,
 *           vectors=ADDRESS:ADDRESS[,percpu=ADDRESS:COUNT]
 *
 * It runs beside the plugin of tools/plugin and is built from its parts. The options mean what they mean there
 * (plugin.c): what is measured begins and ends when the function `at` begins; edges, clock and vectors say where
 * the kernel's own tracing runs, whose accesses are left out, as are those of programs and of devices' registers.
 * percpu is the array with the distance of each CPU's own data, read when the first measurement begins.
 *
 * Files, all little-endian arrays without a header:
 *   PREFIX.accesses  struct record, in the order in which QEMU executed them
 *   PREFIX.sites     two u64 for each instruction that made any: its address, its word
 *   PREFIX.percpu    one u64 for each CPU
 *   PREFIX.json      written last: without it the others are not whole
 */
#include <glib.h>
#include <qemu-plugin.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "machine.h"
#include "record.h"
#include "tracing.h"

#define CPUS 64
#define WORDS_MAX 512 /* instructions of a block of QEMU */
#define NO_SITE UINT32_MAX

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* A reading of the trace's clock has no address; it is written whether anything is measured or not. */
enum kind { KIND_LOAD, KIND_STORE, KIND_CLOCK, KIND_OPEN, KIND_CLOSE };

struct record {
    uint64_t physical;
    uint64_t address;
    uint32_t site;
    uint8_t cpu;
    uint8_t bytes;
    uint8_t kind;
    uint8_t none;
};

static struct tracing tracing[CPUS];
static struct blocks sites; /* their "instructions" are the word */
static struct edge *edges;
static int64_t edge_count;
static struct span mark, trace_clock, vectors, percpu;
static uint64_t distances[CPUS];
static char *prefix;
static FILE *file;
static uint64_t record_count;
static bool is_open, was_open, has_failed;

static void failed(const char *what, const char *why)
{
    fprintf(stderr, "iotoll-accesses: %s: %s\n", what, why);
}

static void put(struct record record)
{
    if (fwrite(&record, sizeof(record), 1, file) != 1)
        has_failed = true;
    record_count++;
}

static void on_mark(unsigned int vcpu, void *data)
{
    (void)data;
    if (!was_open && percpu.to) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();

        if (qemu_plugin_read_memory_vaddr(percpu.from, bytes, percpu.to * sizeof(uint64_t)))
            memcpy(distances, bytes->data, percpu.to * sizeof(uint64_t));
        else
            has_failed = true;
    }
    is_open = !is_open;
    was_open = true;
    put((struct record){.cpu = (uint8_t)vcpu, .site = NO_SITE,
                        .kind = is_open ? KIND_OPEN : KIND_CLOSE});
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
    struct qemu_plugin_hwaddr *place;

    if (!is_open || tracing[vcpu].now.on)
        return;
    place = qemu_plugin_get_hwaddr(info, address);
    if (!place || qemu_plugin_hwaddr_is_io(place))
        return;
    put((struct record){qemu_plugin_hwaddr_phys_addr(place), address, GPOINTER_TO_UINT(site),
                        (uint8_t)vcpu, (uint8_t)(1u << qemu_plugin_mem_size_shift(info)),
                        qemu_plugin_mem_is_store(info) ? KIND_STORE : KIND_LOAD, 0});
}

/* How many instructions tracing executes is not asked here, only when it is on. */
static void on_edge(unsigned int vcpu, void *edge)
{
    tracing_edge(&tracing[vcpu], 0, edge);
}

static void on_break(unsigned int vcpu, void *data)
{
    (void)data;
    tracing_break(&tracing[vcpu], 0);
}

static void on_vector(unsigned int vcpu, void *data)
{
    (void)data;
    tracing_exception(&tracing[vcpu], 0);
}

static void on_return(unsigned int vcpu, void *data)
{
    (void)data;
    tracing_return(&tracing[vcpu], 0);
}

static void on_clock(unsigned int vcpu, void *data)
{
    (void)data;
    put((struct record){.cpu = (uint8_t)vcpu, .site = NO_SITE, .kind = KIND_CLOCK});
}

static uint32_t word_of(const struct qemu_plugin_insn *insn)
{
    uint8_t bytes[INSTRUCTION_MAX] = {0};

    return machine_word(MACHINE_ARM64, bytes, qemu_plugin_insn_data(insn, bytes, sizeof(bytes)));
}

static void watch_instruction(struct qemu_plugin_insn *insn, uint32_t word)
{
    uint64_t address = qemu_plugin_insn_vaddr(insn);

    if (address == trace_clock.to)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_clock, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (machine_is_probe(MACHINE_ARM64, word))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_break, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (machine_is_return(MACHINE_ARM64, word))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (machine_is_access(MACHINE_ARM64, word)) {
        uint32_t site = blocks_number(&sites, address, word);

        if (site == NO_BLOCK)
            has_failed = true;
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, GUINT_TO_POINTER(site));
    }
}

/* Edges rise, and so do the addresses of a block. What is behind an instruction begins with it: it is a branch,
 * or the last copy of traced code. */
static void watch_edges(struct qemu_plugin_tb *tb, size_t count, const uint32_t *words)
{
    size_t place = 0;

    for (int64_t next = edge_from(edges, edge_count, qemu_plugin_tb_vaddr(tb)); next < edge_count; next++) {
        struct qemu_plugin_insn *insn;

        while (place < count &&
               qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, place)) < edges[next].address)
            place++;
        if (place == count)
            return;
        insn = qemu_plugin_tb_get_insn(tb, place);
        if (qemu_plugin_insn_vaddr(insn) == edges[next].address &&
            !(edges[next].kind == EDGE_BRANCH && machine_is_nop(MACHINE_ARM64, words[place])))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_edge, QEMU_PLUGIN_CB_NO_REGS,
                                                   &edges[next]);
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    uint64_t from = qemu_plugin_tb_vaddr(tb);
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint32_t words[WORDS_MAX];

    (void)id;
    if (from < UINT64_C(1) << 63)
        return;
    if (count > WORDS_MAX) {
        has_failed = true;
        return;
    }
    if (from == mark.from)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_mark, QEMU_PLUGIN_CB_R_REGS, NULL);
    if (from >= vectors.from && from < vectors.to && (from - vectors.from) % 0x80 == 0)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_vector, QEMU_PLUGIN_CB_NO_REGS, NULL);
    for (size_t i = 0; i < count; i++) {
        words[i] = word_of(qemu_plugin_tb_get_insn(tb, i));
        watch_instruction(qemu_plugin_tb_get_insn(tb, i), words[i]);
    }
    watch_edges(tb, count, words);
}

static FILE *open_file(const char *ending)
{
    g_autofree char *path = g_strdup_printf("%s.%s", prefix, ending);
    FILE *opened = fopen(path, "wb");

    if (!opened)
        failed(path, g_strerror(errno));
    return opened;
}

static bool write_rest(void)
{
    FILE *of_sites = open_file("sites"), *of_cpus = open_file("percpu"), *last;
    bool whole = of_sites && of_cpus;

    whole = whole && blocks_write(&sites, of_sites) &&
            fwrite(distances, sizeof(uint64_t), percpu.to, of_cpus) == percpu.to;
    whole = of_sites && fclose(of_sites) == 0 && whole;
    whole = of_cpus && fclose(of_cpus) == 0 && whole;
    last = whole ? open_file("json") : NULL;
    if (!last)
        return false;
    fprintf(last, "{\"accesses\": %" PRIu64 ", \"sites\": %" PRIu32 "}\n", record_count,
            sites.count);
    return fclose(last) == 0;
}

static void at_end(qemu_plugin_id_t id, void *data)
{
    bool whole = fclose(file) == 0 && !has_failed;

    (void)id;
    (void)data;
    for (int cpu = 0; cpu < CPUS; cpu++)
        whole = whole && !tracing[cpu].failed;
    if (!whole || !write_rest())
        failed("the accesses", "are not whole");
    blocks_free(&sites);
}

static bool take_option(const char *option)
{
    const char *value = strchr(option, '=');

    if (!value++)
        return false;
    if (g_str_has_prefix(option, "out=")) {
        prefix = g_strdup(value);
        file = open_file("accesses");
        return file;
    }
    if (g_str_has_prefix(option, "at="))
        return parse_pairs(value, &mark, 1) == 1;
    if (g_str_has_prefix(option, "clock="))
        return parse_pairs(value, &trace_clock, 1) == 1;
    if (g_str_has_prefix(option, "vectors="))
        return parse_pairs(value, &vectors, 1) == 1;
    if (g_str_has_prefix(option, "percpu="))
        return parse_pairs(value, &percpu, 1) == 1 && percpu.to <= CPUS;
    if (!g_str_has_prefix(option, "edges="))
        return false;
    edge_count = read_edges(value, &edges);
    return edge_count > 0;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv)
{
    if (!info->system_emulation || strcmp(info->target_name, "aarch64") != 0 ||
        info->system.smp_vcpus > CPUS) {
        failed(info->target_name, "only boards with the architecture aarch64 are recorded");
        return -1;
    }
    for (int i = 0; i < argc; i++) {
        if (!take_option(argv[i])) {
            failed(argv[i], "is not a valid option");
            return -1;
        }
    }
    if (!file || !mark.from || !edge_count || !trace_clock.to || !vectors.to) {
        failed("options", "out=, at=, edges=, clock= and vectors= are needed");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, at_end, NULL);
    return 0;
}
