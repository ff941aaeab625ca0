"""Limits that shed, by both protocols."""

from harness import Wire

CONFIG = """
limits:
  relief: { algorithm: random, deny: 0 }
  plain: { algorithm: token_bucket, rate: 1/h }
"""


def test_what_is_shed_changes_while_running_and_stays_over_a_reload(serve, key):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "relief", key)[0] == 1
        assert wire.command("WEIR.SHED", "relief", "1") == b"+OK"
        denied = server.get(f"/v1/acquire/relief?key={key}")
        assert (denied.status, denied.json["reason"], denied.json["retry_after_ms"]) == (
            503, "shed", 1000)
        server.reload(CONFIG + "  fresh: { algorithm: token_bucket, rate: 1/s }\n")
        while server.get(f"/v1/peek/fresh?key={key}").status != 200:
            pass
        assert wire.command("WEIR.ACQUIRE", "relief", key)[0] == 0
        assert '"deny":1,' in server.get("/v1/limits").text
        answer = server.post("/v1/shed", {"limit": "relief", "deny": 0.0})
        assert (answer.status, answer.json) == (200, {"limit": "relief", "deny": 0})
        assert wire.command("WEIR.ACQUIRE", "relief", key)[0] == 1


def test_only_a_random_limit_sheds_and_only_a_share(serve, key):
    server = serve(config=CONFIG)
    for body, status, found in (
            ({"limit": "plain", "deny": 0.5}, 400, "random"),
            ({"limit": "nowhere", "deny": 0.5}, 404, "nowhere"),
            ({"limit": "relief", "deny": 1.5}, 400, "0 to 1"),
            ({"limit": "relief"}, 400, "limit and deny"),
            ({"limit": "relief", "deny": 0.5, "key": "k"}, 400, "nothing else")):
        answer = server.post("/v1/shed", body)
        assert answer.status == status
        assert found in answer.json["error"]["message"]
    refused = server.post("/v1/acquire", {"limit": "plain", "key": key, "deny": 0.5})
    assert refused.status == 400
