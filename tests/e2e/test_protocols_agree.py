"""All protocols count one key in one count, and rules decide the same over each."""

import threading

from harness import Wire, weir


def test_resp_http_auth_and_ask_share_one_count(server):
    address = "192.0.2.77"  # the key of a rule with one attribute is its value
    remaining = []
    with Wire(server.resp) as wire:
        remaining.append(wire.command("WEIR.ACQUIRE", "login", address)[2])
        remaining.append(wire.command("WEIR.CHECK", "path", "/login", "ip", address)[2])
    remaining.append(server.get(f"/v1/acquire/login?key={address}").json["remaining"])
    remaining.append(server.post("/v1/acquire", {"limit": "login", "key": address}).json["remaining"])
    remaining.append(server.post(
        "/v1/acquire", {"attributes": {"path": "/login", "ip": address}}).json["remaining"])
    headers = {"X-Original-URI": "/login", "X-Forwarded-For": address}
    assert server.get("/auth", headers).status == 200
    assert weir("ask", "login", address, "--server", f"127.0.0.1:{server.resp}").returncode == 0
    remaining.append(server.get(f"/v1/peek/login?key={address}").json["remaining"])
    assert remaining == [9, 8, 7, 6, 5, 3]


def test_parallel_connections_of_both_protocols_never_exceed_the_limit(serve):
    server = serve("--threads", "4", config="""
limits:
  shared: { algorithm: token_bucket, rate: 100/h }
""")
    passed = []

    def by_resp():
        with Wire(server.resp) as wire:
            passed.append(sum(wire.command("WEIR.ACQUIRE", "shared", "k")[0] for _ in range(50)))

    def by_http():
        passed.append(sum(server.get("/v1/acquire/shared?key=k").status == 200 for _ in range(50)))

    threads = [threading.Thread(target=work) for work in (by_resp, by_http) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 8
    assert sum(passed) == 100


RULES = """
limits:
  wide: { algorithm: token_bucket, rate: 10/h }
  narrow: { algorithm: fixed_window, rate: 2/h, align: first_request }
  shadowed: { algorithm: token_bucket, rate: 1/h }
rules:
  - { name: wide, match: { path: "/both*" }, key: [ip], limits: [wide] }
  - { name: narrow, match: { path: /both }, key: [ip], limits: [narrow], result: { message: slow down } }
  - { name: shadow, match: { path: "/both*" }, key: [ip], limits: [shadowed], mode: shadow }
  - { name: pair, match: { path: /pair }, key: [a, b], limits: [wide] }
  - { name: friends, match: { ip: [10.0.0.0/8, "192.168.1.*"] }, answer: allow }
  - { name: foes, match: { ip: 203.0.113.0/24 }, answer: deny }
"""


def check(wire, **attributes):
    return wire.command("WEIR.CHECK", *[word for pair in attributes.items() for word in pair])


def test_a_denied_request_consumes_from_none_of_its_limits(serve):
    with Wire(serve(config=RULES).resp) as wire:
        replies = [check(wire, path="/both", ip="1.1.1.1") for _ in range(5)]
        assert [reply[0] for reply in replies] == [1, 1, 0, 0, 0]
        # An allowed answer reports the tightest limit, a denied one the first that denied.
        assert {(reply[7], reply[8]) for reply in replies} == {(b"narrow", b"narrow")}
        assert wire.command("WEIR.PEEK", "wide", "1.1.1.1")[2] == 8


def test_a_shadow_rule_counts_on_its_own_and_never_denies(serve):
    with Wire(serve(config=RULES).resp) as wire:
        assert [check(wire, path="/both/x", ip="1.1.1.1")[0] for _ in range(3)] == [1, 1, 1]
        assert wire.command("WEIR.PEEK", "shadowed", "1.1.1.1")[0] == 0


def test_keys_of_several_attributes_are_not_just_joined(serve):
    with Wire(serve(config=RULES).resp) as wire:
        assert check(wire, path="/pair", a="a|b", b="c")[2] == 9
        assert check(wire, path="/pair", a="a", b="b|c")[2] == 9
        assert check(wire, path="/pair", a="ab", b="c")[2] == 9
        assert check(wire, path="/pair", a="a", b="bc")[2] == 9


def test_a_rule_that_answers_by_itself_takes_precedence_over_limits(serve):
    server = serve(config=RULES)
    with Wire(server.resp) as wire:
        for ip in ("10.1.2.3", "192.168.1.9"):
            assert {check(wire, path="/both", ip=ip)[0] for _ in range(5)} == {1}
        assert check(wire, path="/both", ip="203.0.113.5")[5] == b"listed"
        assert check(wire, path="/both", ip="203.0.114.5")[0] == 1
    denied = server.post("/v1/acquire", {"attributes": {"ip": "203.0.113.5"}})
    assert (denied.status, denied.json["reason"]) == (429, "listed")
    assert (denied.json["retry_after_ms"], denied.headers["Retry-After"]) == (1000, "1")


def test_the_result_of_a_rule_is_in_its_denial(serve):
    server = serve(config=RULES)
    body = {"attributes": {"path": "/both", "ip": "1.1.1.1"}}
    answers = [server.post("/v1/acquire", body) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].json["message"] == "slow down"
