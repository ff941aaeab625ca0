/*
 * leases.pml: models how permits are acquired and released in a record, by
 * docs/design/reported-states.md, for one key: as leases, or with COUNTED in one cell that counts them.
 *
 * CLIENTS acquire and release ROUNDS times each. The key's header may be in one of two cells, each with
 * a record of its own; other keys take a cell as soon as it may be evicted. Each load and each
 * compare-and-swap is one step, and a client that takes no further step has died. insert.pml shows that
 * a key has one header at most.
 *
 * Checked: no more than MAX are in flight, and each release finds its lease. With no more clients than
 * entries nobody is denied, and finally no header is pinned.
 *
 * COUNTED: a new header cleans the cell of the count. A permit that was given to another life of the key
 * is denied, and counts until its part times out. So may a header that two calls close.
 *
 * BEFORE: one entry beyond MAX has a lease from before a reload.
 *
 * BREAK_* leaves one thing out; each must make Spin find a counterexample. BREAK_FENCE_4 and
 * BREAK_FENCE_C leave out a barrier: (4), or the second pass of (c), may then load values from before
 * other threads saw the lease or the closing header.
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
#define HEADERS 2

#ifdef BEFORE
#define HELD_BEFORE 1
#else
#define HELD_BEFORE 0
#endif

/* A header: none, another key's, or ours: fit, closing or spent, with a version. */
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

#ifdef COUNTED
#define is_held(cell) ((cell) > 0)
#ifdef BREAK_LIFE
#define is_another_life(v) false
#else
#define is_another_life(v) (life(v) != life(seen)) /* in which the count began anew */
#endif
#define MAY_STAY      true /* a header, and a permit that was given to another life: until its part is over */
#define clean(at)     record[(at) * MAX] = 0
#else
#define is_held(cell) ((cell) == me)
#define is_another_life(v) false
#define MAY_STAY      false
#define clean(at)     skip
#endif

short header[HEADERS];
byte lives; /* of the header: no two have the same end */
byte record[HEADERS * MAX]; /* who holds, 0: nobody; COUNTED: how many, in the first cell */
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

#ifdef COUNTED
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
	atomic { held = record[at * MAX]; free = 0 }
}

inline take()
{
	atomic {
		ok = (record[at * MAX] == held);
		if
		:: ok -> record[at * MAX]++
		:: else
		fi
	}
}

/* Takes it off again, unless the record has begun another life, in which it does not count. */
inline give_back()
{
	atomic {
		if
		:: is_ours(header[at]) && !is_another_life(header[at]) -> record[at * MAX]--
		:: else
		fi;
		taken = HEADERS
	}
}

/* Takes a permit off the count, and lets the header go after the last one. */
inline release()
{
	record[at * MAX]--;
	atomic { seen = header[at] };
	look();
	if
	:: held == 0 && is_ours(seen) && kind(seen) != SPENT ->
		swap(header[at], seen, make(LETS_GO, counted(seen)));
		if
		:: ok ->
			seen = make(LETS_GO, counted(seen));
#ifndef BREAK_FENCE_C
			look();
#endif
			swap(header[at], seen, make((held == 0 -> SPENT : FIT), version(seen)))
		:: else
		fi
	:: else
	fi
}

#else

