/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU's part of tracing.h and windows.h: see traced.h. */
#include "traced.h"

#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "lines.h"
#include "machine.h"
#include "record.h"
#include "tracing.h"
#include "windows.h"

/* Registers of arguments; functions of which one is kept, at most. */
#define ARGUMENTS 8
#define VALUES 32

/* What is known of one CPU. */
struct cpu {
    struct tracing tracing;
    struct windows windows;
    struct lines lines;
};

static struct cpu *cpus[CPUS_MAX];
static uint32_t cpu_count;
static struct tracing_file file;
static struct window_store store;
static struct edge *edges;
static int64_t edge_count;
static enum machine machine;
static struct span trace_clock, vectors, task_switch;
static struct span image;    /* the kernel's: what is behind it was made by the kernel */
static struct span *entries; /* of x86-64: where it begins, and a kind, for each exception and call */
static int64_t entry_count;
static qemu_plugin_u64 user_count;
static struct qemu_plugin_register *arguments[ARGUMENTS]; /* x0, x1, ... or rdi, rsi, ... */
static struct qemu_plugin_register *result;               /* x0 or rax */
static struct qemu_plugin_register *return_address;       /* ELR_EL1 */
static struct qemu_plugin_register *stack;                /* rsp */
static struct span values[VALUES]; /* address of a function and the argument that is kept */
static int value_count;
static struct span line_caches[CACHES + 1];
static bool with_lines;

/* A switch of states by tracing.h is one of windows.h, too. */
static void follow(struct cpu *cpu, bool was_on, uint64_t address)
{
    const struct stretch *rest;

    if (!was_on && cpu->tracing.now.on)
        windows_leave(&cpu->windows, address);
    else if (was_on && !cpu->tracing.now.on)
        windows_return(&cpu->windows, address);
    else
        return;
    /* What is left of the block that runs; of another one the lines follow when it begins. */
    rest = cpu->windows.running;
    if (with_lines && was_on && address && rest)
        lines_touch(&cpu->lines, &cpu->windows, rest->address, rest->end - rest->address, true);
}

/* Of a translated instruction: the number of an edge, and how many instructions were counted early. */
#define EARLY_BITS 10
/* Early ones of an edge's block: at most QEMU's 512. */
#define EARLY_MASK ((1u << EARLY_BITS) - 1)

/* Of kernel probes that are jumps. */
#define GROUP_PROBE (UINT32_MAX - 1)
#define PROBE_BEGINS ((guint)edge_count)
#define PROBE_ENDS ((guint)edge_count + 1)

static uint64_t executed_before(const struct cpu *cpu, guint early)
{
    return cpu->windows.executed - (early & EARLY_MASK);
}

/* The instruction before which so many of the block that runs are counted early. */
static uint64_t address_before(const struct cpu *cpu, guint early)
{
    const struct stretch *running = cpu->windows.running;

    return stretch_at(running, running->instructions - (early & EARLY_MASK));
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
        file.failed = true;
        return 0;
    }
    memcpy(&value, bytes->data, sizeof(value));
    return value;
}

static void on_block(unsigned int vcpu, void *stretch)
{
    windows_enter(&cpus[vcpu]->windows, stretch);
}

static void on_lines(unsigned int vcpu, void *stretch)
{
    const struct stretch *block = stretch;
    struct cpu *cpu = cpus[vcpu];

    lines_touch(&cpu->lines, &cpu->windows, block->address, block->end - block->address, true);
}

static void on_touch(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct cpu *cpu = cpus[vcpu];
    struct qemu_plugin_hwaddr *place;

    (void)data;
    if (!cpu->windows.adds)
        return;
    place = qemu_plugin_get_hwaddr(info, address);
    /* Registers of devices are in no cache. */
    if (place && !qemu_plugin_hwaddr_is_io(place))
        lines_touch(&cpu->lines, &cpu->windows, qemu_plugin_hwaddr_phys_addr(place),
                    UINT64_C(1) << qemu_plugin_mem_size_shift(info), false);
}

static void on_value(unsigned int vcpu, void *which)
{
    struct windows *windows = &cpus[vcpu]->windows;

    if (windows->adds)
        windows_value(windows, GPOINTER_TO_UINT(which),
                      value_of(arguments[values[GPOINTER_TO_UINT(which)].to]));
}

