#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/os.h"
#include "cli/command.h"
#include "server/account.h"
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

/* Whoever owns it: what is wrong in it stays in the copy. */
static int map_copy(const char *path, struct file_map *map, struct weir_error *error)
{
	int fd, status = file_open(path, FILE_PRIVATE, NULL, &fd, error);

	if (status != WEIR_OK)
		return status;
	status = file_map(fd, path, FILE_PRIVATE, map, error);
	close(fd);
	return status;
}

/*
 * Cells are looked at even under damaged headers, if those can be saved, which is seen in
 * a private mapping: of a file cut short those that are left.
 */
static int check(char *path, const struct file_trust *trust)
{
	struct table tables[ALGO_WIDTHS];
	struct weir_error error;
	struct file_map map;
	uint64_t defects, now_ns;
	unsigned widths;

	(void)trust;
	if (map_copy(path, &map, &error) != WEIR_OK)
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

static int dump(char *path, const struct file_trust *trust)
{
	struct table tables[ALGO_WIDTHS];
	struct clock clock;
	struct weir_error error;
	struct file_map map;
	uint64_t now_ns;

	(void)trust;
	if (map_copy(path, &map, &error) != WEIR_OK)
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

static int mend(int fd, char *path, bool clock_is_true)
{
	struct table tables[ALGO_WIDTHS];
	struct weir_error error;
	struct clock clock;
	struct file_map map;
	uint64_t emptied;
	unsigned widths;
	bool sound;

	if (file_map(fd, path, FILE_SHARED, &map, &error) != WEIR_OK)
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
static int repair_opened(int fd, char *path)
{
	struct table tables[ALGO_WIDTHS];
	struct weir_error error;
	struct file_map map;
	uint64_t capacity = 0, wrong_clocks = 0;
	bool sound;

	if (file_map(fd, path, FILE_PRIVATE, &map, &error) != WEIR_OK)
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
	    file_resize(fd, path, capacity, &error) != WEIR_OK)
		return fail(&error);
	return mend(fd, path, wrong_clocks == 0);
}

static int repair(char *path, const struct file_trust *trust)
{
	struct weir_error error;
	int fd, result;

	if (file_open(path, FILE_SHARED, trust, &fd, &error) != WEIR_OK)
		return fail(&error);
	result = repair_opened(fd, path);
	close(fd);
	return result;
}

static const struct action {
	const char *name;
	int (*run)(char *path, const struct file_trust *trust);
	bool writes; /* so that it matters whose the file is */
} actions[] = {{"check", check, false}, {"dump", dump, false}, {"repair", repair, true}};

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

/* The options of an action that writes. */
static bool read_trust(int argc, char **argv, struct file_trust *trust)
{
	static const struct option options[] = {{"owner", required_argument, NULL, 'o'},
	                                        {"group", required_argument, NULL, 'g'},
	                                        {0}};
	bool known = true;
	int option;

	while (known && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return false;
		known = option == 'o' ? account_user(optarg, &trust->owner)
		                      : account_group(optarg, &trust->group);
		if (!known)
			fprintf(stderr, "weir store: --%s: expected a %s of this system, found '%s'\n",
			        option == 'o' ? "owner" : "group", option == 'o' ? "user" : "group", optarg);
	}
	return known;
}

int command_store(int argc, char **argv)
{
	const struct action *action = argc > 2 ? find_action(argv[1]) : NULL;
	struct file_trust trust = {0};

	argv[argc > 1] = argv[0]; /* what getopt calls the program */
	if (action && action->writes && !read_trust(argc - 1, argv + 1, &trust))
		return EXIT_USAGE;
	if (action && (action->writes ? optind == argc - 2 : argc == 3))
		return action->run(argv[argc - 1], &trust);
	fputs("weir store: expected check, dump or repair and a FILE\n", stderr);
	return EXIT_USAGE;
}
