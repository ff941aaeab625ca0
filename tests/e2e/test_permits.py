"""Permits over HTTP and RESP: a refund or report returns the units to their window, once."""

import pytest
from harness import Wire, until

RULES = """
limits:
  user: { algorithm: token_bucket, rate: 10/h, burst: 10 }
  site: { algorithm: sliding_window, rate: 20/h }
rules:
  - { name: by-user, match: { path: /login }, key: [user], limits: [user] }
  - { name: by-site, match: { path: /login }, limits: [site] }
"""


class HttpPermits:
    """Each method returns (allowed, remaining, permit), or the message of an error."""

    def __init__(self, server):
        self.server = server

    def call(self, path, **fields):
        answer = self.server.post(f"/v1/{path}", fields).json
        if "error" in answer:
            return answer["error"]["message"]
        if path == "report":
            return answer
        return answer["allowed"], answer["remaining"], answer.get("permit", "")

    def acquire(self, limit, key, cost=1):
        return self.call("acquire", limit=limit, key=key, cost=cost, permit=True)

    def refund(self, limit, key, permit, **cost):
        return self.call("refund", limit=limit, key=key, permit=permit, **cost)

    def report(self, permit, outcome="success"):
        return self.call("report", permit=permit, outcome=outcome, latency_ms=12)

    def peek(self, limit, key):
        return self.call("peek", limit=limit, key=key)[1]


class RespPermits:
    def __init__(self, server):
        self.server = server

    def call(self, *words):
        with Wire(self.server.resp) as wire:
            reply = wire.command(*words)
        if isinstance(reply, bytes):
            return {"ok": True} if reply == b"+OK" else reply[5:].decode()
        return bool(reply[0]), reply[2], reply[6].decode()

    def acquire(self, limit, key, cost=1):
        return self.call("WEIR.ACQUIRE", limit, key, "PERMIT", "COST", cost)

    def refund(self, limit, key, permit, **cost):
        return self.call("WEIR.REFUND", limit, key, "PERMIT", permit,
                         *(["COST", cost["cost"]] if cost else []))

    def report(self, permit, outcome="success"):
        return self.call("WEIR.REPORT", permit, outcome, 12)

    def peek(self, limit, key):
        return self.call("WEIR.PEEK", limit, key)[1]


PROTOCOLS = [HttpPermits, RespPermits]


@pytest.fixture(params=PROTOCOLS)
def client(request, server):
    return request.param(server)


@pytest.mark.parametrize("limit", ["login", "level", "window", "reset"])
def test_a_permit_is_refunded_once(client, key, limit):
    quota = client.peek(limit, key)
    allowed, _, permit = client.acquire(limit, key, 2)
    client.acquire(limit, key)
    assert allowed and permit
    assert client.report(permit) == {"ok": True}
    assert client.refund(limit, key, permit) == (True, quota - 1, "")
    assert client.refund(limit, key, permit) == (False, quota - 1, "")
    assert "not held" in client.report(permit)


def test_a_partial_refund_uses_up_the_permit(client, key):
    _, _, permit = client.acquire("login", key, 4)
    assert client.refund("login", key, permit, cost=1) == (True, 7, "")
    assert client.refund("login", key, permit) == (False, 7, "")


def test_a_denied_request_has_no_permit(client, key):
    client.acquire("one", key)
    assert client.acquire("one", key) == (False, 0, "")


def test_a_forged_permit_is_refused(client, key):
    _, _, permit = client.acquire("login", key)
    forged = [permit[:-2] + ("BB" if permit.endswith("AA") else "AA"),
              ("B" if permit.startswith("A") else "A") + permit[1:], permit + "A", permit[:-1], "x", "",
              "A" * len(permit), "Z" * 5000, "ä" + permit]
    assert {client.refund("login", key, text) for text in forged} == {
        "expected a permit that this server issued"}
    assert {client.report(text) for text in forged} == {
        "expected a permit that this server issued"}
    assert client.refund("login", key, permit) == (True, 10, "")


