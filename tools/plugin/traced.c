/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU's part of tracing.h and windows.h: see traced.h. */
#include "traced.h"

#include <string.h>

#include "lines.h"
#include "record.h"
#include "tracing.h"
#include "windows.h"

/* Registers of arguments; functions of which one is kept, at most. */
#define ARGUMENTS 8
#define VALUES 32

static struct tracing tracing;
static struct windows windows;
static struct edge *edges;
static int64_t edge_count;
static struct span trace_clock, vectors, task_switch;
static qemu_plugin_u64 user_count;
static struct qemu_plugin_register *arguments[ARGUMENTS]; /* x0, x1, ... */
static struct qemu_plugin_register *return_address;       /* ELR_EL1 */
static struct span values[VALUES]; /* address of a function and the argument that is kept */
static int value_count;
static struct lines lines;

/* A switch of states by tracing.h is one of windows.h, too. */
static void follow(bool was_on, uint64_t address)
{
    if (!was_on && tracing.now.on)
        windows_leave(&windows, address);
    else if (was_on && !tracing.now.on)
        windows_return(&windows, address);
    else
        return;
    /* What is left of the block that runs; of another one the lines follow when it begins. */
    if (lines.is_on && was_on && address)
        lines_touch(&lines, &windows, windows.running->address,
                    windows.running->end - windows.running->address, true);
}

/* Of a translated instruction: the number of an edge, and how many instructions were counted early. */
#define EARLY_BITS 10
/* Early ones of an edge's block: at most QEMU's 512. */
#define EARLY_MASK ((1u << EARLY_BITS) - 1)

static uint64_t executed_before(guint early)
{
    return windows.executed - (early & EARLY_MASK);
}

/* The instruction before which so many of the block that runs are counted early. */
static uint64_t address_before(guint early)
{
    return windows.running->end - 4 * (uint64_t)(early & EARLY_MASK);
}

static uint64_t user_executed(unsigned int vcpu)
{
    return qemu_plugin_u64_get(user_count, vcpu);
}

static uint64_t value_of(struct qemu_plugin_register *handle)
{
    static GByteArray *bytes;
    uint64_t value = 0;

    if (!bytes)
        bytes = g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    if (qemu_plugin_read_register(handle, bytes) != sizeof(value)) {
        tracing.failed = true;
        return 0;
    }
    memcpy(&value, bytes->data, sizeof(value));
    return value;
}

static void on_block(unsigned int vcpu, void *stretch)
{
    (void)vcpu;
    windows_enter(&windows, stretch);
}

static void on_lines(unsigned int vcpu, void *stretch)
{
    const struct stretch *block = stretch;

    (void)vcpu;
    lines_touch(&lines, &windows, block->address, block->end - block->address, true);
}

static void on_touch(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct qemu_plugin_hwaddr *place;

    (void)vcpu;
    (void)data;
    if (!windows.adds)
        return;
    place = qemu_plugin_get_hwaddr(info, address);
    /* Registers of devices are in no cache. */
    if (place && !qemu_plugin_hwaddr_is_io(place))
        lines_touch(&lines, &windows, qemu_plugin_hwaddr_phys_addr(place),
                    UINT64_C(1) << qemu_plugin_mem_size_shift(info), false);
}

static void on_value(unsigned int vcpu, void *which)
{
    (void)vcpu;
    if (windows.adds)
        windows_value(&windows, GPOINTER_TO_UINT(which),
                      value_of(arguments[values[GPOINTER_TO_UINT(which)].to]));
}

static void on_edge(unsigned int vcpu, void *data)
{
    guint word = GPOINTER_TO_UINT(data);
    bool was_on = tracing.now.on;

    (void)vcpu;
    tracing_edge(&tracing, executed_before(word), &edges[word >> EARLY_BITS]);
    follow(was_on, address_before(word));
}

static void on_break(unsigned int vcpu, void *early)
{
    bool was_on = tracing.now.on;

    (void)vcpu;
    tracing_break(&tracing, executed_before(GPOINTER_TO_UINT(early)));
    follow(was_on, address_before(GPOINTER_TO_UINT(early)));
}

/* An exception within the kernel (with the stack pointer of its level) that no interrupt is. */
#define SYNC_EXCEPTION 0x200
/* From here on, those of user space; at it, system calls. */
#define USER_EXCEPTIONS 0x400

