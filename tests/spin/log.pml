/*
 * log.pml: models the protocol of sliding_log, by docs/design/sliding-states.md, for one key.
 *
 * A log begins with entries in its record. ACQUIRES, REFUNDS by name (of which two may have the same
 * name), TAKES, which refund the newest units, and RESETS meet on it. Clocks have any times up to TIME.
 * Each call may stall at any step, and one that takes no further step has died. Each load of a cell of
 * the record is one step.
 *
 * Checked after every change: at no time, now or later, is less in use than was granted and not
 * refunded, so no period has more than LIMIT. A name is refunded once. A refund that finds nothing was
 * of a refunded, reset or ended name. When all calls have ended, no more is in use either.
 *
 * Left out: names that run ahead of time by a lead (but the notes that store it are written), clocks that
 * are set back, other keys (insert.pml), and spans in the header, which repeat those in the record. Spans
 * in the record are powers of 2. The record is never damaged: a MOVING entry has a cell to go to.
 *
 * A PARTED entry is refunded in part: the entry behind it takes over the rest.
 *
 * BREAK_* leaves one thing out; each must make Spin find a counterexample.
 */
#ifndef ACQUIRES
#define ACQUIRES 1
#endif
#ifndef REFUNDS
#define REFUNDS 1
#endif
#ifndef TAKES
#define TAKES 0
#endif
#ifndef TAKEN
#define TAKEN 1 /* by each take */
#endif
#ifndef RESETS
#define RESETS 0
#endif
#ifndef MOVERS
#define MOVERS 0 /* refunds that have marked the oldest already */
#endif
#ifndef MARKED
#define MARKED 0 /* as many of the oldest are GONE from the start */
#endif
#ifndef PARTED
#define PARTED 0 /* of this entry one unit less than its cost is given back by its name */
#endif
#ifndef COST
#define COST 1 /* of an acquire */
#endif
#ifndef ENTRIES
#define ENTRIES 3 /* of the start, the header's included; they came at 1, 2, 3 and so on */
#endif
#ifndef TIME
#define TIME ENTRIES /* the last that clocks say */
#endif
#ifndef SPAN
#define SPAN 4 /* the most that spans of the start tell; refunds may have left short ones */
#endif
#define LIMIT  6
#define W      7 /* cells of the record */
#define PERIOD (ENTRIES + 1)
#define TIMES  12

/* Costs of the entries of the start. */
#ifndef COST1
#define COST1 1
#endif
#ifndef COST2
#define COST2 2
#endif
#ifndef COST3
#define COST3 1
#endif
#define start_cost(t) ((t) == 1 -> COST1 : ((t) == 2 -> COST2 : ((t) == 3 -> COST3 : 1)))

#define FIRST  1
#define GONE   2
#define MOVING 4
#define PART   8 /* GONE in part: its span says how many units are given back */

#define entry(t, sum, span, state) ((t) * 2048 + ((sum) % 16) * 128 + (span) * 16 + (state))
#define time(e)                    ((e) / 2048)
#define sum(e)                     ((e) / 128 % 16)
#define field(e)                   ((e) / 16 % 8)
#define span(e)                    ((e) / 8 % 2 == 1 -> 1 : field(e))
#define state(e)                   ((e) % 16)
#define is(e, bits)                (state(e) & (bits))

#define header_of(t, cost, place, first) ((t) * 128 + (cost) * 16 + (place) * 2 + (first))
#define cost(h)                        ((h) / 16 % 8)
#define place(h)                       ((h) / 2 % 8)
#define first(h)                       ((h) % 2)
#define header_time(h)                   ((h) / 128)

#define max(a, b)   ((a) > (b) -> (a) : (b))
#define min(a, b)   ((a) < (b) -> (a) : (b))
#define minus(a, b) (((a) + 16 - (b)) % 16)
#define place_of(b) ((place(seen) + W - (b)) % W)
#define load(b)     record[place_of(b)]
/* As much as the bits of a span tell. */
#define hint(n)     ((n) >= 4 -> 4 : ((n) >= 2 -> 2 : 1))

#ifdef AFTER /* others, which are over, and of which the span of the oldest tells still */
#define start_entry(n, sum) entry(n, sum, (n == 1 -> 4 : hint(n)), (n <= MARKED -> GONE : 0))
#else
#define start_entry(n, sum) \
	entry(n, sum, min(hint(n), SPAN), (n <= MARKED -> GONE : 0) + (n == 1 -> FIRST : 0))