def test_a_permit_of_another_key_is_refused(client, key):
    _, _, permit = client.acquire("login", key)
    for limit, other in (("login", key + "x"), ("window", key)):
        client.acquire(limit, other)
        assert "the limit and the key" in client.refund(limit, other, permit)
    assert "the name of a limit" in client.refund("nowhere", key, permit)
    assert client.refund("login", key, permit) == (True, 10, "")


def test_a_permit_of_another_server_is_refused(client, serve, key):
    _, _, permit = client.acquire("login", key)
    other = serve()
    assert "this server issued" in type(client)(other).refund("login", key, permit)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_permit_stays_valid_over_a_reload(serve, protocol):
    config = "limits: {{ a: {{ algorithm: fixed_window, rate: {}/d, align: first_request }} }}"
    server = serve(config=config.format(5))
    client = protocol(server)
    _, _, permit = client.acquire("a", "k", 3)
    server.reload(config.format(8))
    server.line_with("reloaded")
    assert client.peek("a", "k") == 5
    assert client.refund("a", "k", permit) == (True, 8, "")
    _, _, permit = client.acquire("a", "k", 3)
    server.reload("limits: { b: { algorithm: token_bucket, rate: 5/h } }")
    server.line_with("reloaded")
    assert server.post("/v1/refund", {"permit": permit}).json["allowed"] is False


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_permit_stays_valid_over_a_restart_with_a_store_file(serve, tmp_path, protocol):
    flags = ["--store", f"file:{tmp_path}/state", "--capacity", "10000"]
    server = serve(*flags)
    _, _, first = protocol(server).acquire("login", "k", 2)
    _, _, second = protocol(server).acquire("login", "k", 3)
    protocol(server).refund("login", "k", first)
    assert server.stop() == 0
    client = protocol(serve(*flags))
    assert client.refund("login", "k", first) == (False, 7, "")
    assert client.refund("login", "k", second) == (True, 10, "")


def test_a_permit_of_rules_covers_all_charged_limits(serve):
    server = serve(config=RULES)
    request = {"attributes": {"path": "/login", "user": "u"}, "cost": 3, "permit": True}
    client = HttpPermits(server)
    first, second = (server.post("/v1/acquire", request).json["permit"] for _ in range(2))
    # The refund ignores other attributes beside the permit, and later rules.
    server.reload(RULES.replace("/login", "/elsewhere"))
    server.line_with("reloaded")
    refund = {"attributes": {"path": "/login", "user": "v"}, "permit": first}
    assert server.post("/v1/refund", refund).json["allowed"] is True
    assert (client.peek("user", "u"), client.peek("site", "")) == (7, 17)
    assert server.post("/v1/refund", refund).json["allowed"] is False
    assert (client.peek("user", "u"), client.peek("site", "")) == (7, 17)
    # A refund that names one of the keys refunds all of them.
    assert client.refund("site", "", second) == (True, 10, "")
    assert (client.peek("user", "u"), client.peek("site", "")) == (10, 20)


