/* read.h: the parts of a rule file, each read by its own file. Errors as in node.h. */
#ifndef READERS_READ_H
#define READERS_READ_H

#include "readers/node.h"
#include "readers/source.h"

/**
 * Text in YAML into an empty config. On error the config has no limits and no rules; the mistakes
 * are among its remarks, but for the last one, which is in `error` if that has a message.
 */
int yaml_read(struct weir_config *config, const struct source *source, struct weir_error *error);

/** An address to listen on, or a mapping of a Unix socket's `path`, into a struct rules_listen. */
int read_listen(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field);

/** `limits:` into an array of the config and the reader's index of names. */
int read_limits(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field);

/** `store:` of the file and of a limit, into a struct rules_text. */
int read_store(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);
int read_limit_store(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field);
/** `5%`, which key->expected describes, into an unsigned. */
int read_percent(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);
/** `prefix:` into a const char *. */
int read_prefix(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field);

/** `rules:` into an array of the config; the limits must have been read. */
int read_rules(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);

/** `tls:` into a struct rules_tls. */
int read_tls(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
             void *field);

/** `users:` into an array of the config; the limits must have been read. */
int read_users(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);

/**
 * Warns of limits that rules with different keys share. `names` are the rules', in the order
 * of the file. 0 or ENOMEM.
 */
int read_shared_limits(struct reader *reader, const struct node_name *names);

/** Warns of limits that no rule uses, where there are rules. 0 or ENOMEM. */
int read_unused_limits(struct reader *reader);

/** `match:` into an array of struct rules_condition. */
int read_match(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field);

/** `node`, an attribute's name, into a const char *; the config lists those that proxies carry. */
int read_attribute(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                   void *element);

/** `result:` into a const char *, as a JSON object. */
int read_result(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field);

/* The words for on and off. */
extern const struct word read_switches[];

#endif
