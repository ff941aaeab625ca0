/*
 * log.pml: sliding_log's protocol of docs/design/wide-states.md, for one key.
 *
 * A log of entries that stand in a row from the start; then ACQUIRES, REFUNDS by
 * name (of which two may have the same), TAKES from the newest and RESETS meet. Clocks
 * say any times from 3 to TIME. Each may stall for as long as it likes at any step, and
 * whoever takes no further step has died. What a step reads of the row it reads cell by cell.
 *
 * Checked after every change: at no time, now or later, is less in use than was
 * granted and not given back, so no period has more than LIMIT; a name is given back once.
 * When all have come to their end, no more is in use either.
 *
 * Left out: names that run ahead of time by a lead (but the notes that tell it are
 * written), clocks that are set back, other keys (insert.pml), spans in the head, which
 * repeat those in the row. Those in the row are powers of 2.
 *
 * BREAK_* leaves one thing out; each must make spin find a counterexample.
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
#ifndef RESETS
#define RESETS 0
#endif
#ifndef COST
#define COST 1 /* of an acquire */
#endif
#ifndef TIME
#define TIME 3 /* the last that clocks say; the entries came at 1, 2 and 3 */
#endif
#define LIMIT  6
#define W      7 /* cells of the row */
#define PERIOD 4
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

#define FIRST  1
#define GONE   2
#define MOVING 4

#define entry(t, sum, span, state) ((t) * 1024 + ((sum) % 16) * 64 + (span) * 8 + (state))
#define time(e)                    ((e) / 1024)
#define sum(e)                     ((e) / 64 % 16)
#define span(e)                    ((e) / 8 % 8)
#define state(e)                   ((e) % 8)

#define head_of(t, cost, place, first) ((t) * 128 + (cost) * 16 + (place) * 2 + (first))
#define cost(h)                        ((h) / 16 % 8)
#define place(h)                       ((h) / 2 % 8)
#define first(h)                       ((h) % 2)
#define head_time(h)                   ((h) / 128)

#define max(a, b)       ((a) > (b) -> (a) : (b))
#define min(a, b)       ((a) < (b) -> (a) : (b))
#define minus(a, b)     (((a) + 16 - (b)) % 16)
#define place_of(b)     ((place(seen) + W - (b)) % W)
#define is(b, bits)     (state(r[b]) & (bits))
#ifdef BREAK_RING
#define is_live(b, later) (r[b] != 0 && time(r[b]) + PERIOD > at)
#else
#define is_live(b, later) (r[b] != 0 && time(r[b]) + PERIOD > at && time(r[b]) <= time(r[later]))
#endif
/* As much as the bits of a span tell. */
#define hint(n)         ((n) >= 4 -> 4 : ((n) >= 2 -> 2 : 1))
/* What an entry counts; 0 if the one before it is not there. */
#define cost_of(b) \
	(is(b, FIRST) -> sum(r[b]) : ((b) + 1 >= W || time(r[(b) + 1]) > time(r[b]) || \
	 minus(sum(r[b]), sum(r[(b) + 1])) > LIMIT -> 0 : minus(sum(r[b]), sum(r[(b) + 1]))))

#define ACQUIRE 0
#define REFUND  1
#define TAKE    2
#define RESET   3

short head;
short row[W];
byte granted[TIMES]; /* and not given back */
byte reset_time;

/* All that a view of seen and r needs to know: live, use. */
inline view(moment)
{
	at = moment;
	live = 0;
	use = cost(seen);
	if
	:: !first(seen) && time(r[1]) + PERIOD > at ->
		live = 1;
		do
		:: live == W - 1 || is(live, FIRST) -> i = live; break
#ifdef BREAK_SPENT
		:: live > 1 -> i = live; break
#endif
		:: else ->
			i = min(live + max(span(r[live]), 2) - 1, W - 1);
			if
			:: is_live(i, live) -> live = i
			:: else -> break
			fi
		od;
		do
		:: live + 1 < i && is_live(live + 1, live) -> live++
		:: else -> break
		od
	:: else
	fi;
	if
	:: live > 0 && is(live, FIRST) -> use = use + sum(r[1])
	:: live > 0 && !is(live, FIRST) ->
		i = (live + 1 == W -> 0 : live + 1);
		use = use + (minus(sum(r[live]), sum(r[i])) <= LIMIT -> minus(sum(r[1]), sum(r[i])) : LIMIT)
	:: else
	fi;
	i = 0
}

