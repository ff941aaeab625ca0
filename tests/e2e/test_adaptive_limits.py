"""Adaptive limits through a server: permits, reports, rules, the queue, and a store in a file."""

import threading

import pytest
from harness import Wire, until

RULES = """
limits:
  few: { algorithm: adaptive, min: 2, max: 2, permit_timeout: 1h, retry: 3s }
  line: { algorithm: adaptive, min: 1, max: 1, queue: 1, max_wait: 1h }
  late: { algorithm: adaptive, method: aimd, min: 1, max: 100, initial: 10 }
  once: { algorithm: fixed_window, rate: 1/d }
  mixed: { algorithm: adaptive, min: 1, max: 18, initial: 9, permit_timeout: 1h }
rules:
  - { name: first, match: { service: "*" }, key: [service], limits: [few] }
  - { name: then, match: { user: "*" }, key: [user], limits: [once] }
"""


@pytest.fixture(params=["memory", "file"])
def server(request, serve, tmp_path):
    store = [] if request.param == "memory" else ["--store", f"file:{tmp_path / 'state'}", "--capacity", "10000"]
    return serve(*store, config=RULES)


def acquire(server, limit, key):
    return server.post("/v1/acquire", {"limit": limit, "key": key})


def report(server, permit, outcome="success", **others):
    return server.post("/v1/report", {"permit": permit, "outcome": outcome, **others})


def test_http_and_resp_share_one_count_of_requests_in_flight(server):
    first = acquire(server, "few", "a").json
    assert (first["quota"], first["remaining"]) == (2, 1)
    with Wire(server.resp) as wire:
        permit = wire.command("WEIR.ACQUIRE", "few", "a")[6].decode()
        denied = acquire(server, "few", "a")
        assert denied.status == 429
        assert (denied.json["reason"], denied.json["retry_after_ms"]) == ("over_limit", 3000)
        assert wire.command("WEIR.REPORT", permit, "success", 12) == b"+OK"
        assert b"not held" in wire.command("WEIR.REPORT", permit, "success")
    assert acquire(server, "few", "a").status == 200
    assert report(server, first["permit"]).status == 200
    assert report(server, first["permit"]).status == 404


def test_prefetches_of_low_priority_make_way_for_page_views(server):
    def view(priority):
        return server.post("/v1/acquire", {"limit": "mixed", "key": "k", "priority": priority}).status

    with Wire(server.resp) as wire:
        prefetched = [wire.command("WEIR.ACQUIRE", "mixed", "k", "PRIORITY", 9)[0] for _ in range(20)]
        assert prefetched == [1] * 9 + [0] * 11
        # Each denial makes room for one more request of this priority. A draw takes some of it back, now and then.
        views = [view(0) for _ in range(12)]
        assert all(views[:n].count(200) <= views[:n].count(429) for n in range(len(views)))
        assert views.count(200) >= 4
        assert wire.command("WEIR.ACQUIRE", "mixed", "k", "PRIORITY", 9)[0] == 0
        assert wire.command("WEIR.ACQUIRE", "mixed", "other", "PRIORITY", 9)[0] == 1
    # Without requests of a lower priority beside it a denial makes no room.
    assert [acquire(server, "mixed", "alone").status for _ in range(12)] == [200] * 9 + [429] * 3


def test_timeouts_lower_the_quota_in_answers(server):
    for expected in [10, 9, 8]:
        answer = acquire(server, "late", "b").json
        assert answer["quota"] == expected
        assert report(server, answer["permit"], "timeout").status == 200


def test_a_request_that_a_later_rule_refuses_is_not_in_flight(server):
    request = {"attributes": {"service": "c", "user": "u"}}
    assert server.post("/v1/acquire", request).json["allowed"]
    for _ in range(5):
        assert server.post("/v1/acquire", request).json["limit"] == "once"
    assert server.get("/v1/peek/few?key=c").json["remaining"] == 1


def test_a_request_waits_in_a_bounded_queue(server):
    first, answers = acquire(server, "line", "d").json, []
    both = [threading.Thread(target=lambda: answers.append(acquire(server, "line", "d").json))
            for _ in range(2)]
    for each in both:
        each.start()
    until(lambda: answers, "one for which the queue has no room")
    assert answers[0]["reason"] == "queue_full"
    assert report(server, first["permit"]).status == 200
    for each in both:
        each.join(30)
    assert answers[1]["allowed"]
