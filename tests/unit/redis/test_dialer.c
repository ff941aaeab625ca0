/* A dialer to a host of several addresses. The test is the transport, and each address answers or
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/os/os.h"
#include "redis/network/dialer.h"

#define ADDRESSES_TRIED 32

/* One attempt. */
struct line {
	struct redis_attempt *attempt; /* NULL after it has ended */
	unsigned number;               /* of its address */
};

struct scene {
	struct redis_transport transport; /* first */
	struct redis_dialer *dialer;
	struct addresses known;
	struct redis_url url;
	size_t look_ups;
	struct line lines[ADDRESSES_TRIED];
	size_t count;
	size_t accepted, lost, bytes;
	uint64_t alarm_ns;
	char why[200];
};

static void *look_up(struct redis_transport *transport, struct redis_dialer *dialer,
                     const struct redis_host *host)
{
	struct scene *s = (struct scene *)transport;

	(void)dialer; /* set when connection_open has returned */
	assert_string_equal(host->name, "store");
	s->look_ups++;
	return s;
}

static void stop_look_up(struct redis_transport *transport, void *lookup)
{
	assert_ptr_equal(lookup, transport);
	((struct scene *)transport)->look_ups = 0;
}

static bool dial(struct redis_transport *transport, struct redis_attempt *attempt,
                 const struct redis_address *to, void **line)
{
	struct scene *s = (struct scene *)transport;
	struct line *new = &s->lines[s->count++];

	assert_true(s->count <= ADDRESSES_TRIED);
	*new = (struct line){attempt, ntohl(to->v4.sin_addr.s_addr) & 255};
	*line = new;
	return true;
}

static void send_nothing(struct redis_transport *transport, void *line)
{
	(void)transport;
	(void)line;
}

static void hang_up(struct redis_transport *transport, void *line)
{
	(void)transport;
	((struct line *)line)->attempt = NULL;
}

static const struct redis_transport_kind kind = {look_up,      stop_look_up, dial,
                                                 send_nothing, hang_up,      NULL};

static void on_accepted(void *context)
{
	((struct scene *)context)->accepted++;
}

static void on_bytes(void *context, struct slice bytes)
{
	((struct scene *)context)->bytes += bytes.len;
}

static void on_lost(void *context, const char *why)
{
	struct scene *s = context;

	s->lost++;
	snprintf(s->why, sizeof s->why, "%s", why);
	dialer_close(s->dialer);
	s->dialer = NULL;
}

static void on_alarm(void *context, uint64_t at_ns)
{
	((struct scene *)context)->alarm_ns = at_ns;
}

static const struct dialer_owner owner = {on_accepted, on_bytes, on_lost, on_alarm};

static struct scene *scene_open(const char *url)
{
	struct scene *s = calloc(1, sizeof *s);

	s->transport.kind = &kind;
	addresses_open(&s->known);
	assert_int_equal(redis_url_read(url, &s->url, NULL), WEIR_OK);
	return s;
}

/* Forgets earlier connections, but not the record of addresses. */
static void begin(struct scene *s)
{
	const struct dialer_target target = {&s->url, CONNECTION_STORE, s->url.hosts[0], &s->known};

	if (s->dialer)
		dialer_close(s->dialer);
	s->count = s->accepted = s->lost = s->look_ups = 0;
	s->dialer = dialer_open(&s->transport, &target, &owner, s);
	assert_non_null(s->dialer);
}

static void end(struct scene *s)
{
	if (s->dialer)
		dialer_close(s->dialer);
	addresses_close(&s->known);
	redis_url_free(&s->url);
	free(s);
}

/* The name has the addresses 1 to n. */
static void find(struct scene *s, unsigned n)
{
	struct redis_address list[ADDRESSES_TRIED];

	for (unsigned i = 0; i < n; i++)
		list[i] = (struct redis_address){.len = sizeof(struct sockaddr_in),
		                                 .v4 = {.sin_family = AF_INET,
		                                        .sin_port = htons(6379),
		                                        .sin_addr = {htonl(0x0a000001 + i)}}};
	s->alarm_ns = 0;
	redis_dialer_found(s->dialer, list, n, n == 0 ? "no such name" : NULL);
}

static void begin_found(struct scene *s, unsigned n)
{
	begin(s);
	find(s, n);
}

static void refuse(struct scene *s, size_t i, const char *why)
{
	struct redis_attempt *attempt = s->lines[i].attempt;

	s->lines[i].attempt = NULL;
	redis_attempt_lost(attempt, why);
}

