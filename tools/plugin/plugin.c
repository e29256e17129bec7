/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A TCG plugin that records which instructions a board executes, and changes none of them.
 *
 *   -plugin libiotoll-record.so[,out=PREFIX,probes=ADDRESS:REGISTER+ADDRESS:REGISTER[,spans=FILE]
 *                               [,caches=SIZE:WAYS+SIZE:WAYS+SIZE:WAYS+LINE:1]]
 *                               [,counts=FILE,at=ADDRESS:0,idle=FILE,leave=FILE,functions=FILE]
 *                               [,tracing=FILE,windows=FILE,edges=FILE,clock=ADDRESS:ADDRESS,
 *                                 vectors=ADDRESS:ADDRESS|entries=FILE,image=ADDRESS:ADDRESS,
 *                                 switch=ADDRESS:ADDRESS,
 *                                 values=ADDRESS:REGISTER+ADDRESS:REGISTER[,caches=...]]
 *
 * Before the instruction at a probe's ADDRESS runs, the value of xREGISTER is noted (a mark); of x86-64 the
 * registers are numbered as in x86_registers. The
 * first probe is the clock: recording begins at its first mark or, with spans, while its value is in
 * one of the spans of FILE (pairs of u64, both included). record.h describes the files. PREFIX.json
 * is written last: without it the record is not whole. With caches (bytes and ways of instructions',
 * data's and the second level's, then the bytes of a line) the lines that are touched are recorded.
 *
 * With counts, FILE says how often each piece of code ran between marks, on each CPU (counts.h). A mark
 * is when the function at ADDRESS begins. A block that begins in one of the spans of idle's FILE is of
 * the idle loop, and one in a span of leave's ends idling; functions has all
 * functions. It does not go with a record.
 *
 * With tracing, FILE says what the guest's own tracing executed until each of its time stamps (tracing.h), and
 * windows' FILE what everything else executed between them (windows.h). edges' FILE has where tracing begins
 * and ends, clock the first instruction of the function that reads the trace clock and its return, vectors
 * the table of exception vectors of arm64. Of x86-64, entries has where each exception and system call begins
 * (pairs of u64: an address and a kind, enum entry_kind of traced.c), image the first address of the kernel's image
 * and the one behind it. switch is the function that switches tasks. They go together, with counts.
 * values are functions that are called with a number of which windows keeps the sum (xREGISTER, one of the first
 * eight). With caches, windows' FILE also says which lines were touched first since a system call (lines.h).
 *
 * Instructions are counted one by one, not by the lengths of the blocks: QEMU leaves a block early
 * at an exception, and runs the rest again after an access to a device.
 */
#include <glib.h>
#include <qemu-plugin.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "counts.h"
#include "record.h"
#include "traced.h"

#define PROBES 8
#define REGISTERS 31

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct blocks blocks;
static struct recorder recorder;
static struct span probes[PROBES]; /* address and number of the register */
static int probe_count;
static struct qemu_plugin_register *registers[REGISTERS];
static struct qemu_plugin_scoreboard *scores;
static qemu_plugin_u64 executed;
static struct span *spans;
static struct caches caches;
static struct span cache_pairs[CACHES + 1];
static char *prefix;
static struct counts counts;
static struct qemu_plugin_scoreboard *count_scores, *idle_scores;
static qemu_plugin_u64 idle_flag;
static struct span count_mark; /* its first number is an address */
static struct spans {
    struct span *list;
    int64_t count;
} idle_code, leave_code, function_code;

struct site {
    uint32_t block; /* that begins with the probe's instruction */
    int probe;
};