static void on_edge(unsigned int vcpu, void *data)
{
    guint word = GPOINTER_TO_UINT(data);
    struct cpu *cpu = cpus[vcpu];
    bool was_on = cpu->tracing.now.on;

    tracing_edge(&cpu->tracing, executed_before(cpu, word), &edges[word >> EARLY_BITS]);
    follow(cpu, was_on, address_before(cpu, word));
}

static void on_break(unsigned int vcpu, void *early)
{
    guint word = GPOINTER_TO_UINT(early);
    struct cpu *cpu = cpus[vcpu];
    bool was_on = cpu->tracing.now.on;

    tracing_break(&cpu->tracing, executed_before(cpu, word));
    follow(cpu, was_on, address_before(cpu, word));
}

/* Where an exception came from, and what it interrupts. */
struct origin {
    bool is_user;
    bool is_call;    /* a system call */
    bool is_fault;   /* the instruction at `address` did not run */
    uint64_t address;
};

/* An exception is taken: its first block is about to begin. */
static void take_exception(unsigned int vcpu, struct origin origin)
{
    struct cpu *cpu = cpus[vcpu];
    bool was_on = cpu->tracing.now.on, is_break = cpu->tracing.at_break;

    /* The breakpoint's own instruction was counted, a fault's was not. */
    if (origin.is_fault && !is_break)
        windows_stop(&cpu->windows, origin.address);
    tracing_exception(&cpu->tracing, cpu->windows.executed);
    if (was_on && !is_break)
        windows_mark(&cpu->windows, 0, MARK_EXCEPTION, user_executed(vcpu));
    else if (origin.is_user)
        windows_mark(&cpu->windows, 0, MARK_ENTRY, user_executed(vcpu));
    if (origin.is_call)
        lines_call(&cpu->lines);
    follow(cpu, was_on, 0);
}

/* Of arm64: an exception within the kernel (with the stack pointer of its level) that no interrupt is. */
#define SYNC_EXCEPTION 0x200
/* From here on, those of user space; at it, system calls. */
#define USER_EXCEPTIONS 0x400

static void on_vector(unsigned int vcpu, void *offset)
{
    guint vector = GPOINTER_TO_UINT(offset);
    struct origin origin = {vector >= USER_EXCEPTIONS, vector == USER_EXCEPTIONS,
                            vector == SYNC_EXCEPTION, 0};

    if (origin.is_fault)
        origin.address = value_of(return_address);
    take_exception(vcpu, origin);
}

/* Of x86-64: what is on the stack when a handler begins. */
enum entry_kind { ENTRY_PLAIN = 0, ENTRY_WITH_CODE = 1, ENTRY_INTERRUPT = 2, ENTRY_CALL = 3 };

static uint64_t on_stack(uint64_t address)
{
    static GByteArray *bytes;
    uint64_t value = 0;

    if (!bytes)
        bytes = g_byte_array_new();
    if (!qemu_plugin_read_memory_vaddr(address, bytes, sizeof(value)))
        file.failed = true;
    else
        memcpy(&value, bytes->data, sizeof(value));
    return value;
}

static void on_entry(unsigned int vcpu, void *data)
{
    enum entry_kind kind = GPOINTER_TO_UINT(data);
    uint64_t frame;
    bool is_user;

    /* A system call is no exception: what ends it is no return from one. */
    if (kind == ENTRY_CALL) {
        windows_mark(&cpus[vcpu]->windows, 0, MARK_ENTRY, user_executed(vcpu));
        lines_call(&cpus[vcpu]->lines);
        return;
    }
    /* An error code may be there, then the address and the segment of what is interrupted. */
    frame = value_of(stack) + (kind == ENTRY_WITH_CODE ? 8 : 0);
    is_user = on_stack(frame + 8) & 3;
    take_exception(vcpu, (struct origin){is_user, false, !is_user && kind != ENTRY_INTERRUPT,
                                         on_stack(frame)});
}

static void on_return(unsigned int vcpu, void *early)
{
    guint word = GPOINTER_TO_UINT(early);
    struct cpu *cpu = cpus[vcpu];
    bool was_on = cpu->tracing.now.on;

    tracing_return(&cpu->tracing, executed_before(cpu, word));
    follow(cpu, was_on, address_before(cpu, word));
}

/* The function that reads the clock begins, or the counter is read. */
static void on_read(unsigned int vcpu, void *early)
{
    struct cpu *cpu = cpus[vcpu];
    uint64_t executed = executed_before(cpu, GPOINTER_TO_UINT(early));
    uint64_t own = tracing_total(&cpu->tracing, executed);
    struct reading now = {own, executed + user_executed(vcpu) - own};

    /* The others are between two blocks. */
    for (uint32_t i = 0; i < cpu_count; i++)
        if (cpus[i] != cpu)
            now.tracing += tracing_total(&cpus[i]->tracing, cpus[i]->windows.executed);
    tracing_read(&cpu->tracing, now);
}

