/*
 * request.h: defines the neutral request that each protocol's bytes are translated to, and the
 * neutral reply that is translated back.
 *
 * Slices point into the bytes that were parsed, or into the arena given to the parser. Both live
 * until the reply is written.
 */
#ifndef PROTO_REQUEST_H
#define PROTO_REQUEST_H

#include <weir/engine.h>

#include "base/slice.h"

enum request_kind {
	REQUEST_LIMIT,      /* `op` on a named limit and a key */
	REQUEST_RULES,      /* `op` on the limits that rules choose by attributes, or on a permit */
	REQUEST_ADHOC,      /* CL.THROTTLE and THROTTLE: the limit is in the request */
	REQUEST_LOCAL,      /* the codec answers without the server: handshakes, errors */
	REQUEST_INTERIM,    /* the codec answers part of a request before all of it has arrived */
	REQUEST_HEALTH,     /* /healthz */
	REQUEST_READY,      /* /readyz */
	REQUEST_METRICS,    /* /metrics */
	REQUEST_LIMITS,     /* /v1/limits */
	REQUEST_TOP,        /* /v1/top */
	REQUEST_POLICY,     /* /dump/policy */
	REQUEST_COUNTERS,   /* /dump/counter */
	REQUEST_EVENTS,     /* /v1/events: the reply begins a stream of all later events */
	REQUEST_SHED,       /* sets the share that a limit denies */
	REQUEST_FORCE,      /* sets the phase of a breaker's key, whatever its window says */
	REQUEST_REPORT,     /* reports how the work that `permit` allowed ended */
	REQUEST_KEY,        /* REQUEST_PEEK or _RESET of a key of CL.THROTTLE and THROTTLE */
	REQUEST_BATCH,      /* several requests, decided together; may contain batches */
	REQUEST_BROWSE,     /* Koala: REQUEST_RULES, answered with the result of the rule */
	REQUEST_EACH_LIMIT, /* Koala: `op` on each limit of each rule that applies, independently */
	REQUEST_BROWSE_ALL, /* Koala: REQUEST_BROWSE with the results of all rules that deny */
	REQUEST_VALUE,      /* Koala: how much of a rule's limit is used */
	REQUEST_ALIVE,      /* Koala: whether all stores can be reached */
	REQUEST_LOGIN,   /* sets the user of the connection's later requests: the login's or, without a
	                    login, the user that the connection had when it began */
	REQUEST_DENIALS, /* /v1/denials: those that are kept */
	REQUEST_DIGEST,  /* /v1/key: what stands for a key where its name is not shown */
	REQUEST_STATUS,  /* /v1/status: what the server runs */
	REQUEST_RELOAD,  /* /v1/reload: reads the files again, and answers when that is done */
	REQUEST_STATS,   /* /v1/stats: what each limit has allowed and denied in each second */
	REQUEST_DASHBOARD, /* /: a page for operators, which asks for all it shows by itself */
	REQUEST_KIND_COUNT
};

/* Sets of kinds. Their answers are long, and the same for all who ask at once (admin/page.h): */
#define REQUEST_PAGE_KINDS                                                                         \
	(1u << REQUEST_METRICS | 1u << REQUEST_LIMITS | 1u << REQUEST_TOP | 1u << REQUEST_POLICY |     \
	 1u << REQUEST_COUNTERS | 1u << REQUEST_STATUS | 1u << REQUEST_STATS |                         \
	 1u << REQUEST_DASHBOARD)
/* They show or change all limits, so users of some limits may not make them: */
#define REQUEST_ALL_LIMITS_KINDS                                                                   \
	(1u << REQUEST_LIMITS | 1u << REQUEST_TOP | 1u << REQUEST_POLICY | 1u << REQUEST_COUNTERS |    \
	 1u << REQUEST_EVENTS | 1u << REQUEST_DENIALS | 1u << REQUEST_STATUS | 1u << REQUEST_RELOAD |  \
	 1u << REQUEST_STATS | 1u << REQUEST_DASHBOARD)

