/*
 * parameter_history.c: a note for each generation of a limit, in a cell like a key's.
 *
 *     key      the limit's identity, and the generation
 *     until    years ahead, in its low 32 bits the second number of struct algo_layout
 *     word     its first number; the period is part of the identity
 *
 * One more note of a limit tells which generation took over last:
 *
 *     key      the limit's identity, and TAKEOVER
 *     until    NOTE_NS after that
 *     word     the generation, and DISPUTED if another one has been in use since
 *
 * One of each generation tells which one was in use before it:
 *
 *     key      the limit's identity, and SINCE + generation
 *     until    NOTE_NS after it took over
 *     word     that generation, or NONE; with DISPUTED, others may have been in use as well
 *
 * And one of a key tells that its state was cut to what the limit allows:
 *
 *     key      the key's hash
 *     until    the end that the state would have without the cut
 *     word     the low half of the cell's `high`: of which state that is true
 *
 * Of two who make the same generation at once, one writes its note, by the protocol
 * of every insertion, and the other finds it. No state reaches as far ahead, but for
 * buckets that take longer than that to fill, so nothing evicts a note.
 */
#include "store/parameter_history.h"

#include "algo/rates/bucket.h"
#include "store/memory.h"
#include "store/mapped_file.h"

#define NOTE_NS (UINT64_C(12) * 365 * NS_PER_DAY)

static struct table_position position_of(const struct memory *store, const struct algo_limit *limit,
                                         unsigned generation)
{
	uint8_t key = (uint8_t)generation;

	/* The identity of no limit: that of this one under another name. */
	return table_position(&store->table, memory_hash(store, ~limit->identity, &key, sizeof key));
}

/* Beside generations, in the keys of notes. */
#define SINCE    0x80u
#define TAKEOVER 0xffu

/* In the words of notes. */
#define NONE     15u
#define DISPUTED 16u

/* The identity of no limit: theirs are hashes. */
#define CUT_IDENTITY UINT64_C(0x7374617465637574)

static struct cell note_make(const struct table_position *position, const struct algo_layout *note,
                             uint64_t now_ns)
{
	uint64_t until_ns = ((now_ns + NOTE_NS) >> 32 << 32) | note->second;

	return cell_make(position->tag, until_ns, note->first, CELL_METADATA);
}

static struct algo_layout note_of(struct cell cell)
{
	return (struct algo_layout){cell_word(cell), (uint32_t)(cell.high >> 4)};
}

static bool is_in(const struct table *table, const struct cell *cell)
{
	return cell >= table->cells && cell < table->cells + table->sets * TABLE_SET_CELLS;
}

static bool find_note(const struct memory *store, const struct table_position *position,
                      uint64_t now_ns, struct observed_cell *observed)
{
	*observed = memory_find_all(store, position, NULL, now_ns);
	return observed->cell && cell_is_metadata(observed->value);
}

/* The notes of all generations, as they were found. */
struct joining {
	struct algo_layout own;
	unsigned last; /* generation to take over, or NONE */
	struct table_position spots[CELL_GENERATIONS];
	struct observed_cell slots[CELL_GENERATIONS];
	uint64_t ages_ns[CELL_GENERATIONS]; /* since they took over */
};

static bool is_note_of(const struct joining *joining, unsigned generation,
                       const struct algo_layout *note)
{
	struct cell cell = joining->slots[generation].value;
	struct algo_layout found = note_of(cell);

	return joining->slots[generation].cell && cell_is_metadata(cell) &&
	       found.first == note->first && found.second == note->second;
}

/* Whether another generation stands for the same parameters. */
static bool is_double(const struct joining *joining, unsigned generation)
{
	struct algo_layout note = note_of(joining->slots[generation].value);

	for (unsigned i = 0; i < CELL_GENERATIONS; i++)
		if (i != generation && is_note_of(joining, i, &note))
			return true;
	return false;
}

/*
 * The greatest is best. The same parameters again are the same generation; all others get a new
 * one, so each tells when its states were written. If there is none left: an older one of these
 * parameters, one whose parameters another one has as well, any but the last. Among equals it is
 * the oldest.
 */
static uint64_t preference(const struct joining *joining, unsigned generation)
{
	const struct observed_cell *observed = &joining->slots[generation];
	bool is_own = is_note_of(joining, generation, &joining->own);
	uint64_t class = is_own ? 3 : is_double(joining, generation) ? 2 : 1;

	if (generation == joining->last)
		return is_own ? UINT64_MAX : 0;
	if (!observed->cell || !cell_is_metadata(observed->value))
		return UINT64_MAX - 1;
	return class << 60 | joining->ages_ns[generation];
}

