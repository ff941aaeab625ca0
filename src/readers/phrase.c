/* phrase.c: formats words and quoted texts of a rule file for a message, shortened to fit. */
#include "readers/phrase.h"

#include <stdio.h>

#include "base/number.h"

#define QUOTE_MAX 48 /* bytes of the file that a message repeats */

void phrase_add(struct phrase *phrase, struct slice word)
{
	static const char more[] = ", …";
	/* While it is not full, `more` always fits behind. */
	bool fits = !phrase->full && phrase->len + 2 + word.len + sizeof more <= sizeof phrase->text;
	int written = 0;

	if (fits)
		written = sprintf(phrase->text + phrase->len, "%s%.*s", phrase->len ? ", " : "",
		                  (int)word.len, word.data);
	else if (!phrase->full)
		written = sprintf(phrase->text + phrase->len, "%s", more);
	phrase->full = !fits;
	phrase->len += (size_t)written;
}

struct phrase phrase_quote(struct slice text)
{
	struct phrase quote = {0};
	size_t len = u64_min(text.len, QUOTE_MAX);

	while (len < text.len && len > 0 && ((unsigned char)text.data[len] & 0xc0) == 0x80)
		len--;
	quote.text[quote.len++] = '"';
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		quote.text[quote.len++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	quote.len += (size_t)sprintf(quote.text + quote.len, "%s", len < text.len ? "…\"" : "\"");
	return quote;
}
