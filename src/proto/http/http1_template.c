/*
 * http1_template.c: recognizes a message of HTTP/1 that has the same bytes as the last one of its
 * connection, except for its target (the path and query), so that it need not be parsed again.
 */
#include "proto/http/http1_template.h"

/* Stores the bytes of a complete head before and behind its target. */
void http1_template_learn(struct http1_template *template, struct slice head, struct slice target)
{
	const char *target_end = target.data + target.len;
	size_t before_len = (size_t)(target.data - head.data);
	size_t behind_len = head.len - before_len - target.len;

	template->before_len = 0; /* no template, if the head is too long */
	if (before_len + behind_len > HTTP1_TEMPLATE_MAX || *target.data != '/' || *target_end != ' ')
		return;
	template->before_len = (uint16_t)before_len;
	template->behind_len = (uint16_t)behind_len;
	memcpy(template->bytes, head.data, before_len);
	memcpy(template->bytes + before_len, target_end, behind_len);
}

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Not 0 if any byte of the word is less than `bound`, at most 128: subtracting sets its highest
 * bit. To find a byte c, callers pass the word xor c in each byte, where c becomes 0, and the
 * bound 1.
 */
static uint64_t any_less(uint64_t word, uint64_t bound)
{
	return (word - EACH_BYTE(bound)) & ~word & EACH_BYTE(0x80);
}

/* Whether all eight bytes are visible ASCII and not '#'. */
static bool are_bytes_plain(uint64_t word)
{
	return ((word & EACH_BYTE(0x80)) | any_less(word, '!') | any_less(word ^ EACH_BYTE(0x7f), 1) |
	        any_less(word ^ EACH_BYTE('#'), 1)) == 0;
}

/* Whether the target begins with '/' and has only bytes that llhttp accepts; eight at a time. */
static bool is_plain_target(struct slice target)
{
	char last[8] = "////////"; /* pads the last word with plain bytes */
	uint64_t word;

	if (target.len == 0 || *target.data != '/')
		return false;
	for (; target.len > 8; target = (struct slice){target.data + 8, target.len - 8}) {
		memcpy(&word, target.data, 8);
		if (!are_bytes_plain(word))
			return false;
	}
	memcpy(last, target.data, target.len);
	memcpy(&word, last, 8);
	return are_bytes_plain(word);
}

/* Returns the target of the head in `data` if the bytes around it match; otherwise no data. */
struct slice http1_template_match(const struct http1_template *template, struct slice data)
{
	struct slice target = {data.data + template->before_len, 0}, none = {NULL, 0};
	const char *target_end;

	if (template->before_len == 0 || data.len < http1_template_len(template, 0) ||
	    memcmp(data.data, template->bytes, template->before_len) != 0)
		return none;
	target_end = memchr(target.data, ' ', data.len - template->before_len);
	if (!target_end || (size_t)(data.data + data.len - target_end) < template->behind_len ||
	    memcmp(target_end, template->bytes + template->before_len, template->behind_len) != 0)
		return none;
	target.len = (size_t)(target_end - target.data);
	return is_plain_target(target) ? target : none;
}
