#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/os.h"
#include "cli/command.h"
#include "store/file.h"
#include "store/section.h"

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
	struct clock clock;
	char text[120];

	if (header->clock.low == os_boot_id())
		latest_ns = u64_max(latest_ns, os_monotonic_ns() + header->clock.high);
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

/* The tables of a store whose headers are sound, as far as the file reaches. Returns how many. */
static unsigned view_tables(const struct file_map *map, struct table tables[ALGO_WIDTHS])
{
	const struct table_header *header = map->memory;

	for (unsigned width = 0; width < ALGO_WIDTHS; width++) {
		struct section section = section_of(header->capacity, width);

		if (map->size < section.offset + sizeof *header)
			return width;
		table_view(&tables[width], (char *)map->memory + section.offset,
		           u64_min(section.table_size, map->size - section.offset));
	}
	return ALGO_WIDTHS;
}

static uint64_t check_cells(char *path, struct table *tables, unsigned widths, uint64_t now_ns,
                            bool repair)
{
	uint64_t defects = 0;

	for (unsigned width = 0; width < widths; width++)
		defects += table_check_cells(&tables[width], now_ns, ALGO_HORIZON_NS, repair, say, path);
	return defects;
}

/*
 * Cells are looked at even under damaged headers, if those can be saved, which is seen in
 * a private mapping: of a file cut short those that are left.
 */
static int check(char *path)
{
	struct table tables[ALGO_WIDTHS];
	struct weir_error error;
	struct file_map map;
	uint64_t defects, now_ns;
	unsigned widths;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	defects = section_check(map.memory, map.size, say, path);
	if (section_repair(map.memory, map.size)) {
		widths = view_tables(&map, tables);
		now_ns = time_of(&tables[0], path, &defects);
		defects += check_cells(path, tables, widths, now_ns, false);
	}
	os_pages_unmap(map.memory, map.size);
	if (defects == 0)
		printf("%s: ok\n", path);
	return defects != 0;
}

static void print_cell(unsigned width, uint64_t set, unsigned place, struct cell cell,
                       uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	printf("{\"set\":%" PRIu64 ",\"cell\":%u,\"tag\":%" PRIu32 ",\"until_ns\":%" PRIu64
	       ",\"word\":%" PRIu32 ",\"generation\":%u,\"live\":%s,\"row\":%u}\n",
	       set, place, cell_tag(cell), now_ns + (uint64_t)ahead, cell_word(cell),
	       cell_generation(cell), ahead > 0 && !cell_is_claim(cell) ? "true" : "false",
	       algo_widths[width]);
}

static int dump(char *path)
{
	struct table tables[ALGO_WIDTHS];
	struct clock clock;
	struct weir_error error;
	struct file_map map;
	uint64_t now_ns;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	if (section_check(map.memory, map.size, say, path) > 0) {
		os_pages_unmap(map.memory, map.size);
		return 1;
	}
	view_tables(&map, tables);
	clock = file_clock(&tables[0]);
	now_ns = clock_now(&clock);
	for (unsigned width = 0; width < ALGO_WIDTHS; width++)
		for (uint64_t i = 0; i < tables[width].sets * TABLE_SET_CELLS; i++) {
			struct cell cell = cell_load(&tables[width].cells[i], tables[width].load_is_atomic);

			if (!cell_is_empty(cell) && !cell_is_note(cell))
				print_cell(width, i / TABLE_SET_CELLS, i % TABLE_SET_CELLS, cell, now_ns);
		}
	os_pages_unmap(map.memory, map.size);
	return 0;
}

static int mend(char *path, bool clock_is_true)
{
	struct table tables[ALGO_WIDTHS];
	struct weir_error error;
	struct clock clock;
	struct file_map map;
	uint64_t emptied;
	unsigned widths;
	bool sound;

	if (file_map(path, FILE_SHARED, &map, &error) != WEIR_OK)
		return fail(&error);
	section_repair(map.memory, map.size);
	sound = section_check(map.memory, map.size, say, path) == 0;
	if (sound) {
		widths = view_tables(&map, tables);
		if (!clock_is_true) {
			tables[0].header->clock = (struct cell){0, 0};
			tables[0].header->seen_ns = 0;
		}
		clock = file_clock(&tables[0]);
		emptied = check_cells(path, tables, widths, clock_now(&clock), true);
		printf("%s: ok, %" PRIu64 " cells emptied\n", path, emptied);
	}
	os_pages_unmap(map.memory, map.size);
	return sound ? 0 : 1;
}

/* In a private mapping, where nothing is at stake, it is seen whether the headers can be saved. */
static int repair(char *path)
{
	struct table tables[ALGO_WIDTHS];
	struct weir_error error;
	struct file_map map;
	uint64_t capacity = 0, wrong_clocks = 0;
	bool sound;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	section_check(map.memory, map.size, say, path);
	sound = section_repair(map.memory, map.size);
	if (sound) {
		capacity = ((struct table_header *)map.memory)->capacity;
		view_tables(&map, tables);
		time_of(&tables[0], path, &wrong_clocks);
	}
	os_pages_unmap(map.memory, map.size);
	if (!sound) {
		say(path, "not repaired: neither the header nor its copy can be trusted");
		return 1;
	}
	if (map.size != section_store_size(capacity) &&
	    file_resize(path, capacity, &error) != WEIR_OK)
		return fail(&error);
	return mend(path, wrong_clocks == 0);
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
