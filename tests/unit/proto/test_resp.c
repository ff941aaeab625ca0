/* Reads commands of RESP however their bytes are split, and writes their replies. */
#include "drive.h"

#include <stdio.h>

#include "proto/resp/resp.h"
#include "proto/resp/resp_session.h"

static const struct reply passed = {
    .decision = {.allowed = true,
                 .quota = 10,
                 .remaining = 9,
                 .reset_after_ns = 200000001,
                 .limit = "login",
                 .rule = "by-ip"},
};

static const struct reply denied = {
    .decision = {.reason = WEIR_REASON_OVER_LIMIT,
                 .quota = 10,
                 .retry_after_ns = 1,
                 .reset_after_ns = 2000000000},
};

static struct codec_bounds bounds(void)
{
	return CODEC_BOUNDS_DEFAULT;
}

/* Sends `line` as an array of bulk strings, its words parted by blanks. */
static struct slice as_array(const char *line, char *room, size_t size)
{
	size_t words = 1, len;

	for (const char *p = line; *p; p++)
		words += *p == ' ';
	len = (size_t)snprintf(room, size, "*%zu\r\n", words);
	while (true) {
		size_t word = strcspn(line, " ");

		len += (size_t)snprintf(room + len, size - len, "$%zu\r\n%.*s\r\n", word, (int)word, line);
		if (!line[word])
			return (struct slice){room, len};
		line += word + 1;
	}
}

struct exchange {
	const char *command;
	const char *request; /* "" for what is answered on the spot */
	const char *out;
};

static void run(const struct exchange *table, size_t n, const struct reply *reply)
{
	struct codec_bounds input = bounds();
	char room[512];

	for (size_t i = 0; i < n; i++)
		assert_false(drive_all(&resp_codec, &input, reply,
		                       as_array(table[i].command, room, sizeof room), table[i].request,
		                       table[i].out));
}

#define RUN(reply, ...)                                                                            \
	do {                                                                                           \
		static const struct exchange table[] = {__VA_ARGS__};                                      \
		run(table, sizeof table / sizeof *table, reply);                                           \
	} while (0)

static void test_limits_and_rules_become_requests_and_seven_or_nine_elements(void **state)
{
	(void)state;
#define SEVEN ":1\r\n:10\r\n:9\r\n:0\r\n:201\r\n$2\r\nok\r\n$0\r\n\r\n"
	RUN(&passed, {"WEIR.ACQUIRE login k", "acquire limit login/k cost 1\n", "*7\r\n" SEVEN},
	    {"WEIR.ACQUIRE l k wait 250 COST 2", "acquire limit l/k cost 2 wait 250000000 ns\n",
	     "*7\r\n" SEVEN},
	    {"WEIR.ACQUIRE l k WAIT 0", "acquire limit l/k cost 1 no wait\n", "*7\r\n" SEVEN},
	    {"WEIR.ACQUIRE l k permit COST 2", "acquire limit l/k cost 2 with permit\n",
	     "*7\r\n" SEVEN},
	    {"WEIR.REFUND l k PERMIT p", "refund limit l/k cost all of permit [p]\n", "*7\r\n" SEVEN},
	    {"WEIR.REFUND l k PERMIT p COST 3", "refund limit l/k cost 3 of permit [p]\n",
	     "*7\r\n" SEVEN},
	    {"WEIR.REPORT p ignored 12",
	     "acquire report cost all of permit [p] outcome 3 after 12 ms\n", "+OK\r\n"},
	    {"weir.acquire login k cost 4", "acquire limit login/k cost 4\n", "*7\r\n" SEVEN},
	    {"WEIR.PEEK login k COST 0", "peek limit login/k cost 0\n", "*7\r\n" SEVEN},
	    {"Weir.Refund login k", "refund limit login/k cost 1\n", "*7\r\n" SEVEN},
	    {"WEIR.RESET login ", "reset limit login/ cost 1\n", "*7\r\n" SEVEN},
	    {"WEIR.CHECK path /login ip ::1", "acquire rules path=/login ip=::1 cost 1\n",
	     "*9\r\n" SEVEN "$5\r\nlogin\r\n$5\r\nby-ip\r\n"},
	    {"WEIR.CHECKPEEK path /login", "peek rules path=/login cost 1\n",
	     "*9\r\n" SEVEN "$5\r\nlogin\r\n$5\r\nby-ip\r\n"});
	RUN(&denied, {"WEIR.CHECK path /", "acquire rules path=/ cost 1\n",
	              "*9\r\n:0\r\n:10\r\n:0\r\n:1\r\n:2000\r\n$10\r\nover_limit\r\n$0\r\n\r\n$"
	              "0\r\n\r\n$0\r\n\r\n"});
}

