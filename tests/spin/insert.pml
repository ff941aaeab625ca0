/*
 * insert.pml: the insertion protocol of docs/design/key-table.md, for one key.
 *
 * THREADS threads ask once each for the same key, which no cell has; other keys
 * come and go in the cells around them, and take claims that count as
 * abandoned; the key may be reset meanwhile. Every load and every
 * compare-and-swap is a step of its own, and spin tries every order of steps.
 * A thread that dies is one that takes no further step, so every crash is among
 * these orders, too.
 *
 * Checked in every state: the key has one state at most, and no more is granted
 * than LIMIT since the last reset. At the end: no less.
 *
 * BREAK_* leaves one thing out; each must make spin find a counterexample. BREAK_FENCE
 * leaves out the barrier behind the claim's swap: what step 2 loads may be what there was
 * before others saw the claim.
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef MOVES
#define MOVES 1 /* of other keys */
#endif
#define PLACES 3
#define TRIES  2 /* claims a thread makes before the model lets it go */

/* What a cell holds. */
#define EMPTY 0
#define OTHER 1   /* another key's state */
#define STATE 10  /* this key's: STATE + count */
#define CLAIM 100 /* this key's: CLAIM + which */

#define has_tag(v)  (v >= STATE)
#define is_claim(v) (v >= CLAIM)

byte cell[PLACES];
byte granted, claims, finished, gave_up, resets;

inline check_states()
{
	/* no two states */
	assert(!(has_tag(cell[0]) && !is_claim(cell[0]) && has_tag(cell[1]) && !is_claim(cell[1])));
	assert(!(has_tag(cell[0]) && !is_claim(cell[0]) && has_tag(cell[2]) && !is_claim(cell[2])));
	assert(!(has_tag(cell[1]) && !is_claim(cell[1]) && has_tag(cell[2]) && !is_claim(cell[2])));
	assert(granted <= LIMIT);
}

inline swap(at, before, after)
{
	atomic {
		ok = (cell[at] == before);
		if
		:: ok -> cell[at] = after
		:: else
		fi
	}
}

/* As swap; the answer goes out with it. */
inline swap_and_grant(at, before, after)
{
	atomic {
		ok = (cell[at] == before);
		if
		:: ok -> cell[at] = after; granted++; check_states()
		:: else
		fi
	}
}

proctype client()
{
	byte i, at, seen, other, tries;
	bool ok;
#ifdef BREAK_FENCE
	byte early[PLACES]; /* what step 2 loads, before the claim is made */
	bool mine;          /* the claim: to find another's is to load in order */
#endif

find:
#ifdef BREAK_FENCE
	mine = false;
#endif
	atomic { i = 0; at = PLACES; seen = 0; other = 0; ok = false }; /* fewer states to tell apart */
	do
	:: i < PLACES ->
		seen = cell[i];
		if
		:: has_tag(seen) -> at = i; break
		:: else -> i++
		fi
	:: else -> break
	od;
	if
	:: at < PLACES && !is_claim(seen) -> /* update */
		if
		:: seen - STATE >= LIMIT -> goto done
		:: else ->
			swap_and_grant(at, seen, seen + 1);
			if
			:: ok -> goto done
			:: else -> goto find
			fi
		fi
	:: at < PLACES && is_claim(seen) -> skip /* whoever made it is not waited for */
	:: else -> /* 1: claim the first that says nothing */
		i = 0;
		do
		:: i < PLACES ->
			if
			:: cell[i] == EMPTY -> at = i; break
			:: else -> i++
			fi
		:: else -> break
		od;
		if
		:: at == PLACES || tries == TRIES -> gave_up++; goto done
		:: else -> tries++
		fi;
#ifdef BREAK_UNIQUE
		seen = CLAIM;
#else
		atomic { claims++; seen = CLAIM + claims };
#endif
#ifdef BREAK_FENCE
		atomic { early[0] = cell[0]; early[1] = cell[1]; early[2] = cell[2]; mine = true };
#endif
		swap(at, EMPTY, seen);
		if
		:: ok
		:: else -> goto find
		fi
	fi;
#ifndef BREAK_LOOK
	i = 0; /* 2: look again */
	do
	:: i < PLACES ->
		if
		:: i != at ->
#ifdef BREAK_FENCE
			other = (mine -> early[i] : cell[i]);
#else
			other = cell[i];
#endif
			if
			:: !has_tag(other) -> skip
#ifndef BREAK_WITHDRAW
			:: has_tag(other) && (!is_claim(other) || i < at) -> /* 2a, 2b */
				swap(at, seen, EMPTY);
				goto find
			:: is_claim(other) && i > at -> /* 2c */
				swap(i, other, EMPTY);
				if
				:: ok
				:: else -> goto find
				fi
#else
			:: has_tag(other) && !is_claim(other) ->
				swap(at, seen, EMPTY);
				goto find
			:: is_claim(other) -> skip
#endif
			fi
		:: else
		fi;
		atomic { other = 0; i++ }
	:: else -> break
	od;
#endif
	swap_and_grant(at, seen, STATE + 1); /* 3 */
	if
	:: ok
	:: else -> goto find
	fi;
done:
	atomic {
		i = 0; at = 0; seen = 0; other = 0; ok = false; tries = 0;
		finished++;
		if /* never fewer, when demand suffices and nothing was taken back */
		:: finished == THREADS && gave_up == 0 && resets == 0 -> assert(granted == LIMIT)
		:: else
		fi
	}
}

/* Other keys: they take what says nothing and claims that look abandoned, and go idle again. */
proctype others()
{
	byte moves, i;

	do
	:: moves < MOVES ->
		select(i : 0 .. PLACES - 1);
		atomic {
			if
			:: cell[i] == EMPTY -> cell[i] = OTHER
			:: is_claim(cell[i]) -> cell[i] = OTHER
			:: cell[i] == OTHER -> cell[i] = EMPTY
			:: else
			fi
		};
		moves++
	:: break
	od
}

/* The key is reset once, at any time. */
proctype reset()
{
	byte i = 0;

	do
	:: i < PLACES ->
		atomic {
			if
			:: has_tag(cell[i]) && !is_claim(cell[i]) -> cell[i] = EMPTY; granted = 0; resets++
			:: else
			fi
		};
		i++
	:: else -> break
	od
}

init
{
	byte n;

	atomic {
		do
		:: n < THREADS -> run client(); n++
		:: else -> break
		od;
		run others();
#ifdef RESET
		run reset()
#endif
	}
}
