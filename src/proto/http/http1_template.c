#include "proto/http/http1_template.h"

void http1_template_learn(struct http1_template *template, struct slice head, struct slice target)
{
	const char *end = target.data + target.len;
	size_t before = (size_t)(target.data - head.data), behind = head.len - before - target.len;

	template->before = 0;
	if (before + behind > HTTP1_TEMPLATE_MAX || *target.data != '/' || *end != ' ')
		return;
	template->before = (uint16_t)before;
	template->behind = (uint16_t)behind;
	memcpy(template->bytes, head.data, before);
	memcpy(template->bytes + before, end, behind);
}

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Not 0 if any byte of the word is less than `bound`, which is at most 128. */
static uint64_t any_less(uint64_t word, uint64_t bound)
{
	return (word - EACH_BYTE(bound)) & ~word & EACH_BYTE(0x80);
}

/* Whether all eight bytes are visible ASCII and not '#'. */
static bool are_plain(uint64_t word)
{
	return ((word & EACH_BYTE(0x80)) | any_less(word, '!') | any_less(word ^ EACH_BYTE(0x7f), 1) |
	        any_less(word ^ EACH_BYTE('#'), 1)) == 0;
}

static bool is_plain(struct slice target)
{
	char last[8] = "////////"; /* pads the last word with plain bytes */
	uint64_t word;

	if (target.len == 0 || *target.data != '/')
		return false;
	for (; target.len > 8; target = (struct slice){target.data + 8, target.len - 8}) {
		memcpy(&word, target.data, 8);
		if (!are_plain(word))
			return false;
	}
	memcpy(last, target.data, target.len);
	memcpy(&word, last, 8);
	return are_plain(word);
}

struct slice http1_template_match(const struct http1_template *template, struct slice data)
{
	struct slice target = {data.data + template->before, 0}, none = {NULL, 0};
	const char *end;

	if (template->before == 0 || data.len < http1_template_len(template, 0) ||
	    memcmp(data.data, template->bytes, template->before) != 0)
		return none;
	end = memchr(target.data, ' ', data.len - template->before);
	if (!end || (size_t)(data.data + data.len - end) < template->behind ||
	    memcmp(end, template->bytes + template->before, template->behind) != 0)
		return none;
	target.len = (size_t)(end - target.data);
	return is_plain(target) ? target : none;
}
