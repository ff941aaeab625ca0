/*
 * read.h: declares the readers of the parts of a rule file, each in its own file. Errors as in
 * yaml_node.h.
 */
#ifndef READERS_READ_H
#define READERS_READ_H

#include "readers/source.h"
#include "readers/yaml/yaml_node.h"

/**
 * Text in YAML into an empty config. On error the config has no limits and no rules; the mistakes
 * are among its remarks, but for the last one, which is in `error` if that has a message.
 */
int yaml_read(struct weir_config *config, const struct source *source, struct weir_error *error);

/* The kinds of values that keys of the file have, and the fields that these fill: */
/* A struct rules_listen: an address, or a mapping of a Unix socket's `path`. */
extern const struct node_kind read_listen_kind;
/* Arrays of the config, and of limits the reader's index of names; rules are read after limits. */
extern const struct node_kind read_limits_kind, read_rules_kind, read_users_kind;
extern const struct node_table read_denials_table; /* fields of the config */
extern const struct node_kind read_tls_kind;       /* a struct rules_tls */
extern const struct node_kind read_match_kind;     /* an array of struct rules_condition */
extern const struct node_kind read_store_kind, read_limit_store_kind; /* a struct rules_text */
extern const struct node_kind read_prefix_kind;                       /* a const char * */
/* An unsigned: `5%`, which key->expected describes. */
extern const struct node_kind read_percent_kind;
extern const struct node_kind read_result_kind; /* a const char *, a JSON object */

/** `5%` as above, of a parameter. */
int read_percent(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                 void *field);

/**
 * Warns of limits that rules with different keys share. `names` are the rules', in the order
 * of the file. 0 or ENOMEM.
 */
int warn_of_shared_limits(struct reader *reader, const struct node_name *names);

/** Warns of limits that no rule uses, where there are rules. 0 or ENOMEM. */
int warn_of_unused_limits(struct reader *reader);

/** `node`, an attribute's name, into a const char *; the config lists those that proxies carry. */
int read_attribute(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                   void *element);

/** Prints a const char *, as an element of a list. */
void read_print_name(const struct printer *printer, const void *element);

/* The words for on and off. */
extern const struct word read_switches[];

#endif
