/*
 * permit_secret.c: maintains the secret that signs permits in a key of Redis, so that all servers
 * of one Redis read each other's permits. The keeper, in one worker, sends SET NX and GET every 10
 * s, and renews the key's lifetime; if a call fails it tries the next host of the URL.
 */
#include "server/access/permit_secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/os/os.h"
#include "redis/network/dialer.h"
#include "redis/nodes/hash_slots.h"
#include "server/stores/transport.h"

#define LIFETIME_MS      "604800000" /* a week without any server */
#define RENEWAL_NS       (10 * NS_PER_S)
#define RETRY_NS         NS_PER_S
#define CALL_TIMEOUT_NS  (2 * NS_PER_S)
#define REDIRECTIONS_MAX 4 /* redirections in a row */

/* The time between two warnings that the key has an unusable value. */
#define WARNING_INTERVAL_NS (3600 * NS_PER_S)

#define DIGITS (PERMIT_SECRET_TEXT - 1)

/* The commands of a call, in the order in which they are sent. The last one is PEXPIRE. */
enum { COMMAND_SET, COMMAND_GET, COMMAND_RENEW, COMMANDS_MAX };

struct secret_call {
	struct pending_reply base; /* the first member */
	struct secret_keeper *of;
};

struct secret_keeper {
	struct permit_secrets *secrets;
	struct server_transport transport;
	struct log *log;
	const struct store *store;
	struct redis_url url;
	char *key;
	struct hash_key own_draw; /* the secret to store if there is none */
	struct redis_host host;
	size_t tries; /* chooses the next host of the URL */
	unsigned redirections;
	struct redis_dialer *dialer; /* NULL between two calls */
	uint64_t due_ns;             /* when the next call begins, or the present one has timed out */
	uint64_t dialer_due_ns;      /* when dialer_tick is due */
	uint64_t pause_ns;           /* until the next call */
	struct secret_call calls[COMMANDS_MAX];
	unsigned sent_count, reply_count;
	uint64_t unusable_count; /* how often in a row an unusable value was found */
	uint64_t warned_ns;      /* when the last warning was logged, or 0 */
};

size_t permit_secrets_count(const struct permit_secrets *secrets)
{
	return atomic_load_explicit(&secrets->count, memory_order_acquire) + 1;
}

const struct hash_key *permit_secrets_at(const struct permit_secrets *secrets, size_t i,
                                         const struct hash_key *own)
{
	size_t count = atomic_load_explicit(&secrets->count, memory_order_acquire);

	return i < count ? &secrets->keys[count - 1 - i] : own;
}

/* Secrets are never removed: permits may have been written under them. */
static void add_secret(struct permit_secrets *secrets, const struct hash_key *key)
{
	size_t count = atomic_load_explicit(&secrets->count, memory_order_relaxed);
	const struct hash_key *newest = count > 0 ? &secrets->keys[count - 1] : NULL;

	if ((newest && newest->k0 == key->k0 && newest->k1 == key->k1) || count == PERMIT_SECRETS_MAX)
		return;
	secrets->keys[count] = *key;
	atomic_store_explicit(&secrets->count, count + 1, memory_order_release);
}

/* Reads 64 bits, half of a secret. */
static bool read_half(const char *digits, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < DIGITS / 2; i++) {
		int digit = hex_digit(digits[i]);

		if (digit < 0)
			return false;
		*out = *out << 4 | (uint64_t)digit;
	}
	return true;
}

bool permit_secret_read(struct slice text, struct hash_key *secret)
{
	struct hash_key key;
	bool is_secret = text.len == DIGITS && read_half(text.data, &key.k0) &&
	                 read_half(text.data + DIGITS / 2, &key.k1);

	if (is_secret)
		*secret = key;
	return is_secret;
}

void permit_secret_write(const struct hash_key *secret, char out[PERMIT_SECRET_TEXT])
{
	snprintf(out, PERMIT_SECRET_TEXT, "%016llx%016llx", (unsigned long long)secret->k0,
	         (unsigned long long)secret->k1);
}

