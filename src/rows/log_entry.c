/*
 * log_entry.c: makes the cells of a log's entries and heads, and chooses their names and leads.
 *
 * log.h says what is in them.
 */
#include "rows/log.h"

static unsigned bits_of(unsigned n)
{
	return n == 0 ? 0 : 32 - (unsigned)__builtin_clz(n);
}

static struct cell make(const struct row *row, struct log_fields entry, unsigned low)
{
	return cell_make(row->tag, entry.until_ns, (entry.sum & LOG_SUM) << 17 | low, entry.state);
}

/* An entry of which no part is given back. */
static inline struct cell make_whole(const struct row *row, struct log_fields entry)
{
	unsigned span = log_is_narrow(row->width) ? entry.span : (bits_of(entry.span) - 1) / 2;

	return make(row, entry, span << log_lead_bits(row) | entry.lead);
}

struct cell log_make(const struct row *row, struct log_fields entry)
{
	if ((entry.state & LOG_PART) != LOG_PART)
		return make_whole(row, entry);
	if (log_is_narrow(row->width))
		return make(row, entry, entry.part << log_lead_bits(row) | entry.lead);
	entry.lead = entry.part;
	return make_whole(row, entry);
}

static bool ends_then(const struct row *row, struct cell entry, uint64_t end_ns)
{
	return cell_tag(entry) == row->tag && log_ahead_ns(row, entry, end_ns) == 0;
}

static bool ends_with_newest(const struct log_view *head, uint64_t end_ns)
{
	return !head->first && ends_then(head->row, head->newest, end_ns);
}

unsigned log_pack_lead(const struct log_view *head)
{
	unsigned bits = bits_of(head->lead);

	if ((head->lead & (head->lead - 1)) == 0 && bits <= LOG_LEAD_SIMPLE)
		return bits;
	return ends_with_newest(head, head->until_ns - head->lead) ? LOG_LEAD_NEWEST : LOG_LEAD_OWN;
}

bool log_fits(const struct log_view *head)
{
	return log_is_narrow(head->row->width) || log_pack_lead(head) != LOG_LEAD_OWN ||
	       ends_then(head->row, head->own, head->until_ns - head->lead);
}

void log_shorten_lead(struct log_view *head)
{
	head->lead = head->lead == 0 ? 0 : 1u << (u64_min(bits_of(head->lead), LOG_LEAD_SIMPLE) - 1);
}

void log_name(struct log_view *head, uint64_t least_ns, uint64_t end_ns)
{
	head->lead = (unsigned)u64_min(sat_sub(least_ns, end_ns), log_lead_max(head->row));
	head->until_ns = u64_max(least_ns, end_ns);
	if (log_fits(head))
		return;
	head->lead = 1u << u64_min(bits_of(head->lead - 1), LOG_LEAD_SIMPLE - 1);
	head->until_ns = u64_max(least_ns, end_ns + head->lead);
}

void log_want_head(struct row_change *change, const struct log_view *head, bool last)
{
	uint32_t word;

	if (log_is_narrow(head->row->width))
		word = head->cost << 25 | head->place << 18 | head->span << 11 | head->lead << 4;
	else
		word = head->cost << 18 | head->place << 4 | log_pack_lead(head);
	change->want = ROW_WANT_HEAD;
	change->head = cell_make(head->row->tag, head->until_ns, word, head->first);
	change->last = last;
}

void log_want_entry(struct row_change *change, const struct log_view *view, unsigned back,
                    struct cell before, struct cell after)
{
	change->want = ROW_WANT_CELL;
	change->place = row_back(view->row, view->place, back);
	change->before = before;
	change->after = after;
}
