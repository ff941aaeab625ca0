/*
 * request.h: the neutral request that every protocol is translated to, and the
 * neutral reply that it is translated back from.
 *
 * Slices point into the bytes that were parsed, or into the arena given to the
 * parser; both live until the reply is written.
 */
#ifndef PROTO_REQUEST_H
#define PROTO_REQUEST_H

#include <weir/engine.h>

#include "base/slice.h"

enum request_kind {
	REQUEST_LIMIT,      /* `op` on a named limit and a key */
	REQUEST_RULES,      /* `op` on what the rules say of the attributes, or the permit alone */
	REQUEST_ADHOC,      /* CL.THROTTLE and THROTTLE: the limit is in the request */
	REQUEST_LOCAL,      /* the codec answers by itself: greetings, errors */
	REQUEST_INTERIM,    /* part of a request that is answered before all of it is here */
	REQUEST_HEALTH,     /* /healthz */
	REQUEST_READY,      /* /readyz */
	REQUEST_METRICS,    /* /metrics; the first of the pages, see server/admin/page.h */
	REQUEST_LIMITS,     /* /v1/limits */
	REQUEST_TOP,        /* /v1/top */
	REQUEST_POLICY,     /* /dump/policy */
	REQUEST_COUNTERS,   /* /dump/counter; the last page */
	REQUEST_EVENTS,     /* /v1/events: all events from now on; the reply begins a stream of them */
	REQUEST_SHED,       /* the share that a limit denies from now on */
	REQUEST_FORCE,      /* the phase that a key is in from now on, whatever its window says */
	REQUEST_REPORT,     /* how the work that `permit` allowed ended */
	REQUEST_KEY,        /* REQUEST_PEEK or _RESET of a key of CL.THROTTLE and THROTTLE */
	REQUEST_BATCH,      /* several requests, decided together; batches may be among them */
	REQUEST_BROWSE,     /* REQUEST_RULES, answered by the result that a rule attaches */
	REQUEST_EACH_LIMIT, /* `op` on each limit of each rule that applies, by itself */
	REQUEST_BROWSE_ALL, /* REQUEST_BROWSE, answered by the results of all rules that refuse */
	REQUEST_VALUE,      /* what is used of the limit of one rule */
	REQUEST_ALIVE,      /* whether all stores can be reached */
	REQUEST_LOGIN, /* from now on the connection's requests are those of the login's user; without
	                  a login, of the user that the connection had when it began */
	REQUEST_KIND_COUNT
};

/* The right that a request needs: from free for everybody to the operator's alone. */
enum request_class {
	REQUEST_FREE,   /* health, greetings, errors */
	REQUEST_ASK,    /* decisions, and what a permit at hand gives back */
	REQUEST_CHANGE, /* what others have used or may use */
	REQUEST_ADMIN,  /* how limits behave, and whom they deny */
};

/* How a client shows who it is. Nothing is known of either text. */
struct request_login {
	struct slice user;   /* NULL if the secret alone names the user */
	struct slice secret; /* NULL if there is no login */
};

