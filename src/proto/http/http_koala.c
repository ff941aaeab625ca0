/*
 * http_koala.c: the requests of Koala's callers.
 *
 * Parameters come in the query, and then in a form, mostly of a POST; the first of a name counts.
 * Names that begin with '_' ask for something; all others are attributes. A visitor chooses values
 * and sometimes names, so an odd parameter, such as one without '=' or with a bad escape, never
 * hides another.
 */
#include "base/error.h"
#include "base/number.h"
#include "proto/http/http_request.h"
#include "proto/http/query.h"
#include "proto/json_body.h"

/* A parameter that asks for something. */
struct option {
	struct slice name;
	struct slice value; /* the first; data NULL: not given */
};

struct form {
	struct slice parts[2]; /* query and body, encoded */
	struct option *options;
	size_t option_count;
	size_t seen; /* attributes, also those whose names repeat: so many are compared, and no more */
};

static int out_of_memory(struct fill *fill)
{
	return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
}

/* The value of the header field with this name; data NULL: the head has none. */
static struct slice head_value(const struct http_request *call, struct slice wanted)
{
	struct http_header header = call->header;
	struct slice name, value;

	while (http_header_next(&header, &name, &value))
		if (slice_equal_nocase(name, wanted))
			return value;
	return (struct slice){NULL, 0};
}

/* A body that can't be read must not be passed over: what it asks about would slip through. */
static int find_body(struct http_request *call, struct slice *body)
{
	struct slice type;

	*body = (struct slice){NULL, 0};
	if (call->body.len == 0)
		return 0;
	type = head_value(call, SLICE("content-type"));
	type = slice_trim(slice_cut(&type, ';'));
	if (type.len > 0 && !slice_equal_nocase(type, SLICE("application/x-www-form-urlencoded")))
		return error_set(&call->fill.error, WEIR_EUNSUPPORTED,
		                 "expected a body of application/x-www-form-urlencoded, found '%.*s'",
		                 FILL_QUOTE(type));
	*body = call->body;
	return 0;
}

static void take_option(struct form *form, struct slice name, struct slice value)
{
	for (size_t i = 0; i < form->option_count; i++)
		if (!form->options[i].value.data && slice_equal(form->options[i].name, name))
			form->options[i].value = value.data ? value : SLICE("");
}

static bool is_known(const struct fill *fill, struct slice name)
{
	for (size_t i = 0; i < fill->request->attribute_count; i++) {
		const char *known = fill->attributes[i].name;

		if (*known == *name.data && strncmp(known, name.data, name.len) == 0 &&
		    known[name.len] == '\0')
			return true;
	}
	return false;
}

/* Blanks round a value mean nothing to Koala: to its dictionaries and its rules neither. */
static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v';
}

static struct slice without_blanks(struct slice text)
{
	while (text.len > 0 && is_blank(text.data[text.len - 1]))
		text.len--;
	while (text.len > 0 && is_blank(*text.data))
		text = (struct slice){text.data + 1, text.len - 1};
	return text;
}

/* A name with a NUL is none that a rule can have. */
static int take(struct fill *fill, struct form *form, struct slice name, struct slice value)
{
	value = without_blanks(value);
	take_option(form, name, value);
	if (name.len == 0 || *name.data == '_' || memchr(name.data, '\0', name.len))
		return 0;
	if (form->seen++ == fill->bounds->attributes_max)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu attributes, found more",
		                 fill->bounds->attributes_max);
	return is_known(fill, name) ? 0 : fill_new_attribute(fill, name, value);
}

static int read_part(struct fill *fill, struct form *form, struct slice rest)
{
	bool coded = query_is_coded(rest);
	struct slice name, value;
	int status = 0;

	while (status == 0 && query_next(&rest, &name, &value)) {
		if (coded && (query_decode_form(fill->arena, name, &name) != 0 ||
		              query_decode_form(fill->arena, value, &value) != 0))
			return out_of_memory(fill);
		status = take(fill, form, name, value);
	}
	return status;
}