static void test_cl_throttle_has_a_token_more_and_throttle_the_other_polarity(void **state)
{
	(void)state;
	RUN(&passed,
	    {"CL.THROTTLE k 9 5 60", "acquire adhoc k 10 5/60s cost 1\n",
	     "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n"},
	    {"cl.throttle k 0 5 60 3", "acquire adhoc k 1 5/60s cost 3\n",
	     "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n"},
	    {"THROTTLE k 9 5 60 0", "acquire adhoc k 9 5/60s cost 0\n",
	     "*5\r\n:1\r\n:10\r\n:9\r\n:1\r\n:0\r\n"});
	RUN(&denied,
	    {"CL.THROTTLE k 9 5 60", "acquire adhoc k 10 5/60s cost 1\n",
	     "*5\r\n:1\r\n:10\r\n:0\r\n:1\r\n:2\r\n"},
	    {"THROTTLE k 9 5 60", "acquire adhoc k 9 5/60s cost 1\n",
	     "*5\r\n:0\r\n:10\r\n:0\r\n:2\r\n:1\r\n"});
}

static void test_seconds_round_up_as_soon_as_a_millisecond_is_left(void **state)
{
	static const struct {
		uint64_t ns;
		const char *retry, *reset;
	} table[] = {
	    {1, "1", "0"},          {999999, "1", "0"},     {1000000, "1", "1"},
	    {1000000000, "1", "1"}, {1000999999, "1", "1"}, {1001000000, "2", "2"},
	};
	struct codec_bounds input = bounds();
	struct reply reply = denied;
	char room[128], out[128];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		reply.decision.retry_after_ns = reply.decision.reset_after_ns = table[i].ns;
		snprintf(out, sizeof out, "*5\r\n:1\r\n:10\r\n:0\r\n:%s\r\n:%s\r\n", table[i].retry,
		         table[i].reset);
		drive_all(&resp_codec, &input, &reply, as_array("CL.THROTTLE k 9 5 60", room, sizeof room),
		          NULL, out);
	}
}

static void test_a_cost_beyond_all_is_denied_ad_hoc_and_an_error_elsewhere(void **state)
{
	struct reply reply = denied;

	(void)state;
	reply.status = WEIR_ECOST;
	reply.message = "cost 11\r\nof 10";
	reply.decision.remaining = 10;
	RUN(&reply, {"CL.THROTTLE k 9 5 60 11", NULL, "*5\r\n:1\r\n:10\r\n:10\r\n:-1\r\n:2\r\n"},
	    {"THROTTLE k 9 5 60 11", NULL, "*5\r\n:0\r\n:10\r\n:10\r\n:2\r\n:1\r\n"},
	    {"WEIR.ACQUIRE login k COST 11", NULL, "-ERR cost 11  of 10\r\n"});
}

/* A memo of the command before it would point at bytes of another time. */
static void test_every_refund_has_the_permit_that_came_with_it(void **state)
{
	struct codec_bounds input = bounds();
	char bytes[1024];
	size_t len = 0;

	(void)state;
	for (int i = 0; i < 3; i++)
		len += as_array(i < 2 ? "WEIR.REFUND l k PERMIT p" : "WEIR.REFUND l j PERMIT q",
		                bytes + len, sizeof bytes - len)
		           .len;
	drive_all(&resp_codec, &input, &passed, (struct slice){bytes, len},
	          "refund limit l/k cost all of permit [p]\nrefund limit l/k cost all of permit [p]\n"
	          "refund limit l/j cost all of permit [q]\n",
	          NULL);
}

static void test_a_permit_is_the_seventh_element(void **state)
{
	struct reply reply = passed;

	(void)state;
	reply.permit = SLICE("p-_1");
	RUN(&reply, {"WEIR.ACQUIRE l k PERMIT", NULL,
	             "*7\r\n:1\r\n:10\r\n:9\r\n:0\r\n:201\r\n$2\r\nok\r\n$4\r\np-_1\r\n"});
}

