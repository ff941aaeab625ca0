/* Connects a client and a server of TLS in memory: handshakes, records, names, failures, memory. */
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/number.h"
#include "tls/tls.h"

#define HOST     "weir.test"
#define HEADER   5  /* bytes of a record before its body */
#define OVERHEAD 22 /* bytes of a record of TLS 1.3 without its content */

/* A side of a connection, with the bytes that it has sent and received. */
struct side {
	struct tls *tls;
	bool is_server;
	struct buffer wire;  /* to be sent */
	struct buffer plain; /* what the other has said */
};

struct pair {
	struct tls_context *client_context, *server_context;
	struct tls_recent recent;
	struct side client, server;
};

/* OpenSSL's memory. */
struct block {
	size_t size;
	bool is_buffer; /* of records, and the server's */
	alignas(max_align_t) char data[];
};

static size_t buffers_made, buffers_held;
static bool server_runs;

static struct block *block_of(void *data)
{
	return (struct block *)((char *)data - offsetof(struct block, data));
}

static void *make_block(size_t size, const char *file, int line)
{
	struct block *block = malloc(sizeof *block + size);

	(void)file;
	(void)line;
	assert_non_null(block);
	block->size = size;
	/* It has room for the longest record. A buffer for messages of a handshake is larger still. */
	block->is_buffer = server_runs && size > 16384 && size < 20000;
	buffers_made += block->is_buffer;
	buffers_held += block->is_buffer;
	return block->data;
}

static void free_block(void *data, const char *file, int line)
{
	(void)file;
	(void)line;
	if (!data)
		return;
	buffers_held -= block_of(data)->is_buffer;
	free(block_of(data));
}

static void *grow_block(void *data, size_t size, const char *file, int line)
{
	void *grown = make_block(size, file, line);

	if (data)
		memcpy(grown, data, u64_min(block_of(data)->size, size));
	free_block(data, file, line);
	return grown;
}

static void sign(X509 *cert, EVP_PKEY *key)
{
	X509_NAME *name = X509_get_subject_name(cert);
	X509_EXTENSION *host = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:" HOST);

	X509_set_version(cert, X509_VERSION_3);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(cert, name);
	X509_add_ext(cert, host, -1);
	X509_EXTENSION_free(host);
	assert_int_not_equal(X509_sign(cert, key, EVP_sha256()), 0);
}

/* A certificate of HOST, signed by its own key, and that key; `path` becomes the file's. */
static void write_paper(char path[])
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	assert_non_null(file);
	sign(cert, key);
	assert_int_equal(PEM_write_X509(file, cert), 1);
	assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	X509_free(cert);
	EVP_PKEY_free(key);
}

/* Takes `len` bytes that `from` has for the other side; returns what tls_decrypt does. */
static int carry(struct side *from, struct side *to, size_t len)
{
	/* A copy, so that a sanitizer sees a read of bytes that are gone. */
	char *bytes = malloc(len);
	int status;

	assert_true(len <= from->wire.len);
	memcpy(bytes, from->wire.data, len);
	buffer_consume(&from->wire, len);
	server_runs = to->is_server;
	status = tls_decrypt(to->tls, (struct slice){bytes, len}, &to->plain, &to->wire);
	free(bytes);
	return status;
}

static int carry_all(struct side *from, struct side *to)
{
	return carry(from, to, from->wire.len);
}

static void pair_open(struct pair *pair)
{
	char path[] = "/tmp/weir-test-XXXXXX";
	struct weir_error error = {0};
	struct tls_server server = {.files = {.cert = path}};

	*pair = (struct pair){.server = {.is_server = true}};
	write_paper(path);
	assert_int_equal(tls_context_open_server(&pair->server_context, &server, &error), WEIR_OK);
	assert_int_equal(
	    tls_context_open(&pair->client_context, &(struct tls_files){.ca = path}, &error), WEIR_OK);
	unlink(path);
	assert_int_equal(tls_accept(&pair->server.tls, pair->server_context, &pair->recent), WEIR_OK);
	assert_int_equal(tls_open(&pair->client.tls, pair->client_context, HOST, &pair->client.wire),
	                 WEIR_OK);
}