static void on_trace_clock(unsigned int vcpu, void *early)
{
    guint word = GPOINTER_TO_UINT(early);
    struct cpu *cpu = cpus[vcpu];

    tracing_clock(&cpu->tracing, &file, vcpu, value_of(result));
    windows_mark(&cpu->windows, address_before(cpu, word), MARK_CLOCK, user_executed(vcpu));
}

static void on_switch(unsigned int vcpu, void *early)
{
    guint word = GPOINTER_TO_UINT(early);
    struct cpu *cpu = cpus[vcpu];

    windows_switch(&cpu->windows, address_before(cpu, word), user_executed(vcpu),
                   value_of(arguments[0]), value_of(arguments[1]));
}

/* The last instruction of a block has accessed memory. */
static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
    const struct stretch *block = data;

    if (place && qemu_plugin_hwaddr_is_io(place))
        windows_access(&cpus[vcpu]->windows, stretch_at(block, block->instructions - 1),
                       block->end, qemu_plugin_hwaddr_device_name(place),
                       qemu_plugin_mem_is_store(info));
}

static void watch_instruction(struct qemu_plugin_insn *insn, uint32_t word, guint early)
{
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    gpointer before = GUINT_TO_POINTER(early), behind = GUINT_TO_POINTER(early - 1);

    if (address == trace_clock.from || machine_reads_counter(machine, word))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_read, QEMU_PLUGIN_CB_NO_REGS, before);
    if (address == trace_clock.to)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_trace_clock, QEMU_PLUGIN_CB_R_REGS, before);
    for (int which = 0; which < value_count; which++)
        if (address == values[which].from)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_value, QEMU_PLUGIN_CB_R_REGS,
                                                   GUINT_TO_POINTER((guint)which));
    /* Of x86-64, calls and returns access memory as well. */
    if (with_lines && (machine == MACHINE_X86_64 || machine_is_access(machine, word)))
        qemu_plugin_register_vcpu_mem_cb(insn, on_touch, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, NULL);
    if (address == task_switch.from)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_switch, QEMU_PLUGIN_CB_R_REGS, before);
    if (machine_is_probe(machine, word))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_break, QEMU_PLUGIN_CB_NO_REGS, before);
    if (machine_is_return(machine, word))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return, QEMU_PLUGIN_CB_NO_REGS, behind);
}

static uint64_t instruction_at(struct qemu_plugin_tb *tb, uint32_t place)
{
    return qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, place));
}

static void watch_edge(struct qemu_plugin_insn *insn, guint edge, guint early)
{
    qemu_plugin_register_vcpu_insn_exec_cb(insn, on_edge, QEMU_PLUGIN_CB_NO_REGS,
                                           GUINT_TO_POINTER(edge << EARLY_BITS | early));
}

static void watch_edges(struct qemu_plugin_tb *tb, const struct translated *code)
{
    uint64_t from = qemu_plugin_tb_vaddr(tb);
    uint32_t place = 0;

    for (int64_t next = edge_from(edges, edge_count, from); next < edge_count; next++) {
        bool is_branch = edges[next].kind == EDGE_BRANCH;
        bool is_behind = is_branch || edges[next].kind == EDGE_END_BEHIND;

        while (place < code->instructions && instruction_at(tb, place) < edges[next].address)
            place++;
        if (place == code->instructions)
            return;
        if (instruction_at(tb, place) == edges[next].address &&
            !(is_branch && machine_is_nop(machine, code->words[place])))
            watch_edge(qemu_plugin_tb_get_insn(tb, place), (guint)next,
                       code->instructions - place - is_behind);
    }
}

/*
 * Of x86-64, a kernel probe may be a jump to code that the kernel has made (behind its image): that calls the
 * probe, and ends with copies of the instructions that were in the jump's place, and a jump behind these. So
 * does what a breakpoint's handler has run in its place. All but the copies is tracing's.
 */