static int read_form(struct fill *fill, struct form *form)
{
	/* The shortest has a letter and a '&'. */
	size_t most = (form->parts[0].len + 1) / 2 + (form->parts[1].len + 1) / 2;
	int status = fill_reserve_attributes(fill, u64_min(most, fill->bounds->attributes_max));

	for (size_t i = 0; i < 2 && status == 0; i++)
		status = read_part(fill, form, form->parts[i]);
	return status;
}

static int read_call(struct http_request *call, struct option *options, size_t n)
{
	struct form form = {{call->query}, options, n};
	int status;

	call->fill.request->flags |= HTTP_KOALA;
	status = find_body(call, &form.parts[1]);
	return status == 0 ? read_form(&call->fill, &form) : status;
}

/* A browse with the options that it was asked with. */
static void ask_browse(struct request *request, const struct option *writes)
{
	request->op = slice_equal(writes->value, SLICE("yes")) ? REQUEST_ACQUIRE : REQUEST_PEEK;
}

#define WRITE_THROUGH                                                                              \
	{                                                                                              \
		SLICE("_writeThrough"),                                                                    \
		{                                                                                          \
			NULL, 0                                                                                \
		}                                                                                          \
	}

int http_read_browse(struct http_request *call)
{
	struct option writes = WRITE_THROUGH;
	int status = read_call(call, &writes, 1);

	ask_browse(call->fill.request, &writes);
	return status;
}

int http_read_update(struct http_request *call)
{
	return read_call(call, NULL, 0);
}

int http_read_feedback(struct http_request *call)
{
	struct option type = {SLICE("_feedbackType"), {NULL, 0}};
	int status = read_call(call, &type, 1);

	call->fill.request->erases = slice_equal(type.value, SLICE("erase2")) ? 2 : 1;
	if (status != 0 || !type.value.data || type.value.len == 0 ||
	    slice_equal(type.value, SLICE("erase1")) || slice_equal(type.value, SLICE("erase2")))
		return status;
	return error_set(&call->fill.error, WEIR_EINVAL,
	                 "expected _feedbackType to be erase1 or erase2, found '%.*s'",
	                 FILL_QUOTE(type.value));
}

int http_read_value(struct http_request *call)
{
	struct option rule = {SLICE("rule_no"), {NULL, 0}};
	int status = read_call(call, &rule, 1);

	call->fill.request->name = rule.value;
	if (status != 0 || rule.value.len > 0)
		return status;
	return error_set(&call->fill.error, WEIR_EINVAL, "expected rule_no, the return of a rule");
}

int http_read_alive(struct http_request *call)
{
	call->fill.request->flags |= HTTP_KOALA;
	return 0;
}

int http_read_dump(struct http_request *call)
{
	struct option rule = {SLICE("rule_no"), {NULL, 0}};
	int status = read_call(call, &rule, 1);

	call->fill.request->name = rule.value;
	return status;
}

/* One of many: `arg` is its query, encoded as a whole once more. */
static int read_browse_item(struct fill *item, struct slice arg)
{
	struct option writes = WRITE_THROUGH;
	struct form form = {{{NULL, 0}}, &writes, 1};
	int status;

	item->request->kind = REQUEST_BROWSE;
	item->request->class = REQUEST_ASK;
	item->request->flags |= HTTP_KOALA;
	if (query_decode_form(item->arena, arg, &form.parts[0]) != 0)
		return out_of_memory(item);
	status = read_form(item, &form);
	ask_browse(item->request, &writes);
	return status;
}

int http_read_multi_browse(struct http_request *call)
{
	struct option items = {SLICE("argsJson"), {NULL, 0}};
	int status = read_call(call, &items, 1);

	if (status != 0)
		return status;
	if (!items.value.data)
		return error_set(&call->fill.error, WEIR_EINVAL, "expected argsJson, a JSON array");
	status = json_body_read_args(&call->fill, items.value, read_browse_item, http_refuse);
	call->fill.request->reply_size = call->fill.request->item_count * HTTP_ITEM_SIZE;
	return status;
}
