/*
 * yaml_node.h: reads YAML nodes into structs by tables of keys, and prints structs by the same
 * tables.
 *
 * A mapping is a table of rows: the key's name, the field that its value fills, and the kind of the
 * value, which reads and prints it. Unknown keys, duplicates, missing keys and wrong types are
 * found here, for all mappings alike.
 *
 * Functions that return int return 0 or a negative status, with the reader's
 * error filled in. Text and arrays come from the config's arena.
 *
 * After a mistake in a key of a mapping or in an item of a list, the others are read nevertheless.
 * The mistake becomes a remark of the config. The mapping or list then returns an error status,
 * with no message in the reader's error.
 */
#ifndef READERS_YAML_NODE_H
#define READERS_YAML_NODE_H

#include <yaml.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/text/word.h"
#include "readers/phrase.h"
#include "rules/model.h"

#define NODE_KEYS_MAX  32 /* rows of a table */
#define RULES_NAME_MAX 64 /* bytes of a limit's, rule's or attribute's name */
#define NODE_DEPTH_MAX 32 /* mappings and lists in each other */

/* A node with its name: all limits, or all rules; sorted by name. */
struct node_name {
	struct slice text;
	const yaml_node_t *node;
	size_t index; /* in the order of the file */
};

struct node_key;

struct reader {
	yaml_document_t *document;
	struct weir_config *config;
	const char *directory;          /* of relative file names; NULL for the working one */
	struct weir_error *error;       /* may be NULL */
	const struct node_name *limits; /* `config->limit_count` of them, once these are read */
	bool limits_unreadable;         /* names in rules can't be looked up */
	const char *file;               /* for remarks; NULL if the text is not from a file */
};

struct printer {
	const struct weir_config *config;
	struct buffer *out;
};

/* A kind of values: how they are read and printed. */
struct node_kind {
	int (*read)(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
	            void *field);
	/*
	 * Appends the value, which is on lines of its own if it begins with a newline. Returns false if
	 * it need not be printed, because it equals the default at `default_value`, which may be NULL.
	 * The function is NULL for values that are never printed.
	 */
	bool (*print)(const struct printer *printer, const struct node_key *key, const void *field,
	              const void *default_value);
};

struct node_key {
	const char *name;
	const struct node_kind *kind; /* NULL if the mapping's owner reads and prints it */
	size_t offset;                /* of the field in the object */
	unsigned variants;            /* kinds of the object that have this key, as bits; 0 if all */
	bool required;                /* in objects of these kinds */
	bool hidden;                  /* known, but not among the keys that errors name */
	size_t presence_flag;         /* offset of a bool that is set if the key is there, or 0 */
	union {
		const struct word *words;        /* node_word */
		const struct node_items *items;  /* node_list */
		const struct node_table *nested; /* node_nested */
		const char *expected;            /* node_duration */
	};
	uint64_t min, max; /* numbers; node_duration: nanoseconds; node_text: bytes */
};

/* The items of a list, or the pairs of a mapping, which fill an array. */
struct node_items {
	yaml_node_type_t type;
	const char *expected;  /* "a list of rules" */
	const char *item_name; /* "rule": no two have one name; NULL if they may be equal */
	size_t size;           /* of an element */
	bool required;         /* at least one */
	/* `name` is the item, or the pair's key; an item that has its name inside puts it there. */
	int (*read)(struct reader *reader, struct node_name *name, const yaml_node_t *node,
	            void *element);
	void (*print)(const struct printer *printer, const void *element);
};

/* How objects refer to an array. */
struct node_array {
	void *elements;
	size_t count;
};

/** The offset of an array in an object, where its count must stand behind it. */
#define NODE_ARRAY(type, elements, count)                                                          \
	(offsetof(type, elements) +                                                                    \
	 0 * sizeof(                                                                                   \
	         char[offsetof(type, count) - offsetof(type, elements) == sizeof(void *) ? 1 : -1]))

struct node_table {
	const char *what; /* "a limit" */
	const struct node_key *keys;
	size_t count;
};

/**
 * Reads `node` into `object`, an object of the kind `variant` (one bit), rows
 * in their order. `values`, if not NULL, gets each row's value, or NULL.
 */