static void greet(struct scene *s, size_t i)
{
	redis_attempt_receive(s->lines[i].attempt, SLICE("+PONG\r\n"));
}

static void pass_delay(struct scene *s)
{
	assert_int_not_equal(s->alarm_ns, 0);
	dialer_tick(s->dialer, s->alarm_ns);
}

/* The numbers of the addresses that were tried, such as "1 2 ". */
static const char *tried(const struct scene *s)
{
	static char text[200];

	text[0] = '\0';
	for (size_t i = 0; i < s->count; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%u ", s->lines[i].number);
	return text;
}

static void an_address_that_refuses_is_followed_by_the_next_at_once(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin_found(s, 3);
	assert_string_equal(tried(s), "1 ");
	refuse(s, 0, "refused");
	assert_string_equal(tried(s), "1 2 ");
	refuse(s, 1, "refused");
	greet(s, 2);
	assert_string_equal(tried(s), "1 2 3 ");
	assert_int_equal(s->accepted, 1);
	assert_int_equal(s->lost, 0);
	assert_ptr_equal(dialer_connection(s->dialer), redis_attempt_connection(s->lines[2].attempt));
	end(s);
}

static void a_silent_address_is_followed_by_the_next_after_a_delay(void **state)
{
	struct scene *s = scene_open("redis://store");
	uint64_t now_ns = os_monotonic_ns();

	(void)state;
	begin_found(s, 2);
	assert_true(s->alarm_ns >= now_ns + DIALER_DELAY_NS);
	dialer_tick(s->dialer, s->alarm_ns - 1);
	assert_string_equal(tried(s), "1 ");
	assert_null(dialer_connection(s->dialer));
	pass_delay(s);
	assert_string_equal(tried(s), "1 2 ");
	greet(s, 1);
	assert_int_equal(s->accepted, 1);
	assert_null(s->lines[0].attempt);
	redis_attempt_receive(s->lines[1].attempt, SLICE("x"));
	assert_int_equal(s->bytes, 1);
	end(s);
}

static void an_earlier_address_that_answers_late_may_still_win(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin_found(s, 2);
	pass_delay(s);
	greet(s, 0);
	assert_int_equal(s->accepted, 1);
	assert_null(s->lines[1].attempt);
	end(s);
}

static void an_address_that_refuses_the_greeting_has_failed(void **state)
{
	struct scene *s = scene_open("redis://:hunter2@store");

	(void)state;
	begin_found(s, 2);
	redis_attempt_receive(s->lines[0].attempt, SLICE("-WRONGPASS no\r\n"));
	assert_null(s->lines[0].attempt);
	redis_attempt_receive(s->lines[1].attempt, SLICE("+OK\r\n+PO"));
	assert_int_equal(s->accepted, 0);
	redis_attempt_receive(s->lines[1].attempt, SLICE("NG\r\n"));
	assert_int_equal(s->accepted, 1);
	end(s);
}

static void the_last_failure_is_reported_once(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin_found(s, 2);
	pass_delay(s);
	refuse(s, 1, "first");
	assert_int_equal(s->lost, 0);
	refuse(s, 0, "last");
	assert_int_equal(s->lost, 1);
	assert_string_equal(s->why, "last");
	begin_found(s, 0);
	assert_int_equal(s->lost, 1);
	assert_string_equal(s->why, "no such name");
	end(s);
}

static void all_addresses_are_tried_within_half_of_the_time(void **state)
{
	struct scene *s = scene_open("redis://store");
	uint64_t now_ns;

	(void)state;
	begin_found(s, DIALER_ADDRESSES_MAX + 1);
	for (unsigned i = 1; i < DIALER_ADDRESSES_MAX; i++) {
		now_ns = os_monotonic_ns();
		s->alarm_ns = 0;
		dialer_tick(s->dialer, UINT64_MAX);
		if (i < DIALER_ADDRESSES_MAX - 1) {
			uint64_t begun_ns = os_monotonic_ns();

			assert_in_range(s->alarm_ns, now_ns,
			                begun_ns + DIALER_TIME_NS / 2 / DIALER_ADDRESSES_MAX);
		}
	}
	assert_int_equal(s->count, DIALER_ADDRESSES_MAX);
	assert_int_equal(s->alarm_ns, 0);
	greet(s, DIALER_ADDRESSES_MAX - 1);
	assert_int_equal(s->accepted, 1);
	end(s);
}

static void the_address_that_worked_comes_first_and_one_that_failed_last(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin_found(s, 4);
	refuse(s, 0, "refused");
	pass_delay(s);
	greet(s, 2); /* the second dropped all packets */
	begin_found(s, 4);
	assert_string_equal(tried(s), "3 ");
	refuse(s, 0, "refused");
	pass_delay(s);
	pass_delay(s);
	assert_string_equal(tried(s), "3 2 4 1 ");
	end(s);
}

/* A replica accepts the greeting, and then no writes. */
static void an_address_that_is_blamed_comes_last(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin_found(s, 3);
	greet(s, 0);
	dialer_demote_address(s->dialer);
	begin_found(s, 3);
	assert_string_equal(tried(s), "2 ");
	greet(s, 0);
	dialer_demote_address(s->dialer);
	begin_found(s, 3);
	assert_string_equal(tried(s), "3 ");
	end(s);
}

/* The dialer was closed after DIALER_TIME_NS. */
static void an_address_that_never_answered_comes_last(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin_found(s, 2);
	begin_found(s, 2);
	assert_string_equal(tried(s), "2 ");
	end(s);
}

static void a_name_is_looked_up_for_each_connection_and_followed(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin_found(s, 1);
	greet(s, 0);
	begin(s);
	assert_int_equal(s->look_ups, 1);
	redis_dialer_found(
	    s->dialer,
	    &(struct redis_address){.len = sizeof(struct sockaddr_in),
	                            .v4 = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a000009)}}},
	    1, NULL);
	assert_string_equal(tried(s), "9 ");
	end(s);
}

