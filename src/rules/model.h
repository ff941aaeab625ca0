/*
 * model.h: defines the structs that hold the content of rule files, in whichever language the files
 * are written.
 *
 * The readers of YAML and of Koala's language fill them, and the engine compiles them; neither
 * knows the other. All memory is the config's arena.
 */
#ifndef RULES_MODEL_H
#define RULES_MODEL_H

#include <string.h>

#include <weir/rules.h>

#include "base/arena.h"
#include "base/network/ip.h"
#include "base/number.h"
#include "base/text/forwarded.h"
#include "rules/match/dictionary.h"

enum rules_failure { RULES_LOCAL = 0, RULES_OPEN, RULES_CLOSED };
enum rules_mode { RULES_ENFORCE = 0, RULES_SHADOW };
enum rules_switch { RULES_UNSET = 0, RULES_NO, RULES_YES };
enum rules_answer { RULES_BY_LIMITS = 0, RULES_ALLOW, RULES_DENY };
enum rules_order {
	RULES_ALL = 0, /* a rule that answers by itself wins; else every rule that applies counts */
	RULES_FIRST,   /* the first rule that answers by itself or denies decides; a request that a
	                  rule answers by itself charges nothing */
};

enum rules_test {
	RULES_EQUAL,      /* the value is `text` */
	RULES_PREFIX,     /* the value begins with `text` (written `text*`) */
	RULES_IP_RANGE,   /* the value is an address in `range` */
	RULES_IP_PATTERN, /* the value is an IPv4 address like `pattern`: 10.*.0.* */
	RULES_LISTED,     /* the value is in `dictionary` */
	RULES_NUMBERS,    /* the value is a whole number in `numbers` */
	RULES_ANY,        /* the value is not empty */
	RULES_NONE,       /* the value is empty, or there is none */
};

/* Both ends in. A number in a request that is past int64_t counts as its end. */
struct rules_numbers {
	int64_t first, last;
};

struct rules_value {
	enum rules_test test;
	struct slice text; /* as the file has it; of a dictionary the path */
	union {
		struct ip_range range;
		struct ip_pattern pattern;
		struct rules_numbers numbers;
		const struct dictionary *dictionary; /* of the config */
	};
};

/*
 * One of the values holds, or of a negated condition none of them; of an attribute that is absent
 * or empty only RULES_NONE does, and of a negated condition nothing.
 */
struct rules_condition {
	const char *attribute;
	const struct rules_value *values;
	size_t value_count;
	bool negated;
	unsigned line, column; /* where it stands in the rule's file; 0 if it is in none */
};

/* A text of a file, such as a store, and where it stands. */
struct rules_text {
	const char *text; /* a URL may hold a password; NULL if not given */
	const char *file; /* where it stands */
	unsigned line, column;
};

/* An address to listen on. The rest is for the file of a Unix socket. */
struct rules_listen {
	struct rules_text address;
	unsigned mode;             /* 0 if not given */
	const char *owner, *group; /* NULL if not given */
};

struct rules_limit {
	struct weir_limit_options options; /* strings in the arena */
	enum rules_failure on_store_failure;
	struct rules_text store; /* "memory" is the server's own table; NULL for the config's */
	unsigned chunk_percent;  /* of its quota that a server takes at once; 0 if each request asks */
	const char *file;        /* where it stands, for errors found later, or NULL */
	unsigned line, column;
};

struct rules_rule {
	const char *name; /* never NULL: "rule-3" when the file gives none */
	const char *file; /* where it stands, as of a limit */
	unsigned line, column;
	const struct rules_condition *conditions;
	size_t condition_count;
	const char *const *key; /* attribute names */
	size_t key_count;
	uint64_t ipv6_prefix; /* of the key's `ip`, 1 to 128; 0 for the config's */
	/* In conditions with ranges an IPv4 address and its number are the same, as in Koala; unset:
	 * no. */
	enum rules_switch ip_numbers;
	enum rules_switch path_variants; /* `path` stands for its variants, too; unset: the config's */
	const size_t *limits;            /* indexes into the config's limits */
	size_t limit_count;
	enum rules_mode mode;
	/* Without limits: what it answers by itself. With limits, in RULES_FIRST: RULES_ALLOW says that
	 * a request past them is allowed by this rule, and no later one is asked. */
	enum rules_answer answer;
	/* How many of its newest units Koala's feedback takes back: by erase1 and by erase2, or 0.
	 */
	uint64_t feedback[2];
	enum rules_failure on_store_failure;
	bool has_on_store_failure;
	uint64_t priority;  /* of its requests, which beats what the caller says of them, ... */
	bool has_priority;  /* where the file gives one */
	const char *result; /* JSON object, or NULL */
};

