/*
 * parameter_history.c: after a limit's parameters were changed, converts the states of its keys
 * that were written under earlier ones. A *generation* is a small number in each cell that stands
 * for the parameters under which it was written; this file records in the key table which.
 *
 * docs/design/parameter-changes.md has the reasons. The records are metadata cells, each with a
 * key:
 *
 *     layout       the parameters of a generation
 *         key      the limit's identity, and the generation
 *         until    years ahead; its low 32 bits are the second number of struct algo_layout
 *         word     the first number of it; the period is part of the identity
 *     takeover     the generation that was the last to be put in use
 *         key      the limit's identity, and TAKEOVER
 *         until    METADATA_NS after that
 *         word     the generation, and DISPUTED if another one has been in use since
 *     predecessor  the generation that was in use before another one
 *         key      the limit's identity, and PREDECESSOR + generation
 *         until    METADATA_NS after that generation took over
 *         word     the generation before it, or NONE; DISPUTED if others may have been in use, too
 *     cut          a key whose state was cut to the limit's burst
 *         key      the key's hash
 *         until    the expiry of the state without the cut
 *         word     the low half of the cell's `high`, so that the record fits this state alone
 *
 * If two threads record the same generation at once, the insertion protocol leaves one cell. Only
 * states of buckets that take longer than METADATA_NS to fill reach further ahead, so hardly
 * anything evicts metadata.
 */
#include "store/parameter_history.h"

#include "algo/rates/bucket.h"
#include "store/memory.h"
#include "store/mapped_file.h"

#define METADATA_NS (UINT64_C(12) * 365 * NS_PER_DAY)

static struct table_position position_of_generation(const struct memory *store,
                                                    const struct algo_limit *limit,
                                                    unsigned generation)
{
	uint8_t key = (uint8_t)generation;

	/* No limit has this identity, so metadata shares no key with states. */
	return table_position(&store->table, memory_hash(store, ~limit->identity, &key, sizeof key));
}

/* In the keys of metadata, besides generations. */
#define PREDECESSOR 0x80u
#define TAKEOVER    0xffu

/* In the words of metadata. */
#define NONE     15u /* the greatest generation, which no limit has */
#define DISPUTED 16u

/* Of a takeover or predecessor: its generation, or NONE. */
static unsigned generation_in(struct cell metadata)
{
	return cell_word(metadata) & NONE;
}

static bool is_disputed(struct cell metadata)
{
	return cell_word(metadata) & DISPUTED;
}

static struct cell as_disputed(struct cell metadata)
{
	return (struct cell){metadata.low | DISPUTED, metadata.high}; /* the word is the lower half */
}

/* No limit has this identity, since theirs are hashes. */
#define CUT_IDENTITY UINT64_C(0x7374617465637574)

static struct cell layout_cell(const struct table_position *position,
                               const struct algo_layout *layout, uint64_t now_ns)
{
	uint64_t until_ns = ((now_ns + METADATA_NS) >> 32 << 32) | layout->second;

	return cell_make(position->tag, until_ns, layout->first, CELL_METADATA);
}

static struct algo_layout layout_of(struct cell cell)
{
	return (struct algo_layout){cell_word(cell), (uint32_t)(cell.high >> 4)};
}

static bool is_in_table(const struct table *table, const struct cell *cell)
{
	return cell >= table->cells && cell < table->cells + table->sets * TABLE_SET_CELLS;
}

static bool find_metadata(const struct memory *store, const struct table_position *position,
                          uint64_t now_ns, struct observed_cell *observed)
{
	*observed = memory_find_all(store, position, NULL, now_ns);
	return observed->cell && cell_is_metadata(observed->value);
}

/* The metadata of all generations, from which one is chosen for a limit. */
struct choice {
	struct algo_layout own;
	unsigned last; /* the generation that took over last, or NONE */
	struct table_position positions[CELL_GENERATIONS];
	struct observed_cell observed[CELL_GENERATIONS];
	uint64_t ages_ns[CELL_GENERATIONS]; /* since they took over */
};

static bool has_layout(const struct choice *choice, unsigned generation,
                       const struct algo_layout *layout)
{
	struct cell cell = choice->observed[generation].value;
	struct algo_layout found = layout_of(cell);

	return choice->observed[generation].cell && cell_is_metadata(cell) &&
	       found.first == layout->first && found.second == layout->second;
}