/* In use at a time is what was granted, or more; or exactly. */
inline check(exactly)
{
	d_step {
		seen = head;
		i = 0;
		do
		:: i < W -> r[i] = row[place_of(i)]; i++
		:: else -> break
		od;
		p = head_time(head);
		do
		:: p < head_time(head) + PERIOD ->
			view(p);
			part = 0;
			i = 0;
			do
			:: i < TIMES -> part = part + (i + PERIOD > p -> granted[i] : 0); i++
			:: else -> break
			od;
			assert(use >= part);
			assert(!(exactly) || use == part);
			p = ((exactly) -> 100 : p + 1)
		:: else -> break
		od;
		at = 0; live = 0; use = 0; i = 0; p = 0; part = 0; seen = 0;
		do
		:: i < W -> r[i] = 0; i++
		:: else -> break
		od;
		i = 0
	}
}

inline want_moved_on(b)
{
	if
	:: time(r[b]) == time(r[b + 1]) ->
		p = b;
		to = entry(time(r[b]), sum(r[b]), span(r[b]), GONE)
#ifndef BREAK_GONE
	:: time(r[b]) != time(r[b + 1]) && !is(b + 1, GONE) -> /* it is torn */
		p = b;
		to = entry(time(r[b]), sum(r[b]), span(r[b]), 0)
	:: time(r[b]) != time(r[b + 1]) && is(b + 1, GONE) ->
#else
	:: else ->
#endif
		p = b + 1;
		to = entry(time(r[b]), minus(sum(r[b]), cost_of(b + 1)), hint(live > (b) -> live - (b) : 1),
		           state(r[b + 1]) & FIRST)
	fi
}

/* Sets p and to, or to_head; or neither. */
inline want_move(from)
{
	p = from;
	do
	:: p > 0 && !is(p, GONE | MOVING) -> p--
	:: else -> break
	od;
	if
	:: p > 0 ->
		name = (op == REFUND -> time(r[p]) : name);
		do
		:: p > 1 && is(p, GONE) && is(p - 1, GONE | MOVING) -> p--
		:: else -> break
		od;
		if
		:: is(p, MOVING) -> i = p; want_moved_on(i); i = 0
		:: is(p, GONE) && p > 1 ->
			p--;
#ifdef BREAK_MOVING
			to = entry(time(r[p]), minus(sum(r[p]), cost_of(p + 1)),
			           hint(live > p -> live - p : 1), state(r[p + 1]) & FIRST);
			p++
#else
			to = entry(time(r[p]), sum(r[p]), span(r[p]), MOVING)
#endif
		:: is(p, GONE) && p == 1 && time(r[1]) < head_time(seen) - 1 -> /* a note */
			to = entry(head_time(seen) - 1, sum(r[1]), span(r[1]), state(r[1]))
		:: else ->
			p = 255;
			to_head = head_of(head_time(seen), cost(seen), place_of(1),
			                  state(r[1]) & FIRST)
		fi
	:: else -> p = 255
	fi
}

inline refund_entry(b)
{
	if
	:: is(b, MOVING) -> want_moved_on(b)
	:: !is(b, MOVING) && left >= cost_of(b) ->
		p = b;
		to = entry(time(r[b]), sum(r[b]), span(r[b]), state(r[b]) | GONE);
		given = (op == REFUND -> left : cost_of(b))
	:: !is(b, MOVING) && left < cost_of(b) && b == 1 ->
		p = b;
		to = entry(time(r[b]), minus(sum(r[b]), left), span(r[b]), state(r[b]));
		given = left
	:: else
	fi
}

/* Of the entry of that time; a name's is all of it. */
inline take_back()
{
	if
	:: given > 0 ->
		assert(op != REFUND || at <= reset_time || granted[at] > 0);
		part = (op == REFUND -> granted[at] : min(granted[at], given));
		granted[at] = granted[at] - part;
		left = left - given;
		part = 0
	:: else
	fi;
	at = 0
}

