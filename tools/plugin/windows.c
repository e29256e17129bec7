/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each CPU executed between its marks: see windows.h. */
#include "windows.h"

#include <stdlib.h>
#include <string.h>

#include "counts.h"

#define FIRST_ROOM 1024u
#define FIRST_SLOTS 4096u

void *list_more(struct list *list, size_t width)
{
    if (list->count == list->room) {
        uint64_t room = list->room ? 2 * list->room : FIRST_ROOM;
        void *entries = realloc(list->entries, room * width);

        if (!entries)
            return NULL;
        list->entries = entries;
        list->room = room;
    }
    return (char *)list->entries + width * list->count++;
}

/* A pseudo-random number that only its arguments decide (splitmix64). */
static uint64_t value_of(uint64_t one, uint64_t other)
{
    uint64_t mixed = one * UINT64_C(0xd1342543de82ef95) + other + UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

bool store_make(struct window_store *store)
{
    store->slots = malloc(FIRST_SLOTS * sizeof(*store->slots));
    if (!store->slots)
        return false;
    store->slot_count = FIRST_SLOTS;
    store->measured = UINT64_MAX;
    memset(store->slots, 0xff, FIRST_SLOTS * sizeof(*store->slots));
    return true;
}

bool windows_make(struct windows *windows, struct window_store *store)
{
    windows->store = store;
    windows->content = malloc(WINDOW_ORDERED * sizeof(*windows->content));
    return windows->content;
}

/* ---------------------------------------------------------------- blocks and accesses */

static struct stretch *known_stretch(const struct window_store *store, uint32_t number)
{
    return ((struct stretch **)store->stretches.entries)[number];
}

/* The block of an address, without its instructions; whether it is new. */
static struct stretch *take_stretch(struct window_store *store, uint64_t address,
                                    uint32_t instructions, bool *is_new)
{
    uint32_t known = store->blocks.count;
    uint32_t number = blocks_number(&store->blocks, address, instructions);
    struct stretch *made, **place;

    *is_new = number == known;
    if (number < known)
        return known_stretch(store, number);
    made = *is_new ? malloc(sizeof(*made)) : NULL;
    place = made ? list_more(&store->stretches, sizeof(made)) : NULL;
    if (!place) {
        free(made);
        store->failed = true;
        return NULL;
    }
    *made = (struct stretch){
        .value = value_of(address, instructions),
        .number = number,
        .instructions = instructions,
        .address = address,
        .end = address + 4 * (uint64_t)instructions,
    };
    *place = made;
    return made;
}

/* Where the instructions of a block are, from one on, if they have several lengths. */
static void set_places(struct window_store *store, struct stretch *stretch, const uint16_t *places)
{
    size_t size = (stretch->instructions + 1) * sizeof(*places);

    if (!stretch->places)
        stretch->places = malloc(size);
    if (!stretch->places) {
        store->failed = true;
        return;
    }
    for (uint32_t i = 0; i <= stretch->instructions; i++)
        stretch->places[i] = (uint16_t)(places[i] - places[0]);
    stretch->end = stretch_at(stretch, stretch->instructions);
}

static void add_special(struct window_store *store, struct stretch *stretch, struct special found)
{
    struct special *place = list_more(&store->special, sizeof(found));

    if (!place) {
        store->failed = true;
        return;
    }
    *place = found;
    stretch->special++;
}

/* Of x86-64: the block has other instructions than when it was translated first. The kernel patches its own. */
static bool is_patched(const struct window_store *store, const struct stretch *known,
                       const struct translated *code)
{
    const struct special *its = (struct special *)store->special.entries + known->first_special;
    size_t size = (known->instructions + 1) * sizeof(*code->places);
    uint32_t found = 0;

    if (!code->places || !known->places)
        return false;
    if (memcmp(known->places, code->places, size) != 0)
        return true;
    for (uint32_t i = 0; i < code->instructions; i++) {
        if (!machine_is_special(code->machine, code->words[i]))
            continue;
        if (found == known->special || its[found].place != i || its[found].word != code->words[i])
            return true;
        found++;
    }
    return found != known->special;
}

const struct stretch *windows_stretch(struct window_store *store, uint64_t address,
                                      const struct translated *code)
{
    bool is_new;
    struct stretch *made = take_stretch(store, address, code->instructions, &is_new);

    if (!made || (!is_new && !is_patched(store, made, code)))
        return made;
    if (code->places)
        set_places(store, made, code->places);
    made->first_special = store->special.count;
    made->special = 0;
    for (uint32_t i = 0; i < code->instructions; i++)
        if (machine_is_special(code->machine, code->words[i]))
            add_special(store, made, (struct special){i, code->words[i]});
    return made;
}

/* How many instructions of a block are before an address. */
static uint32_t instructions_before(const struct stretch *stretch, uint64_t address)
{
    uint32_t low = 0, high = stretch->instructions;

    if (!stretch->places)
        return (uint32_t)((address - stretch->address) / 4);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (stretch_at(stretch, middle) < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many instructions of a block are from an address on. */
static uint32_t instructions_from(const struct stretch *stretch, uint64_t address)
{
    return stretch->instructions - instructions_before(stretch, address);
}

/* The instructions of a block from an address to before another one, both in it. */
static const struct stretch *part_of(struct window_store *store, const struct stretch *whole,
                                     uint64_t from, uint64_t to)
{
    uint32_t first = instructions_before(whole, from), last = instructions_before(whole, to);
    bool is_new;
    struct stretch *made;

    if (from == whole->address && to == whole->end)
        return whole;
    made = take_stretch(store, from, last - first, &is_new);
    if (!made || !is_new)
        return made;
    if (whole->places)
        set_places(store, made, whole->places + first);
    made->first_special = store->special.count;
    for (uint32_t i = 0; i < whole->special; i++) {
        /* Anew each time: adding one may move the list. */
        struct special one = ((struct special *)store->special.entries)[whole->first_special + i];

        if (one.place >= first && one.place < last)
            add_special(store, made, (struct special){one.place - first, one.word});
    }
    return made;
}

/* Whether an address is where the block that runs can be cut; else something was not understood. */
static bool can_cut(struct windows *windows, uint64_t address)
{
    const struct stretch *running = windows->running;

    if (running && address >= running->address && address <= running->end)
        return true;
    windows->store->failed = true;
    return false;
}

/* Of the window: only what precedes an address is left of the block that runs, its last entry (one is added
   only after room was made, so it is there). */
static void shorten(struct windows *windows, uint64_t address)
{
    const struct stretch *running = windows->running, *kept = NULL;

    if (address == running->end)
        return;
    windows->instructions -= instructions_from(running, address);
    windows->sum -= running->value;
    windows->count--;
    if (address > running->address)
        kept = part_of(windows->store, running, running->address, address);
    if (kept)
        windows_add(windows, kept->number, kept->value);
}

void windows_leave(struct windows *windows, uint64_t address)
{
    if (windows->adds && can_cut(windows, address))
        shorten(windows, address);
    windows->is_away = true;
    windows->adds = false;
}

void windows_return(struct windows *windows, uint64_t address)
{
    const struct stretch *rest;

    windows->is_away = false;
    windows->adds = windows->is_open;
    if (!windows->adds || !address || !can_cut(windows, address) ||
        address == windows->running->end)
        return;
    rest = part_of(windows->store, windows->running, address, windows->running->end);
    if (!rest)
        return;
    windows->running = rest;
    windows->instructions += rest->instructions;
    windows_add(windows, rest->number, rest->value);
}

void windows_stop(struct windows *windows, uint64_t address)
{
    const struct stretch *running = windows->running;

    if (!running || address < running->address || address >= running->end)
        return;
    windows->executed -= instructions_from(running, address);
    if (windows->adds)
        shorten(windows, address);
    windows->running = NULL;
}

/* QEMU names a region without a name by the place of its structure in QEMU, which no two boots share. */
static const char *steady_name(const char *name)
{
    return strncmp(name, "anon", 4) == 0 ? "anon" : name;
}

static uint32_t device_number(struct window_store *store, const char *name)
{
    char (*known)[WINDOW_NAME] = store->devices.entries, *added;

    for (uint64_t i = 0; i < store->devices.count; i++)
        if (strncmp(known[i], name, WINDOW_NAME - 1) == 0)
            return (uint32_t)i;
    added = list_more(&store->devices, WINDOW_NAME);
    if (!added) {
        store->failed = true;
        return 0;
    }
    memset(added, 0, WINDOW_NAME);
    strncpy(added, name, WINDOW_NAME - 1);
    return (uint32_t)store->devices.count - 1;
}

void windows_access(struct windows *windows, uint64_t address, uint64_t end, const char *device,
                    bool is_store)
{
    struct window_access wanted = {address, 0, is_store};
    struct list *accesses = &windows->store->accesses;
    const struct window_access *known = accesses->entries;
    uint64_t number;

    windows_stop(windows, end);
    if (!windows->adds)
        return;
    wanted.device = device_number(windows->store, steady_name(device));
    for (number = 0; number < accesses->count; number++)
        if (memcmp(&known[number], &wanted, sizeof(wanted)) == 0)
            break;
    if (number == accesses->count) {
        struct window_access *added = list_more(accesses, sizeof(wanted));

        if (!added) {
            windows->store->failed = true;
            return;
        }
        *added = wanted;
    }
    windows_add(windows, ENTRY_ACCESS | (uint32_t)number,
                value_of(~address, wanted.device * 2 + wanted.is_store));
}

/* ---------------------------------------------------------------- windows and marks */

/* Where a window stands in the table of slots, or would. */
static uint64_t slot_of(const struct window_store *store, uint64_t sum)
{
    const uint64_t *sums = store->sums.entries;
    uint64_t mask = store->slot_count - 1, slot = sum & mask;

    while (store->slots[slot] != NO_BLOCK && sums[store->slots[slot]] != sum)
        slot = (slot + 1) & mask;
    return slot;
}

static bool grow_slots(struct window_store *store)
{
    uint64_t count = 2 * store->slot_count;
    const uint64_t *sums = store->sums.entries;
    uint32_t *slots = malloc(count * sizeof(*slots));

    if (!slots)
        return false;
    memset(slots, 0xff, count * sizeof(*slots));
    free(store->slots);
    store->slots = slots;
    store->slot_count = count;
    for (uint64_t i = 0; i < store->sums.count; i++)
        slots[slot_of(store, sums[i])] = (uint32_t)i;
    return true;
}

/* How often an entry is there that was spilled; NULL: no memory. */
static uint32_t *tally_of(struct windows *windows, uint32_t entry)
{
    struct list *list = &windows->tallies[entry & ENTRY_ACCESS ? 1 : 0];
    uint32_t number = entry & ~ENTRY_ACCESS;

    while (list->count <= number) {
        uint32_t *added = list_more(list, sizeof(*added));

        if (!added)
            return NULL;
        *added = 0;
    }
    return (uint32_t *)list->entries + number;
}

void windows_spill(struct windows *windows)
{
    for (uint32_t i = 0; i < windows->count; i++) {
        uint32_t *tally = tally_of(windows, windows->content[i]);
        uint32_t *touched = tally && !*tally ? list_more(&windows->touched, sizeof(*touched)) : NULL;

        if (!tally || (!*tally && !touched)) {
            windows->store->failed = true;
            break;
        }
        if (touched)
            *touched = windows->content[i];
        ++*tally;
    }
    windows->count = 0;
}

static bool add_contents(struct window_store *store, uint32_t entry)
{
    uint32_t *added = list_more(&store->contents, sizeof(*added));

    if (added)
        *added = entry;
    return added;
}

static bool add_window(struct windows *windows, uint64_t sum)
{
    struct window_store *store = windows->store;
    bool is_ordered = !windows->touched.count, is_whole = true;
    struct window *added = list_more(&store->known, sizeof(*added));
    uint64_t *known_sum = list_more(&store->sums, sizeof(sum));

    if (!added || !known_sum)
        return false;
    if (!is_ordered)
        windows_spill(windows);
    *added = (struct window){is_ordered ? windows->count : 2 * (uint32_t)windows->touched.count,
                             is_ordered, windows->instructions};
    *known_sum = sum;
    for (uint32_t i = 0; i < windows->count; i++)
        is_whole = add_contents(store, windows->content[i]) && is_whole;
    for (uint64_t i = 0; i < windows->touched.count; i++) {
        uint32_t entry = ((uint32_t *)windows->touched.entries)[i];

        is_whole = add_contents(store, entry) &&
                   add_contents(store, *tally_of(windows, entry)) && is_whole;
    }
    return is_whole && (2 * store->sums.count < store->slot_count || grow_slots(store));
}

/* Begins a window. */
static void begin(struct windows *windows, uint64_t user)
{
    for (uint64_t i = 0; i < windows->touched.count; i++)
        *tally_of(windows, ((uint32_t *)windows->touched.entries)[i]) = 0;
    windows->touched.count = 0;
    windows->user = user;
    windows->count = 0;
    windows->sum = windows->instructions = 0;
}

void windows_open(struct windows *windows, bool is_open, uint64_t user)
{
    uint32_t *opened = is_open ? list_more(&windows->opened, sizeof(*opened)) : NULL;

    if (opened)
        *opened = (uint32_t)windows->marks.count;
    else if (is_open)
        windows->store->failed = true;
    windows->store->measured = is_open ? UINT64_MAX : windows->store->blocks.count;
    windows->is_open = is_open;
    windows->adds = is_open && !windows->is_away;
    /* Its entry is not of the window that begins. */
    windows->running = NULL;
    begin(windows, user);
}

/* The number of the window that goes on; a new one if it is not known. */
static uint32_t window_number(struct windows *windows)
{
    struct window_store *store = windows->store;
    uint64_t slot = slot_of(store, windows->sum);

    if (store->slots[slot] != NO_BLOCK)
        return store->slots[slot];
    store->slots[slot] = (uint32_t)store->sums.count;
    if (!add_window(windows, windows->sum))
        store->failed = true;
    return (uint32_t)store->sums.count - 1;
}

/* Ends the window that goes on with a mark, and begins the next one. */
static void finish(struct windows *windows, enum mark_kind kind, uint64_t user)
{
    uint32_t number = windows->is_open ? window_number(windows) : NO_BLOCK;
    struct window_mark *mark = list_more(&windows->marks, sizeof(*mark));

    if (mark)
        *mark = (struct window_mark){number, kind, (uint32_t)(user - windows->user)};
    else
        windows->store->failed = true;
    begin(windows, user);
}

void windows_mark(struct windows *windows, uint64_t address, enum mark_kind kind, uint64_t user)
{
    bool cuts = address && !windows->is_away;

    if (!windows->is_open && kind != MARK_CLOCK)
        return;
    if (cuts)
        windows_leave(windows, address);
    finish(windows, kind, user);
    if (cuts)
        windows_return(windows, address);
}

void windows_switch(struct windows *windows, uint64_t address, uint64_t user, uint64_t from,
                    uint64_t to)
{
    struct window_switch *added;

    if (!windows->is_open)
        return;
    added = list_more(&windows->switches, sizeof(*added));
    if (!added) {
        windows->store->failed = true;
        return;
    }
    *added = (struct window_switch){from, to};
    windows_mark(windows, address, MARK_SWITCH, user);
}

void windows_value(struct windows *windows, uint32_t which, uint64_t amount)
{
    bool is_ordered = !windows->touched.count && windows->count;
    struct window_value *added;

    if (!windows->adds)
        return;
    added = list_more(&windows->values, sizeof(*added));
    if (!added) {
        windows->store->failed = true;
        return;
    }
    *added = (struct window_value){(uint32_t)windows->marks.count,
                                   is_ordered ? windows->count - 1 : NO_BLOCK, which,
                                   amount < UINT32_MAX ? (uint32_t)amount : UINT32_MAX};
}

/* ---------------------------------------------------------------- the file */

static void write_list(struct window_store *store, enum window_part kind, uint32_t cpu,
                       uint32_t width, const struct list *list)
{
    struct part part = {kind, 0, cpu, width, list->count};

    if (fwrite(&part, sizeof(part), 1, store->file) != 1 ||
        (list->count && fwrite(list->entries, width, list->count, store->file) != list->count))
        store->failed = true;
}

/* Of each block: itself; its bytes, where its instructions have several lengths; what is special of it. */
static void write_blocks(struct window_store *store)
{
    struct list blocks = {0}, sizes = {0}, special = {0};
    bool whole = true;

    for (uint32_t i = 0; whole && i < store->blocks.count && i < store->measured; i++) {
        const struct stretch *one = known_stretch(store, i);
        const struct special *its = (struct special *)store->special.entries + one->first_special;
        struct window_block *block = list_more(&blocks, sizeof(*block));
        uint32_t *size = one->places ? list_more(&sizes, sizeof(*size)) : NULL;

        whole = block && (size || !one->places);
        if (block)
            *block = (struct window_block){one->address, one->instructions, one->special};
        if (size)
            *size = (uint32_t)(one->end - one->address);
        for (uint32_t j = 0; whole && j < one->special; j++) {
            struct special *added = list_more(&special, sizeof(*added));

            whole = added;
            if (added)
                *added = its[j];
        }
    }
    if (!whole)
        store->failed = true;
    write_list(store, PART_BLOCKS, 0, sizeof(struct window_block), &blocks);
    if (sizes.count)
        write_list(store, PART_SIZES, 0, sizeof(uint32_t), &sizes);
    write_list(store, PART_SPECIAL, 0, sizeof(struct special), &special);
    free(blocks.entries);
    free(sizes.entries);
    free(special.entries);
}

static void write_cpu(struct window_store *store, uint32_t cpu, const struct windows *windows)
{
    write_list(store, PART_MARKS, cpu, sizeof(struct window_mark), &windows->marks);
    write_list(store, PART_SWITCHES, cpu, sizeof(struct window_switch), &windows->switches);
    write_list(store, PART_VALUES, cpu, sizeof(struct window_value), &windows->values);
    if (windows->touches)
        write_list(store, PART_TOUCHES, cpu, windows->touch_width, windows->touches);
    write_list(store, PART_OPENED, cpu, sizeof(uint32_t), &windows->opened);
}

bool store_end(struct window_store *store, struct windows *const *cpus, uint32_t count)
{
    static const struct list none;

    write_blocks(store);
    write_list(store, PART_DEVICES, 0, WINDOW_NAME, &store->devices);
    write_list(store, PART_ACCESSES, 0, sizeof(struct window_access), &store->accesses);
    write_list(store, PART_CONTENTS, 0, sizeof(uint32_t), &store->contents);
    write_list(store, PART_WINDOWS, 0, sizeof(struct window), &store->known);
    for (uint32_t cpu = 0; cpu < count; cpu++)
        write_cpu(store, cpu, cpus[cpu]);
    if (!store->failed)
        write_list(store, PART_LAST, 0, 1, &none);
    return fflush(store->file) == 0 && !store->failed;
}

static void free_lists(struct list *const *lists, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(lists[i]->entries);
}

void store_free(struct window_store *store)
{
    struct list *lists[] = {&store->special,  &store->devices, &store->accesses,
                            &store->contents, &store->known,   &store->sums};

    for (uint64_t i = 0; i < store->stretches.count; i++) {
        free(known_stretch(store, (uint32_t)i)->places);
        free(known_stretch(store, (uint32_t)i));
    }
    free(store->stretches.entries);
    free_lists(lists, sizeof(lists) / sizeof(*lists));
    free(store->slots);
    blocks_free(&store->blocks);
}

void windows_free(struct windows *windows)
{
    struct list *lists[] = {&windows->marks,      &windows->switches,   &windows->values,
                            &windows->opened,     &windows->tallies[0], &windows->tallies[1],
                            &windows->touched};

    free_lists(lists, sizeof(lists) / sizeof(*lists));
    free(windows->content);
}