/* Whether clients show a certificate. */
enum rules_clients {
	RULES_CLIENTS_NONE,
	RULES_CLIENTS_OPTIONAL,
	RULES_CLIENTS_REQUIRED,
};

/* TLS of the listeners. Files are in PEM. */
struct rules_tls {
	const char *cert; /* NULL if there is no TLS */
	const char *key;  /* NULL if it is in the file of `cert` */
	const char *ca;   /* of the certificates of clients; NULL if not given */
	enum rules_clients clients;
	unsigned minimum; /* version: 12, the least, or 13; 0 if not given */
	unsigned line, column;
};

/* How a user shows who it is. */
enum rules_proof {
	RULES_TOKEN,
	RULES_PASSWORD,
	RULES_CERTIFICATE, /* that a client shows over TLS */
	RULES_UNIX,        /* the account of a client at a unix socket */
};

/* The permissions of a user. */
enum {
	RULES_MAY_ASK = 1,
	RULES_MAY_CHANGE = 2,
	RULES_MAY_ADMIN = 4,
};

struct rules_user {
	const char *name;
	enum rules_proof proof;
	const char *secret; /* a hash, as `weir passwd` prints it; a certificate's name; an account */
	unsigned may;       /* a set of RULES_MAY_ */
	const struct rules_text
	    *limits; /* patterns of names, in which '*' stands for any text; none: all */
	size_t limit_count;
	unsigned line, column;
};

/* A provider gives each customer a network of this size or larger, so keys count by it. */
#define RULES_IPV6_PREFIX 64

struct rules_remark {
	struct weir_config_remark content;
	struct rules_remark *next;
};

/*
 * Errors, and warnings of text that is unlikely meant. A complete configuration has only warnings.
 */
struct rules_remarks {
	struct rules_remark *first, *last; /* NULL for none */
	size_t count, errors;
};

/* How `/auth` serves proxies. */
enum rules_auth {
	RULES_AUTH_YES = 0, /* it answers */
	RULES_AUTH_NO,      /* it refuses them */
	RULES_AUTH_REPORTS, /* it answers with permits, which they report */
};

/* Koala's callers. */
#define RULES_KOALA_TIMEZONE "Asia/Shanghai"

struct rules_koala {
	const char *timezone; /* of its days */
	const char
	    *unmatched; /* what a browse answers if no rule applies, a JSON object; NULL if not given */
	const char *unexceeded; /* and if rules apply, and none is exceeded */
};

/* A file that the configuration was read from: a rule file, or a dictionary. */
struct rules_file {
	const char *path;
	const struct rules_file *next;
};

/* A dictionary that is open, or could not be. */
struct rules_dictionary {
	const char *path;
	struct dictionary *dictionary; /* NULL after an error, see `error` */
	size_t count;                  /* of its entries */
	struct dictionary_texts texts;
	struct weir_error error;
	struct rules_dictionary *next;
};

#define RULES_NAME_MAX 64 /* bytes of a limit's, a rule's or an attribute's name */

#define RULES_CONNECTIONS  10000
#define RULES_IDLE_HTTP_NS (300 * NS_PER_S)

#define RULES_KEY_PREFIX       "weir:"
#define RULES_STORE_TIMEOUT_NS (20 * NS_PER_MS)
#define RULES_DENIED_CACHE_NS  NS_PER_S
#define RULES_STORE_POLL_NS    (50 * NS_PER_MS)

/* A kept denial has a digest of its key, or the key's name unless that is made of visitors' data.
 */
enum rules_denial_key { RULES_DENIAL_DIGEST, RULES_DENIAL_FULL };
enum rules_denial_attributes {
	RULES_DENIAL_OF_RULE, /* those that the rule matches or counts by */
	RULES_DENIAL_OF_NONE,
	RULES_DENIAL_OF_LIST,
};

#define RULES_DENIALS_KEEP       10000
#define RULES_DENIALS_KEEP_MAX   1000000
#define RULES_DENIALS_PER_SECOND 10
#define RULES_DENIALS_ROTATE     64000000
#define RULES_DENIALS_FILES      4

/* Which denials are kept (`denials:`), see server/denials/denial_sample.h. */
struct rules_denials {
	uint64_t keep;       /* at most so many, or 0 */
	uint64_t per_second; /* of each rule, or 0 */
	enum rules_denial_key key;
	enum rules_denial_attributes attributes;
	const char *const *listed; /* the names of RULES_DENIAL_OF_LIST */
	size_t listed_count;
	const char *file;          /* that they are also written to, or NULL */
	uint64_t rotate, files;    /* the bytes of a file, and the number of files */
	enum rules_switch headers; /* answers name the rule, the limit and the kept denial; unset: no */
};