#endif

#define ACQUIRE 0
#define REFUND  1
#define TAKE    2
#define RESET   3

#define NOWHERE 255

/* Of all that look at the record. */
#define VIEW \
	byte at, live, use, far, i; \
	short seen, cell, next, newest

short header;
short record[W];
byte granted[TIMES]; /* and not given back */
byte reset_time;

/* `next`: what is `far` places back, if it is live and not from after `cell`, which is `live`. */
inline look_before()
{
	do
	:: atomic {
			next = load(far);
			if
			:: next == 0 || time(next) + PERIOD <= at -> next = 0; break
#ifdef BREAK_RING
			:: else -> break
#else
			:: next != 0 && time(next) + PERIOD > at && time(next) <= time(cell) -> break
			:: else
#endif
			fi
		};
#ifdef BREAK_LEFT
		next = 0;
		break
#else
		atomic {
			i = time(cell);
			cell = load(live);
			next = 0;
			if
			:: time(cell) == i -> i = 0; break
			:: else -> i = 0
			fi
		}
#endif
	od
}

/* At the time `at`. */
inline look()
{
	atomic {
		newest = (first(seen) -> 0 : load(1));
		cell = newest;
		live = (newest != 0 && time(newest) + PERIOD > at -> 1 : 0)
	};
	do
	:: live == 0 || live == W - 1 || is(cell, FIRST) -> far = live; break
	:: else ->
		far = min(live + max(span(cell), 2) - 1, W - 1);
		look_before();
		if
		:: next != 0 ->
			atomic { live = far; cell = next; next = 0 }
#ifdef BREAK_SPENT
			far = live; break
#endif
		:: else -> break
		fi
	od;
	do
	:: far > live + 1 ->
		far--;
		look_before();
		if
		:: next != 0 -> atomic { live = far; cell = next; next = 0 }
		:: else
		fi
	:: else -> atomic { far = 0; cell = 0; break }
	od
}

inline sum_up()
{
	use = cost(seen);
	if
	:: live > 0 ->
		atomic {
			cell = load(live);
			i = 0
		};
		if
		:: !is(cell, FIRST) -> atomic {
				next = load(live + 1);
				i = (minus(sum(cell), sum(next)) <= LIMIT -> sum(next) : minus(sum(cell), LIMIT))
			}
		:: else
		fi;
		atomic { use = use + minus(sum(load(1)), i); cell = 0; next = 0; i = 0 }
	:: else
	fi
}

inline forget_view()
{
	at = 0; live = 0; use = 0; far = 0; i = 0; cell = 0; next = 0; newest = 0
}

/* In use at a time is what was granted, or more; or exactly. */
inline check(exactly)
{
	d_step {
		seen = header;
		at = header_time(header);
		do
		:: at < header_time(header) + PERIOD ->
			look();
			sum_up();
			far = 0;
			i = 0;
			do
			:: i < TIMES -> far = far + (i + PERIOD > at -> granted[i] : 0); i++
			:: else -> break
			od;
			assert(use >= far && far <= LIMIT);
			assert(!(exactly) || use == far);
			at = ((exactly) -> 100 : at + 1)
		:: else -> break
		od;
		forget_view();
		seen = 0
	}
}

inline is_there(b, c)
{
	if
	:: load(b) == c
	:: load(b) != c -> goto again
	fi
}

/* What `c`, there, counts; 0 if the one before it is not there. */
inline cost_of(b, c)
{
	if
	:: is(c, FIRST) || (b) + 1 >= W -> worth = (is(c, FIRST) -> sum(c) : 0)
	:: else -> atomic {
			i = (b) + 1;
			worth = minus(sum(c), sum(load(i)));
			worth = (load(i) == 0 || time(load(i)) > time(c) || worth > LIMIT -> 0 : worth);
			i = 0
		}
	fi
}

/* The units of `c`, which is GONE there, that are given back. */
inline units_gone(b, c)
{
	if
	:: is(c, PART) -> worth = field(c)
	:: else -> cost_of(b, c)
	fi
}

#define want(b, was, t, sum, span, state) \
	p = b;                                \
	before = was;                         \
	to = entry(t, sum, span, state)

