#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/os.h"
#include "cli/command.h"
#include "store/file.h"

static int fail(const struct weir_error *error)
{
	fprintf(stderr, "%s\n", error->message);
	return 1;
}

static void say(void *path, const char *text)
{
	fprintf(stderr, "%s: %s\n", (const char *)path, text);
}

/*
 * The file's time, by which its cells are judged, or the system's where the file's
 * cannot be true: what its clock is made of may be damaged like all else. `table`
 * is private: to ask a clock moves it.
 */
static uint64_t time_of(const struct table *table, char *path, uint64_t *defects)
{
	const struct table_header *header = table->header;
	uint64_t wall_ns = os_wall_ns(), latest_ns = header->seen_ns;
	struct clock_anchor clock = {header->clock.high};
	char text[120];

	if (header->clock.low == os_boot_id())
		latest_ns = u64_max(latest_ns, clock_now(&clock));
	if (latest_ns <= wall_ns + NS_PER_DAY) {
		clock = file_clock(table);
		return clock_now(&clock);
	}
	snprintf(text, sizeof text,
	         "clock: expected at most a day ahead of the system's, found %" PRIu64 " days",
	         (latest_ns - wall_ns) / NS_PER_DAY);
	say(path, text);
	++*defects;
	return wall_ns;
}

/* Cells are looked at even under a damaged header: of a file cut short those that are left. */
static int check(char *path)
{
	struct weir_error error;
	struct file_map map;
	struct table table;
	uint64_t defects, now_ns;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	table_view(&table, map.memory, map.size);
	defects = table_check_header(map.memory, map.size, say, path);
	now_ns = defects > 0 ? os_wall_ns() : time_of(&table, path, &defects);
	defects += table_check_cells(&table, now_ns, ALGO_HORIZON_NS, false, say, path);
	os_pages_unmap(map.memory, map.size);
	if (defects == 0)
		printf("%s: ok\n", path);
	return defects != 0;
}

static void print_cell(uint64_t set, unsigned place, struct cell cell, uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	printf("{\"set\":%" PRIu64 ",\"cell\":%u,\"tag\":%" PRIu32 ",\"until_ns\":%" PRIu64
	       ",\"word\":%" PRIu32 ",\"generation\":%u,\"live\":%s}\n",
	       set, place, cell_tag(cell), now_ns + (uint64_t)ahead, cell_word(cell),
	       cell_generation(cell), ahead > 0 && !cell_is_claim(cell) ? "true" : "false");
}

static int dump(char *path)
{
	struct clock_anchor clock;
	struct weir_error error;
	struct file_map map;
	struct table table;
	uint64_t now_ns;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	if (table_attach(&table, map.memory, map.size, &error) != WEIR_OK) {
		say(path, error.message);
		os_pages_unmap(map.memory, map.size);
		return 1;
	}
	clock = file_clock(&table);
	now_ns = clock_now(&clock);
	for (uint64_t i = 0; i < table.sets * TABLE_SET_CELLS; i++) {
		struct cell cell = cell_load(&table.cells[i], table.load_is_atomic);

		if (!cell_is_empty(cell) && !cell_is_note(cell))
			print_cell(i / TABLE_SET_CELLS, i % TABLE_SET_CELLS, cell, now_ns);
	}
	os_pages_unmap(map.memory, map.size);
	return 0;
}

static bool mend(char *path, bool clock_is_true, struct weir_error *error)
{
	struct clock_anchor clock;
	struct file_map map;
	struct table table;
	uint64_t emptied;
	int status = file_map(path, FILE_SHARED, &map, error);

	if (status != WEIR_OK)
		return false;
	table_repair_header(map.memory);
	status = table_attach(&table, map.memory, map.size, error);
	if (status == WEIR_OK) {
		if (!clock_is_true) {
			table.header->clock = (struct cell){0, 0};
			table.header->seen_ns = 0;
		}
		clock = file_clock(&table);
		emptied = table_check_cells(&table, clock_now(&clock), ALGO_HORIZON_NS, true, say, path);
		printf("%s: ok, %" PRIu64 " cells emptied\n", path, emptied);
	}
	os_pages_unmap(map.memory, map.size);
	return status == WEIR_OK;
}

/* In a private mapping, where nothing is at stake, it is seen whether the header can be saved. */
static int repair(char *path)
{
	struct weir_error error;
	struct file_map map;
	struct table table;
	uint64_t defects, wrong_clocks = 0;
	size_t size;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	table_check_header(map.memory, map.size, say, path);
	defects = !table_repair_header(map.memory);
	size = table_size(((struct table_header *)map.memory)->capacity);
	defects += table_check_header(map.memory, size, NULL, NULL);
	table_view(&table, map.memory, map.size);
	if (defects == 0)
		time_of(&table, path, &wrong_clocks);
	os_pages_unmap(map.memory, map.size);
	if (defects > 0) {
		say(path, "not repaired: neither the header nor its copy can be trusted");
		return 1;
	}
	if (map.size != size && file_resize(path, size, &error) != WEIR_OK)
		return fail(&error);
	return mend(path, wrong_clocks == 0, &error) ? 0 : fail(&error);
}

int command_store(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(char *path);
	} actions[] = {{"check", check}, {"dump", dump}, {"repair", repair}};

	for (size_t i = 0; argc == 3 && i < sizeof actions / sizeof *actions; i++)
		if (strcmp(argv[1], actions[i].name) == 0)
			return actions[i].run(argv[2]);
	fputs("weir store: expected check, dump or repair and a FILE\n", stderr);
	return EXIT_USAGE;
}
