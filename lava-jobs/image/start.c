/*
 * iotoll-start: lets the threads of a cell begin at moments of the kernel's clock. For exact boards.
 *
 *   iotoll-start plan FILE LEAD_US ROUND_US LATE_US MARGIN_US
 *       tells in FILE when the cell begins, in microseconds of CLOCK_MONOTONIC: LEAD_US from now at least,
 *       at a multiple of ROUND_US, and LATE_US more. Ends MARGIN_US before that.
 *   iotoll-start at FILE OFFSET_US NAME
 *       waits until FILE tells that moment, and ends OFFSET_US after it. Where that has passed it says so
 *       on the console, as a note about the cell NAME.
 *   iotoll-start rest FILE REST_US ROUND_US
 *       waits for REST_US at least, and until a multiple of ROUND_US has passed since the moment that is in FILE.
 *   iotoll-start settle FILE CPU PAGES EXTRA
 *       gives FILE, of a tmpfs, PAGES pages, makes the CPU, on which it runs, give up its free pages, writes so many
 *       more that it has just fetched others (/proc/buddyinfo, /proc/zoneinfo), and EXTRA more.
 *   iotoll-start spread FILE PAGES
 *       writes a file of so many pages, every second one first: no two neighbours in it are neighbours in memory.
 *   iotoll-start scatter FILE
 *       gives such a file other pages where two neighbours in it have become neighbours in memory.
 *   iotoll-start age FILE CHUNKS
 *       writes a file of so many chunks of 32 KiB that lie on the disk in another order, with gaps between them.
 *
 * A shell that reads the clock and then sleeps is late by what other threads' shells do in between, and each
 * of them costs ten times what this does. No libc: the compiler that builds the kernel need not have one.
 */
typedef long word;

struct timespec {
	word seconds, nanoseconds;
};

#if defined(__aarch64__)
enum { OPENAT = 56, CLOSE = 57, LSEEK = 62, READ = 63, WRITE = 64, GETTIME = 113, SLEEP = 115, PRCTL = 167, EXIT = 94,
       PIPE2 = 59, FCNTL = 25, PWRITE = 68, FALLOCATE = 47, FSYNC = 82, FTRUNCATE = 46, MMAP = 222, FUTEX = 98,
       PREAD = 67 };

static word call6(word number, word a, word b, word c, word d, word e, word f)
{
	register word x8 __asm__("x8") = number;
	register word x0 __asm__("x0") = a;
	register word x1 __asm__("x1") = b;
	register word x2 __asm__("x2") = c;
	register word x3 __asm__("x3") = d;
	register word x4 __asm__("x4") = e;
	register word x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}

__asm__(".globl _start\n_start: mov x29, 0\nmov x30, 0\nmov x0, sp\nb begin\n");
#elif defined(__x86_64__)
enum { OPENAT = 257, CLOSE = 3, LSEEK = 8, READ = 0, WRITE = 1, GETTIME = 228, SLEEP = 230, PRCTL = 157, EXIT = 231,
       PIPE2 = 293, FCNTL = 72, PWRITE = 18, FALLOCATE = 285, FSYNC = 74, FTRUNCATE = 77, MMAP = 9, FUTEX = 202,
       PREAD = 17 };

static word call6(word number, word a, word b, word c, word d, word e, word f)
{
	register word r10 __asm__("r10") = d;
	register word r8 __asm__("r8") = e;
	register word r9 __asm__("r9") = f;
	word result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

__asm__(".globl _start\n_start: xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall begin\n");
#else
#error "exact boards are arm64 or x86-64"
#endif

static word call(word number, word a, word b, word c, word d)
{
	return call6(number, a, b, c, d, 0, 0);
}

#define HERE (-100) /* AT_FDCWD */
enum { READ_ONLY = 0, NEW_FILE = 01 | 0100 | 01000, SHARED_FILE = 02 | 0100, MONOTONIC = 1, ABSOLUTE = 1,
       SET_TIMERSLACK = 29, SET_PIPE_SIZE = 1031, PIPES = 24, KEEP_SIZE = 1, PUNCH_HOLE = 2, SEEK_END = 2,
       INSERT_RANGE = 0x20, CHUNK = 32768,
       PAGES = 1024, READABLE = 1, READ_WRITE = 3, SHARED = 1, WAIT = 0, WAKE = 1, ALL = 0x7fffffff };

static word length(const char *text)
{
	word n = 0;

	while (text[n])
		n++;
	return n;
}

static void leave(word status)
{
	for (;;)
		call(EXIT, status, 0, 0, 0);
}

/* Appends to a text that ends at *end. */
static void add(char **end, const char *text)
{
	while (*text)
		*(*end)++ = *text++;
}

static void add_number(char **end, word number)
{
	char digits[24];
	int n = 0;

	do
		digits[n++] = '0' + number % 10;
	while (number /= 10);
	while (n)
		*(*end)++ = digits[--n];
}

static void put(const char *path, word flags, const char *text, word size)
{
	word file = call(OPENAT, HERE, (word)path, flags, 0644);

	if (file < 0 || call(WRITE, file, (word)text, size, 0) != size)
		leave(4);
	call(CLOSE, file, 0, 0, 0);
}

/* A decimal number; anything else ends the program as invalid arguments do. */
static word number(const char *text)
{
	word value = 0;

	if (!*text || length(text) > 16)
		leave(2);
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			leave(2);
		value = value * 10 + (*text - '0');
	}
	return value;
}