/* Arguments of functions, and what they return. */
static const char *const x86_registers[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax"};

static void failed(const char *what, const char *why)
{
    fprintf(stderr, "iotoll-record: %s: %s\n", what, why);
}

static FILE *open_file(const char *ending)
{
    g_autofree char *path = g_strdup_printf("%s.%s", prefix, ending);
    FILE *file = fopen(path, "wb");

    if (!file)
        failed(path, g_strerror(errno));
    return file;
}

static void on_vcpu(qemu_plugin_id_t id, unsigned int vcpu)
{
    g_autoptr(GArray) all = NULL;

    (void)id;
    if (counts.file && !counts_cpu(&counts, vcpu)) {
        failed("counts", "too many CPUs, or too little memory");
        counts.failed = true;
    }
    if (!prefix && !traced_is_on())
        return;
    all = qemu_plugin_get_registers();
    if (traced_is_on())
        traced_cpu(vcpu, all);
    if (prefix && vcpu != 0) {
        failed("the board", "has several CPUs: a record has one CPU's instructions");
        recorder.failed = true;
    }
    for (guint i = 0; i < all->len; i++) {
        qemu_plugin_reg_descriptor *one = &g_array_index(all, qemu_plugin_reg_descriptor, i);
        char *end;
        guint64 number;

        for (guint j = 0; j < G_N_ELEMENTS(x86_registers); j++)
            if (strcmp(one->name, x86_registers[j]) == 0)
                registers[j] = one->handle;
        if (one->name[0] != 'x' || !g_ascii_isdigit(one->name[1]))
            continue;
        number = g_ascii_strtoull(one->name + 1, &end, 10);
        if (*end == '\0' && number < REGISTERS)
            registers[number] = one->handle;
    }
}

static void on_block(unsigned int vcpu, void *number)
{
    recorder_enter(&recorder, qemu_plugin_u64_get(executed, vcpu), GPOINTER_TO_UINT(number));
}

static void on_probe(unsigned int vcpu, void *data)
{
    static GByteArray *bytes;
    const struct site *site = data;
    uint64_t value = 0;

    if (!bytes)
        bytes = g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    if (qemu_plugin_read_register(registers[probes[site->probe].to], bytes) != sizeof(value))
        recorder.failed = true;
    else
        memcpy(&value, bytes->data, sizeof(value));
    recorder_mark(&recorder, qemu_plugin_u64_get(executed, vcpu), (uint64_t)site->probe, value,
                  site->block);
}

/* The first of some spans, which rise, that ends behind an address. */
static const struct span *span_from(const struct span *list, int64_t count, uint64_t address)
{
    int64_t low = 0, high = count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (list[middle].to > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low < count ? &list[low] : NULL;
}

static bool is_within(const struct spans *spans, uint64_t address)
{
    const struct span *found = span_from(spans->list, spans->count, address);

    return found && found->from <= address;
}

static void refresh_counters(void)
{
    for (uint32_t cpu = 0; cpu < counts.cpu_count; cpu++)
        counts_now(&counts, cpu, qemu_plugin_scoreboard_find(count_scores, cpu));
}

static void on_count_mark(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    refresh_counters();
    counts_mark(&counts);
    if (traced_is_on())
        traced_open(counts.open);
    if (!counts.open)
        for (uint32_t cpu = 0; cpu < counts.cpu_count; cpu++)
            qemu_plugin_u64_set(idle_flag, cpu, 0);
}

static void on_idle(unsigned int vcpu, void *function)
{
    if (!counts.open)
        return;
    counts_now(&counts, vcpu, qemu_plugin_scoreboard_find(count_scores, vcpu));
    qemu_plugin_u64_set(idle_flag, vcpu, 1);
    counts_idle(&counts, vcpu, GPOINTER_TO_UINT(function));
}

static void on_leave(unsigned int vcpu, void *data)
{
    (void)data;
    qemu_plugin_u64_set(idle_flag, vcpu, 0);
    counts_leave(&counts, vcpu);
}

/* Calls of a block before it counts: whether the CPU idles is known from the first one on. */
static void watch_block(struct qemu_plugin_tb *tb, uint64_t address)
{
    uint32_t function = counts_function(&counts, address);

    if (address == count_mark.from)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_count_mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (is_within(&leave_code, address))
        qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_leave, QEMU_PLUGIN_CB_NO_REGS,
                                                  QEMU_PLUGIN_COND_NE, idle_flag, 0, NULL);
    else if (is_within(&idle_code, address))
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_idle, QEMU_PLUGIN_CB_NO_REGS,
                                             GUINT_TO_POINTER(function));
    else if (function < function_code.count && function_code.list[function].from == address)
        qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_idle, QEMU_PLUGIN_CB_NO_REGS,
                                                  QEMU_PLUGIN_COND_NE, idle_flag, 0,
                                                  GUINT_TO_POINTER(function));
}