/* `cell`, which is MOVING. */
inline want_moved_on()
{
	next = load(back + 1);
#ifndef BREAK_OVER
	is_there(back, cell);
#endif
	if
	:: time(cell) != time(next) ->
		assert(header != seen || is(next, GONE)); /* else the record is damaged */
		units_gone(back + 1, next);
		atomic {
			want(back + 1, next, time(cell), minus(sum(cell), worth),
			     hint(live > back -> live - back : 1), state(next) & FIRST)
		}
	:: else -> atomic {
			want(back, cell, time(cell), sum(cell), span(cell), GONE)
		}
	fi
}

/* `far`: how many of the newest are GONE as a whole; `next`: the oldest of them. */
inline count_gone()
{
	atomic { far = 0; next = 0 };
	do
	:: atomic {
			far < live && !is(next, FIRST) ->
			cell = load(far + 1);
			if
			:: is(cell, GONE) && !is(cell, PART) -> next = cell; far++; cell = 0
			:: else -> cell = 0; break
			fi
		}
	:: atomic { far >= live || is(next, FIRST) -> break }
	od
}

/* They go at once. */
inline want_run_out()
{
	count_gone();
	atomic {
		if
#ifdef BREAK_RUN
		:: far > 0 && far < live && !is(next, FIRST) -> far++; next = load(far)
		:: else
		fi;
		if
#endif
		:: far > 0 -> to_header = header_of(header_time(seen), cost(seen), place_of(far), state(next) & FIRST)
		:: else
		fi;
		far = 0;
		next = 0
	}
}

inline want_move()
{
	do
	:: atomic {
			back > 0 ->
			cell = load(back);
			if
			:: is(cell, GONE | MOVING) -> break
			:: else -> cell = 0; back--
			fi
		}
	:: back == 0 -> break
	od;
	if
	:: back > 0 ->
		then_gone = time(cell);
		do
		:: atomic {
				back > 1 && is(cell, GONE) ->
				next = load(back - 1);
				if
				:: is(next, GONE | MOVING) -> cell = next; next = 0; back--
				:: else -> break
				fi
			}
		:: back == 1 || !is(cell, GONE) -> break
		od;
		if
		:: is(cell, MOVING) -> want_moved_on()
		:: is(cell, GONE) && back > 1 ->
#ifndef BREAK_AGAIN
			is_there(back, cell);
#endif
#ifdef BREAK_MOVING
			units_gone(back, cell);
			atomic {
				want(back, cell, time(next), minus(sum(next), worth),
				     hint(live > back - 1 -> live - back + 1 : 1), state(cell) & FIRST)
			}
#else
			atomic { want(back - 1, next, time(next), sum(next), span(next), MOVING) }
#endif
		:: is(cell, GONE) && is(cell, PART) && back == 1 -> atomic {
				if
				:: live > 1 -> next = load(2); i = sum(next); next = 0
				:: live == 1 && is(cell, FIRST) -> i = 0
				:: live == 1 && !is(cell, FIRST) ->
					next = load(2);
					i = (minus(sum(cell), sum(next)) <= LIMIT -> sum(next)
					                                          : minus(sum(cell), LIMIT));
					next = 0
				fi;
#ifdef BREAK_REST
				i = sum(cell) + 16 - field(cell);
#endif
				i = minus(minus(sum(cell), i % 16), field(cell));
				i = (i > LIMIT -> 0 : i);
				to_header = header_of(header_time(seen), cost(seen) + i, place_of(1), state(cell) & FIRST);
				i = 0
			}
		:: is(cell, GONE) && !is(cell, PART) && back == 1 && time(cell) < header_time(seen) - 1 -> /* a note */
			atomic { want(1, cell, header_time(seen) - 1, sum(cell), span(cell), state(cell)) }
		:: else -> to_header = header_of(header_time(seen), cost(seen), place_of(1), state(cell) & FIRST)
		fi
	:: else
	fi
}

