/*
 * growth.pml: models one key while its limit gets a larger table, by docs/design/wide-states.md.
 *
 * Without MOVE: one thread adds a table whose records are as wide. Others take a unit each, of a key that
 * had no header. Those that have not seen the new table search the old one alone. Checked: the key never
 * has a header with a grant in both tables.
 *
 * With MOVE: the records of the new table are wider. A log with an entry behind its header is in the old
 * table. Movers copy it; a taker appends, which changes the header, and refunders mark the entry as GONE.
 * Checked: no grant is lost, the entry is marked once, and its mark is never lost.
 *
 * Each load and each compare-and-swap is one step, and a process may stop anywhere.
 *
 * BREAK_* leaves one thing out; each must make Spin find a counterexample.
 */
/* A third one could change a header before it is taken back: its use then stays in the old table. */
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef REFUNDERS
#define REFUNDERS 2
#endif

inline swap(cell, from, to)
{
	atomic {
		ok = (cell == from);
		if
		:: ok -> cell = to
		:: else
		fi
	}
}

#ifndef MOVE

bit announced, published;
byte ended;
byte old, new; /* the header: how many units were granted by it; 0: there is none */

proctype grower()
{
#ifdef BREAK_ORDER
	published = 1;
	announced = 1
#else
	announced = 1;
	published = 1
#endif
}

proctype taker()
{
	byte seen;
	bit ok, sees;

again:
	sees = published;
	if
	:: sees ->
		seen = new;
		if
		:: seen > 0 -> swap(new, seen, seen + 1)
		:: else ->
			seen = old;
			if
			:: seen > 0 -> swap(old, seen, seen + 1)
			:: else -> swap(new, 0, 1)
			fi
		fi;
		if
		:: ok -> skip
		:: else -> goto again
		fi
	:: else ->
		seen = old;
		swap(old, seen, seen + 1);
		if
		:: !ok -> goto again
		:: ok && seen > 0 -> skip
		:: else ->
#ifndef BREAK_LOOK
			if
			:: announced ->
				swap(old, 1, 0);
				if
				:: ok -> goto again
				:: else -> skip /* another has taken by this header */
				fi
			:: else -> skip
			fi
#else
			skip
#endif
		fi
	fi;
	ended++;
	assert(ended < TAKERS || old == 0 || new == 0)
}

init {
	byte i;

	atomic {
		run grower();
		do
		:: i < TAKERS -> run taker(); i++
		:: else -> break
		od
	}
}

#else

/* Entries. */
#define NONE   0
#define LIVE   1
#define GONE   2
#define FROZEN 4
#define state(cell)  ((cell) % 4)
#define frozen(cell) ((cell) >= FROZEN)

/* Heads: what they are, and how many units were granted by them. */
#define OPEN   1
#define CLOSED 2
#define UNIT   4
#define kind(header) ((header) % 4)

byte before = LIVE, after;
byte old_header = OPEN, new_header;
byte granted, marks;

proctype mover()
{
	byte seen, want, closed;
	bit ok;

again:
	closed = old_header;
	if
	:: kind(new_header) == OPEN -> goto done
	:: else
	fi;
#ifdef BREAK_CLOSE
	closed = closed - kind(closed) + CLOSED;
#else
	if
	:: kind(closed) == OPEN -> swap(old_header, closed, closed - OPEN + CLOSED); goto again
	:: else
	fi;
#endif
#ifndef BREAK_FREEZE
	seen = before;
	if
	:: !frozen(seen) -> swap(before, seen, seen + FROZEN); goto again
	:: else
	fi;
#endif
	if
	:: new_header == NONE -> swap(new_header, NONE, closed); goto again
	:: else
	fi;
	seen = after;
	want = state(before);
#ifndef BREAK_BEHALF
	if
	:: new_header != closed -> goto again
	:: else
	fi;
#endif
	if
	:: seen != want -> swap(after, seen, want); goto again
	:: else
	fi;
	swap(new_header, closed, closed - CLOSED + OPEN);
done:
	skip
}

/* Takes a unit where the key is. */
proctype taker()
{
	byte seen;
	bit ok;

again:
	seen = new_header;
	if
	:: kind(seen) == OPEN ->
		atomic { swap(new_header, seen, seen + UNIT); granted = granted + ok }
	:: else ->
		seen = old_header;
		if
		:: kind(seen) == OPEN -> atomic { swap(old_header, seen, seen + UNIT); granted = granted + ok }
		:: else -> kind(new_header) == OPEN; ok = 0
		fi
	fi;
	if
	:: ok
	:: else -> goto again
	fi;
	assert(kind(new_header) != OPEN || new_header == OPEN + UNIT * granted)
}

/* Marks the entry, in the record where the key is. */
proctype refunder()
{
	byte seen;
	bit ok;

again:
	if
	:: kind(new_header) == OPEN ->
		seen = after;
		if
		:: seen == LIVE ->
			swap(after, LIVE, GONE);
			if
			:: ok -> marks++
			:: else -> goto again
			fi
		:: else
		fi
	:: else ->
		seen = before;
		if
		:: kind(old_header) != OPEN -> kind(new_header) == OPEN; goto again
		:: else
		fi;
		if
		:: seen == LIVE ->
			swap(before, LIVE, GONE);
			if
			:: ok -> marks++
			:: else -> goto again
			fi
		:: else
		fi
	fi;
	assert(marks <= 1);
	assert(kind(new_header) != OPEN || marks == 0 || after == GONE)
}

init {
	byte i;

	atomic {
		run mover();
		run mover();
		run taker();
		do
		:: i < REFUNDERS -> run refunder(); i++
		:: else -> break
		od
	}
}

#endif
