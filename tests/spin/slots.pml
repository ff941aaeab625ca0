/*
 * slots.pml: models the protocol of sliding_window, by docs/design/sliding-states.md, for one key.
 *
 * CLIENTS acquires, REFUNDS and RESETS meet on one header and its record while time goes on, slot by
 * slot. Each reads the time once and may stall at any step; one that takes no further step has died.
 * So Spin tries clocks that lag, late writers and every crash.
 *
 * Checked in every state:
 *   - no S consecutive slots were granted more than LIMIT, less refunds;
 *   - every slot that is not over counts all that was granted in it since the last reset, answered or
 *     not, and no more than that and the key's use before;
 *   - the header's sum of the slots before its own is no less than they count, and more only by the
 *     units of unfinished refunds;
 *   - a client that comes now, while all others stand still, is done in three rounds, and is denied only
 *     if the limit is used up or unfinished refunds keep it so.
 *
 * Left out: clocks that are set back, other numbers of slots, other keys (insert.pml).
 *
 * BREAK_* leaves one thing out; each must make Spin find a counterexample.
 */
#ifndef CLIENTS
#define CLIENTS 2 /* besides the one that comes last */
#endif
#ifndef REFUNDS
#define REFUNDS 0
#endif
#ifndef RESETS
#define RESETS 0
#endif
#ifndef LIMIT
#define LIMIT 2 /* at most 3 */
#endif
#ifndef S
#define S 2 /* slots in a period */
#endif
#ifndef TIME
#define TIME 3 /* the last slot */
#endif

/* Kinds of cells. */
#define OPEN   0
#define SEALED 1
#define VOID   2

#define NONE 0
#define make(slot, kind, before, count) \
	(48 + (slot) * 48 + (kind) * 16 + (before) * 4 + (count))
#define slot(v)   ((v) / 48 - 1)
#define kind(v)   ((v) / 16 % 3)
#define before(v) ((v) / 4 % 4)
#define count(v)  ((v) % 4)

#define max(a, b)     ((a) > (b) -> (a) : (b))
#define live(v, time) ((v) != NONE && slot(v) + S > (time))

/* Whether a record's cell counts beside this header. */
#define in_range(v, header, time) \
	((v) != NONE && kind(v) == OPEN && slot(v) < slot(header) && slot(v) + S > max(time, slot(header)))

#define ACQUIRE 0
#define REFUND  1
#define RESET   2
#define NEWEST  255 /* the slot that a refund names */

byte clock;
byte header = NONE;
byte record[S];
byte granted[TIME + 1]; /* in a slot, since the last reset */
byte earlier[TIME + 1]; /* before it */
byte late; /* refunders that have taken from the record and are not done */
hidden byte each, use, sum;

/* What a slot counts, for those whose clocks do not run ahead of the header. */
#define counted(n) \
	(header == NONE || (n) > slot(header) -> 0 : \
	((n) == slot(header) -> count(header) : \
	(kind(header) != VOID && record[(n) % S] != NONE && kind(record[(n) % S]) == OPEN && \
	 slot(record[(n) % S]) == (n) -> count(record[(n) % S]) : 0)))

inline check()
{
	d_step {
		each = 0;
		do
		:: each <= TIME ->
			if
			:: each + S > clock && (header == NONE || each + S > slot(header)) ->
				use = counted(each);
				assert(use >= granted[each]);
				assert(use <= granted[each] + earlier[each])
			:: else
			fi;
			each++
		:: else -> break
		od;
		each = 0;
		sum = 0;
		do
		:: each <= TIME ->
			sum = sum + granted[each];
			if
			:: each >= S -> sum = sum - granted[each - S]
			:: else
			fi;
			assert(sum <= LIMIT);
			each++
		:: else -> break
		od;
		if
		:: header != NONE && kind(header) != VOID ->
			each = 0;
			sum = 0;
			do
			:: each < S ->
				sum = sum + (in_range(record[each], header, 0) -> count(record[each]) : 0);
				each++
			:: else -> break
			od;
			assert(before(header) >= sum);
			assert(slot(header) < clock || before(header) <= sum + late)
		:: else
		fi;
		each = 0; use = 0; sum = 0
	}
}

inline read_clock()
{
#ifdef LEFT /* some have read it before the reset */
	select(now : 0 .. clock)
#else
	now = clock
#endif
}

inline take_back()
{
	if
	:: granted[i] > 0 -> granted[i]--
	:: else -> earlier[i]--
	fi
}