static void find_notes(const struct memory *store, const struct algo_limit *limit, uint64_t now_ns,
                       struct joining *joining)
{
	struct table_position position = position_of(store, limit, TAKEOVER);
	struct observed_cell observed;

	joining->own = limit->algorithm->layout(limit);
	joining->last =
	    find_note(store, &position, now_ns, &observed) ? cell_word(observed.value) & NONE : NONE;
	for (unsigned i = 0; i < CELL_GENERATIONS; i++) {
		position = position_of(store, limit, SINCE + i);
		joining->ages_ns[i] = NOTE_NS;
		if (find_note(store, &position, now_ns, &observed))
			joining->ages_ns[i] -=
			    u64_min((uint64_t)cell_ahead_ns(observed.value, now_ns), NOTE_NS);
		joining->spots[i] = position_of(store, limit, i);
		joining->slots[i] = memory_find_all(store, &joining->spots[i], NULL, now_ns);
	}
}

static bool join(struct memory *store, struct algo_limit *limit, uint64_t now_ns)
{
	struct observed_cell observed, former = {0};
	struct joining joining;
	struct table_position *position;
	bool done;

	find_notes(store, limit, now_ns, &joining);
	limit->generation = 0;
	for (unsigned i = 1; i < CELL_GENERATIONS; i++)
		if (preference(&joining, i) > preference(&joining, limit->generation))
			limit->generation = (uint16_t)i;
	position = &joining.spots[limit->generation];
	observed = joining.slots[limit->generation];
	if (observed.cell && !is_in(&store->table, observed.cell)) {
		/* Others will want it when the former table is gone. */
		former = observed;
		observed = (struct observed_cell){NULL, {0, 0}};
	}
	done = table_store(&store->table, position, observed, note_make(position, &joining.own, now_ns),
	                   now_ns, NULL);
	if (done && former.cell)
		cell_swap(former.cell, former.value, (struct cell){0, 0});
	return done || (!observed.cell && table_is_full(&store->table, position, now_ns)); /* no room */
}

/* Tries against faster threads; each of them has done as much. */
#define TRIES 100

static struct cell takeover(const struct table_position *position, const struct algo_limit *limit,
                            uint64_t now_ns)
{
	return cell_make(position->tag, now_ns + NOTE_NS, limit->generation, CELL_METADATA);
}

static void note_since(struct memory *store, const struct algo_limit *limit, uint32_t before,
                       uint64_t now_ns)
{
	struct table_position position = position_of(store, limit, SINCE + limit->generation);
	struct cell note = cell_make(position.tag, now_ns + NOTE_NS, before, CELL_METADATA);

	for (unsigned tries = 0; tries < TRIES; tries++)
		if (table_store(&store->table, &position, memory_find_all(store, &position, NULL, now_ns),
		                note, now_ns, NULL))
			return;
}

/* A limit that was joined again under the same parameters took over when it was joined first. */
static void note_takeover(struct memory *store, const struct algo_limit *limit, uint64_t now_ns)
{
	struct table_position position = position_of(store, limit, TAKEOVER);
	struct cell note = takeover(&position, limit, now_ns);
	struct observed_cell observed;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		bool found = find_note(store, &position, now_ns, &observed);

		if (found && cell_word(observed.value) == limit->generation)
			return;
		if (!found || (cell_word(observed.value) & NONE) != limit->generation)
			note_since(store, limit, found ? cell_word(observed.value) : NONE, now_ns);
		if (table_store(&store->table, &position, observed, note, now_ns, NULL))
			return;
	}
}

void store_assign_generation(struct store *store, struct algo_limit *limit)
{
	struct memory *memory = memory_of(store);
	uint64_t now_ns = clock_now(&memory->clock);

	if (!limit->algorithm->layout)
		return;
	while (!join(memory, limit, now_ns))
		;
	note_takeover(memory, limit, now_ns);
}

static uint64_t time_of_takeover(struct cell note, uint64_t now_ns)
{
	return u64_min(now_ns + (uint64_t)cell_ahead_ns(note, now_ns) - NOTE_NS, now_ns);
}

/*
 * Until when states of other generations were written: until the takeover, if the limit's
 * generation was the last to take over. If it was not, and yet decides, both are in use; and
 * another process with the same file may use any. Then a state may be of any time: 0.
 */
