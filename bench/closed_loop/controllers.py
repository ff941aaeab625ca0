"""Limits of what may be in flight: the library's, and others as they are published."""

import bisect
import ctypes
import math
import random

import permits
import weir
from simulation import HIGH, LOW, MS, SECOND

START = 1_700_000_000 * SECOND  # of the library's time


class Controller:
    def limit(self, now):
        return self.value

    def allows(self, now, in_flight, is_high):
        return in_flight < self.limit(now)

    def acquired(self, now, in_flight):
        """Returns what `report` has as `then`."""
        return in_flight

    def denied(self, now, in_flight):
        pass

    def report(self, now, latency, in_flight, then, outcome="success"):
        pass


class Unlimited(Controller):
    value = math.inf


class Fixed(Controller):
    def __init__(self, value):
        self.value = value


class Library(Controller):
    """The adaptive limit of the library. With priorities, `value` is the limit of low ones."""

    def __init__(self, has_priorities=False):
        self.limiter = weir.Limiter(weir.options(weir.ADAPTIVE))
        self.has_priorities, self.value, self.permit = has_priorities, 0, None
        weir.lib.weir_seed(7)

    def allows(self, now, in_flight, is_high):
        priority = LOW if self.has_priorities and not is_high else HIGH
        decision, self.permit = weir.RawDecision(), permits.Permit()
        status = weir.lib.weir_limiter_ask(
            self.limiter.handle, permits.Ask(priority=priority, now_ns=START + now,
                                             permit=ctypes.addressof(self.permit)), decision)
        assert status == weir.OK
        if priority == LOW or not self.has_priorities:
            self.value = decision.quota
        return decision.allowed

    def acquired(self, now, in_flight):
        return self.permit

    def report(self, now, latency, in_flight, then, outcome="success"):
        status = weir.lib.weir_limiter_report(
            self.limiter.handle, then, permits.Report(outcome=permits.OUTCOMES.index(outcome), latency_ns=latency,
                                                      now_ns=START + now))
        assert status == weir.OK


class Gradient2(Controller):
    """Netflix's, as gradient of a long average to the latency of each request."""

    def __init__(self, initial=20, least=20, most=200):
        self.now, self.least, self.most = float(initial), least, most
        self.value, self.count, self.sum, self.long = initial, 0, 0.0, 0.0

    def report(self, now, latency, in_flight, then, outcome="success"):
        if self.count < 10:
            self.count += 1
            self.sum += latency
            self.long = self.sum / self.count
        else:
            self.long += (latency - self.long) * 2 / 601
        if self.long > 2 * latency:
            self.long *= 0.95
        if then < self.now / 2:
            return
        gradient = max(0.5, min(1.0, 1.5 * self.long / latency))
        self.now = 0.8 * self.now + 0.2 * (self.now * gradient + 4)
        self.now = max(self.least, min(self.most, self.now))
        self.value = int(self.now)


class Vegas(Controller):
    def __init__(self, initial=20, most=1000):
        self.now, self.most, self.value = float(initial), most, initial
        self.least, self.count, self.rng = 0, 0, random.Random(7)
        self.jitter = self.rng.uniform(0.5, 1)

    def report(self, now, latency, in_flight, then, outcome="success"):
        self.count += 1
        if self.count > self.jitter * 30 * self.now:
            self.count, self.jitter, self.least = 0, self.rng.uniform(0.5, 1), latency
            return
        if self.least == 0 or latency < self.least:
            self.least = latency
            return
        if 2 * then < self.now:
            return
        size = max(1, math.floor(math.log10(self.now)))
        queue = math.ceil(self.now * (1 - self.least / latency))
        if queue <= size:
            self.now += 6 * size
        elif queue < 3 * size:
            self.now += size
        elif queue > 6 * size:
            self.now -= size
        self.now = max(1, min(self.most, self.now))
        self.value = int(self.now)


class Aimd(Controller):
    def __init__(self, initial=20, least=20, most=200, timeout=5 * SECOND):
        self.now, self.least, self.most, self.timeout = float(initial), least, most, timeout
        self.value = initial

    def report(self, now, latency, in_flight, then, outcome="success"):
        if latency > self.timeout:
            self.now *= 0.9
        elif 2 * then >= self.now:
            self.now += 1
        self.now = max(self.least, min(self.most, self.now))
        self.value = int(self.now)


