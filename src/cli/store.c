/*
 * store.c: the command `weir store`: checks, dumps, repairs and resizes a file store, the file in
 * which a server keeps its counts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"
#include "cli/command.h"
#include "cli/store_tables.h"
#include "server/access/account.h"

enum { OWNER, GROUP, CAPACITY };

/* The flags that say whose files an action may write. */
#define TRUST_FLAGS (1U << OWNER | 1U << GROUP)

/* The values of the flags. */
struct request {
	struct file_trust trust;
	uint64_t capacity;
	unsigned set_flags; /* a bit for each flag */
};

static int print_error(const struct weir_error *error)
{
	fprintf(stderr, "%s\n", error->message);
	return 1;
}

static void print_defect(void *path, const char *text)
{
	fprintf(stderr, "%s: %s\n", (const char *)path, text);
}

static void print_section_defect(const char *path, uint64_t offset, const char *text)
{
	if (offset > 0)
		fprintf(stderr, "%s: section at byte %" PRIu64 ": %s\n", path, offset, text);
	else
		fprintf(stderr, "%s: %s\n", path, text);
}

/*
 * Returns the latest time that the file knows: the recorded one, or that of its clock, which counts
 * from the monotonic clock (by `high`) if it was set since the system's boot (`low`).
 */
static uint64_t latest_time(const struct table_header *header)
{
	if (header->clock.low != os_boot_id())
		return header->recorded_ns;
	return u64_max(header->recorded_ns, os_monotonic_ns() + header->clock.high);
}

/*
 * Returns the file's time, by which its cells expire. Returns the system's time and counts a defect
 * if the file's time can not be true, since its clock may be damaged. `table` is in a private
 * mapping, because reading the clock changes it.
 */
static uint64_t read_time(const struct table *table, char *path, uint64_t *defects)
{
	uint64_t wall_ns = os_wall_ns(), latest_ns = latest_time(table->header);
	struct clock clock;
	char text[120];

	if (latest_ns <= wall_ns + NS_PER_DAY) {
		clock = file_open_clock(table);
		return clock_now(&clock);
	}
	snprintf(text, sizeof text,
	         "clock: expected at most a day ahead of the system's, found %" PRIu64 " days",
	         (latest_ns - wall_ns) / NS_PER_DAY);
	print_defect(path, text);
	++*defects;
	return wall_ns;
}

/*
 * Appends the table of the section that the walk has read, with as many of its cells as the file,
 * which may be truncated, contains. Writes the header, which may have been repaired, to `map`.
 */
static void add_table(const struct file_map *map, const struct section_walk *walk,
                      struct store_tables *tables)
{
	char *memory = (char *)map->memory + walk->offset;
	uint64_t len = sat_sub(map->size, walk->offset);
	uint64_t cells = sat_sub(len, sizeof walk->header);
	uint64_t sets = cells / (TABLE_SET_CELLS * sizeof(struct cell));
	size_t i = tables->count++;

	if (len >= sizeof walk->header)
		memcpy(memory, &walk->header, sizeof walk->header);
	tables->found[i].offset = walk->offset;
	tables->found[i].section = walk->section;
	table_attach(&tables->found[i].table, memory,
	             u64_min(sets, table_sets(walk->section.capacity)));
}

/*
 * Whether the header of a table could not be repaired, and with it its limit is unknown. The first
 * table has none, and is never lost.
 */
static bool is_lost(const struct store_tables *tables, size_t i)
{
	return i > 0 && tables->found[i].section.identity == 0;
}

/*
 * Reads the header of the next section, or sets walk->is_over. The first header says up to where
 * there are sections, even if the file is shorter: up to there, repairs a damaged header.
 */
static void read_section(struct section_walk *walk, const struct file_map *map)
{
	bool must_exist = walk->offset == 0 || walk->offset < walk->end;
	uint64_t size = must_exist ? UINT64_MAX : map->size;

	section_read_header(walk, map->memory, map->size);
	section_check_next(walk, size, NULL, NULL);
	if (walk->is_over && must_exist && section_repair(walk, map->memory, map->size))
		section_check_next(walk, size, NULL, NULL);
}

/*
 * Finds the tables of a store, and repairs their headers in `map` where possible. Returns false if
 * the first header can not be repaired. With `warn`, prints which tables are lost.
 */
