/* Reads MULTI and EXEC, commands for keys of CL.THROTTLE and THROTTLE, and CLIENT TRACKING. */
#include "drive.h"

static const struct reply passed = {
    .decision = {.allowed = true, .quota = 10, .remaining = 9, .reset_after_ns = 1499000001},
    .has_state = true,
};

#define CELL "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:2\r\n"

/* Lines; however they are cut, `requests` and `out`. */
static bool drive_lines(const struct codec_bounds *bounds, const struct reply *reply,
                        const char *lines, const char *requests, const char *out)
{
	return drive_all(&resp_codec, bounds, reply, slice_of(lines), requests, out);
}

static void check(const char *lines, const char *requests, const char *out)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	assert_false(drive_lines(&bounds, &passed, lines, requests, out));
}

static void test_exec_is_one_batch_of_the_queued_commands(void **state)
{
	(void)state;
	check("MULTI\nCL.THROTTLE k 9 5 60\nPING\nWEIR.ACQUIRE l j COST 2\nWEIR.CHECK path /\n"
	      "DEL a b\nEXEC\nPING\n",
	      "acquire batch cost 1\n"
	      "acquire adhoc k 10 5/60s cost 1 no wait\n"
	      "acquire local cost 1 no wait\n"
	      "acquire limit l/j cost 2 no wait\n"
	      "acquire rules path=/ cost 1 no wait\n"
	      "reset batch cost 1 no wait\nreset key a cost 0\nreset key b cost 0\n",
	      "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
	      "*5\r\n" CELL "+PONG\r\n*7\r\n:1\r\n:10\r\n:9\r\n:0\r\n:1500\r\n$2\r\nok\r\n$0\r\n\r\n"
	      "*9\r\n:1\r\n:10\r\n:9\r\n:0\r\n:1500\r\n$2\r\nok\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n"
	      ":2\r\n+PONG\r\n");
	check("MULTI\nEXEC\n", "acquire batch cost 1\n", "+OK\r\n*0\r\n");
}

static void test_a_wait_in_a_transaction_is_none(void **state)
{
	(void)state;
	check("MULTI\nWEIR.ACQUIRE l k WAIT 250\nEXEC\nWEIR.ACQUIRE l k WAIT 250\n",
	      "acquire batch cost 1\nacquire limit l/k cost 1 no wait\n"
	      "acquire limit l/k cost 1 wait 250000000 ns\n",
	      NULL);
}

/* The one before it is remembered by its bytes. */
static void test_a_command_like_the_one_before_multi_is_queued(void **state)
{
#define THROTTLE "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n9\r\n$1\r\n5\r\n$2\r\n60\r\n"
	(void)state;
	check(THROTTLE THROTTLE "MULTI\n" THROTTLE THROTTLE "EXEC\n" THROTTLE,
	      "acquire adhoc k 10 5/60s cost 1\nacquire adhoc k 10 5/60s cost 1\n"
	      "acquire batch cost 1\n"
	      "acquire adhoc k 10 5/60s cost 1 no wait\nacquire adhoc k 10 5/60s cost 1 no wait\n"
	      "acquire adhoc k 10 5/60s cost 1\n",
	      CELL CELL "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" CELL CELL CELL);
}

static void test_the_errors_of_single_commands_stand_among_the_replies(void **state)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	struct reply failed = {.status = WEIR_ENOTFOUND, .message = "no limit 'l'"};

	(void)state;
	check("MULTI\nCL.THROTTLE k x 5 60\nCLIENT NOSUCH\nCL.THROTTLE k 9 5 60\nEXEC\n",
	      "acquire batch cost 1\nacquire local cost 1 no wait\nacquire local cost 1 no wait\n"
	      "acquire adhoc k 10 5/60s cost 1 no wait\n",
	      "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n"
	      "-ERR expected max_burst to be a whole number from 0 to 4294967295, found 'x'\r\n"
	      "-ERR unknown subcommand 'NOSUCH' of 'CLIENT'\r\n" CELL);
	assert_false(drive_lines(&bounds, &failed, "MULTI\nWEIR.PEEK l k\nDEL k\nPING\nEXEC\n", NULL,
	                         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n-ERR no limit 'l'\r\n"
	                         "-ERR no limit 'l'\r\n+PONG\r\n"));
}

static void test_exec_fails_after_a_command_that_can_not_be_queued(void **state)
{
#define ABORT "-EXECABORT Transaction discarded because of previous errors.\r\n"
	(void)state;
	check("MULTI\nNOSUCH\nPING\nEXEC\nEXEC\n", "",
	      "+OK\r\n-ERR unknown command 'NOSUCH'\r\n+QUEUED\r\n" ABORT
	      "-ERR EXEC without MULTI\r\n");
	check("MULTI\nECHO\nEXEC\n", "",
	      "+OK\r\n-ERR wrong number of arguments for 'ECHO' command: expected ECHO "
	      "message\r\n" ABORT);
	check("MULTI\nCL.THROTTLE k 9 5 60\nCOMMAND COUNT\nEXEC\nCOMMAND COUNT\n", "",
	      "+OK\r\n+QUEUED\r\n-ERR Command not allowed inside a transaction\r\n" ABORT ":31\r\n");
	check("MULTI\nNOSUCH\nDISCARD\nMULTI\nEXEC\n", NULL,
	      "+OK\r\n-ERR unknown command 'NOSUCH'\r\n+OK\r\n+OK\r\n*0\r\n");
}

