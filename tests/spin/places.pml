/*
 * places.pml: how permits are held in a row and given back, by docs/design/reported-states.md, for one
 * key: in places, or with FLIGHTS in a count.
 *
 * CLIENTS acquire and release ROUNDS times each. The key's head may be in one of two
 * cells, each with a row of its own; other keys take a cell as soon as it may be
 * evicted. Each load and each compare-and-swap is a step of its own, and who takes no
 * further step has died. That a key has one head at most is insert.pml's business.
 *
 * Checked: no more than MAX are in flight; whoever releases finds his place; and with
 * no more clients than places nobody is denied, and at last no head is held.
 *
 * FLIGHTS: the cell of a count is cleaned when a head is made. A permit that was given to another
 * life of the key is denied, and counts until its part is over. So may a head that two calls let go.
 *
 * BEFORE: one place beyond MAX is held by a permit from before a reload.
 *
 * BREAK_* leaves one thing out; each must make spin find a counterexample. BREAK_FENCE_4
 * and BREAK_FENCE_C leave out a barrier: what (4), or the second look of (c), loads may be
 * what there was before others saw the place taken, or the head closing.
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef MAX
#define MAX 2
#endif
#ifndef MOVES
#define MOVES 1 /* of other keys */
#endif
#define HEADS 2

#ifdef BEFORE
#define HELD_BEFORE 1
#else
#define HELD_BEFORE 0
#endif

/* A head: none, another key's, or ours: fit, closing or spent, with a version. */
#define NONE     0
#define OTHER    1
#define FIT      2
#define CLOSING  3
#define SPENT    4
#define make(kind, version) ((version) * 8 + (kind))
#define kind(v)             ((v) % 8)
#define version(v)          ((v) / 8)
#define is_ours(v)          (kind(v) >= FIT)
#define life(v)             (version(v) / 16)

#ifdef FLIGHTS
#define is_held(cell) ((cell) > 0)
#ifdef BREAK_LIFE
#define is_another_life(v) false
#else
#define is_another_life(v) (life(v) != life(seen)) /* in which the count began anew */
#endif
#define MAY_STAY      true /* a head, and a permit that was given to another life: until its part is over */
#define clean(at)     row[(at) * MAX] = 0
#else
#define is_held(cell) ((cell) == me)
#define is_another_life(v) false
#define MAY_STAY      false
#define clean(at)     skip
#endif

short head[HEADS];
byte lives; /* of the head: no two have the same end */
byte row[HEADS * MAX]; /* who holds, 0: nobody; FLIGHTS: how many, in the first cell */
byte flying;
byte done;

inline swap(cell, before, after)
{
	atomic {
		ok = (cell == before);
		if
		:: ok -> cell = after
		:: else
		fi
	}
}

#ifdef FLIGHTS
#ifdef BREAK_CLOSING
#define LETS_GO SPENT
#else
#define LETS_GO CLOSING
#endif
#ifdef BREAK_COUNT
#define counted(v) version(v)
#else
#define counted(v) (version(v) + 1)
#endif

inline look()
{
	atomic { held = row[at * MAX]; free = 0 }
}

inline take()
{
	atomic {
		ok = (row[at * MAX] == held);
		if
		:: ok -> row[at * MAX]++
		:: else
		fi
	}
}

/* Takes it off again, unless the row has begun another life, in which it does not count. */
inline give_back()
{
	atomic {
		if
		:: is_ours(head[at]) && !is_another_life(head[at]) -> row[at * MAX]--
		:: else
		fi;
		taken = HEADS
	}
}

/* Takes a permit off the count, and lets the head go after the last one. */
inline release()
{
	row[at * MAX]--;
	atomic { seen = head[at] };
	look();
	if
	:: held == 0 && is_ours(seen) && kind(seen) != SPENT ->
		swap(head[at], seen, make(LETS_GO, counted(seen)));
		if
		:: ok ->
			seen = make(LETS_GO, counted(seen));
#ifndef BREAK_FENCE_C
			look();
#endif
			swap(head[at], seen, make((held == 0 -> SPENT : FIT), version(seen)))
		:: else
		fi
	:: else
	fi
}

#else

/* What is held in the row of `at`, and a place that is not. */
inline look()
{
	atomic { i = 0; held = HELD_BEFORE; free = MAX };
	do
	:: i < MAX ->
		atomic {
			if
			:: row[at * MAX + i] != 0 -> held++
			:: else -> /* wherever the search begins */
				if
				:: free = i
				:: free != MAX
				fi
			fi;
			i++
		}
	:: else -> break
	od
}

/* After a place in the row of `at` was freed, and `held` others were seen: (b), (c). */
inline after_release()
{
	do
	:: is_ours(seen) ->
#ifdef BREAK_CLOSING
		swap(head[at], seen, make((held == 0 -> SPENT : FIT), version(seen) + 1));
#else
#ifdef BREAK_COUNT
		if
		:: held > 0 -> break
		:: else
		fi;
#endif
		swap(head[at], seen, make((held == 0 -> CLOSING : FIT), version(seen) + 1));
		if
		:: ok && held == 0 ->
			seen = make(CLOSING, version(seen) + 1);
#ifndef BREAK_FENCE_C
			look();
#endif
			if
			:: held == 0 -> swap(head[at], seen, make(SPENT, version(seen)))
			:: else
			fi;
			ok = true
		:: else
		fi;
#endif
		if
		:: ok -> break
		:: else
		fi;
		atomic { seen = head[at] };
		look()
	:: else -> break
	od
}