static bool find_tables(const struct file_map *map, char *path, bool warn,
                        struct store_tables *tables)
{
	struct section_walk walk = {0};

	tables->count = 0;
	for (; tables->count <= SECTION_MAX; walk.offset += walk.section.size) {
		read_section(&walk, map);
		if (walk.is_over)
			break;
		add_table(map, &walk, tables);
		if (warn && is_lost(tables, tables->count - 1))
			print_section_defect(path, walk.offset,
			                     "the header is lost, and with it the counts of a limit");
	}
	tables->end = walk.offset;
	if (tables->count > 0)
		tables->found[0].table.header->end = tables->end;
	return tables->count > 0;
}

struct location {
	char *path;
	uint64_t offset;
};

static void print_cell_defect(void *context, const char *text)
{
	const struct location *location = context;

	print_section_defect(location->path, location->offset, text);
}

/* Counts the cells with defects, and empties them with `must_repair`. Skips lost tables. */
static uint64_t check_cells(char *path, struct store_tables *tables, uint64_t now_ns,
                            bool must_repair)
{
	uint64_t defects = 0;

	for (size_t i = 0; i < tables->count; i++) {
		struct location location = {path, tables->found[i].offset};

		if (!is_lost(tables, i))
			defects += table_check_cells(&tables->found[i].table, now_ns, ALGO_HORIZON_NS,
			                             must_repair, print_cell_defect, &location);
	}
	return defects;
}

/* Maps a private copy of the file, which may belong to anybody. */
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
 * Prints and counts all defects. If headers are damaged but can be repaired in the private mapping,
 * cells are checked, too; of a truncated file, those that are left.
 */
static uint64_t count_defects(const struct file_map *map, char *path, struct store_tables *tables,
                              uint64_t *now_ns)
{
	uint64_t defects = section_check(map->memory, map->size, print_defect, path);

	if (find_tables(map, path, false, tables)) {
		*now_ns = read_time(&tables->found[0].table, path, &defects);
		defects += check_cells(path, tables, *now_ns, false);
	}
	return defects;
}

/* The actions return the exit status: 1 for a store with defects. */
static int check_store(char *path, const struct request *request, struct store_tables *tables)
{
	struct weir_error error;
	struct file_map map;
	uint64_t defects, now_ns;

	(void)request;
	if (map_copy(path, &map, &error) != WEIR_OK)
		return print_error(&error);
	defects = count_defects(&map, path, tables, &now_ns);
	os_pages_unmap(map.memory, map.size);
	if (defects == 0)
		printf("%s: ok\n", path);
	return defects != 0;
}

/* Prints a cell (what the store knows about a key) as one line of JSON. */
static void print_cell(const struct section *section, uint64_t offset, uint64_t i, struct cell cell,
                       uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	printf("{\"set\":%" PRIu64 ",\"cell\":%" PRIu64 ",\"tag\":%" PRIu32 ",\"until_ns\":%" PRIu64
	       ",\"word\":%" PRIu32 ",\"generation\":%u,\"live\":%s,\"section\":%" PRIu64
	       ",\"row\":%" PRIu32 "}\n",
	       i / TABLE_SET_CELLS, i % TABLE_SET_CELLS, cell_tag(cell), now_ns + (uint64_t)ahead,
	       cell_word(cell), cell_generation(cell),
	       ahead > 0 && !cell_is_claim(cell) ? "true" : "false", offset, section->record_cells);
}

/* Prints all cells that have a state, unless a header has defects. */
static int dump_store(char *path, const struct request *request, struct store_tables *tables)
{
	struct clock clock;
	struct weir_error error;
	struct file_map map;
	uint64_t now_ns;

	(void)request;
	if (map_copy(path, &map, &error) != WEIR_OK)
		return print_error(&error);
	/* check first: find_tables repairs headers in the mapping */
	if (section_check(map.memory, map.size, print_defect, path) > 0 ||
	    !find_tables(&map, path, false, tables)) {
		os_pages_unmap(map.memory, map.size);
		return 1;
	}
	clock = file_open_clock(&tables->found[0].table);
	now_ns = clock_now(&clock);
	for (size_t t = 0; t < tables->count; t++) {
		const struct table *table = &tables->found[t].table;

		for (uint64_t i = 0; i < table->sets * TABLE_SET_CELLS; i++) {
			struct cell cell = cell_load(&table->cells[i], table->load_is_atomic);

			if (!cell_is_empty(cell) && !cell_is_metadata(cell))
				print_cell(&tables->found[t].section, tables->found[t].offset, i, cell, now_ns);
		}
	}
	os_pages_unmap(map.memory, map.size);
	return 0;
}

