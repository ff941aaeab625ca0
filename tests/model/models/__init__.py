"""Models that define each algorithm in exact rational arithmetic.

Written from the words of the definition and not from the library. Times are
integers, nanoseconds; a state that has nothing left to say is None. Where the
definition leaves a choice, it stands at the choice.

A model gives its state out, and takes one in, as a plain dictionary: `save` and
`load`. tests/vectors/README.md says what its fields mean.
"""

from models.breaker import Breaker, breaker
from models.concurrency import Concurrency
from models.in_flight import Adaptive
from models.model import DAY_NS
from models.random import Random, splitmix64
from models.sliding import Sliding, SlidingCounter, SlidingLog, SlidingWindow
from models.throttle import Throttle
from models.tokens import Bucket, Paced, leaky_queue, pacer
from models.warm_up import WarmUp
from models.windows import Base, Window, end_of_utc_day, first_request, utc_days
