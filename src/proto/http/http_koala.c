/*
 * http_koala.c: reads the requests of the HTTP routes that Weir has in common with Koala, another
 * rate limiter, whose clients can so use Weir.
 *
 * Parameters are in the query and in a form, the body of a POST; the query's come first, and the
 * first of a name counts. Names that begin with '_' are options; all others are attributes.
 * Visitors choose values and sometimes names, so an invalid parameter, such as one without '=' or
 * with a bad escape, must not hide another.
 */
#include "base/error.h"
#include "base/number.h"
#include "proto/http/http_request.h"
#include "proto/http/query.h"
#include "proto/json_body.h"

struct option {
	struct slice name;
	struct slice value; /* the first one; data NULL if there is none */
};

enum form_part { FORM_QUERY, FORM_BODY, FORM_PARTS };

struct form {
	struct slice parts[FORM_PARTS]; /* encoded */
	struct option *options;         /* those that the route has */
	size_t option_count;
	size_t attributes_read; /* with repeated ones, to bound the comparisons of names */
};

static int fill_out_of_memory(struct fill *fill)
{
	return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
}

/* The value of the header field with this name; data NULL if there is none. */
static struct slice header_value(const struct http_request *http, struct slice wanted)
{
	struct http_header header = http->header;
	struct slice name, value;

	while (http_header_next(&header, &name, &value))
		if (slice_equal_nocase(name, wanted))
			return value;
	return (struct slice){NULL, 0};
}

/*
 * Sets *body to the form in the body, if any. A body of another type is refused: ignoring it could
 * miss attributes that a rule denies.
 */
static int find_form_in_body(struct http_request *http, struct slice *body)
{
	struct slice type;

	*body = (struct slice){NULL, 0};
	if (http->body.len == 0)
		return 0;
	type = header_value(http, SLICE("content-type"));
	type = slice_trim(slice_cut(&type, ';'));
	if (type.len > 0 && !slice_equal_nocase(type, SLICE("application/x-www-form-urlencoded")))
		return error_set(&http->fill.error, WEIR_EUNSUPPORTED,
		                 "expected a body of application/x-www-form-urlencoded, found '%.*s'",
		                 FILL_QUOTE(type));
	*body = http->body;
	return 0;
}

/* Sets an option of the route that has this name, unless the form had it before. */
static void set_option(struct form *form, struct slice name, struct slice value)
{
	for (size_t i = 0; i < form->option_count; i++)
		if (!form->options[i].value.data && slice_equal(form->options[i].name, name))
			form->options[i].value = value.data ? value : SLICE("");
}

static bool has_attribute(const struct fill *fill, struct slice name)
{
	for (size_t i = 0; i < fill->request->attribute_count; i++) {
		const char *found = fill->attributes[i].name;

		if (*found == *name.data && strncmp(found, name.data, name.len) == 0 &&
		    found[name.len] == '\0')
			return true;
	}
	return false;
}

/* The bytes that Koala trims from values, as it does in its dictionaries and rules. */
static bool is_koala_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v';
}

static struct slice without_blanks(struct slice text)
{
	while (text.len > 0 && is_koala_blank(text.data[text.len - 1]))
		text.len--;
	while (text.len > 0 && is_koala_blank(*text.data))
		text = (struct slice){text.data + 1, text.len - 1};
	return text;
}

/* Adds a parameter as an option or an attribute; no rule can name one with a NUL. */
static int add_parameter(struct fill *fill, struct form *form, struct slice name,
                         struct slice value)
{
	value = without_blanks(value);
	set_option(form, name, value);
	if (name.len == 0 || *name.data == '_' || memchr(name.data, '\0', name.len))
		return 0;
	if (form->attributes_read++ == fill->bounds->attributes_max)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu attributes, found more",
		                 fill->bounds->attributes_max);
	return has_attribute(fill, name) ? 0 : fill_new_attribute(fill, name, value);
}

static int read_form_part(struct fill *fill, struct form *form, struct slice rest)
{
	bool coded = query_is_coded(rest);
	struct slice name, value;
	int status = 0;

	while (status == 0 && query_next(&rest, &name, &value)) {
		if (coded && (query_decode_form(fill->arena, name, &name) != 0 ||
		              query_decode_form(fill->arena, value, &value) != 0))
			return fill_out_of_memory(fill);
		status = add_parameter(fill, form, name, value);
	}
	return status;
}