static int begins(const char *text, const char *word)
{
	while (*word && *text == *word)
		text++, word++;
	return !*word;
}

static word now(void)
{
	struct timespec time;

	call(GETTIME, MONOTONIC, (word)&time, 0, 0);
	return time.seconds * 1000000 + time.nanoseconds / 1000;
}

static void sleep_until(word moment)
{
	struct timespec time = { moment / 1000000, moment % 1000000 * 1000 };

	while (call(SLEEP, MONOTONIC, ABSOLUTE, (word)&time, 0))
		;
}

/* What a cell's threads have in common: whoever comes first makes the file. */
struct begin {
	word moment;
	int is_known;
};

static struct begin *shared(const char *path)
{
	word file = call(OPENAT, HERE, (word)path, SHARED_FILE, 0644), place;

	if (file < 0 || call(FTRUNCATE, file, sizeof(struct begin), 0, 0))
		leave(4);
	place = call6(MMAP, 0, sizeof(struct begin), READ_WRITE, SHARED, file, 0);
	if (place < 0 && place > -4096)
		leave(4);
	return (struct begin *)place;
}

static void plan(const char *path, word lead, word round, word late, word margin)
{
	struct begin *begin = shared(path);
	word moment = ((now() + lead) / round + 1) * round + late;

	begin->moment = moment;
	__atomic_store_n(&begin->is_known, 1, __ATOMIC_RELEASE);
	call(FUTEX, (word)&begin->is_known, WAKE, ALL, 0);
	sleep_until(moment - margin);
}

/*
 * The moment that a file tells; waits until it does. A cell's other threads come here while the cell before rests, and
 * what runs then counts for that: seven that looked for the file every 50 ms were a third of it.
 */
static word planned(const char *path)
{
	struct begin *begin = shared(path);

	while (!__atomic_load_n(&begin->is_known, __ATOMIC_ACQUIRE))
		call(FUTEX, (word)&begin->is_known, WAIT, 0, 0);
	return begin->moment;
}

static void rest(const char *path, word least, word round)
{
	word begun = planned(path);

	sleep_until(begun + ((now() + least - begun) / round + 1) * round);
}

static void at(const char *path, word offset, const char *name)
{
	char text[320], *end = text;
	word moment = planned(path) + offset, late;

	late = now() - moment;
	if (late > 0 && length(name) < 200) {
		/* On a board that is not exact the host's load decides; on an exact one, too short a lead. */
		add(&end, "iotoll: note: cell ");
		add(&end, name);
		add(&end, ": a thread begins ");
		add_number(&end, late);
		add(&end, " us late\n");
		put("/dev/console", 1, text, end - text);
	}
	sleep_until(moment);
}

/* A file of /proc as text; its length, or -1. */
static word read_text(const char *path, char *text, word room)
{
	word file = call(OPENAT, HERE, (word)path, READ_ONLY, 0), size = 0, more;

	if (file < 0)
		return -1;
	while ((more = call(READ, file, (word)text + size, room - 1 - size, 0)) > 0)
		size += more;
	call(CLOSE, file, 0, 0, 0);
	text[size] = 0;
	return size;
}

/* The number at a place of a text, behind which it is moved; blanks before it are skipped. -1: there is none. */
static word next_number(char **text)
{
	word value = -1;

	while (**text == ' ')
		++*text;
	while (**text >= '0' && **text <= '9')
		value = (value < 0 ? 0 : value) * 10 + (*(*text)++ - '0');
	return value;
}