static void translate_counts(struct qemu_plugin_tb *tb)
{
    uint64_t address = qemu_plugin_tb_vaddr(tb), instructions = qemu_plugin_tb_n_insns(tb), add = 1;
    qemu_plugin_u64 counter = {count_scores, 0};

    if (address < UINT64_C(1) << 63) {
        add = instructions;
    } else {
        uint32_t piece = counts_piece(&counts, address, instructions);

        if (piece == NO_BLOCK) {
            counts.failed = true;
            return;
        }
        counter.offset = piece * sizeof(uint64_t);
        watch_block(tb, address);
    }
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, counter, add);
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct qemu_plugin_hwaddr *place;

    (void)vcpu;
    (void)data;
    if (!recorder.begun)
        return;
    place = qemu_plugin_get_hwaddr(info, address);
    /* Registers of devices are in no cache. */
    if (place && !qemu_plugin_hwaddr_is_io(place))
        recorder_access(&recorder, qemu_plugin_hwaddr_phys_addr(place),
                        UINT64_C(1) << qemu_plugin_mem_size_shift(info));
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint32_t block;

    (void)id;
    if (counts.file)
        translate_counts(tb);
    if (traced_is_on())
        traced_translate(tb);
    if (counts.file)
        return;
    block = blocks_number(&blocks, qemu_plugin_tb_vaddr(tb), count);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                         GUINT_TO_POINTER(block));
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);

        for (int probe = 0; probe < probe_count; probe++) {
            struct site *site;

            if (probes[probe].from != address)
                continue;
            /* Lives as long as QEMU: blocks may be translated again, but probes are few. */
            site = g_new(struct site, 1);
            *site = (struct site){blocks_number(&blocks, address, count - i), probe};
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_probe, QEMU_PLUGIN_CB_R_REGS, site);
        }
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64,
                                                            executed, 1);
        if (recorder.caches)
            qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
                                             QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static void end_counts(void)
{
    bool whole = counts_end(&counts);

    if (fclose(counts.file) != 0 || !whole)
        failed("the counts", "are not whole");
    counts_free(&counts);
    g_free(idle_code.list);
    g_free(leave_code.list);
    g_free(function_code.list);
}

static void end_record(void)
{
    FILE *file;
    bool whole = recorder_end(&recorder, qemu_plugin_u64_sum(executed));

    whole = fclose(recorder.runs) == 0 && whole;
    whole = fclose(recorder.marks) == 0 && whole;
    if (recorder.caches) {
        whole = fclose(recorder.lines) == 0 && whole;
        whole = fclose(recorder.touches) == 0 && whole;
    }
    file = open_file("blocks");
    whole = file && blocks_write(&blocks, file) && fclose(file) == 0 && whole;
    file = whole ? open_file("json") : NULL;
    if (file) {
        fprintf(file,
                "{\"blocks\": %" PRIu32 ", \"runs\": %" PRIu64 ", \"marks\": %" PRIu64
                ", \"lines\": %" PRIu64 ", \"instructions\": %" PRIu64 "}\n",
                blocks.count, recorder.run_count, recorder.mark_count, recorder.line_count,
                qemu_plugin_u64_sum(executed));
        fclose(file);
    } else {
        failed("the record", "is not whole");
    }
    blocks_free(&blocks);
    caches_free(&caches);
    g_free(spans);
}

static void at_end(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    if (counts.file)
        end_counts();
    if (traced_is_on() && !traced_end())
        failed("what tracing executed", "is not whole");
    if (prefix)
        end_record();
}

static bool take_caches(const char *value)
{
    if (parse_pairs(value, cache_pairs, CACHES + 1) != CACHES + 1)
        return false;
    recorder.caches = &caches;
    recorder.known = &blocks;
    return caches_of(&caches, cache_pairs);
}

static bool take_spans(const char *path, struct spans *found)
{
    found->count = read_spans(path, &found->list);
    return found->count > 0;
}