/* Ends a call; the next one follows after `pause_ns`. */
static void disconnect(struct secret_keeper *keeper)
{
	if (keeper->dialer)
		dialer_close(keeper->dialer);
	keeper->dialer = NULL;
	keeper->dialer_due_ns = UINT64_MAX;
	keeper->due_ns = os_monotonic_ns() + keeper->pause_ns;
}

/* Ends a failed call. Another host of the URL may answer. */
static void try_next_host(struct secret_keeper *keeper)
{
	keeper->host = keeper->url.hosts[++keeper->tries % keeper->url.host_count];
	keeper->redirections = 0;
	keeper->pause_ns = RETRY_NS;
	disconnect(keeper);
}

/* The error of a cluster's node names the node that has the key: calls that next. */
static void follow_redirection(struct secret_keeper *keeper, const struct redis_reply *reply)
{
	unsigned slot;
	struct redis_host host;

	if (keeper->redirections == REDIRECTIONS_MAX || reply->type != REDIS_ERROR ||
	    hash_slots_read_redirect(reply->text, &keeper->host, &slot, &host) == HASH_SLOTS_STAY)
		return;
	keeper->redirections++;
	keeper->host = host;
	keeper->pause_ns = 0;
}

/*
 * Leaves an unusable value and its lifetime alone: if the prefix was chosen badly, another program
 * needs the value. The log does not show it, because it may be a secret that has lost a digit.
 */
static void warn_unusable(struct secret_keeper *keeper, const char *found)
{
	uint64_t now_ns = os_monotonic_ns();
	char message[256];

	keeper->unusable_count++;
	if (keeper->warned_ns != 0 && now_ns < keeper->warned_ns + WARNING_INTERVAL_NS)
		return;
	keeper->warned_ns = now_ns;
	snprintf(message, sizeof message,
	         "expected %d hexadecimal digits, found %s: servers that start now share no permits "
	         "with others, until you delete the key or change `prefix`",
	         DIGITS, found);
	log_event(keeper->log, LOG_WARNING, "secret_unusable",
	          {"store", redis_store_name(keeper->store)}, {"key", keeper->key},
	          {"times", .number = keeper->unusable_count}, {"message", message});
}

/* Handles a reply to GET that has no secret. */
static void handle_other_reply(struct secret_keeper *keeper, const struct redis_reply *reply)
{
	if (reply->type == REDIS_TEXT)
		warn_unusable(keeper, "other text");
	else if (reply->type == REDIS_ERROR && redis_error_is(reply->text, "WRONGTYPE"))
		warn_unusable(keeper, "a value of another type");
	else
		follow_redirection(keeper, reply);
}

static void on_reply(struct pending_reply *call, const struct redis_reply *reply);

static void send_command(struct secret_keeper *keeper, const struct slice *words, size_t count)
{
	struct secret_call *call = &keeper->calls[keeper->sent_count++];

	call->of = keeper;
	call->base.replied = on_reply;
	connection_write_words(connection_command_buffer(dialer_connection(keeper->dialer)), words,
	                       count);
	connection_expect_reply(dialer_connection(keeper->dialer), &call->base);
}

/* Only the reply to GET matters, because it shows what SET has stored. */
static void on_reply(struct pending_reply *call, const struct redis_reply *reply)
{
	struct secret_keeper *keeper = ((struct secret_call *)call)->of;
	bool is_get = call == &keeper->calls[COMMAND_GET].base;
	struct hash_key key;

	keeper->reply_count++;
	if (!reply || !is_get)
		return;
	if (reply->type != REDIS_TEXT || !permit_secret_read(reply->text, &key)) {
		handle_other_reply(keeper, reply);
		return;
	}
	add_secret(keeper->secrets, &key);
	keeper->redirections = 0;
	keeper->pause_ns = RENEWAL_NS;
	if (keeper->unusable_count > 0)
		log_event(keeper->log, LOG_INFO, "secret_usable",
		          {"store", redis_store_name(keeper->store)}, {"key", keeper->key});
	keeper->unusable_count = keeper->warned_ns = 0;
	/* the transport sends it with the bytes that receiving this reply leaves unsent */
	send_command(keeper,
	             (struct slice[]){SLICE("PEXPIRE"), slice_of(keeper->key), SLICE(LIFETIME_MS)}, 3);
}

