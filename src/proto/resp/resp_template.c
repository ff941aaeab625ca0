#include "proto/resp/resp_template.h"

#include "base/number.h"

void resp_template_learn(struct resp_template *template, struct slice bytes,
                         const struct slice *args, size_t key, const struct request *request)
{
	size_t head = (size_t)(args[key - 1].data + args[key - 1].len + 2 - bytes.data);
	size_t behind = (size_t)(args[key].data + args[key].len - bytes.data);
	size_t tail = bytes.len - behind;

	template->head = 0;
	if (head + tail > RESP_TEMPLATE_MAX)
		return;
	template->head = (uint8_t)head;
	template->tail = (uint8_t)tail;
	memcpy(template->bytes, bytes.data, head);
	memcpy(template->bytes + head, bytes.data + behind, tail);
	template->limit = request->limit.data ? (uint8_t)(request->limit.data - bytes.data) : 0;
	template->request = *request;
}

bool resp_template_match(const struct resp_template *template, const struct resp_reader *reader,
                         const struct codec_bounds *bounds, struct slice data, size_t *consumed,
                         struct request *request)
{
	size_t at = template->head;
	uint32_t len;

	if (at == 0 || reader->at > 0 || reader->skipping || data.len <= at || data.data[at] != '$' ||
	    memcmp(data.data, template->bytes, at) != 0 ||
	    resp_read_length(data, &at, (uint32_t)u64_min(bounds->key_max, RESP_BULK_MAX), &len) !=
	        RESP_COMMAND ||
	    data.len - at < len + template->tail || at + len + template->tail > bounds->request_max ||
	    memcmp(data.data + at + len, template->bytes + template->head, template->tail) != 0)
		return false;
	*request = template->request;
	request->limit.data = data.data + template->limit;
	request->key = (struct slice){data.data + at, len};
	*consumed = at + len + template->tail;
	return true;
}
