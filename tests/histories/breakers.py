"""When a breaker opens, how long it sleeps, and what outlives a reload or a restart. Limits without `preset`, `slow` or forced phases."""

import math

import algorithms

BAD = (1, 2)                         # outcomes: failure, timeout
MINIMUM, RATE, SLEEP = 20, 50, "5s"  # defaults
SECOND = algorithms.UNITS["s"]
WINDOW = 9 * SECOND                  # the default has ten parts of a second, of which the first is not whole
PERMIT_TIMEOUT = 60 * SECOND
TOGETHER = PERMIT_TIMEOUT // 8       # permits of so long end together
RETRY = SECOND
SKEW = 1000                          # phases of one instant begin a nanosecond after each other


def complaints(case):
    found = []
    for pair in {pair: None for record in case.records for pair in record["state"]}:
        forms = [config["limits"].get(pair[0]) for config in case.history["configs"]]
        if all(limit and limit["algorithm"] == "breaker" and "preset" not in limit for limit in forms):
            found += [*never_denies(case, pair), *sleeps(case, pair), *wakes(case, pair),
                      *opens(case, pair, forms), *is_kept(case, pair)]
            if all(same_limit(limit, forms[0]) for limit in forms):
                found += trips(case, pair, forms[0])
    return found


def is_open(state):
    return state is not None and not state["status"] and not state["allowed"] and state["reason"] == "breaker_open"


def same_limit(one, other):
    return {**one, "keys": 0} == {**other, "keys": 0}


def never_denies(case, pair):
    """With `judge_only` every request passes."""
    for i, record in enumerate(case.records):
        op, answer = record.get("again") or record["op"], record["answer"]
        if "judge_only" not in case.limits(i).get(pair[0], {}):
            continue
        answers = [record["state"][pair]]
        if op["do"] == "acquire" and answer and (op["limit"], op["key"]) == pair:
            answers.append(answer)
        if any(not one["status"] and not one["allowed"] for one in answers):
            yield i, "judge_only", f"{pair} only judges, and denied a request"


def longest_sleep(limit):
    sleep = limit.get("sleep", SLEEP)
    return max(RETRY, algorithms.duration(sleep), algorithms.duration(limit.get("sleep_max", sleep)))


def sleeps(case, pair):
    """No sleep is longer than `sleep_max`."""
    for i, record in enumerate(case.records):
        longest = longest_sleep(case.limit(i, pair[0]))
        if is_open(record["state"][pair]) and record["state"][pair]["retry"] > longest + SKEW:
            yield i, "sleep", f"{pair}: retry_after {record['state'][pair]['retry']} ns of at most {longest}"


def wakes(case, pair):
    """A request passes after the time of a lost probe and the sleep that follows."""
    for i, record in enumerate(case.records[1:], 1):
        before, after, limit = case.records[i - 1]["state"][pair], record["state"][pair], case.limit(i, pair[0])
        probe = min(algorithms.duration(limit.get("probe_timeout") or limit.get("sleep", SLEEP)), PERMIT_TIMEOUT)
        if record["op"]["do"] == "pass" and is_open(before) and is_open(after) and \
                record["op"]["ns"] > probe + TOGETHER + longest_sleep(limit):
            yield i, "wakes", f"{pair} is still open after {record['op']['ns']} ns"


def needed(limit):
    """The fewest failures that open it."""
    return limit.get("failures") or math.ceil(limit.get("minimum", MINIMUM) * RATE / 100)


def times_of(case, i, pair):
    """How often a request asked a key, by enforced and shadow rules."""
    return sum(charged.get(pair, 0) for charged in case.charged(i))


def requests(case, end):
    for i, record in enumerate(case.records[:end]):
        if (record.get("again") or record["op"])["do"] in ("acquire", "check") and record["answer"]:
            yield i, record


def bad_reports(case, end):
    """(time, operation of the permit) of each report of a failure or a timeout."""
    taken = {record["op"].get("id"): i for i, record in requests(case, end)}
    for record in case.records[:end]:
        op, answer = record["op"], record["answer"]
        if op["do"] == "report" and answer and answer["status"] == 0 and op.get("outcome", 0) in BAD:
            yield answer["now"], taken[op["of"]]


def opens(case, pair, forms):
    """It does not open the first time before enough calls failed or were lost."""
    first = next((i for i, record in enumerate(case.records) if is_open(record["state"][pair])), None)
    if first is None:
        return
    failed = sum(times_of(case, i, pair) for _, i in bad_reports(case, first + 1))
    lost = sum(times_of(case, i, pair) for i, record in requests(case, first)
               if case.now(first) - record["answer"]["now"] >= PERMIT_TIMEOUT)
    least = min(map(needed, forms))
    if failed + lost < least:
        yield first, "opens", f"{pair} opened after {failed} failures and {lost} lost permits of at least {least}"


def trips(case, pair, limit):
    """So many `failures` open it the first time. A breaker that only judges tells no phase."""
    if "failures" not in limit or "judge_only" in limit:
        return
    for i, record in enumerate(case.records):
        if is_open(record["state"][pair]) or record["op"]["do"] == "reset" or (i and case.forgets(i, pair)):
            return
        failed = [at for at, k in bad_reports(case, i + 1)
                  if case.records[k]["op"]["do"] == "acquire" and times_of(case, k, pair) and case.now(i) - at < WINDOW]
        if len(failed) >= limit["failures"]:
            yield i, "trips", f"{pair} has not opened after {len(failed)} failures"
            return


def is_kept(case, pair):
    """A reload keeps a breaker as it is, and so does a file over a restart."""
    for i, record in enumerate(case.records):
        if record["op"]["do"] not in ("reload", "restart", "kill") or case.forgets(i, pair) or \
                not same_limit(case.limit(i, pair[0]), case.limit(i - 1, pair[0])):
            continue
        before, after = (case.records[k]["state"][pair] for k in (i - 1, i))
        if any(before.get(name) != after.get(name) for name in ("allowed", "reason", "remaining", "retry")):
            yield i, "kept", f"{pair}: {record['op']['do']} made {after} of {before}"
