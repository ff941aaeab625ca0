/*
 * breaker_cells.pml: models the record of a breaker, by docs/design/breaker-states.md: the phase, the
 * quiescence cell, and the in-flight entries and the window of two stripes.
 *
 * CLIENTS acquire and report OPS times each, while time goes on to TIME. At the beginning PERMITS of
 * them hold permits of time 0; with HALF_OPEN these are probes. Each load and each swap is one step.
 * A swap that a call repeats with new values until it succeeds is one step. Each call reads the time
 * once, and may stall at any step.
 *
 * Checked:
 *   - a closed phase opens once;
 *   - no window of a closed phase trips, unless a call is between its count and its judgement;
 *   - no more than PROBES are in flight in half-open, and a probe is lost only when it times out;
 *   - no more results count than permits were given, except that a probe which ends in the instant of
 *     its beginning may count once more when it times out;
 *   - no request passes a phase that was open from the request's beginning to its end;
 *   - LAST: a caller that comes much later, while all others have died, closes the phase.
 *
 * Left out: parts of the window, slow calls, ramps, forced phases, quorum groups, resets, clocks that
 * are set back.
 *
 * Each BREAK_* leaves one thing out, and Spin must find a counterexample.
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef TIME
#define TIME 0
#endif
#ifndef PERMITS
#define PERMITS 0
#endif
#ifndef MINIMUM
#define MINIMUM 2
#endif
#ifndef PROBES
#define PROBES 1
#endif
#ifndef HALF_OPEN /* it begins so, and those who hold permits are probes */
#define BEGIN make(CLOSED, 0, 0, 0)
#else
#define BEGIN make(HALF, 0, PERMITS, 0)
#endif
#ifndef GOOD /* results of success in the first stripe's window */
#define GOOD 0
#endif
#define SLEEP   1
#define ENDED   8
#define TIMEOUT 2
#define STRIPES 2
#ifdef BREAK_PROBES
#define MOST (PROBES + 1)
#else
#define MOST PROBES
#endif
#define stripe_of(c) ((c) % STRIPES)
#define ENTRIES  (TIMEOUT + 1) /* of entries, by their start */
#define LATE    (TIME + TIMEOUT + SLEEP + 1)
#define TIMES   (LATE + SLEEP + 2)

#define CLOSED 0
#define OPEN   1
#define HALF   2
#define make(kind, since, in_flight, good) ((kind) + 4 * (in_flight) + 16 * (good) + 64 * (since))
#ifdef BREAK_ENDED
#define end_one(p) (ended(p))
#else
#define end_one(p) ((ended(p) + 1) % ENDED)
#endif
#define with_ended(p, n) ((p) + 1024 * (n))
#define kind(p)   ((p) % 4)
#define in_flight(p) ((p) / 4 % 4)
#define good(p)   ((p) / 16 % 4)
#define since(p)  ((p) / 64 % 16)
#define ended(p)  ((p) / 1024)
#define used(p)   (in_flight(p) + good(p))
#define max(a, b) ((a) > (b) -> (a) : (b))

#define SUCCESS 0
#define FAILURE 1
#define IGNORED 2

/* A entry's start and count; a window's phase, calls and failures. */
typedef in_flight_entries { byte start[ENTRIES]; byte count[ENTRIES] };
typedef window { byte name; byte calls; byte failures };

short phase = BEGIN;
short quiescent = -1, quiescent_at;
in_flight_entries stripe[STRIPES];
window part[STRIPES];
byte clock;
bool over; /* only the last one moves */

/* What is not kept: for the checks. */
byte judging, permits, results;
bool tied; /* a probe ended in the instant in which it began */
byte opened[TIMES], probes[TIMES]; /* by since */
byte alive[TIMES];                 /* probes not reported, by start */
byte n, sum, bad;

#define trips(calls, failures) (((calls) >= MINIMUM && (failures) * 2 >= (calls)))