/* In steps of `step` bytes. */
static void pair_greet(struct pair *pair, size_t step)
{
	while (pair->client.wire.len + pair->server.wire.len > 0) {
		size_t len = u64_min(step, pair->client.wire.len);

		if (len > 0)
			assert_int_equal(carry(&pair->client, &pair->server, len), WEIR_OK);
		len = u64_min(step, pair->server.wire.len);
		if (len > 0)
			assert_int_equal(carry(&pair->server, &pair->client, len), WEIR_OK);
	}
	assert_true(tls_is_ready(pair->client.tls) && tls_is_ready(pair->server.tls));
	assert_false(tls_has_partial(pair->client.tls) || tls_has_partial(pair->server.tls));
	assert_int_equal(pair->client.plain.len + pair->server.plain.len, 0);
}

static int setup(void **state)
{
	static struct pair pair;

	pair_open(&pair);
	*state = &pair;
	return 0;
}

static int setup_greeted(void **state)
{
	setup(state);
	pair_greet(*state, SIZE_MAX);
	return 0;
}

static void side_close(struct side *side)
{
	tls_close(side->tls);
	side->tls = NULL;
	buffer_free(&side->wire);
	buffer_free(&side->plain);
}

static int teardown(void **state)
{
	struct pair *pair = *state;

	side_close(&pair->client);
	side_close(&pair->server);
	tls_context_close(pair->client_context);
	tls_context_close(pair->server_context);
	return 0;
}

static void say(struct side *side, struct slice words)
{
	server_runs = side->is_server;
	assert_int_equal(tls_encrypt(side->tls, words, &side->wire), WEIR_OK);
}

static void assert_heard(struct side *side, struct slice words)
{
	assert_int_equal(side->plain.len, words.len);
	assert_memory_equal(side->plain.data, words.data, words.len);
	side->plain.len = 0;
}

static void what_is_sent_goes_behind_what_waits(void **state)
{
	struct pair *pair = *state;

	buffer_add_text(&pair->client.wire, "waits");
	say(&pair->client, SLICE("ping"));
	say(&pair->client, SLICE("pong"));
	assert_int_equal(pair->client.wire.len, 5 + 2 * (4 + OVERHEAD));
	assert_memory_equal(pair->client.wire.data, "waits", 5);
	buffer_consume(&pair->client.wire, 5);
	assert_int_equal(carry_all(&pair->client, &pair->server), WEIR_OK);
	assert_heard(&pair->server, SLICE("pingpong"));
	assert_int_equal(pair->server.wire.len, 0);
}

static void a_part_is_told_from_its_first_byte_to_its_last(void **state)
{
	struct pair *pair = *state;
	size_t size = 4 + OVERHEAD;

	pair_greet(pair, 1);
	for (size_t cut = 1; cut < size; cut++) {
		say(&pair->client, SLICE("ping"));
		assert_int_equal(pair->client.wire.len, size);
		assert_int_equal(carry(&pair->client, &pair->server, cut), WEIR_OK);
		if (!tls_has_partial(pair->server.tls))
			fail_msg("no part after %zu of %zu bytes, of them %d the header", cut, size, HEADER);
		assert_int_equal(pair->server.plain.len, 0);
		assert_int_equal(carry_all(&pair->client, &pair->server), WEIR_OK);
		assert_false(tls_has_partial(pair->server.tls));
		assert_heard(&pair->server, SLICE("ping"));
	}
}

/* More than one read of the SSL takes, in reads that end inside of records. */
static void many_records_come_in_any_reads(void **state)
{
	struct pair *pair = *state;
	struct buffer words = {0};

	for (uint64_t i = 0; i < 3000; i++) {
		size_t before = words.len;

		buffer_printf(&words, "%llu,", (unsigned long long)i);
		for (uint64_t n = 0; n < i % 64; n++)
			buffer_add(&words, "x", 1);
		say(&pair->client, (struct slice){words.data + before, words.len - before});
	}
	for (size_t len = 1; pair->client.wire.len > 0; len = len * 3 + 1) {
		size_t part = u64_min(u64_min(len, 65536), pair->client.wire.len);

		assert_int_equal(carry(&pair->client, &pair->server, part), WEIR_OK);
	}
	assert_heard(&pair->server, (struct slice){words.data, words.len});
	assert_false(tls_has_partial(pair->server.tls));
	buffer_free(&words);
}

