/*
 * resp_template.c: recognizes a command that has the same bytes as the last one of its connection,
 * except for its key, so that it need not be parsed again.
 */
#include "proto/resp/resp_template.h"

#include "base/number.h"

/*
 * Stores the bytes before the key's "$LENGTH" and those behind the key, and the parsed request.
 * `key` is the index of the key among the words.
 */
void resp_template_learn(struct resp_template *template, struct slice bytes,
                         const struct slice *args, size_t key, const struct request *request)
{
	const struct slice *before_key = &args[key - 1];
	size_t head_len = (size_t)(before_key->data + before_key->len + 2 - bytes.data); /* and CRLF */
	size_t key_end = (size_t)(args[key].data + args[key].len - bytes.data);
	size_t tail_len = bytes.len - key_end;

	template->head_len = 0; /* no template, if the command is too long */
	if (head_len + tail_len > RESP_TEMPLATE_MAX)
		return;
	template->head_len = (uint8_t)head_len;
	template->tail_len = (uint8_t)tail_len;
	memcpy(template->bytes, bytes.data, head_len);
	memcpy(template->bytes + head_len, bytes.data + key_end, tail_len);
	template->limit_offset = request->limit.data ? (uint8_t)(request->limit.data - bytes.data) : 0;
	template->request = *request;
}

/*
 * Compares `data` with the template: the head, a key of any length, and the tail. If they match,
 * the request is the template's, with the limit and the key of `data`.
 */
bool resp_template_match(const struct resp_template *template, const struct resp_reader *reader,
                         const struct codec_bounds *bounds, struct slice data, size_t *consumed,
                         struct request *request)
{
	size_t at = template->head_len, tail_len = template->tail_len;
	uint32_t key_max = (uint32_t)u64_min(bounds->key_max, RESP_BULK_MAX), key_len;
	bool is_at_start = reader->position == 0 && !reader->is_skipping;

	if (at == 0 || !is_at_start || data.len <= at || data.data[at] != '$' ||
	    memcmp(data.data, template->bytes, at) != 0 ||
	    resp_read_length(data, &at, key_max, &key_len) != RESP_COMMAND ||
	    data.len - at < key_len + tail_len || at + key_len + tail_len > bounds->request_max ||
	    memcmp(data.data + at + key_len, template->bytes + template->head_len, tail_len) != 0)
		return false;
	*request = template->request;
	request->limit.data = data.data + template->limit_offset;
	request->key = (struct slice){data.data + at, key_len};
	*consumed = at + key_len + tail_len;
	return true;
}
