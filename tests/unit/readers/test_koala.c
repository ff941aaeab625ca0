/* Files in Koala's language: what they become, and every error of a bad one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "readers/koala/koala.h"
#include "rules/check.h"
#include "rules/remark.h"

#define RESULTS                                                                                    \
	"[result]\n"                                                                                   \
	"0 : { \"Ret_type\":0, \"Ret_code\":0 }\n"                                                     \
	"1 : { \"Ret_type\":1 }\n"                                                                     \
	"2 : { \"Ret_type\":2, \"Ret_code\" : 0, \"Err_no\":10 }\n"

#define RULES "[rules]\nrule : [direct] [a=1] [] [result=2; return=1]\n"

/* All remarks as lines "LINE:COLUMN: TEXT", warnings with a "warning: " before the text. */
static char *remarks_of(struct weir_config *config)
{
	struct buffer out = {0};

	assert_int_equal(remark_sort(config), 0);
	for (const struct rules_remark *remark = config->remarks.first; remark; remark = remark->next)
		buffer_printf(&out, "%u:%u: %s%s\n", remark->content.line, remark->content.column,
		              remark->content.is_error ? "" : "warning: ", remark->content.text);
	buffer_add(&out, "", 1);
	return out.data;
}

static struct weir_config *read_any(struct slice text)
{
	struct weir_config *config = weir_private_config_new();

	assert_non_null(config);
	assert_int_equal(koala_read(config, &(struct source){.text = text}), 0);
	rules_check(config);
	return config;
}

/* Rules with RESULTS behind them, which have no error and no warning. */
static struct weir_config *read_rules(const char *rules)
{
	struct buffer text = {0};
	struct weir_config *config;
	char *remarks;

	buffer_printf(&text, "[rules]\n%s" RESULTS, rules);
	config = read_any((struct slice){text.data, text.len});
	remarks = remarks_of(config);
	assert_string_equal(remarks, "");
	free(remarks);
	buffer_free(&text);
	return config;
}

static void assert_remarks_of(struct weir_config *config, const char *expected)
{
	char *remarks = remarks_of(config);

	assert_string_equal(remarks, expected);
	free(remarks);
}

/* `rules` has exactly these remarks. */
static void assert_remarks(const char *text, const char *expected)
{
	struct weir_config *config = read_any(slice_of(text));

	assert_remarks_of(config, expected);
	weir_config_close(config);
}

static void assert_rule_remarks(const char *rule, const char *expected)
{
	struct buffer text = {0};

	buffer_printf(&text, "[rules]\n%s\n" RESULTS, rule);
	buffer_add(&text, "", 1);
	assert_remarks(text.data, expected);
	buffer_free(&text);
}

/* Fields that a result leaves out. */
#define REST                                                                                       \
	",\"Err_msg\":\"\",\"Str_reason\":\"\",\"Need_vcode\":0,\"Vcode_len\":0,\"Vcode_type\":0,"     \
	"\"Other\":\"\","                                                                              \
	"\"Version\":0"

