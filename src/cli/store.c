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

/* Cells are looked at even under a damaged header: of a file cut short those that are left. */
static int check(char *path)
{
	struct weir_error error;
	struct file_map map;
	struct table table;
	uint64_t defects;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	table_view(&table, map.memory, map.size);
	defects = table_check_header(map.memory, map.size, say, path);
	defects += table_check_cells(&table, os_wall_ns(), ALGO_HORIZON_NS, false, say, path);
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
	struct clock clock;
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

		if (!cell_is_empty(cell))
			print_cell(i / TABLE_SET_CELLS, i % TABLE_SET_CELLS, cell, now_ns);
	}
	os_pages_unmap(map.memory, map.size);
	return 0;
}

static bool mend(char *path, struct weir_error *error)
{
	struct file_map map;
	struct table table;
	uint64_t emptied;
	int status = file_map(path, FILE_SHARED, &map, error);

	if (status != WEIR_OK)
		return false;
	status = table_attach(&table, map.memory, map.size, error);
	if (status == WEIR_OK) {
		emptied = table_check_cells(&table, os_wall_ns(), ALGO_HORIZON_NS, true, say, path);
		printf("%s: ok, %" PRIu64 " cells emptied\n", path, emptied);
	}
	os_pages_unmap(map.memory, map.size);
	return status == WEIR_OK;
}

/* Under a wrong secret or capacity no cell would mean anything, so a header is not guessed. */
static int repair(char *path)
{
	struct weir_error error;
	struct file_map map;
	uint64_t defects;
	size_t size;

	if (file_map(path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return fail(&error);
	size = table_size(((struct table_header *)map.memory)->capacity);
	defects = table_check_header(map.memory, size, say, path);
	os_pages_unmap(map.memory, map.size);
	if (defects > 0) {
		say(path, "not repaired: the header can't be trusted");
		return 1;
	}
	if (map.size != size && file_resize(path, size, &error) != WEIR_OK)
		return fail(&error);
	return mend(path, &error) ? 0 : fail(&error);
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
