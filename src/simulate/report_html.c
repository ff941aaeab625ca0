#include "simulate/report.h"

/* The page and the chart library are linked in, see assets.S. */
extern const char simulate_page[], simulate_page_end[];
extern const char simulate_chart[], simulate_chart_end[];
extern const char simulate_style[], simulate_style_end[];

/* Data in a page ends at the first "</script", so no "<" is left in it; only strings have any. */
static void add_data(const struct report *report, struct buffer *out)
{
	struct buffer json = {0};

	report_json(report, &json);
	for (size_t i = 0; i < json.len; i++)
		if (json.data[i] == '<')
			buffer_add_text(out, "\\u003c");
		else
			buffer_add(out, &json.data[i], 1);
	out->failed |= json.failed;
	buffer_free(&json);
}

static void add_part(const struct report *report, char part, struct buffer *out)
{
	switch (part) {
	case 'S':
		buffer_add(out, simulate_style, (size_t)(simulate_style_end - simulate_style));
		break;
	case 'C':
		buffer_add(out, simulate_chart, (size_t)(simulate_chart_end - simulate_chart));
		break;
	case 'D':
		add_data(report, out);
		break;
	}
}

/* The page's "@S@", "@C@" and "@D@" stand for the style, the chart library and the data. */
void report_html(const struct report *report, struct buffer *out)
{
	const char *at = simulate_page, *mark;

	while ((mark = memchr(at, '@', (size_t)(simulate_page_end - at)))) {
		buffer_add(out, at, (size_t)(mark - at));
		add_part(report, mark[1], out);
		at = mark + 3;
	}
	buffer_add(out, at, (size_t)(simulate_page_end - at));
}