/* Whether another generation has the same parameters. */
static bool shares_parameters_with_another(const struct choice *choice, unsigned generation)
{
	struct algo_layout layout = layout_of(choice->observed[generation].value);

	for (unsigned i = 0; i < CELL_GENERATIONS; i++)
		if (i != generation && has_layout(choice, i, &layout))
			return true;
	return false;
}

/*
 * The generation with the greatest preference is chosen. If the last one has the limit's
 * parameters, it is chosen. Otherwise a free one is, so that a generation tells when its states
 * were written. If none is free: an older one of the same parameters, or one whose parameters
 * another one has as well, or any but the last. Among equals the oldest is chosen.
 */
static uint64_t preference(const struct choice *choice, unsigned generation)
{
	const struct observed_cell *observed = &choice->observed[generation];
	bool is_own = has_layout(choice, generation, &choice->own);
	uint64_t class = is_own ? 3 : shares_parameters_with_another(choice, generation) ? 2 : 1;

	if (generation == choice->last)
		return is_own ? UINT64_MAX : 0;
	if (!observed->cell || !cell_is_metadata(observed->value))
		return UINT64_MAX - 1;
	return class << 60 | choice->ages_ns[generation];
}

/* Reads the metadata of all generations of the limit, for preference(). */
static void find_generations(const struct memory *store, const struct algo_limit *limit,
                             uint64_t now_ns, struct choice *choice)
{
	struct table_position position = position_of_generation(store, limit, TAKEOVER);
	struct observed_cell observed;

	choice->own = limit->algorithm->layout(limit);
	choice->last =
	    find_metadata(store, &position, now_ns, &observed) ? generation_in(observed.value) : NONE;
	for (unsigned i = 0; i < CELL_GENERATIONS; i++) {
		position = position_of_generation(store, limit, PREDECESSOR + i);
		choice->ages_ns[i] = METADATA_NS;                       /* the oldest, if it is not known */
		if (find_metadata(store, &position, now_ns, &observed)) /* its end is METADATA_NS later */
			choice->ages_ns[i] -=
			    u64_min((uint64_t)cell_ahead_ns(observed.value, now_ns), METADATA_NS);
		choice->positions[i] = position_of_generation(store, limit, i);
		choice->observed[i] = memory_find_all(store, &choice->positions[i], NULL, now_ns);
	}
}

/* Chooses the limit's generation, and records its parameters. Returns false if another thread has
 * changed that cell, so that the caller has to repeat it. */
static bool assign_generation(struct memory *store, struct algo_limit *limit, uint64_t now_ns)
{
	struct observed_cell observed, former = {0};
	struct choice choice;
	struct table_position *position;
	bool done;

	find_generations(store, limit, now_ns, &choice);
	limit->generation = 0;
	for (unsigned i = 1; i < CELL_GENERATIONS; i++)
		if (preference(&choice, i) > preference(&choice, limit->generation))
			limit->generation = (uint16_t)i;
	position = &choice.positions[limit->generation];
	observed = choice.observed[limit->generation];
	if (observed.cell && !is_in_table(&store->table, observed.cell)) {
		/* Move the metadata to the newest table, since the former one may be dropped. */
		former = observed;
		observed = (struct observed_cell){NULL, {0, 0}};
	}
	done = table_store(&store->table, position, observed,
	                   layout_cell(position, &choice.own, now_ns), now_ns, NULL);
	if (done && former.cell)
		cell_swap(former.cell, former.value, (struct cell){0, 0});
	return done || (!observed.cell && table_is_full(&store->table, position,
	                                                now_ns)); /* no cell: go on without metadata */
}

/* Attempts against faster threads, each of which has recorded the same. */
#define TRIES 100

static struct cell takeover_cell(const struct table_position *position,
                                 const struct algo_limit *limit, uint64_t now_ns)
{
	return cell_make(position->tag, now_ns + METADATA_NS, limit->generation, CELL_METADATA);
}

/* Records that the limit's generation took over from the generation `before`. */
static void record_predecessor(struct memory *store, const struct algo_limit *limit,
                               uint32_t before, uint64_t now_ns)
{
	struct table_position position =
	    position_of_generation(store, limit, PREDECESSOR + limit->generation);
	struct cell metadata = cell_make(position.tag, now_ns + METADATA_NS, before, CELL_METADATA);

	for (unsigned tries = 0; tries < TRIES; tries++)
		if (table_store(&store->table, &position, memory_find_all(store, &position, NULL, now_ns),
		                metadata, now_ns, NULL))
			return;
}