/* How many free pages of its own a CPU has in the last zone that has any; -1 where the kernel does not tell. */
static word own_pages(word cpu)
{
	static const char each[] = "cpu: ", count[] = "count: ";
	char zones[65536], *text = zones;
	word found = -1, here = -1;

	if (read_text("/proc/zoneinfo", zones, sizeof zones) < 0)
		return -1;
	while (*text) {
		if (begins(text, each)) {
			text += sizeof each - 1;
			here = next_number(&text);
		} else if (begins(text, count)) {
			text += sizeof count - 1;
			if (here == cpu)
				found = next_number(&text);
		} else {
			text++;
		}
	}
	return found;
}

/* How many free pages no CPU has for itself: of each zone ("Node 0, zone DMA"), those of order 0, 1, ...; -1 as above. */
static word common_pages(void)
{
	char zones[8192], *text = zones;
	word found = 0, order, value;

	if (read_text("/proc/buddyinfo", zones, sizeof zones) < 0)
		return -1;
	while (*text) {
		if (!begins(text++, "zone "))
			continue;
		for (text += 4; *text == ' '; text++)
			;
		while (*text && *text != ' ')
			text++;
		for (order = 0; (value = next_number(&text)) >= 0; order++)
			found += value << order;
	}
	return found;
}

/*
 * Makes the CPU give all its free pages back, of every kind and order: how many it holds of each is left over from
 * what ran before, and decides in which I/O it fetches others. Linux does so when order 1 to 3 is freed again and again
 * with nothing taken in between (5.18 on: f26b3fa04611). A pipe of 1 MiB has 256 buffers, which lie in four pages.
 */
static void give_up_pages(void)
{
	int pipes[PIPES][2], n;

	for (n = 0; n < PIPES; n++)
		if (call(PIPE2, (word)pipes[n], 0, 0, 0) || call(FCNTL, pipes[n][0], SET_PIPE_SIZE, 1 << 20, 0) < 0)
			leave(5);
	for (n = 0; n < PIPES; n++) {
		call(CLOSE, pipes[n][0], 0, 0, 0);
		call(CLOSE, pipes[n][1], 0, 0, 0);
	}
}

static void add_page(word file)
{
	static const char page[4096] = "x"; /* Linux 5.10 loads no program whose only data are zeros */

	if (call(WRITE, file, (word)page, sizeof page, 0) != sizeof page)
		leave(4);
}

/*
 * Takes free pages and keeps them: those that lie scattered are taken first. Ends when the CPU has just fetched a
 * batch of others for itself, so that the same I/O of two kernels pays for the next. An I/O that takes as many pages
 * each time pays for the next batch at the same place each time: which place that is, extra pages move.
 *
 * Those that no CPU has for itself are fewer then, which is much less to read than what each CPU has; another CPU may
 * have fetched them, so that is asked next. Pages that are only allocated need not be written (shmem_fallocate()).
 */
static void settle(const char *path, word cpu, word pages, word extra)
{
	word file = call(OPENAT, HERE, (word)path, NEW_FILE, 0644), common, own, last, limit = 400;

	if (file < 0 || call(FALLOCATE, file, KEEP_SIZE, 0, pages * 4096))
		leave(4);
	call(LSEEK, file, pages * 4096, 0, 0);
	give_up_pages();
	add_page(file);
	own = own_pages(cpu);
	last = common_pages();
	while (own >= 0 && last >= 0 && limit--) {
		add_page(file);
		common = common_pages();
		if (common < last) {
			word had = own;

			own = own_pages(cpu);
			if (own > had)
				break;
		}
		last = common;
	}
	while (extra-- > 0)
		add_page(file);
	call(CLOSE, file, 0, 0, 0);
}

/* Free pages are mostly handed out in order: those of a file that is written from its beginning follow each other. */
static void spread(const char *path, word pages)
{
	static const char page[4096] = "x";
	word file = call(OPENAT, HERE, (word)path, NEW_FILE, 0644), half, n;

	if (file < 0)
		leave(4);
	for (half = 0; half < 2; half++)
		for (n = half; n < pages; n += 2)
			if (call(PWRITE, file, (word)page, sizeof page, n * (word)sizeof page) != sizeof page)
				leave(4);
	call(CLOSE, file, 0, 0, 0);
}

/*
 * Which page of a file lies in memory behind the one that is before it in the file; 0: none does, or the kernel does
 * not tell (/proc/self/pagemap: CONFIG_PROC_PAGE_MONITOR).
 */