/* `cell`. */
inline refund_entry()
{
	cost_of(back, cell);
#ifndef BREAK_TWICE
	if
	:: is(cell, GONE) -> goto again
	:: !is(cell, GONE)
	fi;
#endif
	if
	:: is(cell, MOVING) -> want_moved_on()
	:: !is(cell, MOVING) && left >= worth -> atomic {
			want(back, cell, time(cell), sum(cell), span(cell), state(cell) | GONE);
			given = (op == REFUND -> left : worth);
			then_gone = time(cell)
		}
	:: !is(cell, MOVING) && left < worth && back == 1 && cost(seen) == 0 -> atomic {
			want(1, cell, time(cell), minus(sum(cell), left), span(cell), state(cell));
			given = left
		}
	:: !is(cell, MOVING) && left < worth && (back != 1 || cost(seen) != 0) -> atomic {
			want(back, cell, time(cell), sum(cell), left, state(cell) | GONE | PART);
			given = left;
			then_gone = time(cell)
		}
	fi
}

/* The one behind them, which a take that has marked them marks as well. */
inline want_next_gone()
{
	count_gone();
	atomic {
		back = (far > 0 && far < live && !is(next, FIRST) -> far + 1 : 0);
		far = 0;
		next = 0
	};
	if
	:: back > 0 ->
		cell = load(back);
		cost_of(back, cell);
		if
		:: is(cell, GONE | MOVING) || worth == 0 || worth > left -> goto again
		:: else
		fi;
		refund_entry()
	:: else -> goto again
	fi
}

/* How many places back the oldest live entry is that is not from before `t`. */
inline find(t)
{
	atomic { back = 0; far = live + 1 };
	do
	:: atomic {
			far > back + 1 ->
			i = back + (far - back) / 2;
			if
			:: time(load(i)) >= t -> back = i
			:: else -> far = i
			fi;
			i = 0
		}
	:: atomic { far <= back + 1 -> far = 0; break }
	od
}

/* The entry of that name: there, or further back. */
inline follow()
{
	do
	:: atomic {
			back > 0 && back <= live ->
			cell = load(back);
			if
			:: time(cell) < name -> cell = 0; back = 0
#ifdef BREAK_TWICE
			:: time(cell) == name -> break
#else
			:: time(cell) == name && !is(cell, GONE) -> break
#endif
#ifdef BREAK_FOLLOW
			:: else -> cell = 0; back = 0
#else
			:: else -> cell = 0; back++
#endif
			fi
		}
	:: back == 0 || back > live -> back = 0; break
	od
}

inline acquire()
{
	atomic { own = load(0); at = max(now, header_time(seen)) };
	look();
	sum_up();
	if
	:: use + left > LIMIT
	:: use + left <= LIMIT && cost(seen) > 0 -> atomic {
			to_header = header_of(max(now, header_time(seen) + 1), left, (place(seen) + 1) % W, 0);
			i = (live == 0 -> cost(seen) : (sum(newest) + cost(seen)) % 16);
			if
			:: live == 0 && own != 0 && time(own) == header_time(seen) && state(own) == FIRST &&
			   sum(own) == cost(seen)
			:: !first(seen) && time(own) == header_time(seen) && state(own) == 0 &&
			   sum(own) == (sum(newest) + cost(seen)) % 16 && span(own) >= hint(live + 1)
			:: else ->
#ifndef BREAK_ENTRY
				want(0, own, header_time(seen), i, hint(live + 1), (live == 0 -> FIRST : 0))
#endif
			fi
		}
	:: use + left <= LIMIT && cost(seen) == 0 -> atomic {
			to_header = header_of(max(now, header_time(seen) + 1), left, place(seen), (live == 0 -> 1 : 0));
			if
			:: time(own) != header_time(seen) -> /* a note */
				want(0, own, header_time(seen), 0, 1, GONE)
			:: else
			fi
		}
	fi
}

inline refund()
{
	if
	:: left > 0 && cost(seen) > 0 && (op == TAKE || name == header_time(seen)) -> atomic {
			given = min(left, cost(seen));
			to_header = header_of(header_time(seen), cost(seen) - given, place(seen), first(seen))
		}
	:: else ->
		at = max(now, header_time(seen));
		look();
		atomic { at = 0; newest = 0 };
		if
		:: gone > 0 && op == TAKE && left > 0 -> want_next_gone()
		:: gone > 0 ->
			want_run_out();
			if
			:: to_header == 0 -> find(gone); want_move()
			:: else
			fi
		:: else
		fi;
		if
		:: p != NOWHERE || to_header != 0
		:: else ->
			if
			:: op == REFUND && left > 0 -> find(name); follow()
			:: op == REFUND && left == 0 -> back = 0
			:: else ->
				back = min(live, 1);
				want_move();
				if
				:: p == NOWHERE && to_header == 0 && live > 0 -> atomic { back = 1; cell = load(1) }
				:: else
				fi
			fi;
			if
			:: p == NOWHERE && to_header == 0 && back > 0 && left > 0 -> refund_entry()
			:: else
			fi
		fi
	fi
}