static uint64_t written_until(const struct history_state *of, bool writes, uint64_t now_ns)
{
	const struct mapped_file *file = of->store->file;
	struct table_position position = position_of(of->store, of->limit, TAKEOVER);
	struct observed_cell observed;
	struct cell after;

	if (!find_note(of->store, &position, now_ns, &observed) || cell_word(observed.value) & DISPUTED)
		return 0;
	if (cell_word(observed.value) != of->limit->generation)
		after = (struct cell){observed.value.low | DISPUTED, observed.value.high};
	else if (file && !file_is_exclusive(file->fd))
		after = takeover(&position, of->limit,
		                 now_ns); /* the other process may end, and be forgotten */
	else
		return time_of_takeover(observed.value, now_ns);
	if (writes)
		cell_swap(observed.cell, observed.value, after);
	return 0;
}

static struct table_position cut_position(const struct history_state *of)
{
	return table_position(&of->store->table,
	                      memory_hash(of->store, CUT_IDENTITY, &of->hash, sizeof of->hash));
}

/* The state without its cut. Returns false if it had none. */
static bool undo_cut(const struct history_state *of, uint64_t now_ns, struct algo_state *state)
{
	struct table_position position = cut_position(of);
	struct observed_cell observed;

	if (!find_note(of->store, &position, now_ns, &observed) ||
	    cell_word(observed.value) != (uint32_t)of->cell.high)
		return false;
	*state = (struct algo_state){now_ns + (uint64_t)cell_ahead_ns(observed.value, now_ns), 0};
	return true;
}

void history_record_cut(const struct history_state *of, struct cell cell, uint64_t end_ns,
                        uint64_t now_ns)
{
	struct table_position position = cut_position(of);
	struct cell note = cell_make(position.tag, u64_min(end_ns, now_ns + ALGO_HORIZON_NS),
	                             (uint32_t)cell.high, CELL_METADATA);

	table_store(&of->store->table, &position, memory_find_all(of->store, &position, NULL, now_ns),
	            note, now_ns, NULL); /* without room the cut is for good */
}

/* When a generation took over, and from which one. */
struct takeover {
	unsigned generation, before;
	uint64_t since_ns;
	bool disputed; /* and maybe from others, too */
};

/* Those that a state has not seen, the last first, and the parameters that it was written under. */
struct chain {
	struct takeover takeovers[CELL_GENERATIONS];
	unsigned n;
	struct algo_layout from;
};

static bool find_takeover(const struct history_state *of, unsigned generation, uint64_t now_ns,
                          struct takeover *takeover)
{
	struct table_position position = position_of(of->store, of->limit, SINCE + generation);
	struct observed_cell observed;

	if (!find_note(of->store, &position, now_ns, &observed))
		return false;
	*takeover = (struct takeover){
	    .generation = generation,
	    .before = cell_word(observed.value) & NONE,
	    .since_ns = time_of_takeover(observed.value, now_ns),
	    .disputed = cell_word(observed.value) & DISPUTED,
	};
	return true;
}

/*
 * Finds all takeovers since a generation was in use, or, if they are not known, that of the limit.
 * Before a time in which several generations were in use nobody knows their order.
 */
static void find_chain(const struct history_state *of, unsigned generation, uint64_t now_ns,
                       struct chain *chain)
{
	struct takeover *takeover = chain->takeovers;
	unsigned next = of->limit->generation;

	for (unsigned n = 1; n <= CELL_GENERATIONS; n++, takeover++) {
		if (!find_takeover(of, next, now_ns, takeover) ||
		    (n > 1 && takeover->since_ns > takeover[-1].since_ns))
			break;
		next = takeover->before;
		if (next == generation || takeover->disputed) {
			chain->n = n;
			return;
		}
	}
	chain->n = 1;
}

static bool find_parameters(const struct history_state *of, unsigned generation, uint64_t now_ns,
                            struct algo_layout *note)
{
	struct table_position position = position_of(of->store, of->limit, generation);
	struct observed_cell observed;
	bool found = find_note(of->store, &position, now_ns, &observed);

	*note = note_of(observed.value);
	return found;
}

/* Brings a state to the parameters before the limit's, from takeover to takeover. */
static bool convert_to_last(const struct history_state *of, uint64_t later_ns, uint64_t now_ns,
                            struct chain *chain, struct algo_state *state)
{
	const struct algorithm *algorithm = of->limit->algorithm;

	for (unsigned i = chain->n - 1; i > 0; i--) {
		struct algo_limit then = {.algorithm = algorithm, .period_ns = of->limit->period_ns};
		const struct takeover *takeover = &chain->takeovers[i];
		struct algo_converted converted;
		struct algo_layout to;

		if (!find_parameters(of, takeover->generation, now_ns, &to) ||
		    !algorithm->restore(of->limit, &to, &then))
			return false;
		later_ns = i == chain->n - 1 ? u64_max(later_ns, takeover->since_ns) : takeover->since_ns;
		converted = algorithm->convert(&then, &chain->from, takeover->since_ns, later_ns, *state);
		*state = converted.whole;
		chain->from = to;
	}
	return true;
}