FIRST = """
order: first
limits:
  trusted: { algorithm: fixed_window, rate: 2/h, align: first_request }
  login: { algorithm: token_bucket, rate: 5/h, burst: 5 }
  flight: { algorithm: concurrency, max: 2, lease: 1h }
rules:
  - { name: banned, match: { user: mallory }, answer: deny }
  - { name: many, match: { user: ann }, key: [user], limits: [trusted], answer: allow }
  - { name: logins, match: { path: /login }, limits: [login, flight] }
  - { name: office, match: { ip: 10.0.0.0/8 }, answer: allow }
"""


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_with_first_match_a_permit_covers_the_charged_limits(serve, start_redis, store):
    """A rule that answers beyond its limits charges nothing, so its requests have no permit."""
    config = f"store: {start_redis().url}\nstore_timeout: 30s\n" if store == "redis" else ""
    server = serve(config=config + FIRST)
    client = HttpPermits(server)

    def take(**attributes):
        answer = server.post("/v1/acquire", {"attributes": attributes, "permit": True}).json
        return answer["allowed"], answer["reason"], answer.get("permit", "")

    def left():
        return client.peek("trusted", "ann"), client.peek("login", ""), client.peek("flight", "")

    first, second = (take(path="/login", user="ann") for _ in range(2))
    assert first[0] and second[0] and first[2] and second[2]
    assert left() == (0, 3, 0)
    # The limits of `many` are exceeded now, and it decides before `logins`, which has no permit left.
    assert take(path="/login", user="ann") == (True, "listed", "")
    assert take(path="/login", user="bob") == (False, "over_limit", "")
    assert take(path="/login", user="mallory") == (False, "listed", "")
    assert left() == (0, 3, 0)
    assert client.report(first[2]) == {"ok": True}
    assert left() == (0, 3, 1)
    assert client.refund("login", "", second[2])[0] is True
    assert left() == (1, 4, 2)
    assert client.refund("login", "", second[2])[0] is False
    # A request that a rule answers after rules with capacity charges none of these.
    assert take(path="/x", ip="10.0.0.1") == (True, "listed", "")
    assert take(path="/login", ip="10.0.0.1") == (True, "listed", "")
    assert left() == (1, 4, 2)
    assert take(path="/login", user="bob")[0] is True
    assert left() == (1, 3, 1)


def test_a_request_that_no_rule_charges_has_no_permit(serve):
    server = serve(config=RULES)
    answer = server.post("/v1/acquire", {"attributes": {"path": "/other"}, "permit": True})
    assert answer.json["allowed"] is True and "permit" not in answer.json


def test_more_charges_than_a_permit_covers_are_refused_and_consume_nothing(serve):
    limits = "\n".join(f"  l{i}: {{ algorithm: token_bucket, rate: 5/h }}" for i in range(17))
    server = serve(config=f"limits:\n{limits}\nrules:\n  - {{ limits: "
                          f"[{', '.join(f'l{i}' for i in range(17))}] }}")
    answer = server.post("/v1/acquire", {"attributes": {}, "permit": True})
    assert (answer.status, answer.json["error"]["code"]) == (400, "too_long")
    assert "at most 16 limits" in answer.json["error"]["message"]
    assert HttpPermits(server).peek("l0", "") == 5
    assert server.post("/v1/acquire", {"attributes": {}}).status == 200


def test_queries_and_batches_can_return_permits(server, key):
    permit = server.get(f"/v1/acquire/login?key={key}&cost=2&permit=true").json["permit"]
    assert server.post("/v1/report", {"permit": permit, "outcome": "failure"}).json == {"ok": True}
    batch = server.post("/v1/batch", [
        {"limit": "login", "key": key, "permit": True},
        {"op": "refund", "permit": permit}, {"op": "refund", "permit": permit},
        {"op": "refund", "limit": "login", "key": key, "permit": "x"}]).json
    assert [item.get("allowed") for item in batch] == [True, True, False, None]
    assert [item.get("remaining") for item in batch] == [7, 9, 9, None]
    assert server.post("/v1/refund", {"permit": batch[0]["permit"]}).json["remaining"] == 10


def test_the_status_of_a_permit_call_says_spent_not_held_or_forged(server, key):
    permit = server.get(f"/v1/acquire/login?key={key}&permit=true").json["permit"]
    spent = [server.post("/v1/refund", {"permit": permit}) for _ in range(2)][1]
    assert (spent.status, spent.json["allowed"]) == (200, False)
    assert "Retry-After" not in spent.headers
    gone = server.post("/v1/report", {"permit": permit, "outcome": "success"})
    assert (gone.status, gone.json["error"]["code"]) == (404, "permit_not_held")
    forged = server.post("/v1/report", {"permit": permit[1:], "outcome": "success"})
    assert (forged.status, forged.json["error"]["code"]) == (400, "bad_request")