inline check_window()
{
	d_step {
		n = 0; sum = 0; bad = 0;
		do
		:: n < STRIPES ->
			if
			:: part[n].name == since(phase) ->
				sum = sum + part[n].calls; bad = bad + part[n].failures
			:: else
			fi;
			n++
		:: else -> break
		od;
		assert(judging > 0 || kind(phase) != CLOSED || !(trips(sum, bad)));
		n = 0; sum = 0; bad = 0
	}
}

/* One compare-and-swap of the phase that was seen. */
inline turn(after)
{
	atomic {
#ifdef BREAK_SWAP
		ok = true;
#else
		ok = (phase == seen);
#endif
		if
		:: ok ->
			if
			:: kind(after) == OPEN && kind(seen) == CLOSED ->
				opened[since(seen)]++;
				assert(opened[since(seen)] == 1)
			:: else
			fi;
			phase = after
		:: else
		fi
	}
}

/* Counts so many results in the phase that was seen. */
inline count_results(where, number, failures_too)
{
	atomic {
		if
		:: part[where].name != since(seen) ->
			if
			:: phase == seen ->
				part[where].name = since(seen);
				part[where].calls = 0;
				part[where].failures = 0
			:: else
			fi
		:: else
		fi;
		if
		:: part[where].name == since(seen) ->
			part[where].calls = part[where].calls + number;
			part[where].failures = part[where].failures + (failures_too -> number : 0)
		:: else
		fi;
		results = results + number;
		assert(results <= permits || tied || over)
	}
}

inline load_stripe(s)
{
	atomic {
		if
		:: part[s].name == since(seen) ->
			calls = calls + part[s].calls; failures = failures + part[s].failures
		:: else
		fi
	}
}

/* After the count: whether it is to open, or quiescent. */
inline judge()
{
	atomic { calls = 0; failures = 0 };
#ifdef BREAK_STRIPE
	load_stripe(my);
#else
	load_stripe(0);
	load_stripe(1);
#endif
	if
	:: trips(calls, failures) -> was = make(OPEN, max(now, since(seen)), 0, 0); turn(was); was = -1
#ifdef BREAK_MINIMUM
	:: !(trips(calls, failures)) -> atomic { quiescent = seen; quiescent_at = now }
#else
	:: !(trips(calls, failures)) && calls >= MINIMUM -> atomic { quiescent = seen; quiescent_at = now }
#endif
	:: else
	fi;
	atomic { calls = 0; failures = 0 }
}

/* Counts and judges. */
inline count_judged(where, number, failures_too)
{
	judging++;
#ifdef BREAK_ORDER
	judge();
	count_results(where, number, failures_too);
#else
	count_results(where, number, failures_too);
	judge();
#endif
	atomic { judging--; check_window() }
}