/* Called when the connection is ready: sets the secret unless there is one, and reads it. */
static void send_commands(void *context)
{
	struct secret_keeper *keeper = context;
	const struct hash_key *newest = permit_secrets_at(keeper->secrets, 0, &keeper->own_draw);
	struct slice key = slice_of(keeper->key), life = SLICE(LIFETIME_MS);
	char digits[PERMIT_SECRET_TEXT];

	permit_secret_write(newest, digits);
	send_command(
	    keeper,
	    (struct slice[]){SLICE("SET"), key, {digits, DIGITS}, SLICE("NX"), SLICE("PX"), life}, 6);
	send_command(keeper, (struct slice[]){SLICE("GET"), key}, 2);
	dialer_send(keeper->dialer);
}

static void on_bytes(void *context, struct slice bytes)
{
	struct secret_keeper *keeper = context;

	if (connection_receive(dialer_connection(keeper->dialer), bytes) != 0)
		try_next_host(keeper);
	else if (keeper->reply_count == keeper->sent_count)
		disconnect(keeper);
}

static void on_lost(void *context, const char *why)
{
	struct secret_keeper *keeper = context;

	(void)why; /* the store logs it */
	try_next_host(keeper);
}

static void set_secret_alarm(void *context, uint64_t at_ns)
{
	((struct secret_keeper *)context)->dialer_due_ns = at_ns;
}

static const struct dialer_owner owner = {send_commands, on_bytes, on_lost, set_secret_alarm};

/* Begins a call: connects to the host, or to the master that sentinels have named. */
static void connect_host(struct secret_keeper *keeper)
{
	struct dialer_target target = {.url = &keeper->url};

	keeper->sent_count = keeper->reply_count = 0;
	keeper->pause_ns = RETRY_NS;
	if (keeper->url.master_name && !redis_store_master(keeper->store, &keeper->host)) {
		disconnect(keeper);
		return;
	}
	target.host = keeper->host;
	keeper->dialer = dialer_open(&keeper->transport.base, &target, &owner, keeper);
	if (keeper->dialer)
		keeper->due_ns = os_monotonic_ns() + CALL_TIMEOUT_NS;
	else
		disconnect(keeper);
}

struct secret_keeper *secret_keeper_open(struct permit_secrets *secrets,
                                         const struct stores *stores, struct net_loop *loop)
{
	const struct stores_item *store = &stores->items[0];
	struct secret_keeper *keeper = calloc(1, sizeof *keeper);
	size_t size = strlen(store->prefix) + sizeof "secret";

	if (!keeper)
		return NULL;
	keeper->secrets = secrets;
	server_transport_open(&keeper->transport, loop);
	keeper->dialer_due_ns = UINT64_MAX;
	keeper->log = stores->log;
	keeper->store = store->store;
	keeper->key = malloc(size);
	if (!keeper->key || os_random(&keeper->own_draw, sizeof keeper->own_draw) != 0 ||
	    redis_url_read(store->url, &keeper->url, NULL) != WEIR_OK) {
		free(keeper->key);
		free(keeper);
		return NULL;
	}
	snprintf(keeper->key, size, "%ssecret", store->prefix);
	keeper->host = keeper->url.hosts[0];
	return keeper;
}

void secret_keeper_end(struct secret_keeper *keeper)
{
	if (keeper)
		server_transport_end(&keeper->transport);
}

void secret_keeper_close(struct secret_keeper *keeper)
{
	if (!keeper)
		return;
	disconnect(keeper);
	redis_url_free(&keeper->url);
	free(keeper->key);
	free(keeper);
}

uint64_t secret_keeper_tick(struct secret_keeper *keeper, uint64_t now_ns)
{
	if (keeper->dialer && keeper->dialer_due_ns <= now_ns) {
		keeper->dialer_due_ns = UINT64_MAX;
		dialer_tick(keeper->dialer, now_ns);
	}
	if (now_ns >= keeper->due_ns && keeper->dialer) /* the call has timed out */
		try_next_host(keeper);
	else if (now_ns >= keeper->due_ns)
		connect_host(keeper);
	return u64_min(keeper->due_ns, keeper->dialer_due_ns);
}