static word neighbour(word file, word pages)
{
	static unsigned long entries[PAGES];
	const unsigned long frame = (1ul << 55) - 1;
	word map = call(OPENAT, HERE, (word)"/proc/self/pagemap", READ_ONLY, 0), place, n;

	if (map < 0 || pages > PAGES)
		return 0;
	place = call6(MMAP, 0, pages * 4096, READABLE, SHARED, file, 0);
	if (place < 0 && place > -4096)
		leave(4);
	for (n = 0; n < pages; n++)
		(void)*(volatile char *)(place + n * 4096);
	if (call(PREAD, map, (word)entries, pages * 8, place / 4096 * 8) != pages * 8)
		leave(4);
	call(CLOSE, map, 0, 0, 0);
	for (n = 1; n < pages; n++)
		if ((entries[n] & frame) && (entries[n] & frame) == (entries[n - 1] & frame) + 1)
			return n;
	return 0;
}

/*
 * Compaction moves pages, and may bring two of a spread file together. Such a page is given back and kept otherwise,
 * so that the file gets another one in its place. Who has the file mapped sees that one.
 */
static void scatter(const char *path)
{
	static const char page[4096] = "x";
	char kept[256], *end = kept;
	word file = call(OPENAT, HERE, (word)path, SHARED_FILE, 0644), pages, n, other, limit = 64;

	if (length(path) > 240)
		leave(2);
	add(&end, path);
	add(&end, ".kept");
	*end = 0;
	other = call(OPENAT, HERE, (word)kept, NEW_FILE, 0644);
	if (file < 0 || other < 0)
		leave(4);
	pages = call(LSEEK, file, 0, SEEK_END, 0) / 4096;
	while ((n = neighbour(file, pages)) > 0 && limit--) {
		if (call(FALLOCATE, file, KEEP_SIZE | PUNCH_HOLE, n * 4096, 4096))
			leave(4);
		add_page(other);
		if (call(PWRITE, file, (word)page, sizeof page, n * (word)sizeof page) != sizeof page)
			leave(4);
	}
}

/*
 * As a file gets that others change beside it: each chunk is inserted before all that are there, so that the disk has
 * them in the other order, and another file's chunk comes between two of them, so that no request takes both. An
 * insertion allocates first what was written (ext4_insert_range()), so nothing is put off and joined later.
 */
static void age(const char *path, word chunks)
{
	static char chunk[CHUNK];
	char beside[256], *end = beside;
	word files[2], n, i;

	if (length(path) > 240)
		leave(2);
	add(&end, path);
	add(&end, ".beside");
	*end = 0;
	files[0] = call(OPENAT, HERE, (word)path, NEW_FILE, 0644);
	files[1] = call(OPENAT, HERE, (word)beside, NEW_FILE, 0644);
	for (n = 0; n < chunks; n++)
		for (i = 0; i < 2; i++) {
			if (n && call(FALLOCATE, files[i], INSERT_RANGE, 0, CHUNK))
				leave(6);
			if (call(PWRITE, files[i], (word)chunk, CHUNK, 0) != CHUNK)
				leave(4);
		}
	for (i = 0; i < 2; i++)
		if (call(FSYNC, files[i], 0, 0, 0))
			leave(4);
}

static int is(const char *text, const char *word)
{
	while (*text && *text == *word)
		text++, word++;
	return *text == *word;
}

/* Called with the stack as the kernel made it: the number of arguments, then they. */
__attribute__((used, noreturn)) static void begin(word *stack)
{
	char **arguments = (char **)(stack + 1);

	/* A nanosecond instead of 50 us: no timer of another thread decides when this one ends. */
	call(PRCTL, SET_TIMERSLACK, 1, 0, 0);
	if (*stack == 7 && is(arguments[1], "plan") && number(arguments[4]) > 0)
		plan(arguments[2], number(arguments[3]), number(arguments[4]), number(arguments[5]), number(arguments[6]));
	else if (*stack == 5 && is(arguments[1], "at"))
		at(arguments[2], number(arguments[3]), arguments[4]);
	else if (*stack == 5 && is(arguments[1], "rest") && number(arguments[4]) > 0)
		rest(arguments[2], number(arguments[3]), number(arguments[4]));
	else if (*stack == 6 && is(arguments[1], "settle"))
		settle(arguments[2], number(arguments[3]), number(arguments[4]), number(arguments[5]));
	else if (*stack == 4 && is(arguments[1], "spread"))
		spread(arguments[2], number(arguments[3]));
	else if (*stack == 3 && is(arguments[1], "scatter"))
		scatter(arguments[2]);
	else if (*stack == 4 && is(arguments[1], "age"))
		age(arguments[2], number(arguments[3]));
	else
		leave(2);
	leave(0);
	__builtin_unreachable();
}