inline load_entries(s)
{
	atomic {
		i = 0;
		do
		:: i < ENTRIES ->
			if
			:: stripe[s].count[i] > 0 && stripe[s].start[i] + TIMEOUT <= now ->
				overdue = s * ENTRIES + i
			:: stripe[s].count[i] > 0 && stripe[s].start[i] + TIMEOUT > now &&
			   stripe[s].start[i] >= since(seen) ->
				own = own + stripe[s].count[i]
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

/* The phase, and then the entries; what is overdue ends first, and probes that are lost. */
inline look_settled()
{
	do
	:: atomic { seen = phase; own = 0; overdue = 255; ok = true };
		load_entries(0);
		load_entries(1);
		if
		:: overdue != 255 ->
			atomic { /* a swap of what is there, if that is over yet */
				i = 0;
				if
				:: stripe[overdue / ENTRIES].start[overdue % ENTRIES] + TIMEOUT <= now ->
					i = stripe[overdue / ENTRIES].count[overdue % ENTRIES];
					stripe[overdue / ENTRIES].count[overdue % ENTRIES] = 0
				:: else
				fi;
				own = (i > 0 && kind(seen) == CLOSED &&
				       stripe[overdue / ENTRIES].start[overdue % ENTRIES] >= since(seen) -> i : 0);
				i = 0
			};
			if
			:: own > 0 -> count_judged(0, own, true)
			:: else
			fi
#ifndef BREAK_LOST
		:: overdue == 255 && kind(seen) == HALF && in_flight(seen) > own ->
			atomic {
				was = make(OPEN, max(now, since(seen)), 0, 0);
				turn(was);
				was = -1;
				if
				:: ok ->
					/* Of its probes those that fly yet, in time. */
					i = 0; calls = 0;
					do
					:: i < TIMES ->
						calls = calls + (i >= since(seen) && i + TIMEOUT > clock -> alive[i] : 0);
						i++
					:: else -> break
					od;
					assert(calls < in_flight(seen));
					i = 0; calls = 0
				:: else
				fi
			}
#endif
		:: else -> break
		fi
	od;
	atomic { own = 0; overdue = 0 }
}

/* A entry in a stripe of one's own. False: it has to end first. */
inline acquire_permit()
{
	atomic {
		i = start % ENTRIES;
		ok = (stripe[my].count[i] == 0 || stripe[my].start[i] + TIMEOUT > now);
		if
		:: ok && stripe[my].count[i] > 0 ->
			stripe[my].start[i] = max(stripe[my].start[i], start);
			stripe[my].count[i]++
		:: ok && stripe[my].count[i] == 0 ->
			stripe[my].start[i] = start;
			stripe[my].count[i] = 1
		:: else
		fi;
		i = 0
	}
}

#define has_permit() (stripe[my].count[start % ENTRIES] > 0 && stripe[my].start[start % ENTRIES] >= start)

inline release_permit()
{
	atomic {
		ok = has_permit();
		if
		:: ok -> stripe[my].count[start % ENTRIES]--
		:: else
		fi
	}
}

/* Whether it is quiescent: that cell first, and then the phase of its name. */
inline read_quiescent()
{
	atomic { was = quiescent; ok = (quiescent >= 0 && quiescent_at == now) };
	seen = phase;
#ifndef BREAK_NAME
	ok = (ok && was == seen)
#endif
}

inline acquire()
{
	atomic { now = clock; began = phase; holds = false };
	read_quiescent();
	start = now;
	if
	:: ok ->
		acquire_permit();
		if
		:: ok ->
			atomic {
				permits++;
				holds = true;
				/* It was not open all the time. */
				assert(phase != began || kind(began) == CLOSED)
			}
		:: else
		fi
	:: else
	fi;
	do
	:: holds -> break
	:: !holds ->
		look_settled();
		atomic {
			was = -1; /* closed: nothing to swap */
			start = max(now, since(seen));
			if
			:: kind(seen) == OPEN && now < since(seen) + SLEEP -> break
			:: kind(seen) == HALF && used(seen) > 0 && used(seen) >= MOST -> break
			:: kind(seen) == HALF && used(seen) > 0 && used(seen) < MOST ->
				was = with_ended(make(HALF, since(seen), in_flight(seen) + 1, good(seen)), ended(seen))
			:: kind(seen) == CLOSED
			:: else -> was = with_ended(make(HALF, start, 1, 0), ended(seen))
			fi
		};
#ifdef BREAK_FIRST
		ok = true;
#else
		acquire_permit();
#endif
		if
		:: !ok
		:: ok && was < 0 -> atomic { permits++; holds = true; break }
		:: ok && was >= 0 ->
			atomic {
				turn(was);
				if
				:: ok ->
					permits++;
					holds = true;
					alive[start]++;
					is_probe = true;
					probes[since(was)]++;
					assert(probes[since(was)] <= PROBES)
				:: else
				fi
			};
			if
#ifdef BREAK_FIRST
			:: ok -> acquire_permit(); break
			:: else
#else
			:: ok -> break
			:: else -> release_permit()
#endif
			fi
		fi
	od;
	atomic { was = -1; began = 0 }
}

/* Half-open: one probe of it has ended so. */
inline end_probe()
{
	atomic {
		if
		:: result == IGNORED -> was = with_ended(make(HALF, since(seen), in_flight(seen) - 1, good(seen)), end_one(seen))
		:: result == FAILURE -> was = make(OPEN, max(now, since(seen)), 0, 0)
		:: result == SUCCESS && good(seen) + 1 >= PROBES -> was = make(CLOSED, max(now, since(seen)), 0, 0)
		:: else -> was = with_ended(make(HALF, since(seen), in_flight(seen) - 1, good(seen) + 1), end_one(seen))
		fi;
		turn(was);
		if
		:: ok ->
			results = results + (result == IGNORED -> 0 : 1);
			assert(results <= permits || tied || over);
			if
			:: is_probe -> alive[start]--
			:: else
			fi;
			is_probe = false;
			tied = (tied || (kind(phase) != HALF && start >= since(phase)));
			if
			:: result == IGNORED -> probes[since(seen)]--
			:: else
			fi
		:: else
		fi;
		was = -1
	}
}

inline report()
{
	now = clock;
	read_quiescent();
#ifdef BREAK_QUIESCENT
	if
	:: ok && start >= since(seen) ->
#else
	if
	:: ok && result != FAILURE && start >= since(seen) && start + TIMEOUT > now ->
#endif
		release_permit();
		if
		:: ok && result != IGNORED -> count_results(my, 1, result == FAILURE)
		:: else
		fi;
		check_window()
	:: else -> ok = false
	fi;
	do
	:: ok -> break
	:: else ->
		look_settled();
		if
#ifndef BREAK_TWICE
		:: start + TIMEOUT <= now || !has_permit() -> break
#endif
		:: else
		fi;
		if
		:: kind(seen) == HALF && start >= since(seen) ->
#ifdef BREAK_LAST
			release_permit();
#endif
			end_probe();
			if
			:: ok -> release_permit(); break
			:: else
			fi
		:: else ->
			release_permit();
#ifdef BREAK_TWICE
			ok = true;
#endif
			if
			:: ok && kind(seen) == CLOSED && start >= since(seen) && result != IGNORED ->
				count_judged(my, 1, result == FAILURE)
			:: else
			fi;
			break
		fi
	od;
	atomic {
		if
		:: is_probe -> alive[start]--
		:: else
		fi;
		is_probe = false; holds = false; ok = false; start = 0
	}
}

#define locals() \
	byte now, start, own, overdue, i, calls, failures, result, ops; \
	short seen, was = -1, began; \
	bool ok, holds, is_probe

proctype client(byte my; bool first) provided (!over)
{
	locals();

	if
	:: first -> atomic { holds = true; is_probe = (kind(BEGIN) == HALF) }; goto reports
	:: else
	fi;
again:
	acquire();
	if
	:: !holds -> goto next
	:: else
	fi;
reports:
	atomic {
		if
		:: result = SUCCESS
		:: result = FAILURE
#ifdef IGNORES
		:: result = IGNORED
#endif
		fi
	};
	report();
next:
	atomic { ops++; seen = 0; result = 0; now = 0 };
	if
	:: ops < OPS -> goto again
	:: else
	fi
}

proctype ticks() provided (!over)
{
	do
	:: clock < TIME -> clock++
	:: else -> break
	od
}

#ifdef LAST
/* Much later: in a few rounds it is closed, and lets requests pass. */
proctype last()
{
	locals();
	byte my = 0, rounds;

	atomic {
		over = true;
		clock = LATE;
		judging++; /* of those who died */
		do
		:: rounds < 2 + PROBES ->
			acquire();
			if
			:: holds -> result = SUCCESS; report()
			:: else
			fi;
			if
			:: clock < TIMES - 1 && rounds == 0 -> clock = clock + SLEEP
			:: else
			fi;
			rounds++
		:: else -> break
		od;
		assert(kind(phase) == CLOSED)
	}
}
#endif

init
{
	byte c;

	atomic {
		part[0].calls = GOOD;
		permits = GOOD + PERMITS;
		results = GOOD;
		probes[0] = in_flight(BEGIN);
		alive[0] = in_flight(BEGIN);
		do
		:: c < CLIENTS ->
			if
			:: c < PERMITS -> stripe[stripe_of(c)].count[0]++
			:: else
			fi;
			run client(stripe_of(c), c < PERMITS);
			c++
		:: else -> break
		od;
		run ticks();
#ifdef LAST
		run last()
#endif
	}
}