static void digits_are_not_looked_up(void **state)
{
	static const char *const urls[] = {"redis://10.0.0.7:1", "redis://[::1]"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct scene *s = scene_open(urls[i]);

		begin(s);
		assert_int_equal(s->look_ups, 0);
		assert_int_equal(s->count, 1);
		end(s);
	}
}

static void a_connection_may_be_closed_at_any_time(void **state)
{
	struct scene *s = scene_open("redis://store");

	(void)state;
	begin(s);
	assert_int_equal(s->look_ups, 1);
	dialer_close(s->dialer);
	assert_int_equal(s->look_ups, 0);
	s->dialer = NULL;
	begin_found(s, 3);
	pass_delay(s);
	dialer_close(s->dialer);
	s->dialer = NULL;
	assert_null(s->lines[0].attempt);
	assert_null(s->lines[1].attempt);
	end(s);
}

static void the_oldest_addresses_are_forgotten(void **state)
{
	struct scene *s = scene_open("redis://store");
	struct redis_address list[2] = {{.len = sizeof(struct sockaddr_in)},
	                                {.len = sizeof(struct sockaddr_in)}};

	(void)state;
	list[0].v4.sin_port = 1;
	addresses_record(&s->known, &list[0], false);
	for (unsigned i = 0; i < ADDRESSES_MAX; i++) {
		struct redis_address other = {.len = sizeof(struct sockaddr_in), .v4 = {.sin_family = 2}};

		other.v4.sin_addr.s_addr = i;
		addresses_sort(&s->known, list, 2);
		assert_int_equal(list[0].v4.sin_port, 0);
		addresses_record(&s->known, &other, true);
	}
	list[0].v4.sin_port = 1;
	list[1].v4.sin_port = 0;
	addresses_sort(&s->known, list, 2);
	assert_int_equal(list[0].v4.sin_port, 1);
	end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_address_that_refuses_is_followed_by_the_next_at_once),
	    cmocka_unit_test(a_silent_address_is_followed_by_the_next_after_a_delay),
	    cmocka_unit_test(an_earlier_address_that_answers_late_may_still_win),
	    cmocka_unit_test(an_address_that_refuses_the_greeting_has_failed),
	    cmocka_unit_test(the_last_failure_is_reported_once),
	    cmocka_unit_test(all_addresses_are_tried_within_half_of_the_time),
	    cmocka_unit_test(the_address_that_worked_comes_first_and_one_that_failed_last),
	    cmocka_unit_test(an_address_that_is_blamed_comes_last),
	    cmocka_unit_test(an_address_that_never_answered_comes_last),
	    cmocka_unit_test(a_name_is_looked_up_for_each_connection_and_followed),
	    cmocka_unit_test(digits_are_not_looked_up),
	    cmocka_unit_test(a_connection_may_be_closed_at_any_time),
	    cmocka_unit_test(the_oldest_addresses_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
