/* read.h: the parts of a rule file, each read by its own file. Errors as in node.h. */
#ifndef READERS_READ_H
#define READERS_READ_H

#include "readers/node.h"

/** `limits:` into an array of the config and the reader's index of names. */
int read_limits(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field);

/** `store:` of the file and of a limit, into a struct rules_store. */
int read_store(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);
int read_limit_store(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field);
/** `chunk:` into an unsigned, in percent. */
int read_chunk(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);
/** `prefix:` into a const char *. */
int read_prefix(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field);

/** `rules:` into an array of the config; the limits must have been read. */
int read_rules(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);

/**
 * Warns of limits that rules with different keys share. `names` are the rules', in the order
 * of the file. 0 or ENOMEM.
 */
int read_shared_limits(struct reader *reader, const struct node_name *names);

/** `match:` into an array of struct rules_condition. */
int read_match(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);

/**
 * The dictionary of a file whose name is relative to `directory`, or to the working directory where
 * that is NULL. Errors as of dictionary_open.
 */
int read_dictionary_file(struct weir_config *config, const char *directory, const char *name,
                         const struct dictionary **out, struct weir_error *error);

/** `node`, an attribute's name, into a const char *; the config lists those that proxies carry. */
int read_attribute(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                   void *element);

/** `result:` into a const char *, as a JSON object. */
int read_result(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field);

/* The words for on and off. */
extern const struct word read_switches[];

#endif