/* An error that other code has left behind in the thread. */
static void leave_an_error(void)
{
	ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
}

static void errors_of_others_are_not_the_connections(void **state)
{
	struct pair *pair = *state;

	pair_greet(pair, 100); /* which waits for more many times */
	for (int i = 0; i < 3; i++) {
		say(&pair->client, SLICE("ping"));
		leave_an_error();
		assert_int_equal(carry(&pair->client, &pair->server, 10), WEIR_OK);
		leave_an_error();
		assert_int_equal(carry_all(&pair->client, &pair->server), WEIR_OK);
		leave_an_error();
		say(&pair->server, SLICE("pong"));
		assert_int_equal(carry_all(&pair->server, &pair->client), WEIR_OK);
	}
	leave_an_error();
	tls_send_end(pair->client.tls, &pair->client.wire);
	leave_an_error();
	assert_int_equal(carry_all(&pair->client, &pair->server), WEIR_OK);
	assert_true(tls_has_ended(pair->server.tls));
	assert_string_equal(tls_error(pair->server.tls), "");
	assert_heard(&pair->server, SLICE("pingpingping"));
	ERR_clear_error();
}

static void a_file_fails_for_its_own_reason(void **state)
{
	struct tls_context *context;
	struct weir_error error = {0};

	(void)state;
	leave_an_error();
	assert_int_equal(tls_context_open(&context, &(struct tls_files){.ca = "/none"}, &error),
	                 WEIR_EIO);
	assert_non_null(strstr(error.message, "No such file"));
}

/* The errors of others come before its own. */
static void a_forged_record_fails_and_the_peer_is_told(void **state)
{
	struct pair *pair = *state;

	say(&pair->client, SLICE("ping"));
	pair->client.wire.data[HEADER] ^= 1;
	leave_an_error();
	assert_int_equal(carry_all(&pair->client, &pair->server), WEIR_EIO);
	assert_int_equal(pair->server.plain.len, 0);
	assert_non_null(strstr(tls_error(pair->server.tls), "bad record mac"));
	assert_false(tls_has_ended(pair->server.tls));
	leave_an_error();
	assert_int_equal(carry_all(&pair->server, &pair->client), WEIR_EIO);
	assert_non_null(strstr(tls_error(pair->client.tls), "alert bad record mac"));
	assert_false(tls_has_ended(pair->client.tls));
	ERR_clear_error();
}

static void no_memory_is_an_error(void **state)
{
	struct pair *pair = *state;

	buffer_free(&pair->client.wire); /* a bound holds for what grows */
	pair->client.wire.max = 4 + OVERHEAD;
	say(&pair->client, SLICE("ping"));
	pair->server.plain.max = 3;
	assert_int_equal(carry_all(&pair->client, &pair->server), WEIR_EIO);
	assert_non_null(strstr(tls_error(pair->server.tls), "out of memory"));
	assert_int_equal(tls_encrypt(pair->client.tls, SLICE("pings"), &pair->client.wire), WEIR_EIO);
	assert_non_null(strstr(tls_error(pair->client.tls), "out of memory"));
}

/* Connections to the server of a pair, more than keep their buffers. */
struct crowd {
	struct pair pairs[TLS_RECENT + 2];
};

static void crowd_open(struct crowd *crowd, struct pair *first)
{
	for (size_t i = 0; i < TLS_RECENT + 2; i++) {
		struct pair *pair = &crowd->pairs[i];

		*pair = (struct pair){.server = {.is_server = true}};
		assert_int_equal(tls_accept(&pair->server.tls, first->server_context, &first->recent),
		                 WEIR_OK);
		assert_int_equal(
		    tls_open(&pair->client.tls, first->client_context, HOST, &pair->client.wire), WEIR_OK);
		pair_greet(pair, SIZE_MAX);
	}
}

static void crowd_close(struct crowd *crowd)
{
	for (size_t i = 0; i < TLS_RECENT + 2; i++) {
		side_close(&crowd->pairs[i].client);
		side_close(&crowd->pairs[i].server);
	}
	free(crowd);
}