/* An exception is taken: its vector's block is about to begin. */
static void on_exception(unsigned int vcpu, void *offset)
{
    bool was_on = tracing.now.on, is_break = tracing.at_break;

    /* The breakpoint's own instruction was counted, a fault's was not. */
    if (GPOINTER_TO_UINT(offset) == SYNC_EXCEPTION && !is_break)
        windows_stop(&windows, value_of(return_address));
    tracing_exception(&tracing, windows.executed);
    if (was_on && !is_break)
        windows_mark(&windows, 0, MARK_EXCEPTION, user_executed(vcpu));
    else if (GPOINTER_TO_UINT(offset) >= USER_EXCEPTIONS)
        windows_mark(&windows, 0, MARK_ENTRY, user_executed(vcpu));
    if (GPOINTER_TO_UINT(offset) == USER_EXCEPTIONS)
        lines_call(&lines);
    follow(was_on, 0);
}

static void on_return(unsigned int vcpu, void *early)
{
    bool was_on = tracing.now.on;

    (void)vcpu;
    tracing_return(&tracing, executed_before(GPOINTER_TO_UINT(early)));
    follow(was_on, address_before(GPOINTER_TO_UINT(early)));
}

static void on_read(unsigned int vcpu, void *early)
{
    (void)vcpu;
    tracing_read(&tracing, executed_before(GPOINTER_TO_UINT(early)));
}

static void on_trace_clock(unsigned int vcpu, void *early)
{
    guint word = GPOINTER_TO_UINT(early);

    tracing_clock(&tracing, executed_before(word), value_of(arguments[0]));
    windows_mark(&windows, address_before(word), MARK_CLOCK, user_executed(vcpu));
}

static void on_switch(unsigned int vcpu, void *early)
{
    guint word = GPOINTER_TO_UINT(early);

    windows_switch(&windows, address_before(word), user_executed(vcpu), value_of(arguments[0]),
                   value_of(arguments[1]));
}

/* The last instruction of a block has accessed memory. */
static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
    const struct stretch *block = data;

    (void)vcpu;
    if (place && qemu_plugin_hwaddr_is_io(place))
        windows_access(&windows, block->end - 4, qemu_plugin_hwaddr_device_name(place),
                       qemu_plugin_mem_is_store(info));
}

static uint32_t word_of(const struct qemu_plugin_insn *insn)
{
    uint32_t word = 0;

    qemu_plugin_insn_data(insn, &word, sizeof(word));
    return GUINT32_FROM_LE(word);
}

/* Load or store of arm64: it may be to a device, which ends a block behind it. */
static bool is_access(uint32_t word)
{
    return (word & 0x0a000000) == 0x08000000;
}

/* BRK with what a kernel probe has: for itself, for a single step, for a function's return. */
static bool is_probe(uint32_t word)
{
    uint32_t number = word >> 5 & 0xffff;

    return (word & 0xffe0001f) == 0xd4200000 && (number == 4 || number == 6 || number == 7);
}

#define ERET 0xd69f03e0u
#define NOP 0xd503201fu

static void watch_instruction(struct qemu_plugin_insn *insn, uint32_t word, guint early)
{
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    gpointer before = GUINT_TO_POINTER(early), behind = GUINT_TO_POINTER(early - 1);

    if (address == trace_clock.from)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_read, QEMU_PLUGIN_CB_NO_REGS, before);
    if (address == trace_clock.to)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_trace_clock, QEMU_PLUGIN_CB_R_REGS, before);
    for (int which = 0; which < value_count; which++)
        if (address == values[which].from)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_value, QEMU_PLUGIN_CB_R_REGS,
                                                   GUINT_TO_POINTER((guint)which));
    if (lines.is_on && is_access(word))
        qemu_plugin_register_vcpu_mem_cb(insn, on_touch, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, NULL);
    if (address == task_switch.from)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_switch, QEMU_PLUGIN_CB_R_REGS, before);
    if (is_probe(word))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_break, QEMU_PLUGIN_CB_NO_REGS, before);
    if (word == ERET)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return, QEMU_PLUGIN_CB_NO_REGS, behind);
}

