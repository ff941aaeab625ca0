"""The model of `random`, which denies a share of requests."""

from fractions import Fraction

from models.model import Model


class Random(Model):
    """random: denied when a draw of 64 bits, its lowest left out, is in the share.

    Only what consumes draws. There is nothing to remember.
    """

    def __init__(self, deny, retry_ns, draw=None):
        self.deny, self.retry_ns, self.draw = Fraction(deny), retry_ns, draw
        self.quota = 2**32  # of a cost: answers have no quota

    def save(self, now):
        return None

    def call(self, operation, now, cost=1, permit=None, max_wait=None):
        answer = {"allowed": True, "reason": "ok", "quota": 0, "retry_after_ns": 0,
                  "wait_ns": 0, "remaining": 0, "reset_after_ns": 0}
        denied = self.deny == 1
        if operation == "acquire" and cost:
            denied = Fraction(self.draw() // 2, 2**63) < self.deny
        if denied and operation in ("acquire", "peek"):
            answer.update(allowed=False, reason="shed", retry_after_ns=self.retry_ns)
        return answer


def splitmix64(state):
    """Draws as the library makes them from a seed."""
    def draw():
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31
    return draw