/* The permission that a request needs, from the least to the most. */
enum request_class {
	REQUEST_FREE,   /* health, handshakes, errors */
	REQUEST_ASK,    /* decisions, and reports and refunds by permit */
	REQUEST_CHANGE, /* changes how much others have used or may use */
	REQUEST_ADMIN,  /* changes how limits behave, or shows whom they deny */
};

/* How a client authenticates. Neither text is checked yet. */
struct request_login {
	struct slice user;   /* NULL if the secret alone names the user */
	struct slice secret; /* NULL if there is no login */
};

/* Where a request comes from, as far as its protocol shows. */
struct request_origin {
	struct slice host; /* the name or address by which the client calls this server, or NULL */
	bool is_from_foreign_page;  /* apparently sent by a browser for a page of another origin */
	bool forwarded;             /* sent by a proxy on behalf of another client */
	struct request_login login; /* for this request; that of REQUEST_LOGIN also for later ones */
};

enum request_op {
	REQUEST_ACQUIRE,
	REQUEST_PEEK,
	REQUEST_REFUND,
	REQUEST_RESET,
};

/* A limit that travels in the request: `burst` tokens, `count` per `period_s` seconds. */
struct request_adhoc {
	uint64_t burst, count, period_s;
};

#define REQUEST_TOP_MAX     100
#define REQUEST_DENIALS_MAX 1000

/* The cost of a refund or report whose permit determines the cost. */
#define REQUEST_COST_ALL UINT64_MAX

/*
 * The part of a request that its answer needs. The other members are needed only until the
 * request's plan is prepared. `reply_code`, `flags` and `detail` belong to the codec, which chooses
 * the form of its answer by them.
 */
#define REQUEST_STREAM_BITS 13
#define REQUEST_CORE                                                                               \
	unsigned char kind : 6; /* enum request_kind */                                                \
	unsigned char op : 2;   /* enum request_op */                                                  \
	signed char reply_code;                                                                        \
	unsigned char flags;                                                                           \
	signed char status; /* of the error to answer with, or 0 */                                    \
	short detail;                                                                                  \
	unsigned short stream : REQUEST_STREAM_BITS; /* the codec's number of the request */           \
	bool close_after : 1;                        /* close the connection after the reply */        \
	bool from_proxy : 1; /* /auth: the address comes from forwarded_for and the peer */            \
	bool refused : 1     /* the server's: only `status` is answered, nothing is decided */

struct request_core {
	REQUEST_CORE;
};

_Static_assert(sizeof(struct request_core) == 8, "it is part of each work");
_Static_assert(REQUEST_KIND_COUNT <= 32, "they fit into `kind`, and into sets of 32 bits");

/* The kinds of requests whose answers need no more than struct request_core. */
#define REQUEST_CORE_KINDS                                                                         \
	(1u << REQUEST_LIMIT | 1u << REQUEST_RULES | 1u << REQUEST_ADHOC | 1u << REQUEST_INTERIM |     \
	 1u << REQUEST_READY | 1u << REQUEST_REPORT | 1u << REQUEST_BROWSE |                           \
	 1u << REQUEST_EACH_LIMIT | 1u << REQUEST_BROWSE_ALL | 1u << REQUEST_VALUE |                   \
	 1u << REQUEST_ALIVE)

