/* resp_client.c: answers the commands by which a RESP client logs in, names itself and sets options
 * of its connection: AUTH, HELLO, SELECT, RESET and CLIENT. */
#include "proto/resp/resp_call.h"

#include <limits.h>

#include "base/error.h"
#include "base/number.h"

/* Returns whether a client may have this name. If not, it has answered with an error. */
static bool check_client_name(const struct resp_call *call, struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		if (name.data[i] >= '!' && name.data[i] <= '~')
			continue;
		resp_call_write_error(
		    call, "Client names cannot contain spaces, newlines or special characters.");
		return false;
	}
	if (name.len > RESP_NAME_MAX) {
		resp_call_write_error(call, "expected a client name of at most %d bytes, found %zu",
		                      RESP_NAME_MAX, name.len);
		return false;
	}
	return true;
}

static void set_client_name(const struct resp_call *call, struct slice name)
{
	memcpy(call->session->client_name, name.data, name.len);
	call->session->client_name_len = name.len;
}

/* Makes the request a REQUEST_LOGIN, which the server checks. Returns 0, or ENOMEM. */
static int make_login(struct fill *fill, struct request_login login)
{
	struct request_origin *origin = arena_alloc(fill->arena, sizeof *origin);

	if (!origin)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	origin->login = login;
	fill->request->origin = origin;
	fill->request->kind = REQUEST_LOGIN;
	return 0;
}

/* AUTH [user] secret */
int resp_read_auth(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                   size_t n)
{
	struct request_login login = {.secret = args[n - 1]};

	(void)spec;
	if (n == 3)
		login.user = args[1];
	return make_login(fill, login);
}

static void write_hello(const struct resp_call *call)
{
	resp_call_begin_map(call, 7);
	resp_write_bulk(call->out, SLICE("server"));
	resp_write_bulk(call->out, SLICE("weir"));
	resp_write_bulk(call->out, SLICE("version"));
	resp_write_bulk(call->out, SLICE(RESP_REDIS_VERSION));
	resp_write_bulk(call->out, SLICE("proto"));
	resp_write_integer(call->out, call->session->protocol_version);
	resp_write_bulk(call->out, SLICE("id"));
	resp_write_integer(call->out, (int64_t)call->session->connection_id);
	resp_write_bulk(call->out, SLICE("mode"));
	resp_write_bulk(call->out, SLICE("standalone"));
	resp_write_bulk(call->out, SLICE("role"));
	resp_write_bulk(call->out, SLICE("master"));
	resp_write_bulk(call->out, SLICE("modules"));
	resp_write_length(call->out, '*', 0);
}

struct hello {
	uint64_t version;
	struct request_login login;
	struct slice name; /* data NULL without SETNAME */
};

/*
 * Reads HELLO [version [AUTH user password] [SETNAME name]]. Returns false if it has answered with
 * an error.
 */
static bool read_hello(const struct resp_call *call, struct hello *hello)
{
	hello->version = (uint64_t)call->session->protocol_version;
	if (call->word_count > 1 && !parse_u64(call->words[1], &hello->version)) {
		resp_call_write_error(call, "Protocol version is not an integer or out of range");
		return false;
	}
	if (hello->version != 2 && hello->version != 3) {
		resp_write_error(call->out, "NOPROTO", SLICE("unsupported protocol version"));
		return false;
	}
	for (size_t i = 2; i < call->word_count; i++) {
		if (slice_equal_nocase(call->words[i], SLICE("AUTH")) && i + 2 < call->word_count) {
			hello->login = (struct request_login){call->words[i + 1], call->words[i + 2]};
			i += 2;
		} else if (slice_equal_nocase(call->words[i], SLICE("SETNAME")) &&
		           i + 1 < call->word_count) {
			hello->name = call->words[++i];
		} else {
			resp_call_write_error(call, "Syntax error in HELLO option '%.*s'",
			                      FILL_QUOTE(call->words[i]));
			return false;
		}
	}
	return !hello->name.data || check_client_name(call, hello->name);
}

/*
 * Makes HELLO with AUTH a login, unless it has other errors, so that either all of HELLO takes
 * effect or nothing. For that it reads the options of HELLO in advance, and drops their error:
 * resp_run_hello reads them again when the login is done, and answers.
 */
int resp_read_hello(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                    size_t n)
{
	struct resp_session some_session = {.protocol_version = 2};
	struct buffer dropped_error = {0};
	struct hello hello = {0};
	struct resp_call call = {&some_session, args, n, {0}, &dropped_error};
	bool is_valid = read_hello(&call, &hello);
	int status = resp_copy_words_to_request(fill, args, n);

	(void)spec;
	buffer_free(&dropped_error);
	if (status != 0 || !is_valid || !hello.login.secret.data)
		return status;
	return make_login(fill, hello.login);
}