/*
 * Records that the limit's generation takes over now, and from which one. If it was the last to
 * take over and nobody disputes that, the limit was only opened again, so the record stays. If it
 * was the last and others have been in use since, it takes over anew, but from no other generation.
 */
static void record_takeover(struct memory *store, const struct algo_limit *limit, uint64_t now_ns)
{
	struct table_position position = position_of_generation(store, limit, TAKEOVER);
	struct cell metadata = takeover_cell(&position, limit, now_ns);
	struct observed_cell observed;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		bool found = find_metadata(store, &position, now_ns, &observed);

		bool is_last = found && generation_in(observed.value) == limit->generation;

		if (is_last && !is_disputed(observed.value))
			return;
		if (!is_last)
			record_predecessor(store, limit, found ? cell_word(observed.value) : NONE, now_ns);
		if (table_store(&store->table, &position, observed, metadata, now_ns, NULL))
			return;
	}
}

void store_assign_generation(struct store *store, struct algo_limit *limit)
{
	struct memory *memory = memory_of(store);
	uint64_t now_ns = clock_now(&memory->clock);

	if (!limit->algorithm->layout)
		return;
	while (!assign_generation(memory, limit, now_ns))
		;
	record_takeover(memory, limit, now_ns);
}

static uint64_t time_of_takeover(struct cell metadata, uint64_t now_ns)
{
	return u64_min(now_ns + (uint64_t)cell_ahead_ns(metadata, now_ns) - METADATA_NS, now_ns);
}

/*
 * Returns until when states of other generations were written: when the limit's generation took
 * over. Returns 0 if a state may be of any time, because several generations are in use:
 *
 * - The limit's generation decides, and yet another took over last. That is recorded as a dispute.
 * - Another process has the file, too, and may use any generation. Then the recorded takeover is
 *   moved to now. Otherwise, if that process ended before the next call, that call would trust the
 *   earlier time.
 *
 * `writes`: the operation may change states, and so this record.
 */
static uint64_t written_until(const struct history_state *key, bool writes, uint64_t now_ns)
{
	const struct mapped_file *file = key->store->file;
	struct table_position position = position_of_generation(key->store, key->limit, TAKEOVER);
	struct observed_cell observed;
	struct cell after;

	if (!find_metadata(key->store, &position, now_ns, &observed) || is_disputed(observed.value))
		return 0;
	if (generation_in(observed.value) != key->limit->generation)
		after = as_disputed(observed.value);
	else if (file && !file_is_exclusive(file->fd))
		after = takeover_cell(&position, key->limit, now_ns);
	else
		return time_of_takeover(observed.value, now_ns);
	if (writes)
		cell_swap(observed.cell, observed.value, after);
	return 0;
}

static struct table_position cut_position(const struct history_state *key)
{
	return table_position(&key->store->table,
	                      memory_hash(key->store, CUT_IDENTITY, &key->hash, sizeof key->hash));
}

/* Restores the state as it would be without its cut. Returns false if it was not cut. */
static bool undo_cut(const struct history_state *key, uint64_t now_ns, struct algo_state *state)
{
	struct table_position position = cut_position(key);
	struct observed_cell observed;

	if (!find_metadata(key->store, &position, now_ns, &observed) ||
	    cell_word(observed.value) != (uint32_t)key->cell.high)
		return false;
	*state = (struct algo_state){now_ns + (uint64_t)cell_ahead_ns(observed.value, now_ns), 0};
	return true;
}

void history_record_cut(const struct history_state *key, struct cell cell, uint64_t end_ns,
                        uint64_t now_ns)
{
	struct table_position position = cut_position(key);
	struct cell metadata = cell_make(position.tag, u64_min(end_ns, now_ns + ALGO_HORIZON_NS),
	                                 (uint32_t)cell.high, CELL_METADATA);

	table_store(&key->store->table, &position, memory_find_all(key->store, &position, NULL, now_ns),
	            metadata, now_ns, NULL); /* if there is no cell, the cut can't be undone */
}

/* When a generation took over, and from which one. */
struct takeover {
	unsigned generation, before;
	uint64_t since_ns;
	bool disputed; /* and maybe from others, too */
};