static void rules_become_limits(void **state)
{
	struct weir_config *config = read_rules(
	    "# a comment\n\n"
	    "rule : [count] [act=ask; uid=+;] [time=86400; count=1000;] [result=2; return=111]\n"
	    "\trule:[count][uid=+;act=ask][count=5;time=60][return=112;result=2] # behind it\r\n"
	    "rule : [base] [act=ask; ip=+;] [base=10; time=5; count=1;] [result=2; return=115]\n"
	    "rule : [leak] [ip=+] [time=100; count=10; erase1=2; erase2=4] [result=2; return=1201]\n"
	    "rule : [direct] [uid=1] [time=1; count=0;] [result=1; return=101]\n"
	    "rule : [direct] [uid=2] [] [result=2; return=102]\n"
	    "rule : [count] [a=1] [time=1; count=4294967296] [result=1; return=007]\n");
	const struct rules_limit *limits = config->limits;
	const struct rules_rule *rules = config->rules;

	(void)state;
	assert_int_equal(config->order, RULES_FIRST);
	assert_int_equal(config->limit_count, 5);
	assert_int_equal(config->rule_count, 7);
	assert_string_equal(limits[0].options.name, "111");
	assert_int_equal(limits[0].options.rate.count, 1000);
	assert_int_equal(limits[0].options.rate.unit, WEIR_UNIT_DAY);
	assert_int_equal(limits[0].options.align, WEIR_ALIGN_CALENDAR);
	assert_string_equal(limits[0].options.timezone, "Asia/Shanghai");
	assert_int_equal(limits[1].options.rate.count, 5);
	assert_int_equal(limits[1].options.rate.period, 60);
	assert_int_equal(limits[1].options.align, WEIR_ALIGN_FIRST_REQUEST);
	assert_null(limits[1].options.timezone);
	assert_int_equal(limits[2].options.base, 10);
	assert_string_equal(limits[2].options.timezone, "Asia/Shanghai");
	assert_int_equal(limits[3].options.rate.period, 100);
	assert_int_equal(limits[4].options.rate.count, 4294967296);
	assert_string_equal(limits[4].options.name, "7");

	assert_string_equal(rules[0].name, "111");
	assert_int_equal(rules[0].key_count, 2);
	assert_string_equal(rules[1].key[0], "act"); /* in alphabetical order */
	assert_string_equal(rules[1].key[1], "uid");
	assert_int_equal(rules[1].limits[0], 1);
	assert_string_equal(rules[0].result, "{\"Ret_type\":2,\"Ret_code\":111,\"Err_no\":10" REST "}");
	assert_int_equal(rules[3].feedback[0], 2);
	assert_int_equal(rules[3].feedback[1], 4);
	assert_int_equal(rules[4].answer, RULES_ALLOW);
	assert_int_equal(rules[4].limit_count, 0);
	assert_int_equal(rules[4].key_count, 0);
	assert_string_equal(rules[4].result, "{\"Ret_type\":1,\"Ret_code\":101,\"Err_no\":0" REST "}");
	assert_int_equal(rules[5].answer, RULES_DENY);
	assert_int_equal(rules[6].answer, RULES_ALLOW); /* past its limit it lets pass */
	assert_int_equal(rules[6].limit_count, 1);
	assert_string_equal(config->koala.unmatched,
	                    "{\"Ret_type\":0,\"Ret_code\":0,\"Err_no\":0" REST "}");
	assert_string_equal(config->koala.unexceeded,
	                    "{\"Ret_type\":1,\"Ret_code\":0,\"Err_no\":0" REST "}");
	weir_config_close(config);
}

/* `conditions` become "name test[!] ..." */
static void assert_conditions(const char *conditions, const char *expected, const char *key)
{
	static const char *const tests[] = {
	    [RULES_EQUAL] = "=",     [RULES_IP_RANGE] = "range", [RULES_IP_PATTERN] = "pattern",
	    [RULES_NUMBERS] = "1-5", [RULES_ANY] = "+",
	};
	struct buffer text = {0}, found = {0}, names = {0};
	struct weir_config *config;
	const struct rules_rule *rule;

	buffer_printf(&text, "rule : [count] [%s] [time=1; count=1] [result=2; return=1]\n",
	              conditions);
	buffer_add(&text, "", 1);
	config = read_rules(text.data);
	rule = &config->rules[0];
	for (size_t i = 0; i < rule->condition_count; i++) {
		const struct rules_condition *condition = &rule->conditions[i];

		buffer_printf(&found, "%s%s:%s", i ? " " : "", condition->attribute,
		              condition->negated ? "!" : "");
		for (size_t j = 0; j < condition->value_count; j++)
			buffer_printf(
			    &found, "%s%s%.*s", j ? "," : "", tests[condition->values[j].test],
			    condition->values[j].test == RULES_EQUAL ? (int)condition->values[j].text.len : 0,
			    condition->values[j].text.data);
	}
	for (size_t i = 0; i < rule->key_count; i++)
		buffer_printf(&names, "%s%s", i ? " " : "", rule->key[i]);
	buffer_add(&found, "", 1);
	buffer_add(&names, "", 1);
	assert_string_equal(found.data, expected);
	assert_string_equal(names.data, key);
	weir_config_close(config);
	buffer_free(&text);
	buffer_free(&found);
	buffer_free(&names);
}

static void every_operator_is_read(void **state)
{
	(void)state;
	assert_conditions("k=v", "k:=v", "k");
	assert_conditions(" k = v1 , v2 ;; ", "k:=v1,=v2", "k");
	assert_conditions("k=v1,v2{~}", "k:=v1,=v2", "");
	assert_conditions("k=v1,v2 {~}; a=+", "k:=v1,=v2 a:+", "a");
	assert_conditions("k!=v,w", "k:!=v,=w", "k");
	assert_conditions("k>5", "k:1-5", "k");
	assert_conditions("k < -5", "k:1-5", "k");
	assert_conditions("k=1-5,7,x-y", "k:1-5,=7,=x-y", "k");
	assert_conditions("k=add-comment", "k:=add-comment", "k");
	assert_conditions("k=a*,+b", "k:=a*,=+b", "k");
	assert_conditions("k=10.0.24.*,10.*.0.*,10.0.0.0/8,::1-::5,10.0.0.1",
	                  "k:range,pattern,range,range,=10.0.0.1", "k");
	assert_conditions("ip=10.0.0.1,::1", "ip:range,range", "ip");
	assert_conditions("b=1; a=2; b!=3", "b:=1 b:!=3 a:=2", "a b");
	assert_conditions("b=1{~}; a=2; b!=3", "b:=1 b:!=3 a:=2", "a");
	assert_conditions("k=\\*", "k:=\\*", "k");
	assert_conditions("k=x=y", "k:=x=y", "k");
}