/* The first edge that is not before an address. */
static int64_t edge_from(uint64_t address)
{
    int64_t low = 0, high = edge_count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (edges[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void watch_edges(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count)
{
    uint64_t from = qemu_plugin_tb_vaddr(tb), to = from + 4 * count;

    for (int64_t next = edge_from(from); next < edge_count && edges[next].address < to; next++) {
        size_t place = (edges[next].address - from) / 4;
        bool is_branch = edges[next].kind == EDGE_BRANCH;
        guint early = (guint)(count - place) - (is_branch || edges[next].kind == EDGE_END_BEHIND);

        if (is_branch && words[place] == NOP)
            continue;
        qemu_plugin_register_vcpu_insn_exec_cb(
            qemu_plugin_tb_get_insn(tb, place), on_edge, QEMU_PLUGIN_CB_NO_REGS,
            GUINT_TO_POINTER((guint)next << EARLY_BITS | early));
    }
}

/* Blocks of QEMU have at most so many instructions. */
#define BLOCK_LONGEST 512

void traced_translate(struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint64_t from = qemu_plugin_tb_vaddr(tb);
    uint32_t words[BLOCK_LONGEST];
    const struct stretch *stretch;
    struct qemu_plugin_insn *last;

    if (from < UINT64_C(1) << 63)
        return;
    for (size_t i = 0; i < count && i < BLOCK_LONGEST; i++)
        words[i] = word_of(qemu_plugin_tb_get_insn(tb, i));
    stretch = count <= BLOCK_LONGEST ? windows_stretch(&windows, from, words, (uint32_t)count)
                                     : NULL;
    if (!stretch) {
        tracing.failed = true;
        return;
    }
    /* Before the block counts: the one that the exception interrupts is the one that runs. */
    if (from >= vectors.from && from < vectors.to && (from - vectors.from) % 0x80 == 0)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_exception, QEMU_PLUGIN_CB_R_REGS,
                                             GUINT_TO_POINTER((guint)(from - vectors.from)));
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)stretch);
    if (lines.is_on)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_lines, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)stretch);
    for (size_t i = 0; i < count; i++)
        watch_instruction(qemu_plugin_tb_get_insn(tb, i), words[i], (guint)(count - i));
    watch_edges(tb, words, count);
    /* QEMU makes an access to a device a block of its own, of which plugins see nothing but the access. */
    last = qemu_plugin_tb_get_insn(tb, count - 1);
    if (is_access(words[count - 1]))
        qemu_plugin_register_vcpu_mem_cb(last, on_access, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, (void *)stretch);
}

void traced_cpu(unsigned int vcpu, const GArray *registers)
{
    if (vcpu != 0)
        tracing.failed = true;
    for (guint i = 0; i < registers->len; i++) {
        const qemu_plugin_reg_descriptor *one =
            &g_array_index(registers, qemu_plugin_reg_descriptor, i);

        if (one->name[0] == 'x' && one->name[1] >= '0' && one->name[1] < '0' + ARGUMENTS &&
            !one->name[2])
            arguments[one->name[1] - '0'] = one->handle;
        else if (strcmp(one->name, "ELR_EL1") == 0)
            return_address = one->handle;
    }
}

void traced_begin(qemu_plugin_u64 user)
{
    user_count = user;
}

bool traced_lines(struct caches caches)
{
    lines.caches = caches;
    windows.touches = &lines.found;
    windows.touch_width = sizeof(struct line_counts);
    return lines_make(&lines);
}

void traced_open(unsigned int vcpu, bool is_open)
{
    windows_open(&windows, is_open, user_executed(vcpu));
}

bool traced_is_on(void)
{
    return tracing.file;
}

bool traced_is_whole(void)
{
    return edge_count > 0 && trace_clock.to && vectors.to && task_switch.to && windows.file;
}

static FILE *open_with(const char *path, const char *magic)
{
    FILE *file = fopen(path, "wb");

    if (file && fwrite(magic, 8, 1, file) == 1)
        return file;
    return NULL;
}

bool traced_option(const char *option, const char *value)
{
    if (g_str_has_prefix(option, "tracing=")) {
        tracing.file = open_with(value, TRACING_MAGIC);
        return tracing.file;
    }
    if (g_str_has_prefix(option, "windows=")) {
        windows.file = open_with(value, WINDOWS_MAGIC);
        return windows.file && windows_make(&windows);
    }
    if (g_str_has_prefix(option, "clock="))
        return parse_pairs(value, &trace_clock, 1) == 1;
    if (g_str_has_prefix(option, "vectors="))
        return parse_pairs(value, &vectors, 1) == 1;
    if (g_str_has_prefix(option, "values=")) {
        value_count = parse_pairs(value, values, VALUES);
        for (int i = 0; i < value_count; i++)
            if (values[i].to >= ARGUMENTS)
                return false;
        return value_count > 0;
    }
    if (g_str_has_prefix(option, "switch="))
        return parse_pairs(value, &task_switch, 1) == 1;
    if (!g_str_has_prefix(option, "edges="))
        return false;
    edge_count = read_edges(value, &edges);
    return edge_count > 0 && edge_count < 1 << (32 - EARLY_BITS);
}

bool traced_end(void)
{
    bool whole = tracing_end(&tracing) && !lines.failed;

    whole = windows_end(&windows) && whole;
    whole = fclose(tracing.file) == 0 && whole;
    whole = fclose(windows.file) == 0 && whole;
    windows_free(&windows);
    lines_free(&lines);
    g_free(edges);
    return whole;
}