/*
 * A state that reaches further ahead than `generation` lets any was written at later_ns; with 0 it
 * was written before, and its cut was undone. A note can tell the end of a bucket without its
 * cut; other states have more to them.
 */
static uint64_t convert(const struct history_state *of, unsigned generation, uint64_t since_ns,
                        uint64_t later_ns, uint64_t now_ns, struct algo_state *state)
{
	const struct algo_limit *limit = of->limit;
	struct algo_state last = *state;
	struct algo_layout from;
	struct chain chain;
	bool known = find_parameters(of, generation, now_ns, &from);
	struct algo_converted converted;

	if (!known && state->until_ns <= now_ns)
		return state->until_ns;
	if (since_ns == 0) {
		uint64_t end_ns = algo_convert_now(limit, known ? &from : NULL, now_ns, state);

		return end_ns == state->until_ns ? end_ns : HISTORY_HIDDEN;
	}
	find_chain(of, generation, now_ns, &chain);
	chain.from = from;
	if (!known || chain.n == 1 || !convert_to_last(of, later_ns, now_ns, &chain, &last))
		converted = limit->algorithm->convert(limit, known ? &from : NULL, since_ns,
		                                      u64_max(later_ns, since_ns), *state);
	else
		converted = limit->algorithm->convert(limit, &chain.from, since_ns, since_ns, last);
	*state = converted.cut;
	if (converted.whole.until_ns == converted.cut.until_ns || algo_has_step(limit, bucket_step))
		return converted.whole.until_ns;
	return ALGO_CUT;
}

uint64_t history_convert(const struct history_state *of, bool writes, uint64_t now_ns,
                         struct algo_state *state)
{
	uint64_t since_ns;
	bool was_cut;

	if (!of->limit->algorithm->convert ||
	    of->limit->is_adhoc) /* its time is the same for all of them */
		return state->until_ns;
	was_cut = undo_cut(of, now_ns, state);
	since_ns = written_until(of, writes, now_ns);
	/* A state without its cut reaches further ahead than its parameters let any, and is no later
	 * one. */
	return convert(of, cell_generation(of->cell), since_ns, was_cut ? 0 : now_ns, now_ns, state);
}

/*
 * The name is the rounded end of a state, so what it converts to is known to within a range, unless
 * tokens came in whole nanoseconds. The state may be the named one itself, converted: then its own
 * end is the name.
 */
static uint64_t converted_name(const struct history_state *of, unsigned generation,
                               uint64_t name_ns, uint64_t now_ns)
{
	uint64_t since_ns = written_until(of, false, now_ns), until_ns, earliest_ns, latest_ns;
	struct algo_state earliest = {name_ns - 1, 0}, latest = {name_ns, 0};
	struct algo_layout from;

	if (!algo_has_step(of->limit, bucket_step))
		return name_ns;
	if (find_parameters(of, generation, now_ns, &from) && bucket_is_whole(of->limit, &from))
		earliest = latest;
	earliest_ns = convert(of, generation, since_ns, now_ns, now_ns, &earliest);
	latest_ns = convert(of, generation, since_ns, now_ns, now_ns, &latest);
	until_ns = now_ns + (uint64_t)cell_ahead_ns(of->cell, now_ns);
	return earliest_ns <= until_ns && until_ns <= latest_ns ? until_ns : earliest_ns;
}

uint64_t store_refund_end(const struct store_step *step, unsigned generation)
{
	struct memory *store = memory_of(step->store);
	const struct algo_limit *limit = algo_current(step->limit);
	struct table_position position = table_position(&store->table, step->key.hash);
	uint64_t name_ns = step->call.until_ns, now_ns = step->at.now_ns;
	struct history_state of = {store, limit, step->key.hash, {0, 0}};
	struct algo_state state;

	if (!limit->algorithm->convert || generation == limit->generation)
		return name_ns;
	of.cell = memory_find_all(store, &position, step->key.cell, now_ns).value;
	if (!memory_has_state(of.cell))
		return name_ns;
	state = memory_written(of.cell, now_ns);
	if (cell_generation(of.cell) != generation || state.until_ns != name_ns)
		return converted_name(&of, generation, name_ns, now_ns);
	history_convert(&of, false, now_ns, &state);
	return state.until_ns;
}