/* Repairs the file in a shared mapping. Resets its clock if that is wrong. */
static int repair_mapped(int fd, char *path, bool clock_is_true, struct store_tables *tables)
{
	struct weir_error error;
	struct clock clock;
	struct file_map map;
	uint64_t emptied;
	bool is_usable;

	if (file_map(fd, path, FILE_SHARED, &map, &error) != WEIR_OK)
		return print_error(&error);
	is_usable = find_tables(&map, path, true, tables) &&
	            section_check(map.memory, map.size, print_defect, path) == 0;
	if (is_usable) {
		struct table *first = &tables->found[0].table;

		if (!clock_is_true) {
			first->header->clock = (struct cell){0, 0};
			first->header->recorded_ns = 0;
		}
		clock = file_open_clock(first);
		emptied = check_cells(path, tables, clock_now(&clock), true);
		printf("%s: ok, %" PRIu64 " cells emptied\n", path, emptied);
	}
	os_pages_unmap(map.memory, map.size);
	return is_usable ? 0 : 1;
}

/* Tries in a private mapping whether the headers can be repaired, and then repairs the file. */
static int repair_opened(int fd, char *path, struct store_tables *tables)
{
	struct weir_error error;
	struct file_map map;
	uint64_t wrong_clocks = 0;
	bool is_usable;

	if (file_map(fd, path, FILE_PRIVATE, &map, &error) != WEIR_OK)
		return print_error(&error);
	section_check(map.memory, map.size, print_defect, path);
	is_usable = find_tables(&map, path, false, tables);
	if (is_usable)
		read_time(&tables->found[0].table, path, &wrong_clocks);
	os_pages_unmap(map.memory, map.size);
	if (!is_usable) {
		print_defect(path, "not repaired: neither the header nor its copy can be trusted");
		return 1;
	}
	if (map.size != tables->end && file_resize(fd, path, tables->end, &error) != WEIR_OK)
		return print_error(&error);
	return repair_mapped(fd, path, wrong_clocks == 0, tables);
}

/* Opens the file, and locks it against all other programs until `fd` is closed. */
static int open_exclusive(const char *path, const struct request *request, int *fd,
                          struct weir_error *error)
{
	int status = file_open(path, FILE_SHARED, &request->trust, fd, error);

	if (status != WEIR_OK)
		return status;
	status = file_lock_exclusive(*fd, path, error);
	if (status == WEIR_OK && !file_is_at(*fd, path))
		status = error_set(error, WEIR_EIO,
		                   "%.120s: expected a file that is not replaced meanwhile", path);
	if (status != WEIR_OK)
		close(*fd);
	return status;
}

/* Repairs the file in place, while no other program can open it. */
static int repair_store(char *path, const struct request *request, struct store_tables *tables)
{
	struct weir_error error;
	int fd, result;

	if (open_exclusive(path, request, &fd, &error) != WEIR_OK)
		return print_error(&error);
	result = repair_opened(fd, path, tables);
	close(fd);
	return result;
}

/* Enlarges a file without defects, unless it has that capacity already. Returns the exit status. */
static int resize_checked(int fd, char *path, uint64_t capacity, struct store_tables *tables,
                          uint64_t now_ns)
{
	uint64_t current = tables->found[0].section.capacity;
	struct weir_error error;

	if (capacity < current) {
		fprintf(stderr,
		        "%s: capacity: expected at least %" PRIu64 ", found %" PRIu64
		        ": the file does not contain the names of keys, so it can't become smaller\n",
		        path, current, capacity);
		return 1;
	}
	if (capacity > current && store_resize(fd, path, tables, capacity, now_ns, &error) != WEIR_OK)
		return print_error(&error);
	printf("%s: ok, capacity %" PRIu64 "\n", path, capacity);
	return 0;
}