static void watch_jump(struct qemu_plugin_tb *tb, const struct translated *code)
{
    guint last = code->instructions - 1;
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, last);
    uint8_t bytes[INSTRUCTION_MAX] = {0};
    size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
    bool is_made = instruction_at(tb, last) >= image.to, leads_behind;
    int32_t distance;

    if (machine != MACHINE_X86_64 || !machine_is_jump(code->words[last]) || size < 5)
        return;
    memcpy(&distance, bytes + size - 4, sizeof(distance));
    leads_behind = instruction_at(tb, last) + size + (uint64_t)(int64_t)distance >= image.to;
    if (!is_made && leads_behind)
        watch_edge(insn, PROBE_BEGINS, 1);
    if (!is_made || leads_behind)
        return;
    watch_edge(qemu_plugin_tb_get_insn(tb, 0), PROBE_ENDS, code->instructions);
    watch_edge(insn, PROBE_BEGINS, 1);
    watch_edge(insn, PROBE_ENDS, 0);
}

/* Blocks of QEMU have at most so many instructions. */
#define BLOCK_LONGEST 512

static int against_entry(const void *address, const void *entry)
{
    uint64_t from = *(const uint64_t *)address, its = ((const struct span *)entry)->from;

    return (from > its) - (from < its);
}

/* Where an exception or a system call begins: before the block counts, so that what it interrupts runs. */
static void watch_entry(struct qemu_plugin_tb *tb, uint64_t from)
{
    const struct span *entry;

    if (machine == MACHINE_ARM64) {
        if (from >= vectors.from && from < vectors.to && (from - vectors.from) % 0x80 == 0)
            qemu_plugin_register_vcpu_tb_exec_cb(tb, on_vector, QEMU_PLUGIN_CB_R_REGS,
                                                 GUINT_TO_POINTER((guint)(from - vectors.from)));
        return;
    }
    entry = bsearch(&from, entries, (size_t)entry_count, sizeof(*entries), against_entry);
    if (entry)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_entry, QEMU_PLUGIN_CB_R_REGS,
                                             GUINT_TO_POINTER((guint)entry->to));
}

/* The instructions of a block; false: there are too many. */
static bool read_block(struct qemu_plugin_tb *tb, struct translated *code, uint32_t *words,
                       uint16_t *places)
{
    size_t count = qemu_plugin_tb_n_insns(tb);

    if (count > BLOCK_LONGEST)
        return false;
    places[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint8_t bytes[INSTRUCTION_MAX] = {0};

        words[i] = machine_word(machine, bytes, qemu_plugin_insn_data(insn, bytes, sizeof(bytes)));
        places[i + 1] = (uint16_t)(places[i] + qemu_plugin_insn_size(insn));
    }
    *code = (struct translated){machine, (uint32_t)count, words,
                                machine == MACHINE_X86_64 ? places : NULL};
    return true;
}

void traced_translate(struct qemu_plugin_tb *tb)
{
    uint64_t from = qemu_plugin_tb_vaddr(tb);
    uint32_t words[BLOCK_LONGEST];
    uint16_t places[BLOCK_LONGEST + 1];
    struct translated code;
    const struct stretch *stretch;

    if (from < UINT64_C(1) << 63)
        return;
    stretch = read_block(tb, &code, words, places) ? windows_stretch(&store, from, &code) : NULL;
    if (!stretch) {
        file.failed = true;
        return;
    }
    watch_entry(tb, from);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)stretch);
    if (with_lines)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_lines, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)stretch);
    for (guint i = 0; i < code.instructions; i++)
        watch_instruction(qemu_plugin_tb_get_insn(tb, i), words[i], code.instructions - i);
    watch_edges(tb, &code);
    watch_jump(tb, &code);
    /* QEMU makes an access to a device a block of its own, of which plugins see nothing but the access. */
    if (machine_is_access(machine, words[code.instructions - 1]))
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, code.instructions - 1),
                                         on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                         (void *)stretch);
}