/* Gives back `place` in the row of `at`: (a), and what one pass over the row sees besides. */
inline release()
{
	atomic {
		seen = head[at];
		i = 0;
		held = HELD_BEFORE;
		if
		:: free = 0
		:: free = 1 /* where the pass begins */
		fi
	};
	do
	:: i < MAX ->
		atomic {
			if
			:: (free + i) % MAX == place -> row[at * MAX + place] = 0
			:: else ->
				if
				:: row[at * MAX + (free + i) % MAX] != 0 -> held++
				:: else
				fi
			fi;
			i++
		}
	:: else -> break
	od;
#ifdef BREAK_READ
	atomic { seen = head[at] };
#endif
	after_release()
}

#endif

proctype client(byte me)
{
	byte i, at, held, free, rounds;
	short seen;
	byte taken = HEADS; /* where, in which place */
	byte place;
	bool ok;

again:
	atomic { at = 0; i = 0; held = 0; free = 0; ok = false; seen = head[0] };
	if
	:: is_ours(seen) -> skip
	:: else ->
		atomic { at = 1; seen = head[1] };
		if
		:: is_ours(seen) -> skip
		:: else -> /* made, by the protocol of every insertion */
			atomic {
				if
				:: is_ours(head[0]) || is_ours(head[1]) -> skip
				:: else ->
					if
					:: head[0] <= OTHER -> head[0] = make(FIT, lives * 16); clean(0)
					:: head[1] <= OTHER -> head[1] = make(FIT, lives * 16); clean(1)
					fi;
					lives++
				fi
			};
			goto again
		fi
	fi;
#ifndef BREAK_BACK
	if
	:: taken != HEADS && taken != at ->
		at = taken;
		taken = HEADS;
		release();
		goto again
	:: else
	fi;
#endif
	look();
	if
	:: held - (taken == HEADS -> 0 : 1) >= MAX -> /* denied */
		if
#ifndef FLIGHTS
		:: taken == HEADS && head[at] != seen -> goto again
#endif
		:: taken != HEADS ->
			taken = HEADS;
			release()
		:: else -> assert(CLIENTS + HELD_BEFORE > MAX || MAY_STAY)
		fi;
		goto next
	:: else
	fi;
	if
	:: kind(seen) != FIT ->
		swap(head[at], seen, make(FIT, version(seen)));
		if
		:: !ok -> goto again
		:: else -> seen = make(FIT, version(seen))
		fi
	:: else
	fi;
	if
	:: taken != HEADS -> goto grant
	:: else
	fi;
	if
	:: free == MAX -> goto again
	:: else
	fi;
#ifdef BREAK_FENCE_4
	seen = head[at];
#endif
#ifdef FLIGHTS
	take();
#else
	swap(row[at * MAX + free], 0, me);
#endif
	if
	:: !ok -> goto again
	:: else -> atomic { taken = at; place = free }
	fi;
#ifndef BREAK_FIT
#ifdef BEFORE
#ifndef BREAK_LOOK
	goto again; /* 4, as a look at all */
#endif
#endif
	if
#ifdef BREAK_FENCE_4
	:: kind(seen) != FIT ->
#ifdef FLIGHTS
		give_back();
#endif
		goto again
#else
	:: kind(head[at]) != FIT || is_another_life(head[at]) -> /* 4 */
#ifdef FLIGHTS
		give_back();
#endif
		goto again
#endif
	:: else
	fi;
#endif
grant:
	atomic { flying++; assert(flying + HELD_BEFORE <= MAX) };
	atomic {
		flying--;
		assert(is_ours(head[taken]) && is_held(row[taken * MAX + place]));
		at = taken;
		taken = HEADS
	};
	release();
next:
	atomic { rounds++; place = 0; taken = HEADS };
	if
	:: rounds < ROUNDS -> goto again
	:: else
	fi;
	atomic {
		done++;
		/* Nobody was denied after a head had been made to fit, so none is held for nothing. */
		assert(done < CLIENTS || CLIENTS > MAX || HELD_BEFORE || MAY_STAY ||
		       (kind(head[0]) != FIT && kind(head[1]) != FIT))
	}
}

/* They take what says nothing, and leave again. */
proctype others()
{
	byte moves, at;

	do
	:: moves < MOVES ->
		select(at : 0 .. HEADS - 1);
		atomic {
			if
			:: head[at] == NONE || kind(head[at]) == SPENT -> head[at] = OTHER
			:: head[at] == OTHER -> head[at] = NONE
			:: else
			fi
		};
		moves++
	:: break
	od
}

init
{
	byte n;

	atomic {
#ifdef BEFORE
		head[0] = make(FIT, 0);
#endif
		do
		:: n < CLIENTS -> n++; run client(n)
		:: else -> break
		od;
		run others()
	}
}