static void every_error_of_a_file_is_told(void **state)
{
	(void)state;
	assert_remarks("x\n"
	               "[rules]\n"
	               "rule : [cont] [a=+;] [time=1; count=1;] [result=2; return=1]\n"
	               "rule : [count] [a=; b>2x] [time=0; cont=10;] [result=2; return=2]\n"
	               "rule : [count] [a; c=5-1] [time=1; count=1;] [result=9; return=3]\n"
	               "\n"
	               "  rule : [leak] [a=+] [time=1; count=10001] [result=2; return=4\n"
	               "rule : [leak] [ä=+] [time=1; count=10001] [result=2; return=4] x\n" RESULTS,
	               "1:1: expected the sections [dicts], [rules] and [result], each once and in "
	               "this order, found \"x\"\n"
	               "3:9: expected a method (direct, count, base, leak), found \"cont\"\n"
	               "4:19: expected a value, found nothing\n"
	               "4:23: expected a whole number of 64 bits that others are beyond, found \"2x\"\n"
	               "4:28: expected count in the thresholds of the method, found none\n"
	               "4:33: expected a whole number from 1 to 2147483647, found \"0\"\n"
	               "4:36: expected one of base, time, count, erase1, erase2, found \"cont\"\n"
	               "5:17: expected a condition such as act=ask, uid>5, uid!=7 or ip @ crawlers, "
	               "found \"a\"\n"
	               "5:22: expected a range such as 1-5 of whole numbers of 64 bits, the smaller "
	               "one first, found \"5-1\"\n"
	               "5:54: expected a result that the section [result] has, found 9\n"
	               "7:45: expected four parts [method] [conditions] [thresholds] [answer], found "
	               "3\n"
	               "8:64: expected the end of the line after the four parts of a rule, found "
	               "\"x\"\n");
}

static void thresholds_are_checked(void **state)
{
	(void)state;
	assert_rule_remarks(
	    "rule : [leak] [a=1] [time=1; count=4294967297; erase1=x] [result=2; return=1]",
	    "2:36: expected a whole number from 1 to 4294967296, found \"4294967297\"\n"
	    "2:55: expected a whole number from 0 to 4294967296, found \"x\"\n");
	assert_rule_remarks("rule : [count] [a=1] [time=1; count=0] [result=2; return=1]",
	                    "2:37: expected a whole number from 1 to 4294967296, found \"0\": to deny "
	                    "every request that meets the conditions, write [direct] as the method\n");
	assert_rule_remarks("rule : [leak] [a=1] [time=1; count=00] [result=2; return=1]",
	                    "2:36: expected a whole number from 1 to 4294967296, found \"00\": to deny "
	                    "every request that meets the conditions, write [direct] as the method\n");
	assert_rule_remarks(
	    "rule : [base] [a=1] [base=5; time=1; count=0] [result=2; return=1]",
	    "2:44: expected a whole number from 1 to 4294967296, found \"0\": to deny every request past "
	    "the base of a day, write [count] with the base as its count and time=86400\n");
	assert_rule_remarks("rule : [base] [a=1] [time=1; count=1] [result=2; return=1]",
	                    "2:22: expected base in the thresholds of the method, found none\n");
	assert_rule_remarks(
	    "rule : [count] [a=1] [time=1; count=0; count=5] [result=2; return=1]",
	    "2:40: warning: expected each name once, found \"count\" again: the last counts\n");
	assert_rule_remarks("rule : [count] [a=1] [time=2147483648; count=-1] [result=2; return=1]",
	                    "2:28: expected a whole number from 1 to 2147483647, found \"2147483648\"\n"
	                    "2:46: expected a whole number from 1 to 4294967296, found \"-1\"\n");
	assert_rule_remarks("rule : [count] [a=1] [time=1; count=] [result=2; return=1; x=2]",
	                    "2:37: expected a whole number from 1 to 4294967296, found nothing\n"
	                    "2:60: expected one of result, return, found \"x\"\n");
	assert_rule_remarks("rule : [direct] [a=1] [time=a] [result=2; return=1]",
	                    "2:29: expected a whole number, found \"a\"\n");
	assert_rule_remarks(
	    "rule : [count] [a=1] [time=1; count=1; base=1; erase2=1] [result=2; return=1]",
	    "2:45: warning: expected no base in the thresholds of this method, found "
	    "it: the method ignores it\n"
	    "2:55: warning: expected no erase2 in the thresholds of this method, found "
	    "it: the method ignores it\n");
	assert_rule_remarks("rule : [count] [a=1] [time=1; count=1] []",
	                    "2:41: expected result in an answer, found none\n"
	                    "2:41: expected return in an answer, found none\n");
	assert_rule_remarks(
	    "rule : [count] [a=1] [time=1; count=1] [result=0; return=0]",
	    "2:48: expected a whole number from 1 to 9223372036854775807, found \"0\"\n"
	    "2:58: expected a whole number from 1 to 9223372036854775807, found \"0\"\n");
}

