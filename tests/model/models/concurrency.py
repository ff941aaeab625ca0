"""The model of limits on the number of requests in flight."""

from models.model import DAY_NS, Model, uses_of


class Concurrency(Model):
    """concurrency: places, each held until it is given back or its lease is over.

    A refund by name gives back the places of that permit. Any other gives back places
    that were taken without one, those first whose leases end last.

    A lease that ends a day later than it could was begun by a clock that was wrong. It
    begins anew when the next request asks for a place.
    """

    def __init__(self, most, lease_ns, retry_ns):
        self.quota, self.lease, self.retry = most, lease_ns, retry_ns
        self.state = []

    def call(self, operation, now, cost=1, permit=None, **others):
        if operation == "acquire" and cost:
            self.state = [(now + self.lease if end > now + self.lease + DAY_NS else end, of)
                          for end, of in self.state]
        return super().call(operation, now, cost, permit, **others)

    def said(self, now):
        return uses_of((end, 1, permit) for end, permit in self._held(now))

    def load(self, saved):
        self.state = [(use["until_ns"], use.get("permit", 0))
                      for use in (saved or {"uses": []})["uses"] for _ in range(use["units"])]

    def _held(self, now):
        """When the leases end, and whose they are."""
        return sorted((end, permit) for end, permit in self.state if end > now)

    def wait(self, now, cost):
        held = self._held(now)
        return min(self.retry, held[0][0] - now) if len(held) + cost > self.quota else 0

    def take(self, now, cost, permit):
        self.state = self._held(now) + cost * [(now + self.lease, permit["id"] if permit else 0)]

    def give(self, now, cost, permit):
        held = self._held(now)
        own = [place for place in held if place[1] == (permit["id"] if permit else 0)]
        for place in own[max(len(own) - cost, 0):]:
            held.remove(place)
        self.state = held
        return not permit or bool(own and cost)

    def forget(self, now):
        self.state = []

    def ahead(self, now):
        return max([0, *(end - now for end, _ in self._held(now))])

    def remaining(self, now):
        return self.quota - len(self._held(now))
