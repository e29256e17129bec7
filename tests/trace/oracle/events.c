// Prints every event of a trace through libtracecmd, one line each, for test_oracle_events.py:
//
//     BUFFER CPU TIME SIZE MISSED ID FIELD=VALUE ...
//
// CPU after CPU in the order of its ring buffer. Integers are printed as they are stored
// (unsigned), arrays and strings byte by byte in hexadecimal. MISSED is how many events were
// lost just before (-1 if that is not known).

#include <stdio.h>
#include <stdlib.h>

#include <event-parse.h>
#include <trace-cmd.h>

static void print_bytes(const unsigned char *data, size_t from, size_t len, size_t size)
{
	if (from > size || len > size - from) {
		putchar('?');
		return;
	}
	for (size_t i = 0; i < len; i++)
		printf("%02x", data[from + i]);
}

static void print_field(struct tep_handle *tep, struct tep_format_field *field,
			struct tep_record *record)
{
	unsigned long long value;
	size_t from = field->offset, len = field->size;

	printf(" %s=", field->name);
	if (field->flags & TEP_FIELD_IS_DYNAMIC) {
		if (from + 4 > (size_t)record->size) {
			putchar('?');
			return;
		}
		value = tep_read_number(tep, (char *)record->data + from, 4);
		from = (value & 0xffff) + (field->flags & TEP_FIELD_IS_RELATIVE ? from + 4 : 0);
		print_bytes(record->data, from, value >> 16, record->size);
	} else if (field->flags & TEP_FIELD_IS_ARRAY) {
		// An array without a size, as that of a marker, fills the record.
		if (len == 0 && from <= (size_t)record->size)
			len = record->size - from;
		print_bytes(record->data, from, len, record->size);
	} else if (from + len > (size_t)record->size) {
		putchar('?');
	} else {
		printf("%llu", tep_read_number(tep, (char *)record->data + from, len));
	}
}

static void print_record(struct tep_handle *tep, const char *buffer, struct tep_record *record)
{
	struct tep_event *event;
	struct tep_format_field *field;

	printf("%s %d %llu %d %lld %d", buffer, record->cpu, record->ts, record->size,
	       (long long)record->missed_events, tep_data_type(tep, record));
	event = tep_find_event_by_record(tep, record);
	if (event) {
		for (field = event->format.common_fields; field; field = field->next)
			print_field(tep, field, record);
		for (field = event->format.fields; field; field = field->next)
			print_field(tep, field, record);
	}
	putchar('\n');
}

static void print_buffer(struct tracecmd_input *trace, const char *name)
{
	struct tep_handle *tep = tracecmd_get_tep(trace);
	struct tep_record *record;
	int cpus = tep_get_cpus(tep);

	for (int cpu = 0; cpu < cpus; cpu++) {
		record = tracecmd_read_cpu_first(trace, cpu);
		while (record) {
			print_record(tep, name, record);
			tracecmd_free_record(record);
			record = tracecmd_read_data(trace, cpu);
		}
	}
}

int main(int argc, char **argv)
{
	struct tracecmd_input *trace, *instance;
	int count;

	if (argc != 2) {
		fprintf(stderr, "usage: events TRACE\n");
		return 2;
	}
	trace = tracecmd_open(argv[1], TRACECMD_FL_LOAD_NO_PLUGINS);
	if (!trace) {
		fprintf(stderr, "events: libtracecmd cannot open %s\n", argv[1]);
		return 1;
	}
	print_buffer(trace, "-");
	count = tracecmd_buffer_instances(trace);
	for (int i = 0; i < count; i++) {
		instance = tracecmd_buffer_instance_handle(trace, i);
		if (!instance)
			return 1;
		print_buffer(instance, tracecmd_buffer_instance_name(trace, i));
		tracecmd_close(instance);
	}
	tracecmd_close(trace);
	return 0;
}