/* These have an effect in Koala, and maybe not the one that was meant. */
static void what_koala_accepts_is_accepted(void **state)
{
	struct weir_config *config;

	(void)state;
	config = read_any(SLICE(
	    "[DICTS]\n[Rules] # here\n"
	    "Rule : [direct] [a=ask,; ip=010.000.024.*] [count=-1; base=+5] [result=2; return=1]\n"
	    "RULE:[count] [a=+] [time=5; time=60; count=1; count=2] [result=1; result=2; return=2]\n"
	    "rule : [count] [a=b,,c,] [time=2147483647; count=2] [result=2; return=3]\n"
	    "rule : [leak] [a=+] [time=100; count=10000; erase1=2] [result=2; return=4]\n"
	    "rule : [leak] [a=+] [time=100; count=10001; erase1=2] [result=2; return=5]\n"
	    "rule : [leak] [a=+] [time=31622400; count=20000] [result=2; return=6]\n"
	    "[RESULT]\n0:{}\n1:{}\n2:{}\n"));
	assert_remarks_of(
	    config, "3:20: warning: expected a value before and behind each comma, found \"ask,\"\n"
	            "4:29: warning: expected each name once, found \"time\" again: the last counts\n"
	            "4:47: warning: expected each name once, found \"count\" again: the last counts\n"
	            "4:67: warning: expected each name once, found \"result\" again: the last counts\n"
	            "5:19: warning: expected a value before and behind each comma, found \"b,,c,\"\n"
	            "5:32: warning: expected a time of at most 31622400 s, found 2147483647: Weir "
	            "uses 31622400 s\n"
	            "7:38: warning: expected a count of at most 10000, found 10001: Weir counts it by "
	            "hundredths of "
	            "the time, so a unit comes back up to a hundredth later\n"
	            "8:27: warning: expected a time of at most 31309300 s, found 31622400: Weir uses "
	            "31309300 s\n"
	            "8:43: warning: expected a count of at most 10000, found 20000: Weir counts it by "
	            "hundredths of "
	            "the time, so a unit comes back up to a hundredth later\n");
	assert_int_equal(config->rules[0].condition_count, 2);
	assert_int_equal(config->rules[0].conditions[0].value_count, 1);
	assert_int_equal(config->rules[0].conditions[1].values[0].test, RULES_IP_RANGE);
	assert_int_equal(config->limits[0].options.rate.count, 2);
	assert_int_equal(config->limits[0].options.rate.period, 60);
	assert_int_equal(config->rules[1].answer, RULES_BY_LIMITS);
	assert_int_equal(config->rules[2].conditions[0].value_count, 2);
	assert_int_equal(config->limits[2].options.algorithm, WEIR_ALGORITHM_SLIDING_LOG);
	assert_int_equal(config->limits[3].options.algorithm, WEIR_ALGORITHM_SLIDING_WINDOW);
	assert_int_equal(config->limits[3].options.rate.period,
	                 101000); /* 101 parts, a hundred of which are `time` */
	assert_int_equal(config->limits[3].options.rate.unit, WEIR_UNIT_MILLISECOND);
	assert_int_equal(config->rules[4].feedback[0], 2);
	weir_config_close(config);
}

static void codes_are_unique(void **state)
{
	(void)state;
	assert_rule_remarks("rule : [count] [a=1] [time=1; count=1] [result=2; return=1]\n"
	                    "rule : [direct] [a=1] [] [result=2; return=01]",
	                    "3:44: expected each rule once, found \"1\" again; the other one is at "
	                    "2:58\n");
}

