/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest's tracing executed, and what its windows consist of: QEMU's part of both. */
#ifndef IOTOLL_TRACED_H
#define IOTOLL_TRACED_H

#include <glib.h>
#include <qemu-plugin.h>
#include <stdbool.h>

#include "record.h"

/* Whether an option is one of those of tracing, and valid. */
bool traced_option(const char *option, const char *value);

/* Whether it is asked for. */
bool traced_is_on(void);

/* Whether the options together mean something on a machine of this name (QEMU's). */
bool traced_is_whole(const char *target);

/* Before anything runs; `user` counts the instructions of user space. False: it cannot be written. */
bool traced_begin(qemu_plugin_u64 user, bool is_of_several);

/* A CPU is there, with these registers (qemu_plugin_reg_descriptor). */
void traced_cpu(unsigned int vcpu, const GArray *registers);

/* Lines of cache are counted as well, by each CPU in such caches of its own (caches_of). */
void traced_lines(const struct span caches[CACHES + 1]);

/* Between two blocks: what is measured begins, or ends. */
void traced_open(bool is_open);

void traced_translate(struct qemu_plugin_tb *tb);

/* Whether all was written. */
bool traced_end(void);

#endif