/* Reads all parameters as options and attributes. Returns 0, or a status with fill->error set. */
static int read_form(struct fill *fill, struct form *form)
{
	/* A parameter has at least a letter and a '&'. */
	size_t parameters_max =
	    (form->parts[FORM_QUERY].len + 1) / 2 + (form->parts[FORM_BODY].len + 1) / 2;
	int status =
	    fill_reserve_attributes(fill, u64_min(parameters_max, fill->bounds->attributes_max));

	for (size_t i = 0; i < FORM_PARTS && status == 0; i++)
		status = read_form_part(fill, form, form->parts[i]);
	return status;
}

/* Reads the parameters of a request on a route that has these `n` options. */
static int read_koala_parameters(struct http_request *http, struct option *options, size_t n)
{
	struct form form = {{http->query}, options, n};
	int status;

	http->fill.request->flags |= HTTP_KOALA;
	status = find_form_in_body(http, &form.parts[FORM_BODY]);
	return status == 0 ? read_form(&http->fill, &form) : status;
}

/* With _writeThrough=yes a browse acquires; otherwise it only peeks. */
static void set_browse_op(struct request *request, const struct option *write_through)
{
	request->op = slice_equal(write_through->value, SLICE("yes")) ? REQUEST_ACQUIRE : REQUEST_PEEK;
}

#define WRITE_THROUGH                                                                              \
	{                                                                                              \
		SLICE("_writeThrough"),                                                                    \
		{                                                                                          \
			NULL, 0                                                                                \
		}                                                                                          \
	}

/* /rule/browse: whether the rules let a request with these attributes pass. */
int http_read_browse(struct http_request *http)
{
	struct option writes = WRITE_THROUGH;
	int status = read_koala_parameters(http, &writes, 1);

	set_browse_op(http->fill.request, &writes);
	return status;
}

/* /rule/update: counts a request in all limits of its rules. */
int http_read_update(struct http_request *http)
{
	return read_koala_parameters(http, NULL, 0);
}

/* /rule/feedback: takes back as many counted units as the rule sets for erase1 or for erase2. */
int http_read_feedback(struct http_request *http)
{
	struct option type = {SLICE("_feedbackType"), {NULL, 0}};
	int status = read_koala_parameters(http, &type, 1);

	http->fill.request->feedback = slice_equal(type.value, SLICE("erase2")) ? 2 : 1;
	if (status != 0 || !type.value.data || type.value.len == 0 ||
	    slice_equal(type.value, SLICE("erase1")) || slice_equal(type.value, SLICE("erase2")))
		return status;
	return error_set(&http->fill.error, WEIR_EINVAL,
	                 "expected _feedbackType to be erase1 or erase2, found '%.*s'",
	                 FILL_QUOTE(type.value));
}

/* /rule/value: how much of a rule's limit is used. */
int http_read_value(struct http_request *http)
{
	struct option rule = {SLICE("rule_no"), {NULL, 0}};
	int status = read_koala_parameters(http, &rule, 1);

	http->fill.request->name = rule.value;
	if (status != 0 || rule.value.len > 0)
		return status;
	return error_set(&http->fill.error, WEIR_EINVAL, "expected rule_no, the return of a rule");
}

int http_read_alive(struct http_request *http)
{
	http->fill.request->flags |= HTTP_KOALA;
	return 0;
}

/* /dump/policy and /dump/counter: of one rule, or of all. */
int http_read_dump(struct http_request *http)
{
	struct option rule = {SLICE("rule_no"), {NULL, 0}};
	int status = read_koala_parameters(http, &rule, 1);

	http->fill.request->name = rule.value;
	return status;
}

/* Reads an item of /multi/browse from its query, which is URL-encoded as a whole once more. */
static int read_browse_item(struct fill *item, struct slice arg)
{
	struct option writes = WRITE_THROUGH;
	struct form form = {{{NULL, 0}}, &writes, 1};
	int status;

	item->request->kind = REQUEST_BROWSE;
	item->request->class = REQUEST_ASK;
	item->request->flags |= HTTP_KOALA;
	if (query_decode_form(item->arena, arg, &form.parts[FORM_QUERY]) != 0)
		return fill_out_of_memory(item);
	status = read_form(item, &form);
	set_browse_op(item->request, &writes);
	return status;
}

/* /multi/browse: a batch of browse requests, in a parameter that is a JSON array. */
int http_read_multi_browse(struct http_request *http)
{
	struct option items = {SLICE("argsJson"), {NULL, 0}};
	int status = read_koala_parameters(http, &items, 1);

	if (status != 0)
		return status;
	if (!items.value.data)
		return error_set(&http->fill.error, WEIR_EINVAL, "expected argsJson, a JSON array");
	status = json_body_read_args(&http->fill, items.value, read_browse_item, http_refuse_by_status);
	http->fill.request->reply_size = http->fill.request->item_count * HTTP_ITEM_SIZE;
	return status;
}