static void rules_that_decide_nothing_are_warned_of(void **state)
{
	(void)state;
	assert_rule_remarks(
	    "rule : [direct] [a=1,2; a=3] [] [result=2; return=1]\n"
	    "rule : [direct] [a>5; a=1-5,x] [] [result=2; return=2]\n"
	    "rule : [direct] [a>5; a=7,1-2] [] [result=2; return=3]\n"
	    "rule : [direct] [a!=+] [] [result=2; return=4]\n"
	    "rule : [direct] [b=1] [] [result=2; return=5]\n"
	    "rule : [count] [c=2; b=1] [time=1; count=1] [result=2; return=6]\n"
	    "rule : [count] [b=1,2] [time=1; count=1] [result=2; return=7]\n"
	    "rule : [direct] [] [] [result=2; return=8]\n"
	    "rule : [direct] [_d=1] [] [result=2; return=9]",
	    "2:25: warning: expected conditions that a request can meet, found ones "
	    "that exclude each other in rule \"1\"\n"
	    "5:18: warning: expected conditions that a request can meet, found one that "
	    "no value meets in rule \"4\"\n"
	    "7:63: warning: expected requests to reach rule \"6\", found \"5\" before it, "
	    "which answers all of them\n"
	    "9:18: warning: expected conditions, found none: the rule applies to every "
	    "request\n"
	    "10:18: warning: expected a parameter that does not begin with _, found \"_d\": no "
	    "condition can match it\n"
	    "10:45: warning: expected requests to reach rule \"9\", found \"8\" before it, "
	    "which answers all of them\n");
}

static void conditions_that_take_away_what_others_ask_for_are_warned_of(void **state)
{
	(void)state;
	assert_rule_remarks("rule : [direct] [a=1,x; a!=x,y,1] [] [result=2; return=1]\n"
	                    "rule : [direct] [a!=10.0.0.0/8; a=10.0.0.0/8] [] [result=2; return=2]\n"
	                    "rule : [direct] [a=1,2; a!=1] [] [result=2; return=3]\n"
	                    "rule : [direct] [a=1; b!=1] [] [result=2; return=4]\n"
	                    "rule : [direct] [a=+; a!=1] [] [result=2; return=5]\n"
	                    "rule : [direct] [a!=1; a!=1] [] [result=2; return=6]",
	                    "2:25: warning: expected conditions that a request can meet, found ones "
	                    "that exclude each other in rule \"1\"\n"
	                    "3:33: warning: expected conditions that a request can meet, found ones "
	                    "that exclude each other in rule \"2\"\n");
}

/* `condition` of a rule has this warning, whose column is that of `value`. */
static void assert_doubt(const char *condition, const char *value, const char *warning)
{
	struct buffer rule = {0}, expected = {0};

	buffer_printf(&rule, "rule : [count] [%s] [time=1; count=1] [result=2; return=1]", condition);
	buffer_add(&rule, "", 1);
	if (warning)
		buffer_printf(&expected, "2:%u: warning: expected %s",
		              17 + (unsigned)(strstr(condition, value) - condition), warning);
	buffer_add_text(&expected, warning ? "\n" : "");
	buffer_add(&expected, "", 1);
	assert_rule_remarks(rule.data, expected.data);
	buffer_free(&rule);
	buffer_free(&expected);
}

#define AS_TEXT(found)   ", found \"" found "\", which Weir reads as text"
#define MEANT(found, is) AS_TEXT(found) ": did you mean \"" is "\"?"
#define ADDRESS          "an address like 10.0.*.*, or a range like 10.0.0.1-10.0.0.9 or 10.0.0.0/8"