def test_permits_are_counted(serve):
    server = serve()
    client = HttpPermits(server)
    permits = [client.acquire("login", "k")[2] for _ in range(3)]
    client.report(permits[0])
    for permit in permits[:2] * 2:
        client.refund("login", "k", permit)
    page = server.get("/metrics").text
    for event, count in {"handed_out": 3, "reported": 1, "refunded": 2, "not_held": 2}.items():
        assert f'weir_permits_total{{event="{event}"}} {count}\n' in page


# Limits on requests in flight

FLIGHT = """
limits:
  flight: { algorithm: concurrency, max: 2, lease: LEASE }
  login: { algorithm: token_bucket, rate: 5/h }
rules:
  - { name: both, match: { path: /both }, limits: [login, flight] }
  - { name: shadow, match: { path: /shadow }, limits: [flight], mode: shadow }
  - { name: beside, match: { path: /shadow }, limits: [login] }
"""


def check(server, path):
    with Wire(server.resp) as wire:
        reply = wire.command("WEIR.CHECK", "path", path)
    return bool(reply[0]), reply[6].decode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_concurrency_limits_always_return_a_permit_which_is_released_once(serve, protocol):
    client = protocol(serve(config=FLIGHT.replace("LEASE", "1h")))
    take = {HttpPermits: lambda: client.call("acquire", limit="flight", key="k"),
            RespPermits: lambda: client.call("WEIR.ACQUIRE", "flight", "k")}[protocol]
    first, second, denied = take(), take(), take()
    assert [answer[:2] for answer in (first, second, denied)] == [(True, 1), (True, 0), (False, 0)]
    assert first[2] and second[2] and not denied[2]
    for outcome in ("failure", "success"):
        told = client.report(first[2], outcome)
        assert told == {"ok": True} if outcome == "failure" else "not held" in told
        assert client.peek("flight", "k") == 1
    assert client.refund("flight", "k", second[2]) == (True, 2, "")
    assert client.refund("flight", "k", second[2]) == (False, 2, "")
    third = take()
    assert third[:2] == (True, 1)
    assert client.refund("flight", "k", first[2]) == (False, 1, "")


def test_a_permit_is_released_when_its_lease_ends(serve):
    server = serve(config=FLIGHT.replace("LEASE", "50ms"))
    client = HttpPermits(server)
    permits = [client.call("acquire", limit="flight", key="k")[2] for _ in range(2)]
    until(lambda: client.peek("flight", "k") == 2, "the lease to end")
    assert [client.report(permit) for permit in permits] == [
        "the permit is not held: it was reported or refunded before, or has expired"] * 2


def test_a_report_releases_permits_of_rules_and_a_refund_also_counts(serve):
    server = serve(config=FLIGHT.replace("LEASE", "1h"))
    client = RespPermits(server)
    (_, first), (_, second) = check(server, "/both"), check(server, "/both")
    assert check(server, "/both") == (False, "")
    assert (client.peek("flight", ""), client.peek("login", "")) == (0, 3)
    assert client.report(first) == {"ok": True}
    assert (client.peek("flight", ""), client.peek("login", "")) == (1, 3)
    assert "not held" in client.report(first)
    assert client.refund("login", "", first)[0] is False
    assert client.refund("login", "", second)[0] is True
    assert (client.peek("flight", ""), client.peek("login", "")) == (2, 4)


def test_a_denied_request_is_not_in_flight(serve):
    server = serve(config=FLIGHT.replace("LEASE", "1h"))
    client = RespPermits(server)
    for _ in range(5):
        client.report(check(server, "/both")[1])
    assert client.peek("login", "") == 0
    for path in ("/both", "/both", "/both", "/shadow", "/shadow", "/shadow"):
        assert check(server, path) == (False, "")
    assert client.peek("flight", "") == 2


def test_a_report_releases_permits_of_shadow_rules(serve):
    server = serve(config=FLIGHT.replace("LEASE", "1h"))
    client = RespPermits(server)
    permits = [check(server, "/shadow")[1] for _ in range(3)]
    assert client.peek("flight", "") == 0
    assert client.report(permits[0]) == client.report(permits[1]) == {"ok": True}
    assert client.peek("flight", "") == 2
