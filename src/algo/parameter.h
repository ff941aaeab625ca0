/*
 * parameter.h: describes parameters of limits: where each one's value is, and what it may be.
 *
 * A description has all facts about a parameter, so code that checks, reads or shows parameters
 * loops over descriptions and has no names in it.
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
	ALGO_NUMBER,        /* uint64_t or uint32_t */
	ALGO_TIME,          /* uint64_t, ns */
	ALGO_PERCENT,       /* uint32_t; written with % in rule files */
	ALGO_DECIMAL,       /* double */
	ALGO_WORD,          /* an enum */
	ALGO_TEXT,          /* const char * */
	ALGO_RATE,          /* struct weir_rate; its period has a fixed length */
	ALGO_CALENDAR_RATE, /* the same, but months and years are allowed */
};

/* A default: the count of the rate. */
#define ALGO_DEFAULT_AS_RATE UINT64_MAX

/* A default: the result of `derive`. */
#define ALGO_DEFAULT_DERIVED (UINT64_MAX - 1)

/* The effect of a parameter, which can depend on other options. */
enum parameter_effect {
	ALGO_USED,
	ALGO_IGNORED, /* accepted, but without effect, so listings leave it out */
	ALGO_REFUSED, /* an error if it is given */
};

struct algo_parameter {
	const char *name; /* in rule files; NULL at the end of a list */
	enum algo_type type;
	const char *field; /* the name of its field in struct weir_limit_options, or if `own` is not 0, */
	uint16_t offset, size; /* (of this field) */
	uint16_t own;          /* in the algorithm's own options, see parameter_own */
	bool required;
	/*
	 * The range of a number, a decimal, a time (ns; its least is 0, 1 or a millisecond), a rate's
	 * count, or a text's length in bytes. If the default is 0, the caller may pass 0 for 0.
	 */
	uint64_t min, max;
	uint64_t default_value; /* the default; one that is out of range means "none" */
	/* Computes the default ALGO_DEFAULT_DERIVED, from options with all other defaults filled in. */
	uint64_t (*derive)(const struct weir_limit_options *options);
	const char *text; /* an ALGO_TEXT's default; for documents, how a derived default is derived */
	const struct word *words; /* the values of an ALGO_WORD */
	/*
	 * The effect with these options, or NULL for ALGO_USED. If the parameter is refused, the error
	 * message names the parameter that excludes it, `rival`; without one, the message is "expected
	 * with `with` only, found `found`".
	 */
	enum parameter_effect (*effect)(const struct weir_limit_options *options);
	const char *rival, *with, *found;
};

/* Initializers for the field of a parameter. */
#define ALGO_FIELD(member)                                                                         \
	.offset = offsetof(struct weir_limit_options, member),                                         \
	.size = sizeof((struct weir_limit_options *)0)->member, .field = #member

/* The same for a field in the algorithm's own options. */
#define ALGO_OWN_FIELD(algorithm, member)                                                          \
	.own = offsetof(struct weir_limit_options, algorithm),                                         \
	.offset = offsetof(struct weir_##algorithm##_options, member),                                 \
	.size = sizeof((struct weir_##algorithm##_options *)0)->member, .field = #member

/* Parameters that several algorithms have. */
#define ALGO_RATE_ROW(most)                                                                        \
	{"rate", ALGO_RATE, ALGO_FIELD(rate), .required = true, .min = 1, .max = (most)}
#define ALGO_BURST_ROW(name)                                                                       \
	{                                                                                              \
		name, ALGO_NUMBER, ALGO_FIELD(burst), .min = 1, .max = ALGO_COUNT_MAX,                     \
		                                      .default_value = ALGO_DEFAULT_AS_RATE                \
	}
#define ALGO_MAX_WAIT_ROW(default_ns)                                                              \
	{                                                                                              \
		"max_wait", ALGO_TIME, ALGO_FIELD(max_wait_ns), .max = ALGO_PERIOD_MAX_NS,                 \
		                                                .default_value = (default_ns)              \
	}
#define ALGO_RETRY_ROW                                                                             \
	{                                                                                              \
		"retry", ALGO_TIME, ALGO_FIELD(retry_ns), .min = 1, .max = ALGO_PERIOD_MAX_NS,             \
		                                          .default_value = ALGO_RETRY_DEFAULT_NS           \
	}
#define ALGO_KEYS_ROW                                                                              \
	{"keys", ALGO_NUMBER, ALGO_FIELD(keys), .min = 1, .max = WEIR_CAPACITY_MAX}
#define ALGO_TIMEZONE_ROW(...)                                                                     \
	{"timezone", ALGO_TEXT, ALGO_FIELD(timezone), .min = 1, .max = 64, .text = "UTC", __VA_ARGS__}

#define ALGO_WAIT_DEFAULT_NS (30 * NS_PER_S)

#define ALGO_FIXED_LENGTH                                                                          \
	"expected a period of fixed length, found months or years, which only calendar windows "       \
	"(fixed_window) have"

/* Holds the own options of any algorithm. */
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

/** The field of a parameter's value. Points to zeros if the own options are missing. */
const void *parameter_field(const struct algo_parameter *parameter,
                            const struct weir_limit_options *options);
/** The same field for writing. Own options must be present, and belong to the caller. */
void *parameter_writable(const struct algo_parameter *parameter,
                         struct weir_limit_options *options);

/** Whether the options give the parameter a value. */
bool parameter_is_given(const struct algo_parameter *parameter,
                        const struct weir_limit_options *options);

static inline enum parameter_effect parameter_effect_in(const struct algo_parameter *parameter,
                                                        const struct weir_limit_options *options)
{
	return parameter->effect ? parameter->effect(options) : ALGO_USED;
}

/**
 * Reads an ALGO_NUMBER, ALGO_PERCENT or ALGO_TIME from the options, and writes it to them;
 * parameter_set writes a 0 that is not the default as WEIR_ZERO.
 */
uint64_t parameter_number(const struct algo_parameter *parameter,
                          const struct weir_limit_options *options);
void parameter_set(const struct algo_parameter *parameter, uint64_t value,
                   struct weir_limit_options *options);

/** Checks the value of one parameter. Errors as weir_limit_open: "rate: expected …". */
int parameter_check(const struct algo_parameter *parameter,
                    const struct weir_limit_options *options, struct weir_error *error);

/** Fills in the default if the parameter has no value, and replaces WEIR_ZERO by 0. */
void parameter_resolve(const struct algo_parameter *parameter, struct weir_limit_options *options);

#define PARAMETER_NAMES_MAX 200
/** Appends a name to a list, after a comma. */
void parameter_add_name(char names[PARAMETER_NAMES_MAX], const char *name);

/** The period of a rate, a year at most; for months and years, the longest. */
uint64_t parameter_period_ns(const struct weir_rate *rate);

#endif