static void test_a_command_outside_multi_breaks_no_transaction(void **state)
{
	(void)state;
	check("EXEC\nDISCARD\nMULTI\nMULTI\nWATCH k\nPING\nEXEC\n",
	      "acquire batch cost 1\nacquire local cost 1 no wait\n",
	      "-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n+OK\r\n"
	      "-ERR MULTI calls can not be nested\r\n-ERR WATCH inside MULTI is not allowed\r\n"
	      "+QUEUED\r\n*1\r\n+PONG\r\n");
}

static void test_discard_reset_and_quit_drop_the_queue(void **state)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	(void)state;
	check("MULTI\nCL.THROTTLE k 9 5 60\nDISCARD\nEXEC\n", "",
	      "+OK\r\n+QUEUED\r\n+OK\r\n-ERR EXEC without MULTI\r\n");
	check("MULTI\nCL.THROTTLE k 9 5 60\nRESET\nEXEC\n", "acquire login cost 1\n",
	      "+OK\r\n+QUEUED\r\n+RESET\r\n-ERR EXEC without MULTI\r\n");
	assert_true(drive_lines(&bounds, &passed, "MULTI\nCL.THROTTLE k 9 5 60\nQUIT\nEXEC\n", "",
	                        "+OK\r\n+QUEUED\r\n+OK\r\n"));
}

static void test_hello_in_a_transaction_changes_later_replies(void **state)
{
	(void)state;
	check("MULTI\nCLIENT GETNAME\nHELLO 3\nCLIENT GETNAME\nEXEC\nMULTI\nCLIENT GETNAME\nEXEC\n",
	      NULL,
	      "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$-1\r\n"
	      "%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n"
	      "$5\r\nproto\r\n:3\r\n"
	      "$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
	      "$7\r\nmodules\r\n*0\r\n_\r\n+OK\r\n+QUEUED\r\n*1\r\n_\r\n");
}

static void test_nobody_logs_in_inside_a_transaction(void **state)
{
	(void)state;
	check("MULTI\nAUTH a b\nEXEC\n", "",
	      "+OK\r\n-ERR Command not allowed inside a transaction\r\n"
	      "-EXECABORT Transaction discarded because of previous errors.\r\n");
	check("MULTI\nHELLO 3 AUTH a b\nACL WHOAMI\nEXEC\n", NULL,
	      "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR a login inside MULTI is not allowed\r\n"
	      "$7\r\ndefault\r\n");
}

static void test_a_transaction_is_bounded(void **state)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	(void)state;
	bounds.batch_max = 3;
	assert_false(drive_lines(&bounds, &passed, "MULTI\nPING\nDEL a b\nEXEC\n", NULL,
	                         "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n:2\r\n"));
	assert_false(
	    drive_lines(&bounds, &passed, "MULTI\nPING\nDEL a b\nPING\nPING\nEXEC\n", "",
	                "+OK\r\n+QUEUED\r\n+QUEUED\r\n"
	                "-ERR expected a transaction of at most 3 commands and keys, found more\r\n"
	                "+QUEUED\r\n" ABORT));
	bounds.batch_max = 1000;
	bounds.request_max = 40; /* a command: its words, each with four bytes, and four more */
	assert_false(drive_lines(
	    &bounds, &passed, "MULTI\nECHO 0123456789012345678\nECHO 0123456789012345678\nEXEC\n", NULL,
	    "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$19\r\n0123456789012345678\r\n"
	    "$19\r\n0123456789012345678\r\n"));
	assert_false(drive_lines(&bounds, &passed,
	                         "MULTI\nECHO 0123456789012345678\nECHO 0123456789012345678\nPING\n"
	                         "PING\nEXEC\n",
	                         "",
	                         "+OK\r\n+QUEUED\r\n+QUEUED\r\n"
	                         "-ERR expected a transaction of at most 80 bytes, found more\r\n"
	                         "+QUEUED\r\n" ABORT));
	assert_false(drive_lines(&bounds, &passed,
	                         "MULTI\n*2\r\n$4\r\nECHO\r\n$30\r\n012345678901234567890123456789\r\n"
	                         "EXEC\n",
	                         "",
	                         "+OK\r\n-ERR expected a command of at most 40 bytes, found a longer "
	                         "one\r\n" ABORT));
}

/* Nothing is left behind: the address sanitizer looks. */
static void test_a_connection_may_end_in_a_transaction(void **state)
{
	(void)state;
	check("MULTI\nCL.THROTTLE k 9 5 60\n", "", "+OK\r\n+QUEUED\r\n");
	check("MULTI\nNOSUCH\n", "", NULL);
}