/* Answers HELLO, after its login, if any: sets the client's name and the protocol's version. */
void resp_run_hello(const struct resp_call *call)
{
	struct hello hello = {0};

	if (!read_hello(call, &hello))
		return;
	if (hello.name.data)
		set_client_name(call, hello.name);
	call->session->protocol_version = (int)hello.version;
	write_hello(call);
}

/* Accepts any database number; all of them have the same keys. */
void resp_run_select(const struct resp_call *call)
{
	int64_t index;

	if (!parse_i64(call->words[1], &index))
		resp_call_write_error(call, "value is not an integer or out of range");
	else if (index < 0 || index > INT_MAX)
		resp_call_write_error(call, "DB index is out of range");
	else
		resp_call_write_ok(call);
}

void resp_run_reset(const struct resp_call *call)
{
	call->session->protocol_version = 2;
	call->session->client_name_len = 0;
	call->session->tracking_flags = 0;
	buffer_add_text(call->out, "+RESET\r\n");
}

static void client_setname(const struct resp_call *call)
{
	if (!check_client_name(call, call->words[2]))
		return;
	set_client_name(call, call->words[2]);
	resp_call_write_ok(call);
}

static void client_getname(const struct resp_call *call)
{
	if (call->session->client_name_len > 0)
		resp_write_bulk(call->out,
		                (struct slice){call->session->client_name, call->session->client_name_len});
	else
		resp_call_write_null(call);
}

static void client_id(const struct resp_call *call)
{
	resp_write_integer(call->out, (int64_t)call->session->connection_id);
}

static void client_info(const struct resp_call *call)
{
	const struct resp_session *session = call->session;
	struct buffer text = {0};

	buffer_printf(&text, "id=%llu name=%.*s db=0 user=%.*s resp=%d\n",
	              (unsigned long long)session->connection_id, (int)session->client_name_len,
	              session->client_name, (int)call->user.len, call->user.data,
	              session->protocol_version);
	resp_call_write_text(call, (struct slice){text.data, text.len});
	buffer_free(&text);
}

/*
 * CLIENT TRACKING asks for notices when values change that the client has cached. Weir has no
 * command that reads a value, so there is nothing to cache and no notice to send. The options are
 * checked as Redis checks them, and stored for CLIENT TRACKINGINFO.
 */
enum {
	TRACKING_ON = 1,
	TRACKING_BCAST = 2,
	TRACKING_OPTIN = 4,
	TRACKING_OPTOUT = 8,
	TRACKING_NOLOOP = 16,
	TRACKING_PREFIX = 32, /* the prefix itself is not stored */
};

static const struct {
	struct slice name;
	struct slice shown; /* its name in CLIENT TRACKINGINFO, or empty */
	unsigned flag;
	bool has_value; /* the next word */
	bool is_number; /* the value must be a whole number */
} tracking_options[] = {
    {SLICE("BCAST"), SLICE("bcast"), TRACKING_BCAST, false, false},
    {SLICE("OPTIN"), SLICE("optin"), TRACKING_OPTIN, false, false},
    {SLICE("OPTOUT"), SLICE("optout"), TRACKING_OPTOUT, false, false},
    {SLICE("NOLOOP"), SLICE("noloop"), TRACKING_NOLOOP, false, false},
    {SLICE("PREFIX"), SLICE(""), TRACKING_PREFIX, true, false},
    {SLICE("REDIRECT"), SLICE(""), 0, true, true},
};

#define TRACKING_OPTION_COUNT (sizeof tracking_options / sizeof *tracking_options)

/* Adds the flags of the options to *flags. Returns false for unknown options and invalid values. */
static bool read_tracking_options(const struct resp_call *call, unsigned *flags)
{
	uint64_t id;

	for (size_t i = 3; i < call->word_count; i++) {
		size_t option = 0;

		while (option < TRACKING_OPTION_COUNT &&
		       !slice_equal_nocase(call->words[i], tracking_options[option].name))
			option++;
		if (option == TRACKING_OPTION_COUNT)
			return false;
		*flags |= tracking_options[option].flag;
		i += tracking_options[option].has_value;
		if (i >= call->word_count ||
		    (tracking_options[option].is_number && !parse_u64(call->words[i], &id)))
			return false;
	}
	return true;
}

/*
 * Returns the message for options that contradict each other, or those of an earlier CLIENT
 * TRACKING (`before`); NULL if none do.
 */
static const char *find_tracking_conflict(unsigned before, unsigned flags)
{
	if ((flags & TRACKING_PREFIX) && !(flags & TRACKING_BCAST))
		return "PREFIX option requires BCAST mode to be enabled";
	if ((before & TRACKING_ON) && ((before ^ flags) & TRACKING_BCAST))
		return "You can't switch BCAST mode on/off before disabling tracking for this client, "
		       "and then re-enabling it with a different mode.";
	if ((flags & TRACKING_BCAST) && (flags & (TRACKING_OPTIN | TRACKING_OPTOUT)))
		return "OPTIN and OPTOUT are not compatible with BCAST";
	if ((flags & TRACKING_OPTIN) && (flags & TRACKING_OPTOUT))
		return "You can't specify both OPTIN mode and OPTOUT mode";
	if ((before & TRACKING_ON) && ((before ^ flags) & (TRACKING_OPTIN | TRACKING_OPTOUT)))
		return "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, "
		       "and then re-enabling it with a different mode.";
	return NULL;
}