/* Of counts: a file, an address, and spans of addresses. */
static bool take_counts(const char *option, const char *value)
{
    if (g_str_has_prefix(option, "counts=")) {
        counts.file = fopen(value, "wb");
        return counts.file && fwrite(COUNTS_MAGIC, 8, 1, counts.file) == 1;
    }
    if (g_str_has_prefix(option, "at="))
        return parse_pairs(value, &count_mark, 1) == 1;
    if (g_str_has_prefix(option, "idle="))
        return take_spans(value, &idle_code);
    if (g_str_has_prefix(option, "leave="))
        return take_spans(value, &leave_code);
    return g_str_has_prefix(option, "functions=") && take_spans(value, &function_code) &&
           counts_functions(&counts, function_code.list, (uint32_t)function_code.count);
}

static bool take_option(const char *option)
{
    const char *value = strchr(option, '=');

    if (!value++)
        return false;
    if (g_str_has_prefix(option, "out=")) {
        prefix = g_strdup(value);
    } else if (g_str_has_prefix(option, "probes=")) {
        probe_count = parse_pairs(value, probes, PROBES);
        for (int i = 0; i < probe_count; i++)
            if (probes[i].to >= REGISTERS)
                return false;
        return probe_count > 0;
    } else if (g_str_has_prefix(option, "caches=")) {
        return take_caches(value);
    } else if (g_str_has_prefix(option, "spans=")) {
        int64_t count = read_spans(value, &spans);

        recorder.spans = spans;
        recorder.span_count = count > 0 ? (size_t)count : 0;
        return count > 0;
    } else {
        return traced_option(option, value) || take_counts(option, value);
    }
    return true;
}

/* Whether the options together mean something; says what is missing. */
static bool are_whole(const char *target)
{
    bool counts_whole = count_mark.from && idle_code.count > 0 && leave_code.count > 0 &&
                        function_code.count > 0;

    if (prefix && strcmp(target, "aarch64") != 0 && strcmp(target, "x86_64") != 0)
        failed(target, "only boards with the architectures aarch64 and x86_64 can be recorded");
    else if (prefix && recorder.caches && strcmp(target, "aarch64") != 0)
        failed(target, "lines of cache are recorded of boards with the architecture aarch64 alone");
    else if (prefix && probe_count == 0)
        failed("options", "with out=PREFIX, probes=ADDRESS:REGISTER is needed");
    else if (counts.file && !counts_whole)
        failed("options", "with counts=FILE, at=, idle=, leave= and functions= are needed");
    else if (traced_is_on() && !(counts.file && traced_is_whole(target)))
        failed("options", "with tracing=FILE, counts=, windows=, edges=, clock=, switch= and "
                          "vectors= (or entries= and image=) are needed");
    else if (counts.file && prefix)
        failed("options", "counts=FILE does not go with out=PREFIX");
    else if (!prefix && !counts.file)
        failed("options", "out=PREFIX or counts=FILE is needed");
    else
        return true;
    return false;
}

static bool open_record(void)
{
    recorder.block = NO_BLOCK;
    recorder.runs = open_file("runs");
    recorder.marks = open_file("marks");
    if (!recorder.runs || !recorder.marks)
        return false;
    if (recorder.caches) {
        recorder.lines = open_file("lines");
        recorder.touches = open_file("touches");
        if (!recorder.lines || !recorder.touches)
            return false;
    }
    return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv)
{
    if (!info->system_emulation) {
        failed(info->target_name, "only whole boards can be recorded");
        return -1;
    }
    for (int i = 0; i < argc; i++) {
        if (!take_option(argv[i])) {
            failed(argv[i], "is not a valid option");
            return -1;
        }
    }
    if (!are_whole(info->target_name) || (prefix && !open_record()))
        return -1;
    if (traced_is_on() && recorder.caches)
        traced_lines(cache_pairs);
    scores = qemu_plugin_scoreboard_new(sizeof(uint64_t));
    executed = qemu_plugin_scoreboard_u64(scores);
    if (counts.file) {
        count_scores = qemu_plugin_scoreboard_new(PIECES_MAX * sizeof(uint64_t));
        idle_scores = qemu_plugin_scoreboard_new(sizeof(uint64_t));
        idle_flag = qemu_plugin_scoreboard_u64(idle_scores);
    }
    /* Piece 0: all of user space. */
    if (traced_is_on() &&
        !traced_begin((qemu_plugin_u64){count_scores, 0}, info->system.smp_vcpus > 1)) {
        failed("what tracing executed", "cannot be written");
        return -1;
    }
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, at_end, NULL);
    return 0;
}
