// How fast one core can be at all: an uncompressed trace.dat mapped into memory, the CPUs merged by
// time, and task, device, sector and length read at fixed offsets. It knows nothing of formats,
// checks next to nothing, and is right only for the traces of 64-bit little-endian machines.
//
//   headroom TRACE PAGE_SIZE OFFSET SIZE [OFFSET SIZE ...]
//
// The offsets are those of the CPUs' data. Built and timed by tools/bench.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CPUS = 64, PADDING = 29, EXTEND = 30, STAMP = 31 };

struct cpu {
	const uint8_t *page, *end;	// next page, end of the data
	const uint8_t *at, *stop;	// next word, end of the page's events
	const uint8_t *data;		// current event
	uint32_t len;
	uint64_t ts;
};

static size_t page_size;

static inline uint32_t u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v;
}

static inline uint64_t u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

static inline int advance(struct cpu *c)
{
	for (;;) {
		if (c->at >= c->stop) {
			if (c->page >= c->end)
				return 0;
			c->ts = u64(c->page);
			c->at = c->page + 16;
			c->stop = c->at + (u64(c->page + 8) & ((1 << 27) - 1));
			c->page += page_size;
			continue;
		}
		uint32_t word = u32(c->at), kind = word & 31, delta = word >> 5;

		c->at += 4;
		if (kind && kind < PADDING) {
			c->ts += delta;
			c->data = c->at;
			c->len = kind * 4;
			c->at += c->len;
			return 1;
		}
		if (kind == 0) {
			c->ts += delta;
			c->data = c->at + 4;
			c->len = u32(c->at) - 4;
			c->at += (u32(c->at) + 3) & ~3u;
			return 1;
		}
		if (kind == PADDING) {
			c->at = delta ? c->at + ((u32(c->at) + 3) & ~3u) : c->stop;
			c->ts += delta;
			continue;
		}
		uint64_t wide = (uint64_t)u32(c->at) << 27 | delta;

		c->ts = kind == EXTEND ? c->ts + wide : wide | (c->ts & ~((1ull << 59) - 1));
		c->at += 4;
	}
}

int main(int argc, char **argv)
{
	static struct cpu all[CPUS];
	struct stat st;
	uint64_t events = 0, sum = 0;
	int live = 0, fd;
	const uint8_t *file;

	if (argc < 5 || argc % 2 == 0 || (argc - 3) / 2 > CPUS) {
		fprintf(stderr, "usage: %s TRACE PAGE_SIZE OFFSET SIZE [OFFSET SIZE ...]\n", argv[0]);
		return 2;
	}
	fd = open(argv[1], O_RDONLY);
	if (fd < 0 || fstat(fd, &st)) {
		perror(argv[1]);
		return 1;
	}
	file = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	page_size = strtoull(argv[2], NULL, 10);
	for (int i = 3; i < argc; i += 2) {
		struct cpu *c = &all[live];

		c->page = file + strtoull(argv[i], NULL, 10);
		c->end = c->page + strtoull(argv[i + 1], NULL, 10);
		live += advance(c);
	}
	while (live) {
		struct cpu *c = all;

		for (int i = 1; i < live; i++)
			if (all[i].ts < c->ts)
				c = &all[i];
		events++;
		sum += c->ts + u32(c->data + 4);
		if (c->len >= 28)
			sum += u32(c->data + 8) + u64(c->data + 16) + u32(c->data + 24);
		if (!advance(c))
			*c = all[--live];
	}
	printf("events %llu\nsum %llu\n", (unsigned long long)events, (unsigned long long)sum);
	return 0;
}