static void test_keys_are_counted_and_timed_as_by_redis(void **state)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	struct reply none = {.decision = {.allowed = true}};
	struct reply almost = passed;

	(void)state;
	check("DEL k\nDEL k j k\nEXISTS k j\nTTL k\nPTTL k\n",
	      "reset batch cost 1\nreset key k cost 0\n"
	      "reset batch cost 1\nreset key k cost 0\nreset key j cost 0\nreset key k cost 0\n"
	      "peek batch cost 1\npeek key k cost 0\npeek key j cost 0\n"
	      "peek key k cost 1\npeek key k cost 1\n",
	      ":1\r\n:3\r\n:2\r\n:2\r\n:1500\r\n");
	assert_false(drive_lines(&bounds, &none, "DEL k j\nEXISTS k\nTTL k\nPTTL k\n", NULL,
	                         ":0\r\n:0\r\n:-2\r\n:-2\r\n"));
	almost.decision.reset_after_ns = 1499000000;
	assert_false(drive_lines(&bounds, &almost, "TTL k\nPTTL k\n", NULL, ":1\r\n:1499\r\n"));
	bounds.key_max = 3;
	bounds.batch_max = 2;
	assert_false(drive_lines(&bounds, &passed, "DEL k 1234\nTTL 1234\nDEL a b c\n", "",
	                         "-ERR expected a key of at most 3 bytes, found 4\r\n"
	                         "-ERR expected a key of at most 3 bytes, found 4\r\n"
	                         "-ERR expected at most 2 keys, found 3\r\n"));
}

static void test_tracking_is_answered_as_by_redis(void **state)
{
	(void)state;
	check("CLIENT CACHING YES\nCLIENT TRACKING ON OPTIN\nCLIENT CACHING YES\nCLIENT CACHING NO\n"
	      "CLIENT GETREDIR\nCLIENT TRACKING ON BCAST\nCLIENT TRACKING ON\n"
	      "CLIENT TRACKING OFF\nCLIENT GETREDIR\n",
	      "",
	      "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN "
	      "or OPTOUT mode enabled\r\n+OK\r\n+OK\r\n"
	      "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n:0\r\n"
	      "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and "
	      "then re-enabling it with a different mode.\r\n"
	      "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and "
	      "then re-enabling it with a different mode.\r\n+OK\r\n:-1\r\n");
	check("CLIENT TRACKING ON OPTOUT NOLOOP REDIRECT 9\nCLIENT TRACKINGINFO\nRESET\n"
	      "HELLO 2\nCLIENT TRACKINGINFO\n",
	      "acquire login cost 1\n", NULL);
	check("CLIENT TRACKING ON OPTOUT NOLOOP\nCLIENT TRACKINGINFO\nRESET\nCLIENT TRACKINGINFO\n",
	      "acquire login cost 1\n",
	      "+OK\r\n*6\r\n$5\r\nflags\r\n*3\r\n$2\r\non\r\n$6\r\noptout\r\n$6\r\nnoloop\r\n"
	      "$8\r\nredirect\r\n:0\r\n$8\r\nprefixes\r\n*0\r\n+RESET\r\n"
	      "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n"
	      "$8\r\nprefixes\r\n*0\r\n");
	check("CLIENT TRACKING ON OPTIN OPTOUT\nCLIENT TRACKING ON BCAST OPTIN\n"
	      "CLIENT TRACKING ON PREFIX a\nCLIENT TRACKING ON BCAST PREFIX a PREFIX b\n"
	      "CLIENT TRACKING ON BCAST PREFIX\nCLIENT TRACKING ON REDIRECT x\n"
	      "CLIENT TRACKING ON FOO\nCLIENT TRACKING MAYBE\n",
	      "",
	      "-ERR You can't specify both OPTIN mode and OPTOUT mode\r\n"
	      "-ERR OPTIN and OPTOUT are not compatible with BCAST\r\n"
	      "-ERR PREFIX option requires BCAST mode to be enabled\r\n+OK\r\n"
	      "-ERR syntax error\r\n-ERR syntax error\r\n-ERR syntax error\r\n-ERR syntax error\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_exec_is_one_batch_of_the_queued_commands),
	    cmocka_unit_test(test_a_wait_in_a_transaction_is_none),
	    cmocka_unit_test(test_a_command_like_the_one_before_multi_is_queued),
	    cmocka_unit_test(test_the_errors_of_single_commands_stand_among_the_replies),
	    cmocka_unit_test(test_exec_fails_after_a_command_that_can_not_be_queued),
	    cmocka_unit_test(test_a_command_outside_multi_breaks_no_transaction),
	    cmocka_unit_test(test_discard_reset_and_quit_drop_the_queue),
	    cmocka_unit_test(test_hello_in_a_transaction_changes_later_replies),
	    cmocka_unit_test(test_nobody_logs_in_inside_a_transaction),
	    cmocka_unit_test(test_a_transaction_is_bounded),
	    cmocka_unit_test(test_a_connection_may_end_in_a_transaction),
	    cmocka_unit_test(test_keys_are_counted_and_timed_as_by_redis),
	    cmocka_unit_test(test_tracking_is_answered_as_by_redis),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
