"""
Priorities at an adaptive limit: whatever share of the load they are, the limit must not follow an overload, and the
server must do nearly as much (docs/design/adaptive.md). The same history with one priority says how much that is.
"""

MOST = 1.5    # times the limit with one priority
LEAST = 0.75  # of the goodput, in one run, where chance has a large part


def alike(history):
    """The same requests, all with one priority."""
    return {**history, "ops": [{name: value for name, value in op.items() if name != "priorities"}
                               for op in history["ops"]]}


def judged(records):
    return [record["answer"] for record in records if record["op"].get("is_judged") and record["answer"]]


def measured(records):
    """The most that the limit was while it was judged, and the work that was done."""
    answers = judged(records)
    return max((answer["most"] for answer in answers), default=0), sum(answer["done"] for answer in answers)


def complaints(player, history, records):
    if not judged(records):
        return
    limit, done = measured(records)
    one_limit, one_done = measured(player.play(alike(history)))
    if limit > MOST * one_limit:
        yield len(history["ops"]), "drift", f"the limit was {limit}, and with one priority {one_limit}"
    if done < LEAST * one_done:
        yield len(history["ops"]), "drift", f"{done:.0f} calls were answered, and with one priority {one_done:.0f}"