/* The takeovers since a state was written, the last first, and the layout of its generation. */
struct takeovers {
	struct takeover all[CELL_GENERATIONS];
	unsigned n;
	struct algo_layout from;
};

/* Reads when and from which generation another one took over. Returns false if that is unknown. */
static bool find_takeover(const struct history_state *key, unsigned generation, uint64_t now_ns,
                          struct takeover *takeover)
{
	struct table_position position =
	    position_of_generation(key->store, key->limit, PREDECESSOR + generation);
	struct observed_cell observed;

	if (!find_metadata(key->store, &position, now_ns, &observed))
		return false;
	*takeover = (struct takeover){
	    .generation = generation,
	    .before = generation_in(observed.value),
	    .since_ns = time_of_takeover(observed.value, now_ns),
	    .disputed = is_disputed(observed.value),
	};
	return true;
}

/*
 * Finds all takeovers since a generation was in use. The order before a disputed takeover is not
 * known, so the sequence ends with it. If the sequence is incomplete, its length is 1, as if the
 * limit's generation had taken over from that generation: convert() then needs no other takeover.
 */
static void find_takeovers(const struct history_state *key, unsigned generation, uint64_t now_ns,
                           struct takeovers *sequence)
{
	struct takeover *takeover = sequence->all;
	unsigned next = key->limit->generation;

	for (unsigned n = 1; n <= CELL_GENERATIONS; n++, takeover++) {
		if (!find_takeover(key, next, now_ns, takeover) ||
		    (n > 1 && takeover->since_ns > takeover[-1].since_ns))
			break;
		next = takeover->before;
		if (next == generation || takeover->disputed) {
			sequence->n = n;
			return;
		}
	}
	sequence->n = 1;
}

static bool find_layout(const struct history_state *key, unsigned generation, uint64_t now_ns,
                        struct algo_layout *layout)
{
	struct table_position position = position_of_generation(key->store, key->limit, generation);
	struct observed_cell observed;
	bool found = find_metadata(key->store, &position, now_ns, &observed);

	*layout = layout_of(observed.value);
	return found;
}

/*
 * Converts a state from takeover to takeover, to the parameters before the limit's. It may have
 * been written up to `latest_write_ns`, so after the first takeover; for each later one it is the
 * result of a conversion as of the takeover before, and so not newer.
 */
static bool convert_along_takeovers(const struct history_state *key, uint64_t latest_write_ns,
                                    uint64_t now_ns, struct takeovers *sequence,
                                    struct algo_state *state)
{
	const struct algorithm *algorithm = key->limit->algorithm;

	for (unsigned i = sequence->n - 1; i > 0; i--) {
		struct algo_limit then = {.algorithm = algorithm, .period_ns = key->limit->period_ns};
		uint64_t since_ns = sequence->all[i].since_ns;
		bool is_first = i == sequence->n - 1;
		struct algo_layout to;

		if (!find_layout(key, sequence->all[i].generation, now_ns, &to) ||
		    !algorithm->restore(key->limit, &to, &then))
			return false;
		*state = algorithm
		             ->convert(&then, &sequence->from, since_ns,
		                       is_first ? u64_max(latest_write_ns, since_ns) : since_ns, *state)
		             .whole;
		sequence->from = to;
	}
	return true;
}

/* For a state that may be of any time: converts it now. `from` is NULL if its layout is unknown. */
static uint64_t convert_now(const struct algo_limit *limit, const struct algo_layout *from,
                            uint64_t now_ns, struct algo_state *state)
{
	uint64_t end_ns = algo_convert_now(limit, from, now_ns, state);
	bool was_cut = end_ns != state->until_ns;

	return was_cut ? HISTORY_HIDDEN : end_ns;
}

/*
 * Converts a state of `generation`, written until `since_ns`; 0 if it may be of any time. If it
 * reaches further ahead of that time than its parameters permit, it was written later, up to
 * `latest_write_ns`; with 0 it was not, but its cut was undone. Returns as history_convert: if the
 * state is cut, when it would end uncut. Only a bucket's state is nothing but its end: for others
 * the result is ALGO_CUT, since a record can't say what was cut.
 */
