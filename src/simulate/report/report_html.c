/*
 * report_html.c: writes the report as an HTML page that draws charts: a fixed page, page.html, into
 * which the report is inserted as JSON.
 */
#include "simulate/report/report.h"

/* The page is linked into the program, see assets.S. */
extern const char simulate_page[], simulate_page_end[];

/* Escapes each "<", which occurs only in strings, because "</script" would end the data. */
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

/* The most intervals of all charts together, each of three numbers and three more for phases. */
#define INTERVALS 65536

size_t report_html_intervals(const struct replay *replay)
{
	size_t charts = 0;

	for (size_t l = 0; l < replay->scenario_count; l++)
		for (size_t i = 0; i < replay->scenarios[l].tally_count; i++)
			charts += replay->scenarios[l].tallies[i].timeline.count > 0;
	return charts <= 1 ? INTERVALS : charts < INTERVALS ? INTERVALS / charts : 1;
}

/* Replaces the page's only "@D@" by the data. */
void report_html(const struct report *report, struct buffer *out)
{
	const char mark[] = {'@', 'D', '@'};
	size_t len = (size_t)(simulate_page_end - simulate_page);
	const char *at = memmem(simulate_page, len, mark, sizeof mark), *rest = at + sizeof mark;

	buffer_add(out, simulate_page, (size_t)(at - simulate_page));
	add_data(report, out);
	buffer_add(out, rest, (size_t)(simulate_page_end - rest));
}
