"""Limits on what may be in flight that are measured, as src/algo/measured/estimators.h has them.

Whole numbers only and the same operations, so that C and the model agree in every bit.
docs/design/adaptive.md says where the formula of `Knee` comes from; the others are published.
"""

import math

ONE = 256            # of the knee: a request in flight
BASE = 1024          # of a sample: as long as the baseline
CLIP = 3 * BASE      # the most that an answer counts for,
LOST = 4092          # and what a timeout counts for
LEAST = 96           # samples of a window; more where the limit is higher, ...
MOST = 4095          # ... but no more than this
LIMIT_MAX = 65535
LATENCY_MAX = 2**40 - 1  # ns
BASE_BITS = 25       # significant ones of the baseline
SOON, SELDOM = 4, 32  # full windows from one probe to the next
STREAK_MAX = 5
WINDOWS = 256        # are told apart by their numbers

START, FULL, PROBE, PROBE_ALL = range(4)


def divide(a, b):
    """As C does: towards zero."""
    return -(-a // b) if a < 0 else a // b


def clamp(value, least, most):
    return max(least, min(most, value))


class Knee:
    def __init__(self, initial=20, least=1, most=1000):
        self.least, self.most = least, most
        # The measured values, which take one cell.
        self.count, self.sum, self.squares, self.flying = 0, 0, 0, initial
        # The results, which take another cell.
        self.phase, self.streak, self.since, self.wait, self.window = START, 0, 0, 1, 0
        self.knee, self.base_ns = initial * ONE, 0
        self.limit = initial

    def root(self):
        return math.isqrt(self.knee * ONE)

    def depth(self):
        """So many fewer a probe lets through."""
        return min(self.root() << self.streak, self.knee) // 2

    def is_guess(self):
        """Whether answers were measured, and no probe has confirmed the baseline yet."""
        return self.wait == 1 and self.base_ns != 0

    def at_rest(self):
        if self.phase in (PROBE, PROBE_ALL):
            limit = self.knee - self.depth()
        else:
            limit = self.knee + min(self.root() << self.streak, self.knee)
        return clamp(limit // ONE, self.least, self.most)

    def ordinary(self):
        """The limit if this were no probe: some priorities keep to it."""
        if self.phase not in (PROBE, PROBE_ALL):
            return self.limit
        return clamp((self.knee + min(self.root(), self.knee)) // ONE, self.least, self.most)

    def sample(self, latency_ns, in_flight, window=None, dropped=False):
        """An answer; `in_flight` counts it, too. `window` is of when it was let through."""
        if window is not None and (self.window - window) % WINDOWS > 1:
            return
        in_flight = min(in_flight, LIMIT_MAX)
        if self.count == 0 and self.flying > 0:  # they were let through under another limit
            self.flying -= 1
            return
        latency_ns = clamp(latency_ns, 1, LATENCY_MAX)
        if self.base_ns == 0:
            self.base_ns = self.significant(latency_ns)
        x = LOST if dropped else min(latency_ns * BASE // self.base_ns, CLIP)
        self.count += 1
        self.sum += x
        self.squares += (x // 4) ** 2
        self.flying += in_flight
        if self.count >= clamp(self.limit, LEAST, MOST):
            self.close()
            self.count, self.sum, self.squares, self.flying = 0, 0, 0, max(in_flight - 1, 0)
            self.window = (self.window + 1) % WINDOWS
            self.limit = self.at_rest()

    def close(self):
        mean = max(self.sum // self.count, 1)
        n = max(self.flying * ONE // self.count, 1)
        variance = max(self.squares * 16 // self.count - mean * mean, 0)
        noise = n * math.isqrt(variance * 16 // self.count) // (4 * mean)
        waits = divide(n * (mean - BASE), mean)  # so many more than at the baseline
        if mean > CLIP:
            self.lost(n, waits, noise)
        elif self.phase == START:
            self.rebase(mean - BASE)
            if BASE // 2 < mean < 2 * BASE:
                self.phase = FULL
        elif self.phase in (PROBE, PROBE_ALL):
            self.probed(n, mean, waits, noise)
        elif n < self.knee - self.root():
            self.light(n, mean, waits)
        else:
            self.full(n, waits, noise)

    def part(self, change, noise):
        """Of a change, as much as stands out of the noise."""
        s = 2 * noise + self.root() // 4
        square = change * change
        return divide(change * square, square + s * s) if square else 0

    @staticmethod
    def significant(latency_ns):
        shift = max(latency_ns.bit_length() - BASE_BITS, 0)
        return latency_ns >> shift << shift

    def rebase(self, by):
        self.base_ns = self.significant(clamp(self.base_ns * (BASE + by) // BASE, 1, LATENCY_MAX))

    def move(self, by):
        self.knee = clamp(self.knee + by, ONE, LIMIT_MAX * ONE)

    def probed(self, n, mean, waits, noise):
        depth, part = self.depth(), self.part(waits, noise)
        if 2 * n > 2 * self.knee - depth:  # not a probe: higher priorities, or `least`, filled it
            self.phase = PROBE_ALL if self.phase == PROBE else FULL
            self.streak = self.streak if self.phase == PROBE_ALL else 0
            self.since = 0
            self.wait = self.wait if self.phase == PROBE_ALL else min(2 * self.wait, SELDOM)  # `least` allows none
            return
        moved = divide(waits + 3 * part, 4)
        self.rebase(divide(moved * mean, n))
        self.move(max(moved, min(n - self.knee, 0)))  # those in flight do not wait, by the new baseline
        falls = 2 * part < -depth
        self.phase = self.phase if falls else FULL
        self.streak = min(self.streak + 1, STREAK_MAX) if falls else 0
        self.since = 0
        self.wait = SOON if 2 * abs(moved) > depth else min(2 * self.wait, SELDOM)

    def lost(self, n, waits, noise):
        """Mostly timeouts: the baseline cannot be measured, nor does this confirm it."""
        self.move(self.part(n - waits - self.knee, noise))
        self.phase = START if self.phase == START else FULL
        self.streak, self.since, self.wait = 0, 0, self.wait if self.is_guess() else SOON

    def light(self, n, mean, waits):
        """A probe that nobody asked for."""
        root = self.root()
        if n >= self.knee - 2 * root and 4 * waits < root:
            self.move(root // 2)
        self.rebase(divide(mean - BASE, 4))
        self.streak = 0
        self.since = 0
        self.wait = min(2 * self.wait, SELDOM)

    def full(self, n, waits, noise):
        root = self.root()
        if 4 * waits >= root:
            moved = self.part(n - waits - self.knee, noise)
            self.move(moved)
            self.streak = 0
            self.since = clamp(self.since - divide(moved * SELDOM, root), 0, SELDOM)
        elif 2 * (n - self.knee) < root:
            self.move(root // 2)
            self.streak = 0
        else:
            self.knee = min(n, self.limit * ONE)  # priorities may have more
            self.streak = min(self.streak + 1, STREAK_MAX)
            self.since += SELDOM // 4
        self.since += 1
        if self.since >= self.wait:
            self.phase, self.streak = PROBE, STREAK_MAX if self.is_guess() else 0


PARTS = 65536        # of gradient2's limit
NS_PARTS = 256       # of its average
WARM, AGE = 10, 600  # samples
TIMEOUT_NS = 5 * 10**9


class Gradient2:
    def __init__(self, initial=20, least=20, most=200):
        self.least, self.most = least, most
        self.limit_parts, self.long, self.count = initial * PARTS, 0, 0

    @property
    def limit(self):
        return self.limit_parts // PARTS

    def sample(self, latency_ns, in_flight, dropped=False):
        short = clamp(latency_ns, 1, LATENCY_MAX) * NS_PARTS
        if self.count < WARM:
            self.long = (self.long * self.count + short) // (self.count + 1)
            self.count += 1
        else:
            self.long += divide((short - self.long) * 2, AGE + 1)
        if self.long > 2 * short:
            self.long = self.long * 95 // 100
        if 2 * in_flight < self.limit:
            return
        gradient = clamp(3 * self.long * PARTS // (2 * short), PARTS // 2, PARTS)
        limit = (4 * self.limit_parts + self.limit_parts * gradient // PARTS + 4 * PARTS) // 5
        self.limit_parts = clamp(limit, self.least * PARTS, self.most * PARTS)


class Vegas:
    def __init__(self, initial=20, least=1, most=1000):
        self.least, self.most = least, most
        self.limit, self.least_ns, self.count, self.jitter = initial, 0, 0, 2**16 - 1

    def sample(self, latency_ns, in_flight, dropped=False, draw=0):
        """`draw` is 16 fair bits: when the least latency is measured anew."""
        latency_ns = clamp(latency_ns, 1, LATENCY_MAX)
        step = 1 if self.limit < 100 else len(str(self.limit)) - 1
        self.count += 1
        if self.count * 2**17 > 30 * self.limit * (2**16 + self.jitter):
            self.count, self.jitter, self.least_ns = 0, draw, latency_ns
            return
        if self.least_ns == 0 or latency_ns < self.least_ns:
            self.least_ns = latency_ns
            if not dropped:
                return
        queue = -(-self.limit * (latency_ns - self.least_ns) // latency_ns)
        if dropped:
            by = -step
        elif 2 * in_flight < self.limit:
            return
        elif queue <= step:
            by = 6 * step
        elif queue < 3 * step:
            by = step
        elif queue > 6 * step:
            by = -step
        else:
            return
        self.limit = clamp(self.limit + by, self.least, self.most)


class Aimd:
    def __init__(self, initial=20, least=20, most=200):
        self.least, self.most, self.limit = least, most, initial

    def sample(self, latency_ns, in_flight, dropped=False):
        if dropped or latency_ns > TIMEOUT_NS:
            self.limit = self.limit * 9 // 10
        elif 2 * in_flight >= self.limit:
            self.limit += 1
        self.limit = clamp(self.limit, self.least, self.most)


BBR_PARTS, BBR_PART_NS = 100, 10**8
BBR_HOT = 800  # thousandths of the processors
BBR_COOL_NS = 10**9
BBR_CPU_NS = 5 * 10**8
MS = 10**6


class Bbr:
    def __init__(self, initial=20, least=1, most=1000):
        self.least, self.most, self.initial = least, most, initial
        self.parts = [(0, 0, 0)] * BBR_PARTS  # number, passes, their latencies
        self.cpu, self.cpu_at_ns, self.denied_ns = 0, 0, 0

    def sample(self, now_ns, latency_ns):
        part = now_ns // BBR_PART_NS
        number, passes, sum_ns = self.parts[part % BBR_PARTS]
        if number != part:
            passes = sum_ns = 0
        self.parts[part % BBR_PARTS] = part, passes + 1, sum_ns + min(latency_ns, LATENCY_MAX)

    def limit(self, now_ns):
        now = now_ns // BBR_PART_NS
        full = [(passes, sum_ns // passes) for number, passes, sum_ns in self.parts
                if passes and number < now < number + BBR_PARTS]
        if not full:
            return self.initial
        most = max(passes for passes, _ in full)
        least_ns = max(min(mean for _, mean in full), MS)
        in_flight = (most * least_ns * (10**9 // BBR_PART_NS) + 5 * 10**8) // 10**9
        return clamp(in_flight, self.least, self.most)

    def busy(self, now_ns, thousandths):
        """The share of the processors at work, of the last half second."""
        if now_ns - self.cpu_at_ns >= BBR_CPU_NS:
            self.cpu = (95 * self.cpu + 5 * 1000 * thousandths) // 100
            self.cpu_at_ns = now_ns

    def allows(self, now_ns, in_flight):
        """`in_flight` are those before the request that asks."""
        over = in_flight > 1 and in_flight > self.limit(now_ns)
        if self.cpu >= BBR_HOT * 1000:
            if over and self.denied_ns == 0:
                self.denied_ns = now_ns
            return not over
        if self.denied_ns == 0:
            return True
        if now_ns - self.denied_ns > BBR_COOL_NS:
            self.denied_ns = 0
            return True
        return not over