/* CLIENT TRACKING ON|OFF [option ...] */
static void client_tracking(const struct resp_call *call)
{
	bool on = slice_equal_nocase(call->words[2], SLICE("ON"));
	unsigned flags = on ? TRACKING_ON : 0;
	const char *conflict;

	if ((!on && !slice_equal_nocase(call->words[2], SLICE("OFF"))) ||
	    !read_tracking_options(call, &flags)) {
		resp_call_write_error(call, "syntax error");
		return;
	}
	conflict = on ? find_tracking_conflict(call->session->tracking_flags, flags) : NULL;
	if (conflict) {
		resp_call_write_error(call, "%s", conflict);
		return;
	}
	call->session->tracking_flags = on ? flags : 0;
	resp_call_write_ok(call);
}

/* CLIENT CACHING YES or NO says whether the client will cache the next reply. */
static void client_caching(const struct resp_call *call)
{
	unsigned tracking = call->session->tracking_flags;
	bool yes = slice_equal_nocase(call->words[2], SLICE("YES"));

	if (!(tracking & (TRACKING_OPTIN | TRACKING_OPTOUT)))
		resp_call_write_error(call,
		                      "CLIENT CACHING can be called only when the client is in tracking "
		                      "mode with OPTIN or OPTOUT mode enabled");
	else if (!yes && !slice_equal_nocase(call->words[2], SLICE("NO")))
		resp_call_write_error(call, "syntax error");
	else if (!(tracking & (yes ? TRACKING_OPTIN : TRACKING_OPTOUT)))
		resp_call_write_error(
		    call, "CLIENT CACHING %s is only valid when tracking is enabled in %s mode.",
		    yes ? "YES" : "NO", yes ? "OPTIN" : "OPTOUT");
	else
		resp_call_write_ok(call);
}

/* Notices are redirected to no connection (0); -1 if tracking is off. */
static void client_getredir(const struct resp_call *call)
{
	resp_write_integer(call->out, call->session->tracking_flags & TRACKING_ON ? 0 : -1);
}

static void client_trackinginfo(const struct resp_call *call)
{
	unsigned tracking = call->session->tracking_flags;
	uint64_t shown_count = 1; /* "on" or "off", and the options */

	for (size_t i = 0; i < TRACKING_OPTION_COUNT; i++)
		shown_count += tracking_options[i].shown.len > 0 && (tracking & tracking_options[i].flag);
	resp_call_begin_map(call, 3);
	resp_write_bulk(call->out, SLICE("flags"));
	resp_write_length(call->out, call->session->protocol_version == 3 ? '~' : '*', shown_count);
	resp_write_bulk(call->out, tracking & TRACKING_ON ? SLICE("on") : SLICE("off"));
	for (size_t i = 0; i < TRACKING_OPTION_COUNT; i++)
		if (tracking_options[i].shown.len > 0 && (tracking & tracking_options[i].flag))
			resp_write_bulk(call->out, tracking_options[i].shown);
	resp_write_bulk(call->out, SLICE("redirect"));
	client_getredir(call);
	resp_write_bulk(call->out, SLICE("prefixes"));
	resp_write_length(call->out, '*', 0);
}

void resp_run_client(const struct resp_call *call)
{
	static const struct resp_subcommand table[] = {
	    {SLICE("SETINFO"), 4, 4, "attribute value", resp_call_write_ok},
	    {SLICE("SETNAME"), 3, 3, "name", client_setname},
	    {SLICE("GETNAME"), 2, 2, "", client_getname},
	    {SLICE("ID"), 2, 2, "", client_id},
	    {SLICE("INFO"), 2, 2, "", client_info},
	    {SLICE("LIST"), 2, RESP_ARGS_ANY, "", client_info},
	    {SLICE("TRACKING"), 3, RESP_ARGS_ANY, "ON|OFF [option ...]", client_tracking},
	    {SLICE("TRACKINGINFO"), 2, 2, "", client_trackinginfo},
	    {SLICE("CACHING"), 3, 3, "YES|NO", client_caching},
	    {SLICE("GETREDIR"), 2, 2, "", client_getredir},
	    {SLICE("NO-EVICT"), 3, 3, "ON|OFF", resp_call_write_ok},
	    {SLICE("NO-TOUCH"), 3, 3, "ON|OFF", resp_call_write_ok},
	    {SLICE("CAPA"), 3, RESP_ARGS_ANY, "capability [capability ...]", resp_call_write_ok},
	};

	RESP_RUN_SUBCOMMAND(table);
}