/* On behalf of the header that was seen: look, then swap. */
inline swap_cell()
{
#ifdef BREAK_LOOK
	ok = true;
#else
	ok = (header == seen);
#endif
	if
	:: ok ->
		atomic {
			ok = (record[i] == cell);
			if
			:: ok -> record[i] = to
			:: else
			fi
		}
	:: else
	fi
}

/* What the record counts beside a header at `time`, cell by cell. */
inline sum_record(other, time)
{
	atomic { i = 0; sums = 0 };
	do
	:: i < S ->
		atomic {
			cell = record[i];
			sums = sums + (in_range(cell, other, time) -> count(cell) : 0);
			i++
		}
	:: else -> break
	od
}

inline swap_header()
{
	ok = (header == seen);
	if
	:: ok -> header = to
	:: else
	fi
}

/* `op` at `now`, once, round by round; `counts` 1 counts them. */
inline work(counts)
{
	skip;
again:
	atomic { rounds = rounds + counts; cell = 0; to = 0; ok = false; i = 0; sums = 0; seen = header };
	if
	:: live(seen, now) && kind(seen) != VOID && now > slot(seen) -> sum_record(seen, now)
	:: live(seen, now) && kind(seen) != VOID && now <= slot(seen) -> sums = before(seen)
	:: else
	fi;
	atomic { /* as it stands for this call */
		i = 0;
		if
		:: !live(seen, now) -> view = make(now, VOID, 0, 0)
		:: live(seen, now) && kind(seen) == VOID && count(seen) == 0 ->
			view = make(max(slot(seen), now), VOID, 0, 0)
		:: else -> view = seen
		fi;
		cell = 0
	};
	if
	:: op == ACQUIRE && count(view) + sums + 1 > LIMIT -> /* denied */
		atomic {
			ok = (header == seen);
			if
			:: ok -> ok = false; goto done
			:: else -> goto again
			fi
		}
	:: op == RESET || (op == REFUND && count(view) + sums == 0) -> skip
	:: else ->
#ifdef BREAK_SEAL
go_on:
#endif
		if
#ifdef BREAK_SKIP
		:: kind(view) == SEALED ->
#else
		:: kind(view) == SEALED -> /* (b) */
			atomic {
				i = slot(view) % S;
				cell = record[i];
				to = make(slot(view), OPEN, 0, count(view))
			};
			if
			:: cell != to ->
				swap_cell();
				goto again
			:: else
			fi;
#endif
			atomic {
				found = make(max(slot(view) + 1, now), OPEN, 0, 0);
				sums = 0
			};
			sum_record(found, 0);
			atomic { /* (c) */
				i = slot(found);
				found = 0;
				to = make(i, OPEN, sums, (op == ACQUIRE -> 1 : 0));
				swap_header();
				if
				:: ok && op == ACQUIRE -> granted[i]++; check(); goto done
				:: else -> check(); goto again
				fi
			}
		:: else
		fi
	fi;
	if
	:: op == ACQUIRE && now > slot(view) && count(view) > 0 ->
		if
		:: kind(view) == VOID -> /* what an earlier life left */
			do
			:: i < S ->
				cell = record[i];
				if
				:: cell != NONE && kind(cell) == OPEN ->
					to = make(slot(cell), VOID, 0, count(cell));
					swap_cell()
				:: else
				fi;
				i++
			:: else -> break
			od
		:: else
		fi;
#ifdef BREAK_SEAL
		view = make(slot(view), SEALED, before(view), count(view));
		goto go_on
#else
		atomic { /* (a) */
			to = make(slot(view), SEALED, before(view), count(view));
			swap_header();
			check();
			goto again
		}
#endif
	:: op == ACQUIRE && !(now > slot(view) && count(view) > 0) ->
		atomic {
#ifdef BREAK_BACK
			i = now;
#else
			i = max(slot(view), now);
#endif
			to = make(i, kind(view), sums, count(view) + 1);
			swap_header();
			if
			:: ok -> granted[i]++; check(); goto done
			:: else -> goto again
			fi
		}
	:: op == REFUND && !given && count(view) + sums > 0 &&
	   (name == slot(view) || (name == NEWEST && count(view) > 0)) ->
		atomic {
			to = (count(view) > 0 -> view - 1 : seen);
			swap_header();
			i = slot(view);
			if
			:: ok && count(view) > 0 -> take_back(); check(); goto done
			:: ok && count(view) == 0 -> goto done
			:: else -> goto again
			fi
		}
	:: op == REFUND && given && kind(view) != VOID && count(view) + sums > 0 -> /* settle */
#ifdef BREAK_GUARD
		sum_record(seen, 0);
		atomic { seen = header; ok = (kind(seen) == OPEN && before(seen) > sums) };
#else
		sum_record(seen, 0);
		ok = (before(seen) > sums);
#endif
		atomic {
			to = (ok -> make(slot(seen), OPEN, sums, count(seen)) : seen);
			swap_header();
			if
			:: ok -> late--; check(); goto done
			:: else -> goto again
			fi
		}
	:: op == REFUND && !given && kind(view) != VOID && count(view) + sums > 0 &&
	   !(name == slot(view) || (name == NEWEST && count(view) > 0)) ->
		found = NONE;
		do
		:: i < S ->
			atomic {
				cell = record[i];
				if
				:: in_range(cell, seen, now) && (name == NEWEST -> cell > found :
				   slot(cell) == name) -> found = cell
				:: else
				fi;
				cell = 0;
				i++
			}
		:: else -> break
		od;
		if
		:: found == NONE -> atomic {
				ok = (header == seen);
				if
				:: ok -> goto done
				:: else -> goto again
				fi
			}
		:: else
		fi;
		if
		:: header != seen -> goto again
		:: else
		fi;
#ifdef BREAK_ORDER
		atomic {
			to = (before(seen) > 0 -> seen - 4 : seen);
			swap_header();
			if
			:: ok -> check()
			:: else -> goto again
			fi
		};
#endif
		atomic {
			i = slot(found) % S;
			ok = (record[i] == found);
			if
			:: ok && count(found) > 1 -> record[i] = found - 1
			:: ok && count(found) == 1 -> record[i] = make(slot(found), VOID, 0, 1)
			:: else
			fi;
			i = slot(found);
			found = 0;
			if
			:: ok -> take_back(); given = true; late++; check(); goto again
			:: else -> goto again
			fi
		}
	:: op == RESET && live(seen, now) ->
		atomic {
			to = make(slot(view) + (kind(view) == SEALED -> 1 : 0), VOID, 0, 0);
			swap_header();
			if
			:: ok ->
				i = 0;
				do
				:: i <= TIME ->
					earlier[i] = earlier[i] + granted[i];
					granted[i] = 0;
					i++
				:: else -> break
				od;
				check();
				goto done
			:: else -> goto again
			fi
		}
	:: else -> /* nothing to do */
		atomic {
			ok = (header == seen);
			if
			:: ok ->
				late = late - given;
				goto done
			:: else -> goto again
			fi
		}
	fi;
done:
	skip
}

