// Reads a trace.dat with libtracecmd, as a program of its users would: `iterate` only goes through
// the events in order of time, `fields` also reads task, device, sector and length of each.
// Built and timed by tools/bench; the analyser does not use it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <trace-cmd.h>

enum { EVENTS = 65536 };

struct fields {
	int known;
	struct tep_format_field *dev, *sector, *sectors;
};

struct state {
	struct tep_handle *tep;
	int fields;
	unsigned long long events, sum;
	struct fields by_id[EVENTS];
};

static void add(struct tep_format_field *field, struct tep_record *record, struct state *state)
{
	unsigned long long value;

	if (field && !tep_read_number_field(field, record->data, &value))
		state->sum += value;
}

static void read_fields(struct tep_record *record, struct state *state)
{
	int id = tep_data_type(state->tep, record);
	struct fields *fields;

	if (id < 0 || id >= EVENTS)
		return;
	fields = &state->by_id[id];
	if (!fields->known) {
		struct tep_event *event = tep_find_event(state->tep, id);

		fields->known = 1;
		if (event) {
			fields->dev = tep_find_field(event, "dev");
			fields->sector = tep_find_field(event, "sector");
			fields->sectors = tep_find_field(event, "nr_sector");
		}
	}
	state->sum += tep_data_pid(state->tep, record);
	add(fields->dev, record, state);
	add(fields->sector, record, state);
	add(fields->sectors, record, state);
}

static int each(struct tracecmd_input *handle, struct tep_record *record, int cpu, void *data)
{
	struct state *state = data;

	(void)handle;
	(void)cpu;
	state->events++;
	state->sum += record->ts;
	if (state->fields)
		read_fields(record, state);
	return 0;
}

int main(int argc, char **argv)
{
	struct tracecmd_input *handle;
	struct state *state;

	if (argc != 3 || (strcmp(argv[1], "iterate") && strcmp(argv[1], "fields"))) {
		fprintf(stderr, "usage: %s iterate|fields TRACE\n", argv[0]);
		return 2;
	}
	handle = tracecmd_open(argv[2], 0);
	state = calloc(1, sizeof(*state));
	if (!handle || !state) {
		fprintf(stderr, "%s: cannot be opened\n", argv[2]);
		return 1;
	}
	state->tep = tracecmd_get_tep(handle);
	state->fields = !strcmp(argv[1], "fields");
	if (tracecmd_iterate_events(handle, NULL, 0, each, state) < 0)
		return 1;
	printf("events %llu\nsum %llu\n", state->events, state->sum);
	tracecmd_close(handle);
	free(state);
	return 0;
}
