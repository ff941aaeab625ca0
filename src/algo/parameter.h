/*
 * parameter.h: the parameters of limits as rows: where a value is, what it may be.
 *
 * A row has all facts about a parameter, so code that checks, reads or shows parameters
 * goes through rows and knows no names.
 */
#ifndef ALGO_PARAMETER_H
#define ALGO_PARAMETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "base/text/word.h"
#include "base/time/clock.h"

#define ALGO_COUNT_MAX     (UINT64_C(1) << 32)
#define ALGO_PERIOD_MAX_NS (UINT64_C(366) * NS_PER_DAY)

#define ALGO_RETRY_DEFAULT_NS NS_PER_S

struct algo_limit;

enum algo_type {
	ALGO_NUMBER, /* uint64_t or uint32_t */
	ALGO_TIME,   /* uint64_t, ns */
	ALGO_PERCENT, /* uint32_t; in rule files behind it stands % */
	ALGO_DECIMAL, /* double */
	ALGO_WORD,   /* an enum */
	ALGO_TEXT,   /* const char * */
	ALGO_RATE,   /* struct weir_rate; its period has a fixed length */
	ALGO_CALENDAR_RATE, /* the same, months and years included */
};

/* As a default: what the rate's count is. */
#define ALGO_DEFAULT_AS_RATE UINT64_MAX

/* As a default: what `derive` returns. */
#define ALGO_DEFAULT_DERIVED (UINT64_MAX - 1)

/* The effect of a parameter in a limit with certain others. */
enum algo_use {
	ALGO_USED,
	ALGO_IDLE,   /* accepted, but without effect, so it is not shown */
	ALGO_REFUSED,
};

struct algo_parameter {
	const char *name; /* or NULL at the end of a list */
	enum algo_type type;
	uint16_t offset, size; /* of its field in struct weir_limit_options, if `own` is 0 */
	uint16_t own;          /* otherwise in the algorithm's own options; see parameter_own */
	bool required;
	/*
	 * The range of a number, a decimal, a time (from 0, 1 or a millisecond), a rate's count, or a
	 * text's bytes. If the default is 0, 0 may be given without WEIR_ZERO.
	 */
	uint64_t min, max;
	uint64_t otherwise; /* the default; one that is out of range stands for "none" */
	/* Computes the default ALGO_DEFAULT_DERIVED, from options in which all others are filled in. */
	uint64_t (*derive)(const struct weir_limit_options *options);
	const char *text; /* the default of an ALGO_TEXT; how a derived one is derived, in words */
	const struct word *words;
	/*
	 * NULL for ALGO_USED. If it is refused, a message says `with` what it belongs, and what was
	 * found.
	 */
	enum algo_use (*use)(const struct weir_limit_options *options);
	const char *with, *found;
};

/* The place of a parameter. */
#define ALGO_FIELD(field)                                                                          \
	.offset = offsetof(struct weir_limit_options, field),                                          \
	.size = sizeof((struct weir_limit_options *)0)->field

/* A place in the own options of an algorithm. */
#define ALGO_OWN_FIELD(algorithm, field)                                                           \
	.own = offsetof(struct weir_limit_options, algorithm),                                         \
	.offset = offsetof(struct weir_##algorithm##_options, field),                                  \
	.size = sizeof((struct weir_##algorithm##_options *)0)->field

/* Parameters that several algorithms have. */
#define ALGO_RATE_ROW(most)                                                                        \
	{"rate", ALGO_RATE, ALGO_FIELD(rate), .required = true, .min = 1, .max = (most)}
#define ALGO_BURST_ROW(name)                                                                       \
	{                                                                                              \
		name, ALGO_NUMBER, ALGO_FIELD(burst), .min = 1, .max = ALGO_COUNT_MAX,                     \
		                                      .otherwise = ALGO_DEFAULT_AS_RATE                    \
	}
#define ALGO_MAX_WAIT_ROW(otherwise_ns)                                                            \
	{"max_wait", ALGO_TIME, ALGO_FIELD(max_wait_ns), .max = ALGO_PERIOD_MAX_NS,                    \
	 .otherwise = (otherwise_ns)}
#define ALGO_RETRY_ROW                                                                             \
	{"retry", ALGO_TIME, ALGO_FIELD(retry_ns), .min = 1, .max = ALGO_PERIOD_MAX_NS,                \
	 .otherwise = ALGO_RETRY_DEFAULT_NS}
#define ALGO_KEYS_ROW                                                                              \
	{"keys", ALGO_NUMBER, ALGO_FIELD(keys), .min = 1, .max = WEIR_CAPACITY_MAX}
#define ALGO_TIMEZONE_ROW(...)                                                                     \
	{"timezone", ALGO_TEXT, ALGO_FIELD(timezone), .min = 1, .max = 64, .text = "UTC", __VA_ARGS__}

#define ALGO_WAIT_DEFAULT_NS (30 * NS_PER_S)

#define ALGO_FIXED_LENGTH                                                                          \
	"expected a period of fixed length, found months or years, which only calendar windows "       \
	"(fixed_window) have"

/* Room for an algorithm's own options, whichever it is. */
union algo_own {
	struct weir_breaker_options breaker;
	struct weir_throttle_options throttle;
	struct weir_adaptive_options adaptive;
};

/**
 * The own options of an algorithm, or NULL if the caller gave none. `own` is the offset of the
 * pointer to them in struct weir_limit_options.
 */
const void *parameter_own(uint16_t own, const struct weir_limit_options *options);
void parameter_set_own(uint16_t own, const void *value, struct weir_limit_options *options);

/** The place of its value. */
const void *parameter_field(const struct algo_parameter *parameter,
                            const struct weir_limit_options *options);
/** The same to write to. Own options must be there, and be the caller's. */
void *parameter_writable(const struct algo_parameter *parameter,
                         struct weir_limit_options *options);

/** Whether the options say anything of it. */
bool parameter_is_given(const struct algo_parameter *parameter,
                        const struct weir_limit_options *options);

static inline enum algo_use parameter_use(const struct algo_parameter *parameter,
                                          const struct weir_limit_options *options)
{
	return parameter->use ? parameter->use(options) : ALGO_USED;
}

/**
 * An ALGO_NUMBER, ALGO_PERCENT or ALGO_TIME as it is in the options, and back; 0 is then WEIR_ZERO
 * if it must.
 */
uint64_t parameter_number(const struct algo_parameter *parameter,
                          const struct weir_limit_options *options);
void parameter_set(const struct algo_parameter *parameter, uint64_t value,
                   struct weir_limit_options *options);

/** Checks a parameter by itself. Errors as weir_limit_open: "rate: expected …". */
int parameter_check(const struct algo_parameter *parameter,
                    const struct weir_limit_options *options, struct weir_error *error);

/** Fills in its default; an explicit zero is 0 then. */
void parameter_resolve(const struct algo_parameter *row, struct weir_limit_options *options);

#define PARAMETER_NAMES_MAX 200
/** Appends a name to a list in a message. */
void parameter_add_name(char names[PARAMETER_NAMES_MAX], const char *name);

/** How long a rate's period is; of months and years the longest. A year at most. */
uint64_t parameter_period_ns(const struct weir_rate *rate);

#endif
