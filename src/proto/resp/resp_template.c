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
	size_t head_len = template->head_len, tail_len = template->tail_len;
	size_t key_start = head_len, tail_start, end;
	uint32_t key_max = (uint32_t)u64_min(bounds->key_max, RESP_BULK_MAX), key_len;
	bool is_at_start = reader->position == 0 && !reader->is_skipping;

	if (head_len == 0 || !is_at_start || data.len <= head_len || data.data[head_len] != '$' ||
	    memcmp(data.data, template->bytes, head_len) != 0)
		return false;
	/* Reads "$LENGTH" and CRLF; `key_start` is moved behind them. */
	if (resp_read_length(data, &key_start, key_max, &key_len) != RESP_COMMAND)
		return false;
	tail_start = key_start + key_len;
	end = tail_start + tail_len;
	if (data.len < end || end > bounds->request_max ||
	    memcmp(data.data + tail_start, template->bytes + head_len, tail_len) != 0)
		return false;
	*request = template->request;
	request->limit.data = data.data + template->limit_offset; /* the limit stands before the key */
	request->key = (struct slice){data.data + key_start, key_len};
	*consumed = end;
	return true;
}