static void texts_that_are_surely_slips_are_warned_of(void **state)
{
	static const char *const meant[] = {"a=x=y",       "a=abc==",        "a==",           "a=!",
	                                    "a=@bob",      "a=<b>",          "a=add-comment", "a=a*,+b",
	                                    "a=1.2.3.400", "a=1.2.3.4-beta", "a=2024-11-05",  "a=it's",
	                                    "a=\"",        "a=+49 151 1",    "a=x y,z",       "a=~,{}",
	                                    "a=1/2",       "a=k,v=",         "a=::1-x"};

	(void)state;
	assert_doubt("a==5", "=5", "one operator" MEANT("=5", "a=5"));
	assert_doubt("a!==5", "=5", "one operator" MEANT("=5", "a!=5"));
	assert_doubt("a=x,!y", "!y", "one operator" MEANT("!y", "a!=y"));
	assert_doubt("a= != x", "!= x", "one operator" MEANT("!= x", "a!=x"));
	assert_doubt("a=>5", ">5", "one operator" MEANT(">5", "a>5"));
	assert_doubt("a=1 - 3", "1 -", "a range without blanks" MEANT("1 - 3", "1-3"));
	assert_doubt("a=3 - 1", "3 -", "a range without blanks" MEANT("3 - 1", "3-1"));
	assert_doubt("a!=x,10.0.0.0 /8", "10",
	             "a range without blanks" MEANT("10.0.0.0 /8", "10.0.0.0/8"));
	assert_doubt("a=1{~", "1",
	             "{~} after the last value of a condition, or nowhere" AS_TEXT("1{~"));
	assert_doubt("a=1{~},2", "1",
	             "{~} after the last value of a condition, or nowhere" AS_TEXT("1{~}"));
	assert_doubt("a=*", "*", "+ for any value" MEANT("*", "a=+"));
	assert_doubt("a=\"ask\"", "\"ask", "a value without quotes" MEANT("\"ask\"", "ask"));
	assert_doubt("a=ask uid=+", "ask",
	             "a semicolon before the next condition" MEANT("ask uid=+", "ask; uid=+"));
	assert_doubt("a=ask,uid>5", "uid",
	             "a semicolon before the next condition" MEANT("uid>5", "; uid>5"));
	assert_doubt("ip=256.0.0.*", "256", ADDRESS AS_TEXT("256.0.0.*"));
	assert_doubt("ip=10.*", "10", ADDRESS MEANT("10.*", "10.*.*.*"));
	assert_doubt("host=10.0.*", "10", ADDRESS MEANT("10.0.*", "10.0.*.*"));
	assert_doubt("host=1.2.3.4.*", "1", ADDRESS AS_TEXT("1.2.3.4.*"));
	assert_doubt("host=10.0.0.1-9", "10", ADDRESS MEANT("10.0.0.1-9", "10.0.0.1-10.0.0.9"));
	assert_doubt("host=10.0.0.1-10.0.0.256", "10", ADDRESS AS_TEXT("10.0.0.1-10.0.0.256"));
	assert_doubt("host=10.0.0.300/24", "10", ADDRESS AS_TEXT("10.0.0.300/24"));
	assert_doubt("ip=10.0.0.300", "10", ADDRESS AS_TEXT("10.0.0.300"));
	assert_doubt(
	    "ip=localhost", "localhost",
	    "an address, or a form of several, found \"localhost\": no address is equal to it");
	for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
		assert_doubt(meant[i], "", NULL);
}

#define ORDER                                                                                      \
	": expected the sections [dicts], [rules] and [result], each once and in this order, found "
#define ONE_RULE "rule : [direct] [a=1] [] [result=2; return=1]\n"

static void a_mistake_has_one_error_and_none_that_follows_from_it(void **state)
{
	char path[] = "/tmp/weir-koala-XXXXXX";
	struct buffer text = {0};
	int empty;

	(void)state;
	assert_remarks("[Dicts\n[rules # here\n" ONE_RULE "result]\n0:{}\n1:{}\n2:{}\n",
	               "1:1" ORDER "\"[Dicts\"\n"
	               "2:1" ORDER "\"[rules # here\"\n"
	               "4:1" ORDER "\"result]\"\n");
	assert_remarks("[ dict ]\n[RULE]\n" ONE_RULE "[results]\n0:{}\n1:{}\n2:{}\n",
	               "1:1" ORDER "\"[ dict ]\"\n"
	               "2:1" ORDER "\"[RULE]\"\n"
	               "4:1" ORDER "\"[results]\"\n");
	assert_remarks("rules\n" ONE_RULE "result\n0:{}\n1:{}\n2:{}\n", "1:1" ORDER "\"rules\"\n"
	                                                                "3:1" ORDER "\"result\"\n");
	/* No headers at all, and what stands before the first. */
	assert_remarks(ONE_RULE "0 : {}\n1:{}\n2:{}\n",
	               "1:1" ORDER "\"rule : [direct] [a=1] [] [result=2; return=1]\"\n"
	               "2:1" ORDER "\"0 : {}\"\n");
	assert_remarks("x\ny\nz\n" RULES RESULTS, "1:1" ORDER "\"x\"\n");
	empty = mkstemp(path);
	assert_true(empty >= 0);
	close(empty);
	buffer_printf(&text,
	              "[dicts]\nd : %s\n[rules]\n"
	              "rule : [count [a @ d] [time=1; count=1] [result=2; return=1]\n"
	              "rule : [count] [b=1 [time=1; count=1] [result=2; return=2]\n"
	              "rule : [count] c=1] [time=1; count=1] [result=2; return=3]\n"
	              "[count] [d=1] [time=1; count=1] [result=2; return=4]\n"
	              "rule : [count] [\x01] [time=1; count=1] [result=9; return=5]\n" RESULTS,
	              path);
	assert_remarks(
	    text.data,
	    "4:15: expected ] before the next part of a rule, found [\n"
	    "5:21: expected ] before the next part of a rule, found [\n"
	    "6:16: expected four parts [method] [conditions] [thresholds] [answer], found 1\n"
	    "7:1: expected rule : [method] [conditions] [thresholds] [answer], found "
	    "\"[count] [d=1] [time=1; count=1] [result=2; retur…\"\n"
	    "8:17: expected text in UTF-8 without control characters, found the byte 0x01\n"
	    "0:0: warning: expected a word or an address on each line, found none: this "
	    "dictionary matches no value\n");
	buffer_free(&text);
	assert_int_equal(remove(path), 0);
	assert_remarks(RULES "[result]\nO : {}\n1 : {}\n2 {}\n",
	               "4:1: expected a whole number from 0 to 9223372036854775807, found \"O\"\n"
	               "6:1: expected a result such as 2 : { \"Ret_type\":2 }, found \"2 {}\"\n");
}