int node_mapping(struct reader *reader, const yaml_node_t *node, const struct node_table *table,
                 unsigned variant, void *object, const yaml_node_t *values[NODE_KEYS_MAX]);

/* An object that is printed by a table, and what it may leave out. */
struct node_object {
	const struct node_table *table;
	unsigned variant;
	const void *fields, *defaults; /* defaults NULL: all keys that have a value are printed */
};

/**
 * Appends `name: value` of each key that is to be printed, separated by `between`. Returns whether
 * there were any.
 */
bool node_print(const struct printer *printer, const struct node_object *object,
                const char *between);
/** The same as `{ name: value, … }`, or nothing. */
bool node_print_flow(const struct printer *printer, const struct node_object *object);
/** Appends `[a, b]`. */
void node_print_items(const struct printer *printer, const struct node_items *items,
                      const struct node_array *array);

extern const struct node_kind node_text;     /* const char * without NUL or control characters */
extern const struct node_kind node_number;   /* uint64_t */
extern const struct node_kind node_decimal;  /* double */
extern const struct node_kind node_duration; /* uint64_t, in nanoseconds */
extern const struct node_kind node_word;     /* an enum */
extern const struct node_kind node_list;     /* struct node_array */
extern const struct node_kind node_nested; /* the object itself: the mapping's keys fill it, too */

/* The `read` functions of these kinds, for kinds that do more. */
int node_read_text(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                   void *field);
int node_read_number(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field);
int node_read_decimal(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field);
int node_read_duration(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field);
int node_read_word(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                   void *field);
bool node_print_text(const struct printer *printer, const struct node_key *key, const void *field,
                     const void *default_value);

/**
 * Reads `node` into `out`. `names`, if not NULL, gets the items' names in the order of the file,
 * and comparing these is left to the caller.
 */
int node_items(struct reader *reader, const yaml_node_t *node, const struct node_items *items,
               struct node_array *out, struct node_name **names);

/** Copies `node`, a name of 1 to RULES_NAME_MAX bytes, into *out. */
int node_name(struct reader *reader, const yaml_node_t *node, const char **out);

/** Sorts `names`; an error where two are equal. `what`: "limit". */
int node_names_sort(struct reader *reader, struct node_name *names, size_t count, const char *what);
const struct node_name *node_names_find(const struct node_name *names, size_t count,
                                        struct slice text);

/** Fails unless `node` has that type; `what` says what was expected. */
int node_check_type(struct reader *reader, const yaml_node_t *node, yaml_node_type_t type,
                    const char *what);
/**
 * Returns the status of an object from those of two parts of it, and stores the mistake of the
 * second, so that both have been read and reported even if the first had a mistake.
 */
int node_merge_status(struct reader *reader, int first, int second);
/** The value of `name` in the mapping `node`, or NULL. */
const yaml_node_t *node_find_value(struct reader *reader, const yaml_node_t *node,
                                   const char *name);
const yaml_node_t *node_at(struct reader *reader, int id);

static inline struct slice node_slice(const yaml_node_t *scalar)
{
	return (struct slice){(const char *)scalar->data.scalar.value, scalar->data.scalar.length};
}

/* `key:` with nothing behind it; "" is something. */
static inline bool node_is_nothing(const yaml_node_t *node)
{
	return node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0 &&
	       node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static inline size_t node_item_count(const yaml_node_t *list)
{
	return (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

static inline size_t node_pair_count(const yaml_node_t *mapping)
{
	return (size_t)(mapping->data.mapping.pairs.top - mapping->data.mapping.pairs.start);
}

/** The text of a node for a message, quoted and cut to a few words. */
struct phrase node_found(const yaml_node_t *node);

#define node_error(reader, node, ...)                                                              \
	error_set_at((reader)->error, WEIR_EINVAL, (unsigned)(node)->start_mark.line + 1,              \
	             (unsigned)(node)->start_mark.column + 1, __VA_ARGS__)
/** Adds a warning about `node`, which is read all the same. 0 or ENOMEM. */
int node_warning(struct reader *reader, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/**
 * Adds `found` to a message that says what a name may be, and which of these was probably meant.
 */
struct phrase node_found_near(const yaml_node_t *node, const char *meant);
/** "expected WHAT, found …" */
int node_expected(struct reader *reader, const yaml_node_t *node, const char *what);
int node_no_memory(struct reader *reader);

#endif
