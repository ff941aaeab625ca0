/*
 * log_entry.c: makes the cells in which a sliding log stores its requests: the header for the
 * newest one, and entries of the record for the others.
 *
 * An entry's *name* is the `until` of its cell, which no other entry of the key has. The entry ends
 * `lead` nanoseconds before that. A header of a wide record has only 4 bits for its lead: a power
 * of two, or which of two cells of the record ends when the header does (log.h).
 */
#include "records/log.h"

static unsigned bit_length(unsigned n)
{
	return n == 0 ? 0 : 32 - (unsigned)__builtin_clz(n);
}

/* The word of an entry is: sum 15 | `span_and_lead` 17. */
static struct cell make_entry_cell(const struct record *record, struct log_fields entry,
                                   unsigned span_and_lead)
{
	return cell_make(record->tag, entry.until_ns, (entry.sum & LOG_SUM) << 17 | span_and_lead,
	                 entry.state);
}

/* Makes an entry of which no part is refunded. A wide record stores log4 of the span. */
static inline struct cell make_whole_entry(const struct record *record, struct log_fields entry)
{
	unsigned span = log_is_narrow(record->width) ? entry.span : (bit_length(entry.span) - 1) / 2;

	return make_entry_cell(record, entry, span << log_lead_bits(record) | entry.lead_ns);
}

/* A PART stores its refunded units in place of the span, or of the lead in a wide record. */
struct cell log_make_entry(const struct record *record, struct log_fields entry)
{
	if ((entry.state & LOG_PART) != LOG_PART)
		return make_whole_entry(record, entry);
	if (log_is_narrow(record->width))
		return make_entry_cell(record, entry,
		                       entry.refunded_units << log_lead_bits(record) | entry.lead_ns);
	entry.lead_ns = entry.refunded_units;
	return make_whole_entry(record, entry);
}

static bool entry_ends_at(const struct record *record, struct cell entry, uint64_t end_ns)
{
	return cell_tag(entry) == record->tag && log_ahead_ns(record, entry, end_ns) == 0;
}

static bool header_ends_with_newest(const struct log_view *header, uint64_t end_ns)
{
	return !header->is_first && entry_ends_at(header->record, header->newest_cell, end_ns);
}

/* The 4-bit code of the lead in a header of a wide record. */
unsigned log_pack_lead(const struct log_view *header)
{
	unsigned bits = bit_length(header->lead_ns);
	bool is_power_of_two_or_0 = (header->lead_ns & (header->lead_ns - 1)) == 0;

	if (is_power_of_two_or_0 && bits <= LOG_LEAD_SIMPLE)
		return bits;
	return header_ends_with_newest(header, header->until_ns - header->lead_ns) ? LOG_LEAD_NEWEST
	                                                                           : LOG_LEAD_OWN;
}

/* Whether the header's cell can store its lead, so that a reader finds the same end. */
bool log_header_fits(const struct log_view *header)
{
	return log_is_narrow(header->record->width) || log_pack_lead(header) != LOG_LEAD_OWN ||
	       entry_ends_at(header->record, header->own_cell, header->until_ns - header->lead_ns);
}

/* Rounds the lead down to 0 or a power of two, which any header can store. */
void log_shorten_lead(struct log_view *header)
{
	unsigned bits = (unsigned)u64_min(bit_length(header->lead_ns), LOG_LEAD_SIMPLE);

	header->lead_ns = bits == 0 ? 0 : 1u << (bits - 1);
}

/*
 * Gives a header that is to end at `end_ns` a name from `least_name_ns` on, and the lead between
 * the two. If the cell can't store that lead, rounds it up to a power of two.
 */
void log_set_name_and_lead(struct log_view *header, uint64_t least_name_ns, uint64_t end_ns)
{
	header->lead_ns =
	    (unsigned)u64_min(sat_sub(least_name_ns, end_ns), log_lead_max(header->record));
	header->until_ns = u64_max(least_name_ns, end_ns);
	if (log_header_fits(header))
		return;
	header->lead_ns = 1u << u64_min(bit_length(header->lead_ns - 1), LOG_LEAD_SIMPLE - 1);
	header->until_ns = u64_max(least_name_ns, end_ns + header->lead_ns);
}

/*
 * The word of a header, which log_header() unpacks:
 *
 *     narrow record    cost 7 | index 7 | span 7 | lead 7 | 4
 *     wide record      cost 14 | index 14 | code of the lead 4
 */
static uint32_t pack_header_word(const struct log_view *header)
{
	if (log_is_narrow(header->record->width))
		return header->header_cost << 25 | header->index << 18 | header->header_span << 11 |
		       header->lead_ns << 4;
	return header->header_cost << 18 | header->index << 4 | log_pack_lead(header);
}

/*
 * Sets `change` to a swap of the header for one with the header's fields of a view. If it is final,
 * the decision on the call stands once the swap is made; otherwise the call is decided anew.
 */
void log_want_header(struct record_change *change, const struct log_view *header, bool is_final)
{
	change->want = RECORD_WANT_HEADER;
	change->header = cell_make(header->record->tag, header->until_ns, pack_header_word(header),
	                           header->is_first ? LOG_FIRST : LOG_PLAIN);
	change->is_final = is_final;
}

/* Sets `change` to a swap of the record's cell that is `back` before the header. */
void log_want_entry(struct record_change *change, const struct log_view *view, unsigned back,
                    struct cell before, struct cell after)
{
	change->want = RECORD_WANT_CELL;
	change->index = record_back(view->record, view->index, back);
	change->before = before;
	change->after = after;
}