/* How a request came here, as far as its protocol tells. */
struct request_origin {
	struct slice host; /* the sender's name or address of this server, or NULL */
	bool foreign;      /* a browser sends it for a page of another origin, or so it seems */
	bool forwarded;    /* a proxy sends it for somebody else */
	struct request_login login; /* of this request; of REQUEST_LOGIN, of those that follow too */
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

#define REQUEST_TOP_MAX 100

/* A cost that was left out where a permit knows it. */
#define REQUEST_COST_ALL UINT64_MAX

/*
 * The answer to a decided request needs this part of it; the rest is needed until its plan is
 * prepared. `verb`, `flags` and `detail` are the codec's own: which of its answers, and how.
 */
#define REQUEST_STREAM_BITS 13
#define REQUEST_CORE                                                                               \
	unsigned char kind : 6; /* enum request_kind */                                                \
	unsigned char op : 2;   /* enum request_op */                                                  \
	signed char reply_code;                                                                        \
	unsigned char flags;                                                                           \
	signed char status; /* of the error that answers it, or 0 */                                   \
	short detail;                                                                                  \
	unsigned short stream                                                                          \
	    : REQUEST_STREAM_BITS; /* the codec's: which of a connection's requests */                 \
	bool close : 1;            /* close the connection after the reply */                          \
	bool from_proxy : 1;       /* /auth: the address comes from forwarded_for and the peer */      \
	bool refused : 1           /* the server's: nothing is done but to tell `status` */

struct request_core {
	REQUEST_CORE;
};

_Static_assert(sizeof(struct request_core) == 8, "it stands in each work");
_Static_assert(REQUEST_KIND_COUNT <= 64, "they fit into the head");

/* Whether the answer to a request of this kind needs no more than the head. */
#define REQUEST_CORE_KINDS                                                                         \
	(1u << REQUEST_LIMIT | 1u << REQUEST_RULES | 1u << REQUEST_ADHOC | 1u << REQUEST_INTERIM |     \
	 1u << REQUEST_READY | 1u << REQUEST_REPORT | 1u << REQUEST_BROWSE |                           \
	 1u << REQUEST_EACH_LIMIT | 1u << REQUEST_BROWSE_ALL | 1u << REQUEST_VALUE |                   \
	 1u << REQUEST_ALIVE)

/* Small fields stand together: see REQUEST_SIZE_MAX. */
struct request {
	union {
		struct request_core head;
		struct {
			REQUEST_CORE;
		};
	};
	enum request_class class;
	enum weir_outcome outcome; /* REQUEST_REPORT */
	bool wants_permit;         /* REQUEST_ACQUIRE: asks for one */
	uint8_t priority;          /* 0, the highest, to WEIR_PRIORITY_LOWEST */
	unsigned char
	    erases;          /* REQUEST_EACH_LIMIT, a refund: by which of the rules' feedback, from 1 */
	unsigned char force; /* REQUEST_FORCE: enum weir_force */
	const struct request_origin *origin; /* NULL if nothing is known of it */
	struct slice limit;
	/*
	 * Of the rule it is about; of an item of a batch, what its sender calls it. Of a whole batch
	 * and of REQUEST_LOCAL the server sets it to the name of the user, NULL for none.
	 */
	struct slice name;
	struct slice key;
	uint64_t cost;
	uint64_t wait_ns;    /* how long the answer may be held; 0: not said, WEIR_ZERO: not */
	struct slice permit; /* REQUEST_REPORT, _REFUND: as the client had it; else NULL */
	union {
		uint64_t latency_ms; /* REQUEST_REPORT; 0 if not told */
		uint64_t until_ns;   /* REQUEST_SHED, _FORCE: Unix time; 0 for good */
	};
	double deny; /* REQUEST_SHED */
	const struct weir_attribute *attributes;
	size_t attribute_count;
	struct request_adhoc adhoc;
	const struct request *items; /* REQUEST_BATCH */
	size_t item_count;
	union {
		uint64_t top;   /* REQUEST_TOP: how many, 1 to REQUEST_TOP_MAX */
		uint64_t after; /* REQUEST_EVENTS: the last one that the client has; 0 if it has none */
	};
	struct slice forwarded_for; /* X-Forwarded-For, all of them joined by commas */
	size_t reply_size;          /* about, of a reply beyond a few hundred bytes; else 0 */
	struct slice text;
	const struct slice *args;
	size_t arg_count;
};

/*
 * It is copied for every command that is like the one before it. GCC copies up to so many
 * bytes by moves; for more it takes `rep movs`, which needs 10 ns to begin.
 */
#define REQUEST_SIZE_MAX 256
_Static_assert(sizeof(struct request) <= REQUEST_SIZE_MAX, "a request is copied quickly");

/* Bytes of a permit in a reply, which a header has room for. */
#define REPLY_PERMIT_MAX 6400

struct reply {
	int status;                    /* 0 if `decision` holds, otherwise an enum weir_status */
	const char *message;           /* of an error, in words */
	struct weir_decision decision; /* REQUEST_LIMIT, _RULES, _ADHOC, _KEY */
	struct slice permit;           /* beside it: what was handed out, or empty; REPLY_PERMIT_MAX */
	bool ready;                    /* REQUEST_HEALTH, REQUEST_READY, REQUEST_ALIVE */
	bool known;                    /* REQUEST_KEY: it has, or had, a state */
	bool waits;                    /* the server's: it is to wait for a key, and is not decided */
	bool at_store;                 /* likewise: a store has steps of it */
	uint64_t wait_ns;              /* the server's: how long the answer is held */
	struct slice body; /* REQUEST_METRICS: Prometheus text; _LIMITS, _TOP, _BROWSE: JSON */
	const struct slice *results; /* REQUEST_BROWSE_ALL: of rules that refused; JSON objects */
	size_t result_count;
	uint64_t used;             /* REQUEST_VALUE */
	const struct reply *items; /* REQUEST_BATCH: as many as the request has */
};

#endif