class Bbr(Controller):
    """As kratos has it. The share of the processors that work comes from `busy`, 0 to 1."""

    PARTS, PART = 100, 100 * MS

    def __init__(self, workers):
        self.workers, self.parts = workers, {}
        self.cpu, self.checked, self.first_denial, self.flying = 0.0, 0, None, 0
        self.value = math.inf

    def busy(self, share, now):
        if now - self.checked >= 500 * MS:
            self.cpu = self.cpu * 0.95 + share * 0.05
            self.checked = now

    def limit(self, now):
        part = int(now // self.PART)
        full = [v for k, v in self.parts.items() if part - self.PARTS < k < part and v[0]]
        most = max((v[0] for v in full), default=1)
        least = min((max(1, math.ceil(v[1] / v[0] / MS)) for v in full), default=1)
        self.value = round(most * 10 * least / 1000)
        hot = self.cpu >= 0.8 or (self.first_denial is not None and now - self.first_denial < SECOND)
        if not full or not hot:
            if not hot:
                self.first_denial = None
            return math.inf
        return max(2, self.value + 1)

    def acquired(self, now, in_flight):
        self.busy(min(1.0, in_flight / self.workers), now)
        return in_flight

    def denied(self, now, in_flight):
        if self.first_denial is None:
            self.first_denial = now

    def report(self, now, latency, in_flight, then, outcome="success"):
        part = int(now // self.PART)
        if part not in self.parts:
            self.parts = {k: v for k, v in self.parts.items() if k > part - self.PARTS}
            self.parts[part] = [0, 0]
        self.parts[part][0] += 1
        self.parts[part][1] += latency


def log10_times(factor, limit):
    return factor * max(1, int(math.log10(limit)) if limit >= 1 else 1)


class Correlation:
    def __init__(self, size, warm):
        self.size, self.warm, self.pairs = size, warm, []

    def add(self, x, y):
        """The correlation, and how much y varies for its mean."""
        self.pairs = (self.pairs + [(x, y)])[-self.size:]
        n = len(self.pairs)
        if n < 2:
            return 0, 0
        mx, my = sum(p[0] for p in self.pairs) / n, sum(p[1] for p in self.pairs) / n
        vx = sum(p[0] ** 2 for p in self.pairs) / n - mx * mx
        vy = sum(p[1] ** 2 for p in self.pairs) / n - my * my
        if n < self.warm or vx < 0 or vy < 0:
            return 0, 0
        cx, cy = math.sqrt(vx) / mx, math.sqrt(vy) / my
        if cx < 0.01 or cy < 0.01:
            return 0, cy
        cov = sum(a * b for a, b in self.pairs) / n - mx * my
        return cov / math.sqrt(vx * vy), cy


class Failsafe(Controller):
    """failsafe-go's adaptive limiter 0.9.7, with its defaults but for what is given."""

    def __init__(self, initial=20, least=1, most=200, window=SECOND, samples=50):
        self.now, self.least, self.most, self.value = float(initial), least, most, initial
        self.window, self.samples = window, samples
        self.recent, self.least_rtt, self.max_in_flight, self.next = [], None, 0, 0
        self.medians, self.smooth, self.base = [], [0, 0.0], [0, 0.0]
        self.throughput, self.rtt = Correlation(50, 10), Correlation(50, 10)

    @staticmethod
    def average(state, value, age):
        if state[0] < 10:
            state[1] = (state[1] * state[0] + value) / (state[0] + 1)
            state[0] += 1
        else:
            state[1] += (value - state[1]) * 2 / (age + 1)
        return state[1]

    def report(self, now, latency, in_flight, then, outcome="success"):
        bisect.insort(self.recent, latency)
        self.max_in_flight = max(self.max_in_flight, then)
        if now <= self.next or len(self.recent) < self.samples:
            return
        quantile = self.recent[min(len(self.recent) - 1, int(0.9 * len(self.recent)))]
        self.medians = (self.medians + [quantile])[-5:]
        median = sorted(self.medians)[2] if len(self.medians) == 5 else quantile
        recent = self.average(self.smooth, median, 5)
        self.update(recent, self.max_in_flight, in_flight)
        self.next = now + min(max(2 * self.recent[0], self.window), 30 * SECOND)
        self.recent, self.max_in_flight = [], 0

    def update(self, recent, most, in_flight):
        gradient = self.average(self.base, recent, 10) / recent
        queue = math.ceil(self.now * (1 - gradient))
        throughput = most / (recent / SECOND)
        correlation, varies = self.throughput.add(most, throughput)
        rising, _ = self.rtt.add(most, recent)
        full = in_flight >= self.value
        step = log10_times(1, int(self.now))
        old = self.now
        new = old
        if queue > log10_times(6, int(old)):
            new = old - step
        elif full and (correlation < 0 or (correlation < 0.3 and rising > 0.5) or
                       (varies < 0.2 and rising > 0.5)):
            new = old - step
        elif queue < log10_times(3, int(old)):
            new = old + step
        bound = 5.0 * most
        if new > bound:
            new = old - step if old > bound else bound
        self.now = max(self.least, min(self.most, new))
        self.value = int(self.now)


class Envoy(Controller):
    """Envoy's gradient: least latency found with 3 in flight each minute, p50, windows of 100 ms."""

    def __init__(self, interval=100 * MS, every=60 * SECOND, initial=3, most=1000):
        self.interval, self.every, self.most, self.floor = interval, every, most, initial
        self.now, self.value, self.samples, self.saved = initial, initial, [], initial
        self.base, self.probing, self.next, self.again, self.stuck = None, True, 0, 0, 0

    def report(self, now, latency, in_flight, then, outcome="success"):
        self.samples.append(latency)
        if self.probing:
            if len(self.samples) >= 50:
                self.base = sorted(self.samples)[len(self.samples) // 2]
                self.probing, self.samples = False, []
                self.now = self.value = self.saved
                self.next, self.again, self.stuck = now + self.interval, now + self.every, 0
            return
        if now >= self.next:
            sample = sorted(self.samples)[len(self.samples) // 2]
            gradient = max(0.5, min(2.0, self.base * 1.25 / sample))
            limit = gradient * self.now
            self.now = max(self.floor, min(self.most, int(limit + math.sqrt(limit))))
            self.value, self.samples, self.next = self.now, [], now + self.interval
            self.stuck = self.stuck + 1 if self.now == self.floor else 0
        if now >= self.again or self.stuck >= 5:
            self.probing, self.saved, self.samples = True, self.now, []
            self.value = self.floor