static uint64_t convert(const struct history_state *key, unsigned generation, uint64_t since_ns,
                        uint64_t latest_write_ns, uint64_t now_ns, struct algo_state *state)
{
	const struct algo_limit *limit = key->limit;
	struct algo_state last = *state;
	struct algo_layout from;
	struct takeovers sequence;
	bool has_layout_of_state = find_layout(key, generation, now_ns, &from);
	struct algo_converted converted;

	if (!has_layout_of_state && state->until_ns <= now_ns)
		return state->until_ns;
	if (since_ns == 0)
		return convert_now(limit, has_layout_of_state ? &from : NULL, now_ns, state);
	find_takeovers(key, generation, now_ns, &sequence);
	sequence.from = from;
	if (!has_layout_of_state || sequence.n == 1 ||
	    !convert_along_takeovers(key, latest_write_ns, now_ns, &sequence, &last))
		converted = limit->algorithm->convert(limit, has_layout_of_state ? &from : NULL, since_ns,
		                                      u64_max(latest_write_ns, since_ns), *state);
	else
		converted = limit->algorithm->convert(limit, &sequence.from, since_ns, since_ns, last);
	*state = converted.cut;
	if (converted.whole.until_ns == converted.cut.until_ns || algo_has_step(limit, bucket_step))
		return converted.whole.until_ns;
	return ALGO_CUT;
}

/* Converts *state to the limit's parameters. Returns its end without a cut, or a code (header). */
uint64_t history_convert(const struct history_state *key, bool writes, uint64_t now_ns,
                         struct algo_state *state)
{
	uint64_t since_ns;
	bool was_cut;

	/* The state of an ad-hoc limit is a time, which means the same under all parameters. */
	if (!key->limit->algorithm->convert || key->limit->is_adhoc)
		return state->until_ns;
	was_cut = undo_cut(key, now_ns, state);
	since_ns = written_until(key, writes, now_ns);
	/* Uncut it may reach too far ahead, but was written before the takeover all the same. */
	return convert(key, cell_generation(key->cell), since_ns, was_cut ? 0 : now_ns, now_ns, state);
}

/*
 * Converts the expiry by which a refund names a use. The name is rounded up to a nanosecond, so the
 * conversion gives a range, unless tokens come in whole nanoseconds. If the expiry of the key's
 * state is in that range, the state may be the named one, and its expiry is the name. The codes of
 * convert() are later than any expiry, so a range that ends with one has no upper bound.
 */
static uint64_t convert_refund_name(const struct history_state *key, unsigned generation,
                                    uint64_t name_ns, uint64_t now_ns)
{
	uint64_t since_ns = written_until(key, false, now_ns), until_ns, earliest_ns, latest_ns;
	struct algo_state earliest = {name_ns - 1, 0}, latest = {name_ns, 0};
	struct algo_layout from;

	if (!algo_has_step(key->limit, bucket_step))
		return name_ns;
	if (find_layout(key, generation, now_ns, &from) && bucket_is_whole(key->limit, &from))
		earliest = latest;
	earliest_ns = convert(key, generation, since_ns, now_ns, now_ns, &earliest);
	latest_ns = convert(key, generation, since_ns, now_ns, now_ns, &latest);
	until_ns = now_ns + (uint64_t)cell_ahead_ns(key->cell, now_ns);
	return earliest_ns <= until_ns && until_ns <= latest_ns ? until_ns : earliest_ns;
}

/*
 * The end by which a refund names its units now, if they were acquired under another generation
 * than the limit's.
 */
uint64_t store_refund_end(const struct store_step *step, unsigned generation)
{
	struct memory *store = memory_of(step->store);
	const struct algo_limit *limit = algo_current(step->limit);
	struct table_position position = table_position(&store->table, step->key.hash);
	uint64_t name_ns = step->call.until_ns, now_ns = step->at.now_ns;
	struct history_state key = {store, limit, step->key.hash, {0, 0}};
	struct algo_state state;

	if (!limit->algorithm->convert || generation == limit->generation)
		return name_ns;
	key.cell = memory_find_all(store, &position, step->key.cell, now_ns).value;
	if (!memory_has_state(key.cell))
		return name_ns;
	state = memory_written(key.cell, now_ns);
	if (cell_generation(key.cell) != generation || state.until_ns != name_ns)
		return convert_refund_name(&key, generation, name_ns, now_ns);
	history_convert(&key, false, now_ns, &state);
	return state.until_ns;
}