static int resize_store(char *path, const struct request *request, struct store_tables *tables)
{
	struct weir_error error;
	struct file_map map;
	uint64_t now_ns;
	int fd, result = 1;

	if (open_exclusive(path, request, &fd, &error) != WEIR_OK)
		return print_error(&error);
	if (file_map(fd, path, FILE_PRIVATE, &map, &error) != WEIR_OK) {
		close(fd);
		return print_error(&error);
	}
	if (count_defects(&map, path, tables, &now_ns) == 0)
		result = resize_checked(fd, path, request->capacity, tables, now_ns);
	else
		print_defect(path, "not resized: expected a file without defects");
	os_pages_unmap(map.memory, map.size);
	close(fd);
	return result;
}

static const struct action {
	const char *name;
	int (*run)(char *path, const struct request *request, struct store_tables *tables);
	unsigned accepted_flags; /* a bit each */
} actions[] = {
    {"check", check_store, 0},
    {"dump", dump_store, 0},
    {"repair", repair_store, TRUST_FLAGS},
    {"resize", resize_store, TRUST_FLAGS | 1 << CAPACITY},
};

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

static const struct flag flags[] = {
    [OWNER] = {"owner", "USER",
               "with repair and resize: accept this user's file, besides your own and root's", 0,
               NULL},
    [GROUP] = {"group", "GROUP", "with repair and resize: accept a file that this group may write",
               0, NULL},
    [CAPACITY] = {"capacity", "N", "with resize: the new capacity in keys", 0, NULL},
};

/* Reads the value of a flag. Returns 0 or the exit status. */
static int read_flag(int flag, const char *text, struct request *request)
{
	bool exists;

	request->set_flags |= 1U << flag;
	if (flag == CAPACITY) {
		if (parse_u64(slice_of(text), &request->capacity) && table_size(request->capacity) > 0)
			return 0;
		return command_fail("store", "--capacity: expected 1 to %" PRIu64 ", found '%s'",
		                    (uint64_t)WEIR_CAPACITY_MAX, text);
	}
	exists = flag == OWNER ? account_user(text, &request->trust.owner)
	                       : account_group(text, &request->trust.group);
	if (exists)
		return 0;
	return command_fail("store", "--%s: expected a %s of this system, found '%s'", flags[flag].name,
	                    flag == OWNER ? "user" : "group", text);
}

/* Checks that the action accepts the flags that were given. */
static int check_flags(const struct action *action, const struct request *request)
{
	unsigned unaccepted = request->set_flags & ~action->accepted_flags;

	if (unaccepted != 0)
		return command_fail("store", "expected --%s with %s, found %s",
		                    flags[__builtin_ctz(unaccepted)].name,
		                    unaccepted & TRUST_FLAGS ? "repair or resize" : "resize", action->name);
	if (action->run == resize_store && request->capacity == 0)
		return command_fail("store", "expected --capacity N with resize, found none");
	return 0;
}

static int run_action(const struct action *action, char *path, const struct request *request)
{
	struct store_tables *tables = malloc(sizeof *tables);
	int result;

	if (!tables) {
		fputs("weir store: out of memory\n", stderr);
		return 1;
	}
	result = action->run(path, request, tables);
	free(tables);
	return result;
}

static int run_store(int argc, char **argv)
{
	struct request request = {0};
	struct arguments arguments;
	const struct action *action;
	int flag, status = 0;

	arguments_begin(&arguments, &command_store, argc, argv);
	while (status == 0 && (flag = arguments_next(&arguments)) >= 0)
		status = read_flag(flag, arguments.value, &request);
	if (status != 0)
		return status;
	action = argc - optind == 2 ? find_action(argv[optind]) : NULL;
	if (!action)
		return command_fail("store", "expected check, dump, repair or resize and a FILE%s%s",
		                    optind < argc ? ", found " : "", optind < argc ? argv[optind] : "");
	status = check_flags(action, &request);
	return status == 0 ? run_action(action, argv[optind + 1], &request) : status;
}

const struct command command_store = {
    .name = "store",
    .summary = "Check, dump, repair or enlarge a file store.",
    .uses = {"check FILE", "dump FILE", "repair [--owner USER] [--group GROUP] FILE",
             "resize FILE --capacity N [--owner USER] [--group GROUP]"},
    .examples = {"weir store check /var/lib/weir/state",
                 "weir store resize /var/lib/weir/state --capacity 2000000"},
    .exits = "0, 1 for a file with defects or that can't be used, 2 for a wrong argument",
    COMMAND_FLAGS(flags),
    .run = run_store,
};