#define NO_SCRIPTS                                                                                 \
	": Weir runs no scripts; use WEIR.ACQUIRE or CL.THROTTLE, see docs/migrating.md\r\n"

static void test_bad_arguments_are_errors_that_close_nothing(void **state)
{
	(void)state;
	RUN(&passed, {"NOSUCH x", "", "-ERR unknown command 'NOSUCH'\r\n"},
	    {"PINGPING", "", "-ERR unknown command 'PINGPING'\r\n"},
	    {"EVAL x 0", "", "-ERR unknown command 'EVAL'" NO_SCRIPTS},
	    {"evalsha", "", "-ERR unknown command 'evalsha'" NO_SCRIPTS},
	    {"SCRIPT LOAD x", "", "-ERR unknown command 'SCRIPT'" NO_SCRIPTS},
	    {"FCALL f 0", "", "-ERR unknown command 'FCALL'" NO_SCRIPTS},
	    {"EVALS", "", "-ERR unknown command 'EVALS'\r\n"},
	    {"ECHO", "",
	     "-ERR wrong number of arguments for 'ECHO' command: expected ECHO message\r\n"},
	    {"WEIR.RESET a b c", "",
	     "-ERR wrong number of arguments for 'WEIR.RESET' command: expected WEIR.RESET limit "
	     "key\r\n"},
	    {"CL.THROTTLE k -1 5 60", "",
	     "-ERR expected max_burst to be a whole number from 0 to 4294967295, found '-1'\r\n"},
	    {"THROTTLE k 0 5 60", "",
	     "-ERR expected max_burst to be a whole number from 1 to 4294967296, found '0'\r\n"},
	    {"CL.THROTTLE k 99999999999999999999 5 60", "",
	     "-ERR expected max_burst to be a whole number from 0 to 4294967295, found "
	     "'99999999999999999999'\r\n"},
	    {"CL.THROTTLE k 4294967296 5 60", "",
	     "-ERR expected max_burst to be a whole number from 0 to 4294967295, found "
	     "'4294967296'\r\n"},
	    {"THROTTLE k 4294967297 5 60", "",
	     "-ERR expected max_burst to be a whole number from 1 to 4294967296, found "
	     "'4294967297'\r\n"},
	    {"CL.THROTTLE k 1 0 60", "",
	     "-ERR expected count to be a whole number from 1 to 4294967296, found '0'\r\n"},
	    {"CL.THROTTLE k 1 1 9223372036854775808", "",
	     "-ERR expected period to be a whole number from 1 to 31622400, found "
	     "'9223372036854775808'\r\n"},
	    {"CL.THROTTLE k 1 1 1 -1", "",
	     "-ERR expected quantity to be a whole number from 0 to 9223372036854775807, found "
	     "'-1'\r\n"},
	    {"WEIR.ACQUIRE l k COST", "",
	     "-ERR syntax error: expected COST n, WAIT ms, PRIORITY n or PERMIT after the key of "
	     "WEIR.ACQUIRE, "
	     "found 'COST'\r\n"},
	    {"WEIR.ACQUIRE l k COST -1", "",
	     "-ERR expected cost to be a whole number of at least 0, found '-1'\r\n"},
	    {"WEIR.ACQUIRE l k COST 18446744073709551616", "",
	     "-ERR expected cost to be a whole number of at least 0, found '18446744073709551616'\r\n"},
	    {"WEIR.ACQUIRE l k WAIT", "",
	     "-ERR syntax error: expected COST n, WAIT ms, PRIORITY n or PERMIT after the key of "
	     "WEIR.ACQUIRE, "
	     "found 'WAIT'\r\n"},
	    {"WEIR.ACQUIRE l k WAIT 3600001", "",
	     "-ERR expected the wait to be a whole number of milliseconds from 0 to 3600000, "
	     "found '3600001'\r\n"},
	    {"WEIR.ACQUIRE l k WAIT -1", "",
	     "-ERR expected the wait to be a whole number of milliseconds from 0 to 3600000, "
	     "found '-1'\r\n"},
	    {"WEIR.PEEK l k WAIT 5", "",
	     "-ERR syntax error: expected COST n after the key of WEIR.PEEK, "
	     "found 'WAIT'\r\n"},
	    {"WEIR.REFUND l k permit", "",
	     "-ERR syntax error: expected COST n or PERMIT p after the key of WEIR.REFUND, "
	     "found 'permit'\r\n"},
	    {"WEIR.ACQUIRE l k PERMIT p", "",
	     "-ERR syntax error: expected COST n, WAIT ms, PRIORITY n or PERMIT after the key of "
	     "WEIR.ACQUIRE, "
	     "found 'p'\r\n"},
	    {"WEIR.SHED l 1.5", "", "-ERR expected deny to be a number from 0 to 1, found '1.5'\r\n"},
	    {"WEIR.REPORT p", "",
	     "-ERR wrong number of arguments for 'WEIR.REPORT' command: expected WEIR.REPORT permit "
	     "outcome [latency_ms]\r\n"},
	    {"WEIR.REPORT p good", "",
	     "-ERR expected outcome to be success, failure, timeout or ignored, found 'good'\r\n"},
	    {"WEIR.REPORT p success fast", "",
	     "-ERR expected latency_ms to be a whole number of at least 0, found 'fast'\r\n"},
	    {"WEIR.CHECK a", "",
	     "-ERR wrong number of arguments for 'WEIR.CHECK' command: expected WEIR.CHECK attribute "
	     "value [attribute value ...]\r\n"},
	    {"WEIR.CHECK a b c", "",
	     "-ERR expected pairs of attribute and value after WEIR.CHECK, found 3 words\r\n"},
	    {"WEIR.CHECK a b a c", "", "-ERR expected attribute 'a' once, found it again\r\n"});
}

