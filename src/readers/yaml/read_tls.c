/*
 * read_tls.c: parses and prints `tls:` of a rule file in YAML: the files of certificates, and which
 * clients and versions of TLS a server accepts. It does not open the files.
 */
#include <string.h>

#include "readers/yaml/read.h"

#define FIELD(name) offsetof(struct rules_tls, name)

static const struct word clients[] = {{"none", RULES_CLIENTS_NONE},
                                      {"optional", RULES_CLIENTS_OPTIONAL},
                                      {"required", RULES_CLIENTS_REQUIRED},
                                      {0}};
static const struct word versions[] = {{"1.2", 12}, {"1.3", 13}, {0}};

static int read_file(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field)
{
	const char **path = field;
	int status = node_read_text(reader, key, value, path);

	if (status != WEIR_OK)
		return status;
	*path = source_path(reader->config, reader->directory, slice_of(*path));
	return *path ? WEIR_OK : node_no_memory(reader);
}

static const struct node_kind file_kind = {read_file, node_print_text};

#define PATH_MAX_LEN 4095

static const struct node_key keys[] = {
    {"cert", &file_kind, FIELD(cert), .required = true, .min = 1, .max = PATH_MAX_LEN},
    {"key", &file_kind, FIELD(key), .min = 1, .max = PATH_MAX_LEN},
    {"ca", &file_kind, FIELD(ca), .min = 1, .max = PATH_MAX_LEN},
    {"clients", &node_word, FIELD(clients), .words = clients},
    {"minimum", &node_word, FIELD(minimum), .words = versions},
};

static const struct node_table table = {"tls", keys, sizeof keys / sizeof *keys};

static int read_tls(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                    void *field)
{
	struct rules_tls *tls = field;
	int status = node_mapping(reader, value, &table, 0, tls, NULL);

	(void)key;
	if (status != WEIR_OK)
		return status;
	if (tls->clients != RULES_CLIENTS_NONE && !tls->ca)
		return node_error(
		    reader, node_find_value(reader, value, "clients"),
		    "expected `ca` beside clients, whose certificates it verifies, found none");
	tls->line = (unsigned)value->start_mark.line + 1;
	tls->column = (unsigned)value->start_mark.column + 1;
	return WEIR_OK;
}

static bool print_tls(const struct printer *printer, const struct node_key *key, const void *field,
                      const void *default_value)
{
	(void)key;
	return node_print_flow(printer, &(struct node_object){&table, 0, field, default_value});
}

const struct node_kind read_tls_kind = {read_tls, print_tls};