/* Small members are next to each other, see REQUEST_SIZE_MAX. */
struct request {
	union {
		struct request_core core;
		struct {
			REQUEST_CORE;
		};
	};
	enum request_class class;
	enum weir_outcome outcome; /* for REQUEST_REPORT */
	bool wants_permit;         /* for REQUEST_ACQUIRE */
	bool with_denials;         /* for REQUEST_EVENTS */
	uint8_t priority;          /* 0, the highest, to WEIR_PRIORITY_LOWEST */
	unsigned char feedback;    /* for a refund of REQUEST_EACH_LIMIT: the rules' 1st or 2nd */
	unsigned char force;       /* for REQUEST_FORCE: enum weir_force */
	const struct request_origin *origin; /* NULL if nothing is known of it */
	struct slice limit;
	/*
	 * The name of the rule that the request is about, or the client's name of an item of a batch.
	 * For a whole batch and for REQUEST_LOCAL the server sets the name of the user, NULL for none.
	 */
	struct slice name;
	struct slice key;
	uint64_t cost;
	uint64_t wait_ns;    /* the longest wait; WEIR_ZERO for none, 0 for the limit's default */
	union {
		struct slice permit;    /* for REQUEST_REPORT and _REFUND, as the client sent it; or NULL */
		struct slice denial_id; /* for REQUEST_DENIALS, as the client sent it; or NULL for all */
	};
	union {
		uint64_t latency_ms; /* for REQUEST_REPORT; 0 if not known */
		uint64_t until_ns;   /* for REQUEST_SHED and _FORCE: Unix time, or 0 for no end */
	};
	double denied_share; /* for REQUEST_SHED */
	const struct weir_attribute *attributes;
	size_t attribute_count;
	struct request_adhoc adhoc;
	const struct request *items; /* for REQUEST_BATCH */
	size_t item_count;
	union {
		uint64_t top_count;   /* for REQUEST_TOP: how many keys, 1 to REQUEST_TOP_MAX; for
		                         REQUEST_DENIALS: to REQUEST_DENIALS_MAX */
		uint64_t after_event; /* for REQUEST_EVENTS: the last event that the client has, or 0 */
	};
	struct slice forwarded_for; /* all lines of X-Forwarded-For, joined by commas */
	size_t reply_size;          /* an estimate, if more than a few hundred bytes; or 0 */
	/* For REQUEST_LOCAL, as the codec needs them to answer: a text, and the words of a command. */
	union {
		struct slice local_text;
		struct slice since; /* for REQUEST_DENIALS and _STATS: a time or a duration, or empty */
	};
	union {
		struct {
			const struct slice *words;
			size_t word_count;
		};
		struct slice until; /* for REQUEST_DENIALS: as `since` */
	};
};

/*
 * A request is copied for every command that is like the one before. GCC copies up to this many
 * bytes by moves; for more it uses `rep movs`, which needs 10 ns to start.
 */
#define REQUEST_SIZE_MAX 256
_Static_assert(sizeof(struct request) <= REQUEST_SIZE_MAX, "a request is copied quickly");

/* The longest permit in a reply, which an HTTP header has space for. */
#define REPLY_PERMIT_MAX 6400

struct reply {
	int status;                    /* 0 if `decision` is valid, otherwise an enum weir_status */
	const char *message;           /* the text of an error */
	struct weir_decision decision; /* for REQUEST_LIMIT, _RULES, _ADHOC, _KEY */
	struct slice permit;  /* that the decision grants, at most REPLY_PERMIT_MAX, or empty */
	bool ready;           /* for REQUEST_HEALTH, REQUEST_READY, REQUEST_ALIVE */
	bool has_state;       /* for REQUEST_KEY: the key has, or had, a state */
	bool must_wait;       /* the server's: not decided, because the request waits for a key */
	bool is_unfinished;   /* the server's: not decided: a store or a later iteration has to continue
	                         it */
	bool explains_denial; /* it is denied, and the answer names its rule and limit */
	const char *denial_id; /* then, if the denial is kept: its id; otherwise NULL */
	uint64_t wait_ns;      /* the server's: how long the answer is delayed */
	struct slice body;  /* Prometheus text for REQUEST_METRICS; JSON for _LIMITS, _TOP, _BROWSE */
	const char *policy; /* for REQUEST_DASHBOARD: what the browser may load for the page */
	const struct slice *results; /* for REQUEST_BROWSE_ALL: JSON objects of rules that denied */
	size_t result_count;
	uint64_t used;             /* for REQUEST_VALUE */
	const struct reply *items; /* for REQUEST_BATCH, as many as the request has */
};

#endif