static void test_clients_are_greeted_as_by_redis(void **state)
{
	(void)state;
	RUN(&passed, {"ping", "", "+PONG\r\n"}, {"PING hi", "", "$2\r\nhi\r\n"},
	    {"ECHO hi", "", "$2\r\nhi\r\n"}, {"SELECT 0", "", "+OK\r\n"}, {"SELECT 1", "", "+OK\r\n"},
	    {"SELECT 2147483647", "", "+OK\r\n"},
	    {"SELECT -1", "", "-ERR DB index is out of range\r\n"},
	    {"SELECT 2147483648", "", "-ERR DB index is out of range\r\n"},
	    {"SELECT x", "", "-ERR value is not an integer or out of range\r\n"},
	    {"AUTH secret", "acquire login by [][secret] cost 1\n", "+OK\r\n"},
	    {"AUTH default secret", "acquire login by user [default][secret] cost 1\n", "+OK\r\n"},
	    {"HELLO 4 AUTH default x", "", "-NOPROTO unsupported protocol version\r\n"},
	    {"HELLO 3 AUTH default x SETNAME", "", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"},
	    {"HELLO 4", "", "-NOPROTO unsupported protocol version\r\n"},
	    {"HELLO x", "", "-ERR Protocol version is not an integer or out of range\r\n"},
	    {"HELLO 3 SETNAME", "", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"},
	    {"CLIENT SETINFO LIB-NAME redis-py", "", "+OK\r\n"},
	    {"CLIENT SETNAME", "",
	     "-ERR wrong number of arguments for 'CLIENT|SETNAME' command: expected CLIENT SETNAME "
	     "name\r\n"},
	    {"CLIENT GETNAME", "", "$-1\r\n"}, {"CLIENT ID", "", ":7\r\n"},
	    {"CLIENT NOSUCH", "", "-ERR unknown subcommand 'NOSUCH' of 'CLIENT'\r\n"},
	    {"ACL WHOAMI", "", "$7\r\ndefault\r\n"},
	    {"ACL LIST", "", "-ERR unknown subcommand 'LIST' of 'ACL'\r\n"},
	    {"WATCH a b", "", "+OK\r\n"}, {"UNWATCH", "", "+OK\r\n"}, {"COMMAND DOCS", "", "*0\r\n"},
	    {"COMMAND COUNT", "", ":31\r\n"},
	    {"COMMAND INFO cl.throttle nosuch del ttl", "",
	     "*4\r\n*6\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"
	     "*-1\r\n"
	     "*6\r\n$3\r\ndel\r\n:-2\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:-1\r\n:1\r\n"
	     "*6\r\n$3\r\nttl\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"},
	    {"CONFIG GET save", "", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
	    {"CONFIG GET nosuch", "", "*0\r\n"},
	    {"CONFIG SET save x", "", "-ERR unknown subcommand 'SET' of 'CONFIG'\r\n"},
	    {"RESET", "acquire login cost 1\n", "+RESET\r\n"});
}

static void test_a_refused_login_changes_nothing(void **state)
{
	const struct reply wrong = {.status = WEIR_EAUTH, .message = "who?"};

	(void)state;
	RUN(&wrong, {"AUTH a b", "acquire login by user [a][b] cost 1\n", "-WRONGPASS who?\r\n"},
	    {"WEIR.PEEK api k", "peek limit api/k cost 1\n", "-NOAUTH who?\r\n"},
	    {"HELLO 3 SETNAME me AUTH a b", "acquire login by user [a][b] cost 1\n",
	     "-WRONGPASS who?\r\n"});
}

static void drive_text(const char *bytes, const char *requests, const char *out, bool closes)
{
	struct codec_bounds input = bounds();

	assert_int_equal(drive_all(&resp_codec, &input, &passed, slice_of(bytes), requests, out),
	                 closes);
}

static void test_hello_changes_the_form_of_later_replies_only(void **state)
{
	(void)state;
#define PAIRS(proto)                                                                               \
	"$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:" proto         \
	"\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"      \
	"$7\r\nmodules\r\n*0\r\n"
	drive_text("CLIENT GETNAME\nHELLO 3 SETNAME me AUTH default x\nCLIENT GETNAME\nRESET\n"
	           "CLIENT GETNAME\nHELLO\n",
	           "acquire login by user [default][x] cost 1\nacquire login cost 1\n",
	           "$-1\r\n%7\r\n" PAIRS("3") "$2\r\nme\r\n+RESET\r\n$-1\r\n*14\r\n" PAIRS("2"), false);
	drive_text("HELLO 3\nCONFIG GET save\nCOMMAND DOCS\nCLIENT GETNAME\nCLIENT INFO\n", "",
	           "%7\r\n" PAIRS("3") "%1\r\n$4\r\nsave\r\n$0\r\n\r\n%0\r\n_\r\n"
	                               "=40\r\ntxt:id=7 name= db=0 user=default resp=3\n\r\n",
	           false);
}

static void test_quit_is_answered_and_closes_before_later_commands(void **state)
{
	(void)state;
	drive_text("PING\r\nQUIT\r\nPING\r\n", "", "+PONG\r\n+OK\r\n", true);
}

static void test_inline_words_are_unquoted_as_in_redis(void **state)
{
	(void)state;
	drive_text("\r\n  \n*0\r\nECHO \"a b\\x41\\n\\\"\\q\"\nECHO 'it\\'s\\n'\nECHO \"\"\n", "",
	           "$7\r\na bA\n\"q\r\n$6\r\nit's\\n\r\n$0\r\n\r\n", false);
	drive_text("WEIR.CHECK protocol HTTP/1.1\n", "acquire rules protocol=HTTP/1.1 cost 1\n",
	           "*9\r\n" SEVEN "$5\r\nlogin\r\n$5\r\nby-ip\r\n", false);
	drive_text("ECHO \"a\n", "", "-ERR Protocol error: unbalanced quotes in request\r\n", true);
	drive_text("ECHO \"a\"b\n", "", "-ERR Protocol error: unbalanced quotes in request\r\n", true);
}

static void test_broken_framing_is_an_error_that_closes(void **state)
{
	static const struct {
		const char *bytes, *error;
	} table[] = {
	    {"*-1\r\n", "invalid multibulk length"},
	    {"*x\r\n", "invalid multibulk length"},
	    {"*\r\n", "invalid multibulk length"},
	    {"*1\n$4\r\nPING\r\n", "invalid multibulk length"},
	    {"*1\rx", "invalid multibulk length"},
	    {"*1048577\r\n", "invalid multibulk length"},
	    {"*000000000000000000000001\r\n", "invalid multibulk length"},
	    {"*99999999999999999999\r\n", "invalid multibulk length"},
	    {"*1\r\n:\r\n", "invalid integer"},
	    {"*1\r\n:-\r\n", "invalid integer"},
	    {"*1\r\n:+-1\r\n", "invalid integer"},
	    {"*1\r\n:1x\r\n", "invalid integer"},
	    {"*1\r\n:1\n\r\n", "invalid integer"},
	    {"*1\r\n:1\r\r\n", "invalid integer"},
	    {"*1\r\n:000000000000000000001\r\n", "invalid integer"},
	    {"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"},
	    {"*1\r\n$-1\r\n", "invalid bulk length"},
	    {"*1\r\n$536870913\r\n", "invalid bulk length"},
	    {"*1\r\n$4\r\nPINGxx", "expected CRLF after an argument"},
	    {"*1\r\n$4\r\nPING\n\n", "expected CRLF after an argument"},
	    {"\x16\x03\x01", "expected '*' or a word, got a control byte"},
	};
	char out[128];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		snprintf(out, sizeof out, "-ERR Protocol error: %s\r\n", table[i].error);
		drive_text(table[i].bytes, "", out, true);
	}
}

static void test_integers_are_words(void **state)
{
	(void)state;
	drive_text(
	    "*5\r\n$11\r\nCL.THROTTLE\r\n:77\r\n:9\r\n$1\r\n5\r\n:+60\r\n"
	    "*5\r\n$11\r\nCL.THROTTLE\r\n$2\r\n78\r\n:9\r\n$1\r\n5\r\n:+60\r\n"
	    "*6\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n:9\r\n:5\r\n:60\r\n:-1\r\n"
	    "*1\r\n:00000000000000000001\r\n",
	    "acquire adhoc 77 10 5/60s cost 1\nacquire adhoc 78 10 5/60s cost 1\n",
	    "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n"
	    "-ERR expected quantity to be a whole number from 0 to 9223372036854775807, found '-1'\r\n"
	    "-ERR unknown command '00000000000000000001'\r\n",
	    false);
}

static void test_other_protocols_are_closed_before_their_second_line(void **state)
{
	/* clang-format off */
	static const char *const openings[] = {
	    "POST /?k=v HTTP/1.1", "post / HTTP/1.0", "GET /", "GET /a b  c\td HTTP/1.1", "GET",
	    "GET http://h/ HTTP/1.1", "CONNECT h:443 HTTP/1.1", "OPTIONS * HTTP/1.1",
	    "OPTIONS * RTSP/1.0", "PRI * HTTP/2.0", "PROPFIND / HTTP/1.1", "M-SEARCH * HTTP/1.1",
	    "COPY /a HTTP/1.1", "  PUT / HTTP/1.1", "\r\n\r\nDELETE / HTTP/1.1", "ACL /a b HTTP/1.1",
	    "NEWMETHOD /a b HTTP/1.1", "PING / HTTP/1.0", "DESCRIBE rtsp://h RTSP/1.0",
	    "INVITE sip:a@h SIP/2.0", "REQMOD icap://h ICAP/1.0", "Host: localhost", "host:localhost",
	    "X-A:b c", ": a", "Host:", "\"POST\" /", "CSeq: 1", "INFO / http/1.1",
	    "GET '/a b' HTTP/1.1",
	};
	/* clang-format on */
	static const char error[] = "-ERR Protocol error: expected RESP, found HTTP\r\n";
	char bytes[128];

	(void)state;
	for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
		snprintf(bytes, sizeof bytes, "%s\r\nWEIR.SHED l 1\r\n", openings[i]);
		drive_text(bytes, "", error, true);
		snprintf(bytes, sizeof bytes, "%s\nWEIR.SHED l 1\n", openings[i]);
		drive_text(bytes, "", error, true);
	}
	drive_text("OTHER /a\"b HTTP/1.1\r\nWEIR.SHED l 1\r\n", "",
	           "-ERR Protocol error: unbalanced quotes in request\r\n", true);
}

static void test_a_command_that_resembles_http_is_accepted(void **state)
{
	(void)state;
	drive_text("ECHO HTTP/\r\nECHO POST\r\nECHO a:b\r\n", "",
	           "$5\r\nHTTP/\r\n$4\r\nPOST\r\n$3\r\na:b\r\n", false);
	drive_text("WEIR.PEEK l: HTTP/1.1\r\n", "peek limit l:/HTTP/1.1 cost 1\n", NULL, false);
	drive_text("*2\r\n$4\r\nPOST\r\n$8\r\nHTTP/1.1\r\n", "", "-ERR unknown command 'POST'\r\n",
	           false);
}

/* Every command can be sent inline. */
static void test_no_command_is_taken_for_http(void **state)
{
	size_t n;
	const struct resp_spec *specs = resp_specs(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct drive drive;
		struct codec_bounds input = bounds();

		drive_open(&drive, &resp_codec, &input, &passed);
		drive_feed(&drive, specs[i].name);
		drive_feed(&drive, SLICE("\r\n"));
		buffer_add(&drive.out, "", 1);
		assert_null(strstr(drive.out.data, "found HTTP"));
		drive_close(&drive);
	}
}

static void test_keys_are_any_bytes(void **state)
{
	struct codec_bounds input = bounds();
	struct slice bytes = SLICE("*3\r\n$9\r\nWEIR.PEEK\r\n$1\r\nl\r\n$5\r\n\r\n\0*$\r\n");
	struct drive drive;

	(void)state;
	drive_open(&drive, &resp_codec, &input, &passed);
	drive_feed(&drive, bytes);
	assert_memory_equal(drive.requests.data, "peek limit l/\r\n", 15);
	assert_false(drive.closed);
	drive_close(&drive);
}

static void test_a_key_over_its_limit_is_an_error_of_that_command(void **state)
{
	struct codec_bounds input = bounds();

	(void)state;
	input.key_max = 3;
	drive_all(&resp_codec, &input, &passed, slice_of("WEIR.PEEK l 1234\nWEIR.PEEK l 123\n"),
	          "peek limit l/123 cost 1\n",
	          "-ERR expected a key of at most 3 bytes, found 4\r\n*7\r\n" SEVEN);
}

/* Byte by byte each command is read; in one piece only those unlike the one before. */
static void test_a_command_that_differs_only_in_its_key_is_read_as_if_alone(void **state)
{
	static const char *const lines[] = {
	    "CL.THROTTLE k 9 5 60",
	    "CL.THROTTLE 12345678901 9 5 60",
	    "CL.THROTTLE  9 5 60",
	    "CL.THROTTLE k 9 5 61",
	    "CL.THROTTLE k 9 5 61 2",
	    "THROTTLE k 9 5 61 2",
	    "WEIR.ACQUIRE login k COST 2",
	    "WEIR.ACQUIRE login other COST 2",
	    "WEIR.ACQUIRE logic k COST 2",
	    "WEIR.ACQUIRE logic k",
	    "WEIR.ACQUIRE logic 123456789012",
	    "WEIR.ACQUIRE logic k COST x",
	    "WEIR.ACQUIRE logic k",
	    "WEIR.PEEK logic 123456",
	    "WEIR.PEEK logic 1234567",
	    "ECHO k",
	    "WEIR.PEEK logic 1",
	};
	struct codec_bounds input = bounds();
	struct buffer bytes = {0};
	char room[128];

	(void)state;
	input.key_max = 11;
	input.request_max = 60;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		buffer_add_slice(&bytes, as_array(lines[i], room, sizeof room));
	buffer_add_text(&bytes, "*3\r\n$9\r\nWEIR.PEEK\r\n$5\r\nlogic\r\n:12\r\n");
	buffer_add_text(&bytes, "*3\r\n$9\r\nWEIR.PEEK\r\n$5\r\nlogic\r\n$2\r\n13\r\n");
	buffer_add_text(&bytes, "*3\r\n$9\r\nWEIR.PEEK\r\n$5\r\nlogic\r\n!1\r\nk\r\n");
	buffer_add(&bytes, "", 1);
	assert_true(drive_all(&resp_codec, &input, &passed, (struct slice){bytes.data, bytes.len - 1},
	                      NULL, NULL));
	buffer_free(&bytes);
}

static void test_a_command_over_its_limit_is_skipped_and_the_next_is_heard(void **state)
{
	static const char error[] =
	    "-ERR expected a command of at most 64 bytes, found a longer one\r\n+PONG\r\n";
	struct codec_bounds input = bounds();

	(void)state;
	input.request_max = 64;
	assert_false(drive_all(&resp_codec, &input, &passed,
	                       slice_of("*2\r\n$4\r\nECHO\r\n$60\r\n"
	                                "*1\r\n$4\r\nPING\r\n0123456789012345678901234567890123456789"
	                                "abcdef\r\n*1\r\n$4\r\nPING\r\n"),
	                       "", error));
	assert_false(drive_all(&resp_codec, &input, &passed,
	                       slice_of("*12\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n"
	                                "$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n"
	                                "$1\r\na\r\n$1\r\na\r\nPING\n"),
	                       "", error));
	/* Lines have no frame to skip by. */
	assert_true(
	    drive_all(&resp_codec, &input, &passed,
	              slice_of("ECHO 01234567890123456789012345678901234567890123456789012345678"
	                       "\nPING\n"),
	              "", "-ERR Protocol error: too big inline request\r\n"));
}

static void test_a_skipped_command_uses_no_memory(void **state)
{
	struct codec_bounds input = bounds();
	struct slice head = SLICE("*2\r\n$4\r\nECHO\r\n$536870912\r\n");
	char block[4096];
	struct drive drive;

	(void)state;
	memset(block, 'x', sizeof block);
	drive_open(&drive, &resp_codec, &input, &passed);
	drive_feed(&drive, head);
	for (size_t i = 0; i < 100; i++) {
		drive_feed(&drive, (struct slice){block, sizeof block});
		assert_int_equal(drive.pending.len, 0);
	}
	assert_int_equal(drive.out.len, 0);
	drive_close(&drive);
}

static void test_more_words_than_fit_are_an_error_of_that_command(void **state)
{
	struct codec_bounds input = bounds();
	struct buffer bytes = {0};

	(void)state;
	buffer_printf(&bytes, "*1003\r\n$10\r\nWEIR.CHECK\r\n");
	for (int i = 0; i < 1002; i++)
		buffer_printf(&bytes, ":%d\r\n", i);
	buffer_printf(&bytes, "PING\n");
	assert_false(drive_all(&resp_codec, &input, &passed, (struct slice){bytes.data, bytes.len}, "",
	                       "-ERR expected at most 1000 arguments, found 1002\r\n+PONG\r\n"));
	buffer_free(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_limits_and_rules_become_requests_and_seven_or_nine_elements),
	    cmocka_unit_test(test_cl_throttle_has_a_token_more_and_throttle_the_other_polarity),
	    cmocka_unit_test(test_seconds_round_up_as_soon_as_a_millisecond_is_left),
	    cmocka_unit_test(test_a_cost_beyond_all_is_denied_ad_hoc_and_an_error_elsewhere),
	    cmocka_unit_test(test_every_refund_has_the_permit_that_came_with_it),
	    cmocka_unit_test(test_a_permit_is_the_seventh_element),
	    cmocka_unit_test(test_bad_arguments_are_errors_that_close_nothing),
	    cmocka_unit_test(test_a_refused_login_changes_nothing),
	    cmocka_unit_test(test_clients_are_greeted_as_by_redis),
	    cmocka_unit_test(test_hello_changes_the_form_of_later_replies_only),
	    cmocka_unit_test(test_quit_is_answered_and_closes_before_later_commands),
	    cmocka_unit_test(test_inline_words_are_unquoted_as_in_redis),
	    cmocka_unit_test(test_broken_framing_is_an_error_that_closes),
	    cmocka_unit_test(test_integers_are_words),
	    cmocka_unit_test(test_other_protocols_are_closed_before_their_second_line),
	    cmocka_unit_test(test_a_command_that_resembles_http_is_accepted),
	    cmocka_unit_test(test_no_command_is_taken_for_http),
	    cmocka_unit_test(test_keys_are_any_bytes),
	    cmocka_unit_test(test_a_key_over_its_limit_is_an_error_of_that_command),
	    cmocka_unit_test(test_a_command_that_differs_only_in_its_key_is_read_as_if_alone),
	    cmocka_unit_test(test_a_command_over_its_limit_is_skipped_and_the_next_is_heard),
	    cmocka_unit_test(test_a_skipped_command_uses_no_memory),
	    cmocka_unit_test(test_more_words_than_fit_are_an_error_of_that_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