/* Of the entry of the time `at`. */
inline take_back()
{
	if
	:: given > 0 ->
		assert(op != REFUND || at <= reset_time || granted[at] > 0);
		i = min(granted[at], given);
		granted[at] = granted[at] - i;
		left = left - given
	:: else
	fi;
#ifdef BREAK_GONE
	gone = (op == REFUND && then_gone > 0 -> then_gone : gone)
#else
	gone = (then_gone > 0 -> then_gone : gone)
#endif
}

proctype client(byte op; byte left; byte name)
{
	VIEW;
	byte now, back, p, worth, given, gone, then_gone;
	short own, to, to_header, before;

	gone = (op == REFUND && left == 0 -> name : 0);
	select(now : ENTRIES .. TIME);
again:
	atomic {
		forget_view();
		back = 0; worth = 0; given = 0; then_gone = 0; own = 0; to = 0; to_header = 0; before = 0;
		p = NOWHERE;
		seen = header
	};
	if
	:: op == ACQUIRE -> acquire()
	:: op == RESET -> to_header = header_of(header_time(seen), 0, place(seen), 1)
	:: else -> refund()
	fi;
	atomic {
		forget_view();
		back = 0; worth = 0; own = 0;
		if
		:: p == NOWHERE && to_header == 0 ->
			if
			:: header == seen ->
				assert(op != REFUND || left == 0 || granted[name] == 0 || name == PARTED ||
				       name + PERIOD <= max(now, header_time(header)));
				goto end
			:: else -> goto again
			fi
		:: else
		fi
	};
	if
	:: p != NOWHERE ->
#ifndef BREAK_LOOK
		if
		:: header != seen -> goto again
		:: else
		fi;
#endif
		atomic {
			if
			:: load(p) == before ->
				load(p) = to;
				at = time(before);
				take_back()
			:: else -> goto again
			fi;
			if
			:: to_header == 0 -> check(false); goto again
			:: else
			fi
		}
	:: else
	fi;
	atomic {
		if
		:: header == seen ->
			header = to_header;
			if
			:: op == ACQUIRE -> granted[header_time(header)] = left
			:: op == RESET ->
				reset_time = header_time(header);
				i = 0;
				do
				:: i < TIMES -> granted[i] = 0; i++
				:: else -> break
				od
			:: else -> at = header_time(header); take_back()
			fi;
			check(false);
			if
			:: op == ACQUIRE || op == RESET -> goto end
			:: else -> goto again
			fi
		:: else -> goto again
		fi
	};
end:
	atomic {
		forget_view();
		now = 0; seen = 0; to = 0; to_header = 0; before = 0; p = 0; given = 0; name = 0;
		left = 0; gone = 0; then_gone = 0
	}
}

init
{
	VIEW;
	byte n;

	atomic {
		do
		:: n < ENTRIES ->
			n++;
			use = use + start_cost(n);
			granted[n] = (n > MARKED -> start_cost(n) : 0);
			if
			:: n < ENTRIES ->
				record[n - 1] = start_entry(n, use)
			:: else -> header = header_of(n, start_cost(n), n - 1, 0)
			fi
		:: else -> break
		od;
		use = 0;
		n = 0;
		do
		:: n < ACQUIRES -> run client(ACQUIRE, COST, 0); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < MOVERS -> run client(REFUND, 0, 1); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < REFUNDS ->
#ifdef NAME
			at = NAME;
#else
			select(at : 1 .. ENTRIES);
#endif
			run client(REFUND, start_cost(at), at);
			n++
		:: else -> break
		od;
		if
		:: PARTED > 0 -> run client(REFUND, start_cost(PARTED) - 1, PARTED)
		:: else
		fi;
		at = 0;
		n = 0;
		do
		:: n < TAKES -> run client(TAKE, TAKEN, 0); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < RESETS -> run client(RESET, 0, 0); n++
		:: else -> break
		od;
		n = 0
	};
	_nr_pr == 1;
#if RESETS == 0
	check(true)
#endif
}