/* What is held in the record of `at`, and a place that is not. */
inline look()
{
	atomic { i = 0; held = HELD_BEFORE; free = MAX };
	do
	:: i < MAX ->
		atomic {
			if
			:: record[at * MAX + i] != 0 -> held++
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

/* After a place in the record of `at` was freed, and `held` others were seen: (b), (c). */
inline after_release()
{
	do
	:: is_ours(seen) ->
#ifdef BREAK_CLOSING
		swap(header[at], seen, make((held == 0 -> SPENT : FIT), version(seen) + 1));
#else
#ifdef BREAK_COUNT
		if
		:: held > 0 -> break
		:: else
		fi;
#endif
		swap(header[at], seen, make((held == 0 -> CLOSING : FIT), version(seen) + 1));
		if
		:: ok && held == 0 ->
			seen = make(CLOSING, version(seen) + 1);
#ifndef BREAK_FENCE_C
			look();
#endif
			if
			:: held == 0 -> swap(header[at], seen, make(SPENT, version(seen)))
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
		atomic { seen = header[at] };
		look()
	:: else -> break
	od
}

/* Gives back `place` in the record of `at`: (a), and what one pass over the record sees besides. */
inline release()
{
	atomic {
		seen = header[at];
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
			:: (free + i) % MAX == place -> record[at * MAX + place] = 0
			:: else ->
				if
				:: record[at * MAX + (free + i) % MAX] != 0 -> held++
				:: else
				fi
			fi;
			i++
		}
	:: else -> break
	od;
#ifdef BREAK_READ
	atomic { seen = header[at] };
#endif
	after_release()
}

#endif

proctype client(byte me)
{
	byte i, at, held, free, rounds;
	short seen;
	byte taken = HEADERS; /* where, in which place */
	byte place;
	bool ok;

again:
	atomic { at = 0; i = 0; held = 0; free = 0; ok = false; seen = header[0] };
	if
	:: is_ours(seen) -> skip
	:: else ->
		atomic { at = 1; seen = header[1] };
		if
		:: is_ours(seen) -> skip
		:: else -> /* made, by the protocol of every insertion */
			atomic {
				if
				:: is_ours(header[0]) || is_ours(header[1]) -> skip
				:: else ->
					if
					:: header[0] <= OTHER -> header[0] = make(FIT, lives * 16); clean(0)
					:: header[1] <= OTHER -> header[1] = make(FIT, lives * 16); clean(1)
					fi;
					lives++
				fi
			};
			goto again
		fi
	fi;
#ifndef BREAK_BACK
	if
	:: taken != HEADERS && taken != at ->
		at = taken;
		taken = HEADERS;
		release();
		goto again
	:: else
	fi;
#endif
	look();
	if
	:: held - (taken == HEADERS -> 0 : 1) >= MAX -> /* denied */
		if
#ifndef COUNTED
		:: taken == HEADERS && header[at] != seen -> goto again
#endif
		:: taken != HEADERS ->
			taken = HEADERS;
			release()
		:: else -> assert(CLIENTS + HELD_BEFORE > MAX || MAY_STAY)
		fi;
		goto next
	:: else
	fi;
	if
	:: kind(seen) != FIT ->
		swap(header[at], seen, make(FIT, version(seen)));
		if
		:: !ok -> goto again
		:: else -> seen = make(FIT, version(seen))
		fi
	:: else
	fi;
	if
	:: taken != HEADERS -> goto grant
	:: else
	fi;
	if
	:: free == MAX -> goto again
	:: else
	fi;
#ifdef BREAK_FENCE_4
	seen = header[at];
#endif
#ifdef COUNTED
	take();
#else
	swap(record[at * MAX + free], 0, me);
#endif
	if
	:: !ok -> goto again
	:: else -> atomic { taken = at; place = free }
	fi;
#ifndef BREAK_FIT
#ifdef BEFORE
#ifndef BREAK_READ_AGAIN
	goto again; /* 4, as a look at all */
#endif
#endif
	if
#ifdef BREAK_FENCE_4
	:: kind(seen) != FIT ->
#ifdef COUNTED
		give_back();
#endif
		goto again
#else
	:: kind(header[at]) != FIT || is_another_life(header[at]) -> /* 4 */
#ifdef COUNTED
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
		assert(is_ours(header[taken]) && is_held(record[taken * MAX + place]));
		at = taken;
		taken = HEADERS
	};
	release();
next:
	atomic { rounds++; place = 0; taken = HEADERS };
	if
	:: rounds < ROUNDS -> goto again
	:: else
	fi;
	atomic {
		done++;
		/* Nobody was denied after a header had been made to fit, so none is held for nothing. */
		assert(done < CLIENTS || CLIENTS > MAX || HELD_BEFORE || MAY_STAY ||
		       (kind(header[0]) != FIT && kind(header[1]) != FIT))
	}
}

/* They take what says nothing, and leave again. */
proctype others()
{
	byte moves, at;

	do
	:: moves < MOVES ->
		select(at : 0 .. HEADERS - 1);
		atomic {
			if
			:: header[at] == NONE || kind(header[at]) == SPENT -> header[at] = OTHER
			:: header[at] == OTHER -> header[at] = NONE
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
		header[0] = make(FIT, 0);
#endif
		do
		:: n < CLIENTS -> n++; run client(n)
		:: else -> break
		od;
		run others()
	}
}