static void find_registers(const GArray *registers)
{
    static const char *const passed[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9"};

    for (guint i = 0; i < registers->len; i++) {
        const qemu_plugin_reg_descriptor *one =
            &g_array_index(registers, qemu_plugin_reg_descriptor, i);

        if (one->name[0] == 'x' && one->name[1] >= '0' && one->name[1] < '0' + ARGUMENTS &&
            !one->name[2])
            arguments[one->name[1] - '0'] = one->handle;
        else if (strcmp(one->name, "ELR_EL1") == 0)
            return_address = one->handle;
        else if (strcmp(one->name, "rax") == 0)
            result = one->handle;
        else if (strcmp(one->name, "rsp") == 0)
            stack = one->handle;
        for (guint j = 0; machine == MACHINE_X86_64 && j < G_N_ELEMENTS(passed); j++)
            if (strcmp(one->name, passed[j]) == 0)
                arguments[j] = one->handle;
    }
    if (machine == MACHINE_ARM64)
        result = arguments[0];
}

static bool make_lines(struct cpu *cpu)
{
    cpu->windows.touches = &cpu->lines.found;
    cpu->windows.touch_width = sizeof(struct line_counts);
    return caches_of(&cpu->lines.caches, line_caches) && lines_make(&cpu->lines);
}

void traced_cpu(unsigned int vcpu, const GArray *registers)
{
    struct cpu *cpu = aligned_alloc(_Alignof(struct cpu), sizeof(*cpu));

    if (!cpu) {
        file.failed = true;
        return;
    }
    memset(cpu, 0, sizeof(*cpu));
    /* They are the same on all CPUs. */
    find_registers(registers);
    /* CPUs come one after the other. */
    if (vcpu != cpu_count || vcpu >= CPUS_MAX || !windows_make(&cpu->windows, &store) ||
        (with_lines && !make_lines(cpu))) {
        file.failed = true;
        return;
    }
    cpus[cpu_count++] = cpu;
}

bool traced_begin(qemu_plugin_u64 user, bool is_of_several)
{
    user_count = user;
    return tracing_begin(&file, is_of_several);
}

void traced_lines(const struct span caches[CACHES + 1])
{
    memcpy(line_caches, caches, sizeof(line_caches));
    with_lines = true;
}

void traced_open(bool is_open)
{
    for (uint32_t vcpu = 0; vcpu < cpu_count; vcpu++)
        windows_open(&cpus[vcpu]->windows, is_open, user_executed(vcpu));
}

/* Behind those of the image: of probes, which are no place of it. */
static bool add_probe_edges(void)
{
    const struct edge begins = {0, EDGE_BEGIN, GROUP_PROBE}, ends = {0, EDGE_END, GROUP_PROBE};
    struct edge *more = g_try_renew(struct edge, edges, (gsize)edge_count + 2);

    if (!more)
        return false;
    edges = more;
    edges[edge_count] = begins;
    edges[edge_count + 1] = ends;
    return true;
}

bool traced_is_on(void)
{
    return file.file;
}

bool traced_is_whole(const char *target)
{
    bool has_entries = vectors.to;

    if (strcmp(target, "x86_64") == 0) {
        machine = MACHINE_X86_64;
        has_entries = entry_count > 0 && image.to && add_probe_edges();
    }
    return edge_count > 0 && trace_clock.to && has_entries && task_switch.to && store.file;
}

bool traced_option(const char *option, const char *value)
{
    if (g_str_has_prefix(option, "tracing=")) {
        file.file = fopen(value, "wb");
        return file.file;
    }
    if (g_str_has_prefix(option, "windows=")) {
        store.file = fopen(value, "wb");
        return store.file && fwrite(WINDOWS_MAGIC, 8, 1, store.file) == 1 && store_make(&store);
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
    if (g_str_has_prefix(option, "image="))
        return parse_pairs(value, &image, 1) == 1;
    if (g_str_has_prefix(option, "entries=")) {
        entry_count = read_spans(value, &entries);
        return entry_count > 0;
    }
    if (g_str_has_prefix(option, "switch="))
        return parse_pairs(value, &task_switch, 1) == 1;
    if (!g_str_has_prefix(option, "edges="))
        return false;
    edge_count = read_edges(value, &edges);
    return edge_count > 0 && edge_count + 2 < 1 << (32 - EARLY_BITS);
}

bool traced_end(void)
{
    struct windows *windows[CPUS_MAX];
    bool whole = tracing_end(&file);

    for (uint32_t vcpu = 0; vcpu < cpu_count; vcpu++) {
        windows[vcpu] = &cpus[vcpu]->windows;
        whole = whole && !cpus[vcpu]->tracing.failed && !cpus[vcpu]->lines.failed;
    }
    whole = store_end(&store, windows, cpu_count) && whole;
    whole = fclose(file.file) == 0 && whole;
    whole = fclose(store.file) == 0 && whole;
    for (uint32_t vcpu = 0; vcpu < cpu_count; vcpu++) {
        windows_free(windows[vcpu]);
        lines_free(&cpus[vcpu]->lines);
        free(cpus[vcpu]);
    }
    store_free(&store);
    g_free(edges);
    g_free(entries);
    return whole;
}