static void a_file_without_rules_is_warned_of(void **state)
{
	(void)state;
	assert_remarks("# nothing\n[rules] # here\n" RESULTS,
	               "2:1: warning: expected rules in the section [rules], found none\n");
	assert_remarks("[dicts]\n" RESULTS, "0:0: warning: expected the section [rules], found none\n");
	assert_rule_remarks("rule : [count] [ ; ] [time=1; count=1] [result=2; return=1]",
	                    "2:18: warning: expected conditions, found none: the rule applies to every "
	                    "request\n");
}

static void results_are_checked(void **state)
{
	(void)state;
	assert_remarks("[rules]\nrule : [direct] [a=1] [] [result=2; return=1]\n",
	               "0:0: expected the section [result], found none\n");
	assert_remarks("[rules]\n[result]\n0:{}\n",
	               "1:1: warning: expected rules in the section [rules], found none\n"
	               "2:1: expected result 1, the answer to a request that no rule denies, found "
	               "none\n");
	assert_remarks(
	    RULES RESULTS
	    "2:{}\n-1:{}\n3\n4:[]\n5:{\"a\":1,}\n6:{\"a\":01}\n7:{\"a\":1,\"\\u0061\":2}\n"
	    "8:{\"a\"}\n9:{\"a\":\"\\x\"}\n10:{\"a\":\"\\ud800\"}\n11:{\"Limit\":1}\n12:{} x\n"
	    "13:{\"a\n[rules] # x\n",
	    "7:1: expected each result once, found 2 again\n"
	    "8:1: expected a whole number from 0 to 9223372036854775807, found \"-1\"\n"
	    "9:1: expected a result such as 2 : { \"Ret_type\":2 }, found \"3\"\n"
	    "10:3: expected an object of JSON such as { \"Ret_type\":2 }, found \"[]\"\n"
	    "11:10: expected a field's name in quotes, found \"}\"\n"
	    "12:8: expected a value of JSON, found \"01}\"\n"
	    "13:10: expected each field once, found \"\"\\u0061\"\"\n"
	    "14:7: expected a colon, found \"}\"\n"
	    "15:10: expected an escape of JSON, found \"x\"}\"\n"
	    "16:11: expected both halves of a character, found \"ud800\"}\"\n"
	    "17:5: expected a name that the answer itself does not use (allowed, limit, "
	    "quota, remaining, retry_after_ms, reset_after_ms, wait_ms, reason, degraded, rule, "
	    "permit, error), found \"Limit\"\n"
	    "18:7: expected the end of the line after a result, found \"x\"\n"
	    "19:7: expected the end of a text in quotes, found nothing\n"
	    "20:1: expected the sections [dicts], [rules] and [result], each once and in "
	    "this order, found \"[rules] # x\"\n");
}

static void nesting_and_fields_are_bounded(void **state)
{
	struct buffer text = {0};

	(void)state;
	buffer_add_text(&text, RULES RESULTS "3:{\"a\":");
	for (int i = 0; i < 100; i++)
		buffer_add_text(&text, "[");
	buffer_add_text(&text, "\n4:{\"0\":1");
	for (int i = 1; i <= 256; i++)
		buffer_printf(&text, ",\"%d\":1", i);
	buffer_add_text(&text, "}\n5:{\"a\":\"");
	for (int i = 0; i < 5000; i++)
		buffer_add_text(&text, "x");
	buffer_add(&text, "\"}", 3);
	assert_remarks(text.data, "7:23: expected objects and lists nested less deep, found "
	                          "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[…\"\n"
	                          "8:1942: expected fewer fields in an object, found \"\"256\"\"\n"
	                          "9:5011: expected at most 4032 bytes as JSON, found more\n");
	buffer_free(&text);
}

static void bytes_that_no_text_has_are_refused(void **state)
{
	(void)state;
	assert_rule_remarks("# \xff\nrule : [count] [a=\x01] [time=1; count=1] [result=2; return=1]\n",
	                    "2:3: expected text in UTF-8 without control characters, found the byte "
	                    "0xff\n"
	                    "3:19: expected text in UTF-8 without control characters, found the byte "
	                    "0x01\n");
}