proctype client(byte op)
{
	byte now, seen, view, cell, to, found, sums, i, name, rounds;
	bool ok, given;

	atomic {
		read_clock();
		if
		:: op == REFUND -> name = NEWEST
		:: op == REFUND -> select(name : 0 .. TIME)
		:: op != REFUND
		fi
	};
	work(0);
	atomic {
		now = 0; seen = 0; view = 0; cell = 0; to = 0; found = 0; sums = 0; i = 0; name = 0;
		ok = false; given = false
	}
}

/* Comes at any time and finds all others standing still. */
proctype survivor()
{
	byte now, seen, view, cell, to, found, sums, i, name, op, rounds;
	bool ok, given;

	atomic {
		read_clock();
		work(1);
		assert(rounds <= 3);
		i = 0; sums = 0;
		do
		:: i <= TIME ->
			sums = sums + (i + S > slot(seen) -> granted[i] + earlier[i] : 0);
			i++
		:: else -> break
		od;
		assert(ok || sums + late >= LIMIT);
		now = 0; seen = 0; view = 0; cell = 0; to = 0; found = 0; sums = 0; i = 0; ok = false; rounds = 0
	}
}

proctype timer()
{
	do
	:: clock < TIME -> clock++
	:: else -> break
	od
}

init
{
	byte n;

	atomic {
#ifdef LEFT /* what an earlier life of the key, that was reset in slot LEFT, may have left */
#ifndef BREAK_RESET
		header = make(LEFT, VOID, 0, 0);
#endif
		clock = LEFT;
		do
		:: n < LEFT ->
			if
			:: skip
			:: record[n % S] = make(n, OPEN, 0, 1); earlier[n] = 1
			:: record[n % S] = make(n, OPEN, 0, LIMIT); earlier[n] = LIMIT
			fi;
			n++
		:: else -> break
		od;
		n = 0;
#endif
		do
		:: n < CLIENTS -> run client(ACQUIRE); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < REFUNDS -> run client(REFUND); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < RESETS -> run client(RESET); n++
		:: else -> break
		od;
		n = 0;
		run timer();
		run survivor()
	}
}