struct weir_config {
	struct arena arena;
	struct rules_listen listen_http, listen_resp, listen_admin;
	struct rules_text store;
	uint64_t capacity;                     /* 0 if not given */
	const char *store_owner, *store_group; /* NULL if not given */
	uint64_t sync_ns;                      /* 0 if not given */
	uint64_t nodes;                        /* 1 */
	bool has_nodes;
	uint64_t ipv6_prefix;                /* 0 for RULES_IPV6_PREFIX */
	enum rules_switch path_variants;     /* unset: no */
	const char *prefix;                  /* RULES_KEY_PREFIX */
	uint64_t store_timeout_ns;           /* RULES_STORE_TIMEOUT_NS */
	uint64_t denied_cache_ns;            /* RULES_DENIED_CACHE_NS, or 0 */
	uint64_t store_poll_ns;              /* RULES_STORE_POLL_NS */
	double retry_jitter;                 /* 0 */
	uint64_t connections;                /* RULES_CONNECTIONS */
	uint64_t idle_http_ns, idle_resp_ns; /* RULES_IDLE_HTTP_NS, 0; 0 for ever */
	const char *const *attributes;       /* what callers send besides what rules use */
	size_t attribute_count;
	const struct ip_range *trusted_proxies;
	size_t trusted_proxy_count;
	enum rules_auth auth;
	const char *const *hosts; /* names that requests over HTTP may have for the server */
	size_t host_count;
	bool unprotected;                 /* every peer may change and administrate */
	const struct ip_range *protected; /* else the networks that may, beside loopback */
	size_t protected_count;
	struct rules_tls tls;
	const struct rules_user *users; /* none: `protected` tells who may do what */
	size_t user_count;
	const struct rules_limit *limits;
	size_t limit_count;
	const struct rules_rule *rules;
	size_t rule_count;
	enum rules_order order;
	struct rules_koala koala;
	struct rules_denials denials;
	struct rules_dictionary *dictionaries; /* each path once */
	const char *file;                      /* our own one, which the settings are from, or NULL */
	weir_config_file *on_file; /* of each of `files`, before it is read; NULL if nobody asks */
	void *file_context;
	const struct rules_file *files; /* in the order in which they were read */
	struct rules_remarks remarks;
	struct forwarded_list forwarded; /* what rules want to know of a proxied request */
};

/**
 * The URL of the store that a limit has its states at, or NULL: in the server's own table.
 * `otherwise` is that of limits that name none, and may be NULL, too.
 */
static inline const char *rules_store(const struct rules_limit *limit, const char *otherwise)
{
	if (!limit->store.text)
		return otherwise;
	return strcmp(limit->store.text, "memory") == 0 ? NULL : limit->store.text;
}

/** How many bits of an IPv6 address make a key of the rule. */
static inline unsigned rules_ipv6_prefix(const struct weir_config *config,
                                         const struct rules_rule *rule)
{
	uint64_t bits = rule->ipv6_prefix ? rule->ipv6_prefix : config->ipv6_prefix;

	return (unsigned)(bits ? bits : RULES_IPV6_PREFIX);
}

/** The command that brings its limits along under this name, which no limit has; or NULL. */
static inline const char *rules_reserved_name(struct slice name)
{
	static const char *const names[] = {"CL.THROTTLE", "THROTTLE"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (slice_equal(name, slice_of(names[i])))
			return names[i];
	return NULL;
}

/** The name of the limit in denials: CL.THROTTLE and THROTTLE share their counts, and the first. */
static inline struct slice rules_denied_name(struct slice name)
{
	return rules_reserved_name(name) ? SLICE("CL.THROTTLE") : name;
}

/**
 * An empty configuration with the defaults, or NULL. Exported from libweir for
 * libweir_rules alone, under a node of this very release: this struct is not
 * part of the interface, so only libraries built together may share it.
 */
WEIR_API struct weir_config *weir_private_config_new(void);

/** Adds a path to the files that the configuration was read from. 0 or ENOMEM. */
static inline int rules_add_file(struct weir_config *config, const char *file_path)
{
	const struct rules_file **end = &config->files;
	struct rules_file *file = arena_alloc(&config->arena, sizeof *file);
	char *copy = arena_copy(&config->arena, slice_of(file_path));

	if (!file || !copy)
		return WEIR_ENOMEM;
	while (*end)
		end = (const struct rules_file **)&(*end)->next;
	file->path = copy;
	*end = file;
	if (config->on_file)
		config->on_file(config->file_context, copy);
	return WEIR_OK;
}

/**
 * The dictionary of a path, which the config opens once, lists among its files (even where it
 * can't be read) and closes. Errors as of dictionary_open, which tells `reporter` the first time
 * only. Exported as weir_private_config_new is.
 */
WEIR_API int weir_private_config_dictionary(struct weir_config *config, const char *path,
                                            const struct dictionary_reporter *reporter,
                                            const struct dictionary **out,
                                            struct weir_error *error);

#endif