static void dictionaries_are_opened(void **state)
{
	char directory[] = "/tmp/weir-koala-XXXXXX", path[96];
	struct weir_config *config;
	struct buffer text = {0};
	struct source source;
	const struct rules_condition *conditions;
	char *remarks;
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/staff.dat", directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("ann\n\nbob\n10.0.0.0/8\n", file);
	fclose(file);
	buffer_add_text(
	    &text, "[dicts]\n"
	           "staff : staff.dat # who works here\n"
	           "none:nothing.dat\n"
	           "unused : staff.dat\n"
	           "staff : staff.dat\n"
	           "[rules]\n"
	           "rule : [direct] [a @ staff; b !@ staff] [] [result=2; return=1]\n"
	           "rule : [direct] [a@none; b ! @ staff; c @ staf] [] [result=2; return=2]\n" RESULTS);
	config = weir_private_config_new();
	source = (struct source){{text.data, text.len}, "x", directory};
	assert_int_equal(koala_read(config, &source), 0);
	remarks = remarks_of(config);
	assert_string_equal(
	    remarks,
	    "3:6: expected a dictionary, found \"nothing.dat\": expected a readable file, found: No "
	    "such "
	    "file or directory\n"
	    "4:1: warning: expected a rule that uses the dictionary \"unused\", found none\n"
	    "5:1: expected each dictionary once, found \"staff\" again\n"
	    "8:26: expected a condition such as act=ask, uid>5, uid!=7 or ip @ crawlers, found \"b ! "
	    "@ staff\"\n"
	    "8:43: expected the name of a dictionary of the section [dicts], found \"staf\"\n");
	conditions = config->rules[0].conditions;
	assert_int_equal(conditions[0].values[0].test, RULES_LISTED);
	assert_true(dictionary_has(conditions[0].values[0].dictionary, SLICE("ann"), NULL));
	assert_false(dictionary_has(conditions[0].values[0].dictionary, SLICE(""), NULL));
	assert_false(conditions[0].negated);
	assert_true(conditions[1].negated);
	assert_ptr_equal(conditions[0].values[0].dictionary, conditions[1].values[0].dictionary);
	assert_string_equal(config->files->path, path); /* once */
	assert_non_null(strstr(config->files->next->path, "/nothing.dat"));
	assert_null(config->files->next->next);
	free(remarks);
	weir_config_close(config);
	buffer_free(&text);
	assert_int_equal(remove(path), 0);
	assert_int_equal(remove(directory), 0);
}

static void json_is_kept_as_it_is(void **state)
{
	struct weir_config *config = read_any(SLICE(
	    "\xef\xbb\xbf[rules]\r\n"
	    "rule : [direct] [a=1] [] [result=2; return=5]\r\n"
	    "[result]\r\n"
	    "0:{ } # nothing\r\n"
	    "1:{\"a\\/\\u00e9\\n\\ud83d\\ude00\" :\t[ 1 , -2.50e+3, true,null , {\"Ret_code\":1}]}\n"
	    "2: {\"x\":{\"Ret_code\":1},\"Ret_code\":{\"a\":[]},\"y\":\"#\"}"));

	(void)state;
	assert_int_equal(config->remarks.count, 0);
	assert_string_equal(config->koala.unmatched,
	                    "{\"Ret_type\":0,\"Ret_code\":0,\"Err_no\":0" REST "}");
	assert_string_equal(
	    config->koala.unexceeded,
	    "{\"a/é\\u000a😀\":[1,-2.50e+3,true,null,{\"Ret_code\":1}],\"Ret_type\":0,\"Ret_code\":0,"
	    "\"Err_no\":0" REST "}");
	assert_string_equal(
	    config->rules[0].result,
	    "{\"x\":{\"Ret_code\":1},\"Ret_code\":5,\"y\":\"#\",\"Ret_type\":0,\"Err_no\":0" REST "}");
	weir_config_close(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rules_become_limits),
	    cmocka_unit_test(every_operator_is_read),
	    cmocka_unit_test(every_error_of_a_file_is_told),
	    cmocka_unit_test(thresholds_are_checked),
	    cmocka_unit_test(what_koala_accepts_is_accepted),
	    cmocka_unit_test(codes_are_unique),
	    cmocka_unit_test(rules_that_decide_nothing_are_warned_of),
	    cmocka_unit_test(conditions_that_take_away_what_others_ask_for_are_warned_of),
	    cmocka_unit_test(texts_that_are_surely_slips_are_warned_of),
	    cmocka_unit_test(a_mistake_has_one_error_and_none_that_follows_from_it),
	    cmocka_unit_test(a_file_without_rules_is_warned_of),
	    cmocka_unit_test(results_are_checked),
	    cmocka_unit_test(nesting_and_fields_are_bounded),
	    cmocka_unit_test(bytes_that_no_text_has_are_refused),
	    cmocka_unit_test(dictionaries_are_opened),
	    cmocka_unit_test(json_is_kept_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
