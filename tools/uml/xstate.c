/*
 * Preloaded into User Mode Linux, so that it runs on CPUs with more registers than it keeps.
 *
 * That of Linux 6.12 keeps 2,696 bytes of a guest process's extended state, up to AVX-512 and PKRU
 * (HOST_FP_SIZE, arch/x86/um/user-offsets.c); one that keeps all is not touched. Where the CPU has more (AMX, of Intel's Xeons since
 * Sapphire Rapids) the host gives these bytes, but takes back the whole state alone:
 * PTRACE_SETREGSET fails with EFAULT, and init dies. Here the rest follows as zeros. XSTATE_BV, which
 * is among the bytes that are kept, says that the rest is unused: to use AMX, a process asks its
 * kernel, and User Mode Linux knows no such call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#define MOST 65536 /* bytes; AMX's state ends at 11,008 */

typedef long call(int request, pid_t pid, void *addr, void *data);

static call *host;
static char state[MOST]; /* User Mode Linux has one thread that traces */
static size_t whole;	 /* bytes of the CPU's state; 0: not known yet */

__attribute__((constructor)) static void find(void)
{
	host = (call *)dlsym(RTLD_NEXT, "ptrace");
}

/* A PTRACE_SETREGSET of a state that may be shorter than the CPU's. */
static long set_state(pid_t pid, void *addr, const struct iovec *given)
{
	struct iovec all = { state, MOST };

	if (!whole) {
		if (host(PTRACE_GETREGSET, pid, addr, &all) < 0)
			return -1;
		whole = all.iov_len;
		memset(state, 0, whole);
	}
	if (given->iov_len >= whole)
		return host(PTRACE_SETREGSET, pid, addr, (void *)given);
	memcpy(state, given->iov_base, given->iov_len);
	all.iov_len = whole;
	return host(PTRACE_SETREGSET, pid, addr, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;
	pid_t pid;
	void *addr, *data;

	va_start(rest, request);
	pid = va_arg(rest, pid_t);
	addr = va_arg(rest, void *);
	data = va_arg(rest, void *);
	va_end(rest);
	if (request == PTRACE_SETREGSET && (long)addr == NT_X86_XSTATE)
		return set_state(pid, addr, data);
	return host(request, pid, addr, data);
}
