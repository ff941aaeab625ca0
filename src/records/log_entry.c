/*
 * log_entry.c: makes the cells of a log's entries and headers, and chooses their names and leads.
 * log.h describes the cells.
 */
#include "records/log.h"

static unsigned bits_of(unsigned n)
{
	return n == 0 ? 0 : 32 - (unsigned)__builtin_clz(n);
}

static struct cell make_log_entry(const struct record *record, struct log_fields entry,
                                  unsigned low)
{
	return cell_make(record->tag, entry.until_ns, (entry.sum & LOG_SUM) << 17 | low, entry.state);
}

/* Makes an entry of which no part is refunded. */
static inline struct cell make_whole_entry(const struct record *record, struct log_fields entry)
{
	unsigned span = log_is_narrow(record->width) ? entry.span : (bits_of(entry.span) - 1) / 2;

	return make_log_entry(record, entry, span << log_lead_bits(record) | entry.lead);
}

struct cell log_make(const struct record *record, struct log_fields entry)
{
	if ((entry.state & LOG_PART) != LOG_PART)
		return make_whole_entry(record, entry);
	if (log_is_narrow(record->width))
		return make_log_entry(record, entry, entry.part << log_lead_bits(record) | entry.lead);
	entry.lead = entry.part;
	return make_whole_entry(record, entry);
}

static bool entry_ends_at(const struct record *record, struct cell entry, uint64_t end_ns)
{
	return cell_tag(entry) == record->tag && log_ahead_ns(record, entry, end_ns) == 0;
}

static bool header_ends_with_newest(const struct log_view *header, uint64_t end_ns)
{
	return !header->first && entry_ends_at(header->record, header->newest, end_ns);
}

unsigned log_pack_lead(const struct log_view *header)
{
	unsigned bits = bits_of(header->lead);

	if ((header->lead & (header->lead - 1)) == 0 && bits <= LOG_LEAD_SIMPLE)
		return bits;
	return header_ends_with_newest(header, header->until_ns - header->lead) ? LOG_LEAD_NEWEST
	                                                                        : LOG_LEAD_OWN;
}

bool log_header_fits(const struct log_view *header)
{
	return log_is_narrow(header->record->width) || log_pack_lead(header) != LOG_LEAD_OWN ||
	       entry_ends_at(header->record, header->own, header->until_ns - header->lead);
}

void log_shorten_lead(struct log_view *header)
{
	header->lead =
	    header->lead == 0 ? 0 : 1u << (u64_min(bits_of(header->lead), LOG_LEAD_SIMPLE) - 1);
}

void log_set_name(struct log_view *header, uint64_t least_ns, uint64_t end_ns)
{
	header->lead = (unsigned)u64_min(sat_sub(least_ns, end_ns), log_lead_max(header->record));
	header->until_ns = u64_max(least_ns, end_ns);
	if (log_header_fits(header))
		return;
	header->lead = 1u << u64_min(bits_of(header->lead - 1), LOG_LEAD_SIMPLE - 1);
	header->until_ns = u64_max(least_ns, end_ns + header->lead);
}

void log_want_header(struct record_change *change, const struct log_view *header, bool last)
{
	uint32_t word;

	if (log_is_narrow(header->record->width))
		word = header->cost << 25 | header->index << 18 | header->span << 11 | header->lead << 4;
	else
		word = header->cost << 18 | header->index << 4 | log_pack_lead(header);
	change->want = RECORD_WANT_HEADER;
	change->header = cell_make(header->record->tag, header->until_ns, word, header->first);
	change->last = last;
}

void log_want_entry(struct record_change *change, const struct log_view *view, unsigned back,
                    struct cell before, struct cell after)
{
	change->want = RECORD_WANT_CELL;
	change->index = record_back(view->record, view->index, back);
	change->before = before;
	change->after = after;
}