/* Returns how many buffers the server made. */
static size_t exchange(struct pair *pair)
{
	size_t before = buffers_made;

	say(&pair->client, SLICE("ping"));
	assert_int_equal(carry_all(&pair->client, &pair->server), WEIR_OK);
	say(&pair->server, SLICE("pong"));
	assert_int_equal(carry_all(&pair->server, &pair->client), WEIR_OK);
	assert_heard(&pair->server, SLICE("ping"));
	assert_heard(&pair->client, SLICE("pong"));
	return buffers_made - before;
}

static void connections_that_were_read_last_keep_their_buffers(void **state)
{
	struct crowd *crowd = malloc(sizeof *crowd);
	struct pair *pairs = crowd->pairs;

	crowd_open(crowd, *state);
	assert_int_equal(buffers_held, 0); /* a greeting alone takes no place */
	for (size_t i = 0; i < TLS_RECENT; i++)
		assert_true(exchange(&pairs[i]) + exchange(&pairs[i]) > 0);
	assert_int_equal(buffers_held, 2 * TLS_RECENT);
	for (size_t i = 0; i < TLS_RECENT; i++)
		assert_int_equal(exchange(&pairs[i]), 0);
	say(&pairs[0].client, SLICE("ping"));
	carry(&pairs[0].client, &pairs[0].server, HEADER + 1);
	/* These take the places of the first two, of which one still needs its buffers. */
	for (size_t i = TLS_RECENT; i < TLS_RECENT + 2; i++)
		for (size_t n = 0; n < TLS_RECENT_MISSES + 1; n++)
			exchange(&pairs[i]);
	assert_int_equal(buffers_held, 2 * (TLS_RECENT + 1));
	say(&pairs[1].server, SLICE("pong"));
	assert_int_equal(buffers_held, 2 * (TLS_RECENT + 1));
	carry_all(&pairs[0].client, &pairs[0].server);
	assert_heard(&pairs[0].server, SLICE("ping"));
	/* Only the second is left, and takes the place of one that has gone. */
	for (size_t i = 0; i < TLS_RECENT + 2; i++)
		if (i != 1)
			side_close(&pairs[i].server);
	assert_int_equal(buffers_held, 0);
	carry_all(&pairs[1].server, &pairs[1].client);
	pairs[1].client.plain.len = 0;
	exchange(&pairs[1]);
	exchange(&pairs[1]);
	assert_int_equal(buffers_held, 2);
	crowd_close(crowd);
	assert_int_equal(buffers_held, 0);
}

static void in_a_crowd_most_find_their_buffers(void **state)
{
	struct crowd *crowd = malloc(sizeof *crowd);
	size_t made = 0;

	crowd_open(crowd, *state);
	for (size_t round = 0; round < 10; round++)
		for (size_t i = 0; i < TLS_RECENT + 2; i++)
			made += exchange(&crowd->pairs[i]);
	assert_in_range(made, 2 * TLS_RECENT, 10 * (TLS_RECENT + 2) / 2);
	crowd_close(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_sent_goes_behind_what_waits, setup_greeted,
	                                    teardown),
	    cmocka_unit_test_setup_teardown(a_part_is_told_from_its_first_byte_to_its_last, setup,
	                                    teardown),
	    cmocka_unit_test_setup_teardown(many_records_come_in_any_reads, setup_greeted, teardown),
	    cmocka_unit_test_setup_teardown(errors_of_others_are_not_the_connections, setup, teardown),
	    cmocka_unit_test(a_file_fails_for_its_own_reason),
	    cmocka_unit_test_setup_teardown(a_forged_record_fails_and_the_peer_is_told, setup_greeted,
	                                    teardown),
	    cmocka_unit_test_setup_teardown(connections_that_were_read_last_keep_their_buffers, setup,
	                                    teardown),
	    cmocka_unit_test_setup_teardown(in_a_crowd_most_find_their_buffers, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_memory_is_an_error, setup_greeted, teardown),
	};

	assert_int_equal(CRYPTO_set_mem_functions(make_block, grow_block, free_block), 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
