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

/* The tables of a store as far as the file reaches; the first one alone under a damaged header. */
static unsigned view_tables(const struct file_map *map, struct table tables[ALGO_WIDTHS])
{
	const struct table_header *header = map->memory;
	unsigned widths = table_check_header(header, 0, NULL, NULL) == 0 ? ALGO_WIDTHS : 1;

	for (unsigned width = 0; width < widths; width++) {
		struct section section = {.table_size = map->size};

		if (widths > 1)
			section = section_of(header->capacity, width);
		if (map->size < section.offset + sizeof *header)
			return width;
		table_view(&tables[width], (char *)map->memory + section.offset,
		           u64_min(section.table_size, map->size - section.offset));
	}
	return widths;
}

static uint64_t check_cells(char *path, const struct file_map *map, bool repair)
{
	struct table tables[ALGO_WIDTHS];
	unsigned widths = view_tables(map, tables);
	uint64_t defects = 0;

	for (unsigned width = 0; width < widths; width++)
		defects +=
		    table_check_cells(&tables[width], os_wall_ns(), ALGO_HORIZON_NS, repair, say, path);
	return defects;
}

/* Cells are looked at even under a damaged header: of a file cut short those that are left. */
static int check(char *path)
{
	struct weir_error error;
	struct file_map map;
	uint64_t defects;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	defects = section_check(map.memory, map.size, say, path);
	defects += check_cells(path, &map, false);
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

			if (!cell_is_empty(cell))
				print_cell(width, i / TABLE_SET_CELLS, i % TABLE_SET_CELLS, cell, now_ns);
		}
	os_pages_unmap(map.memory, map.size);
	return 0;
}

/* Under a wrong secret or capacity no cell would mean anything, so a header is not guessed. */
static int repair(char *path)
{
	struct weir_error error;
	struct file_map map;
	bool sound;
	size_t size;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	sound = table_check_header(map.memory, 0, NULL, NULL) == 0;
	if (sound)
		size = section_store_size(((struct table_header *)map.memory)->capacity);
	if (section_check(map.memory, map.size, say, path) > 0)
		sound = sound && map.size != size;
	os_pages_unmap(map.memory, map.size);
	if (!sound) {
		say(path, "not repaired: the header can't be trusted");
		return 1;
	}
	if (map.size != size && file_resize(path, &error) != WEIR_OK)
		return fail(&error);
	if (file_map(path, FILE_SHARED, &map, &error) != WEIR_OK)
		return fail(&error);
	sound = section_check(map.memory, map.size, say, path) == 0;
	if (sound)
		printf("%s: ok, %" PRIu64 " cells emptied\n", path, check_cells(path, &map, true));
	os_pages_unmap(map.memory, map.size);
	return sound ? 0 : 1;
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