inline step()
{
	d_step {
		p = 255; to = 0; to_head = 0; given = 0; then_head = false; done = false;
		i = max(now, head_time(seen));
		view(i);
		if
		:: op == ACQUIRE && use + left > LIMIT -> done = true
		:: op == ACQUIRE && use + left <= LIMIT && cost(seen) > 0 ->
			to_head = head_of(max(now, head_time(seen) + 1), left, (place(seen) + 1) % W, 0);
			i = (live == 0 -> cost(seen) : (sum(r[1]) + cost(seen)) % 16);
			if
			:: live == 0 && r[0] != 0 && time(r[0]) == head_time(seen) && state(r[0]) == FIRST &&
			   sum(r[0]) == cost(seen)
			:: !first(seen) && time(r[0]) == head_time(seen) && state(r[0]) == 0 &&
			   sum(r[0]) == (sum(r[1]) + cost(seen)) % 16 && span(r[0]) >= hint(live + 1)
			:: else ->
#ifndef BREAK_PLACE
				p = 0;
				to = entry(head_time(seen), i, hint(live + 1), (live == 0 -> FIRST : 0));
				then_head = true
#endif
			fi;
			i = 0
		:: op == ACQUIRE && use + left <= LIMIT && cost(seen) == 0 ->
			to_head = head_of(max(now, head_time(seen) + 1), left, place(seen), (live == 0 -> 1 : 0));
			if
			:: time(r[0]) != head_time(seen) -> /* a note */
				p = 0;
				to = entry(head_time(seen), 0, 1, GONE);
				then_head = true
			:: else
			fi
		:: op == RESET ->
			to_head = head_of(head_time(seen), 0, place(seen), 1)
		:: (op == REFUND || op == TAKE) && left > 0 && cost(seen) > 0 &&
		   (op == TAKE || name == head_time(seen)) ->
			given = min(left, cost(seen));
			to_head = head_of(head_time(seen), cost(seen) - given, place(seen), first(seen))
		:: op == REFUND && left > 0 && (cost(seen) == 0 || name != head_time(seen)) ->
			i = live;
			do
			:: i > 0 && time(r[i]) < name -> i--
			:: else -> break
			od;
			if
#ifdef BREAK_TWICE
			:: i > 0 && time(r[i]) == name -> refund_entry(i)
#else
			:: i > 0 && time(r[i]) == name && !is(i, GONE) -> refund_entry(i)
#endif
			:: else -> done = true
			fi;
			i = 0
		:: op == REFUND && left == 0 ->
			i = live;
			do
			:: i > 0 && time(r[i]) < name -> i--
			:: else -> break
			od;
			want_move(i);
			i = 0;
			done = (p == 255 && to_head == 0)
		:: op == TAKE && !(left > 0 && cost(seen) > 0) ->
			if
			:: live > 0 -> want_move(1)
			:: else
			fi;
			if
			:: p == 255 && to_head == 0 && live > 0 && left > 0 -> refund_entry(1)
			:: else
			fi;
			done = (p == 255 && to_head == 0)
		fi;
		before = (p == 255 -> 0 : r[p]);
		at = 0; live = 0; use = 0; i = 0;
		do
		:: i < W -> r[i] = 0; i++
		:: else -> break
		od;
		i = 0
	}
}

proctype client(byte op; byte left; byte name)
{
	byte now, at, live, use, i, p, given, part;
	short seen, r[W], to, to_head, before;
	bool then_head, done;

	select(now : 3 .. TIME);
again:
	atomic { seen = head; i = 0 };
	do
	:: i < W ->
		atomic {
			r[i] = row[place_of(i)];
			i++;
			do
			:: i < W && row[place_of(i)] == 0 -> i++ /* nobody has been there yet */
			:: else -> break
			od
		}
	:: else -> break
	od;
	step();
	if
	:: done -> atomic {
			if
			:: head == seen -> goto end
			:: else -> goto again
			fi
		}
	:: !done && p != 255 ->
#ifndef BREAK_LOOK
		if
		:: head != seen -> goto again
		:: else
		fi;
#endif
		atomic {
			i = place_of(p);
			if
			:: row[i] == before ->
				row[i] = to;
				at = time(before);
				take_back()
			:: else -> goto again
			fi;
			if
			:: !then_head -> check(false); goto again
			:: else -> i = 0; at = 0
			fi
		}
	:: else
	fi;
	atomic {
		if
		:: head == seen ->
			head = to_head;
			if
			:: op == ACQUIRE -> granted[head_time(head)] = left
			:: op == RESET ->
				reset_time = head_time(head);
				i = 0;
				do
				:: i < TIMES -> granted[i] = 0; i++
				:: else -> break
				od;
				i = 0
			:: else -> at = head_time(head); take_back()
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
	atomic { now = 0; seen = 0; to = 0; to_head = 0; before = 0; i = 0; p = 0; given = 0; name = 0;
	         left = 0; then_head = false; done = false }
}

init
{
	byte n, at, live, use, i, p, part;
	short seen, r[W];

	atomic {
		row[0] = entry(1, COST1, 1, FIRST);
		row[1] = entry(2, COST1 + COST2, 2, 0);
		head = head_of(3, COST3, 2, 0);
		granted[1] = COST1;
		granted[2] = COST2;
		granted[3] = COST3;
		do
		:: n < ACQUIRES -> run client(ACQUIRE, COST, 0); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < REFUNDS ->
			if
			:: run client(REFUND, COST1, 1)
			:: run client(REFUND, COST2, 2)
			:: run client(REFUND, COST3, 3)
			fi;
			n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < TAKES -> run client(TAKE, 1, 0); n++
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
