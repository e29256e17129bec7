/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest's tracing executed, and what its windows consist of: QEMU's part of both. */
#ifndef IOTOLL_TRACED_H
#define IOTOLL_TRACED_H

#include <glib.h>
#include <qemu-plugin.h>
#include <stdbool.h>

#include "cache.h"

/* Whether an option is one of those of tracing, and valid. */
bool traced_option(const char *option, const char *value);

/* Whether it is asked for. */
bool traced_is_on(void);

/* Whether the options together mean something. */
bool traced_is_whole(void);

/* Before anything runs; `user` counts the instructions of user space. */
void traced_begin(qemu_plugin_u64 user);

/* A CPU is there, with these registers (qemu_plugin_reg_descriptor). */
void traced_cpu(unsigned int vcpu, const GArray *registers);

/* Lines of cache are counted as well, in a model of caches that is the callee's now; false: no memory. */
bool traced_lines(struct caches caches);

/* Between two blocks: what is measured begins, or ends. */
void traced_open(unsigned int vcpu, bool is_open);

void traced_translate(struct qemu_plugin_tb *tb);

/* Whether all was written. */
bool traced_end(void);

#endif
