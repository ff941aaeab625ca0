"""/v1/events, which streams events of the server as server-sent events."""

import contextlib
import json
import re

import pytest

from harness import Wire, until

CONFIG = """
limits:
  relief: { algorithm: random, deny: 0 }
  one: { algorithm: token_bucket, rate: 1/h }
"""
STREAMS = 64


class Follower(Wire):
    """A client that parses a stream of events as the HTML standard defines it."""

    def __init__(self, server, last=None, before=b"", query=""):
        super().__init__(server.http)
        header = f"Last-Event-ID: {last}\r\n" if last is not None else ""
        self.send(before + f"GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n".encode())

    def head(self):
        lines = []
        while (line := self.file.readline().rstrip(b"\r\n")):
            lines.append(line.decode())
        return lines

    def event(self):
        """(id, name, data) of the next event, or None if the stream has ended. Skips comments."""
        found = {}
        while True:
            line = self.file.readline()
            if not line:
                return None
            line = line.decode().rstrip("\n")
            if not line and found:
                return found.get("id"), found["event"], json.loads(found["data"])
            if line and not line.startswith(":"):
                name, value = line.split(": ", 1)
                found[name] = value

    def named(self, name):
        while (event := self.event())[1] != name:
            pass
        return event


def shed(server, deny):
    assert server.post("/v1/shed", {"limit": "relief", "deny": deny}).status == 200


def test_each_event_is_sent_to_all_followers_when_it_happens(serve):
    server = serve(config=CONFIG)
    with Follower(server) as one, Follower(server) as other:
        for follower in (one, other):
            head = follower.head()
            assert head[0] == "HTTP/1.1 200 OK" and "Content-Type: text/event-stream" in head
        shed(server, 0.5)
        for follower in (one, other):
            number, name, data = follower.event()
            assert name == data["event"] == "shed" and data["deny"] == "0.5"
            assert data["by"] == "127.0.0.1" and data["level"] == "info"
        server.reload(CONFIG + "  fresh: { algorithm: token_bucket, rate: 1/s }\n")
        following, _, data = one.named("reloaded")
        assert int(following) > int(number) and data["limits"] == 3
        server.reload("limits: [")
        assert one.named("reload_failed")[2]["level"] == "error"


def test_a_client_that_reconnects_continues_after_its_last_event(serve):
    server = serve(config=CONFIG)
    with Follower(server) as follower:
        follower.head()
        shed(server, 0.1)
        last = follower.event()[0]
    shed(server, 0.2)
    shed(server, 0.3)
    with Follower(server, last) as follower:
        follower.head()
        assert [follower.event()[2]["deny"] for _ in range(2)] == ["0.2", "0.3"]
    with Follower(server, "of-another-server") as follower:
        follower.head()
        shed(server, 0.4)
        assert follower.event()[2]["deny"] == "0.4"


def test_the_stream_follows_earlier_answers_and_ends_the_requests_of_its_connection(serve, key):
    server = serve(config=CONFIG + "  queue: { algorithm: pacer, rate: 10/s, slack: 0 }\n")
    ask = f"GET /v1/acquire/queue?key={key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with Follower(server, before=2 * ask) as follower:
        follower.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        shed(server, 0.1)
        for _ in range(2):
            assert follower.head()[0] == "HTTP/1.1 200 OK"
            body = follower.file.read(follower_length(follower))
            assert json.loads(body)["allowed"]
        assert "Content-Type: text/event-stream" in follower.head()
        shed(server, 0.2)
        assert follower.named("shed")[2]["deny"] in ("0.1", "0.2")


def follower_length(follower):
    """The length of a decision in JSON, which has no nested objects."""
    peeked = follower.file.peek()
    return peeked.index(b"}") + 1


def test_the_number_of_followers_is_bounded_and_other_clients_are_served(serve, key):
    server = serve(config=CONFIG)
    with contextlib.ExitStack() as stack:
        followers = [stack.enter_context(Follower(server)) for _ in range(STREAMS)]
        for follower in followers:
            assert follower.head()[0] == "HTTP/1.1 200 OK"
        refused = server.get("/v1/events")
        assert refused.status == 503 and "follow" in refused.json["error"]["message"]
        assert server.get(f"/v1/acquire/one?key={key}").json["allowed"]
        shed(server, 0.5)
        for follower in followers:
            assert follower.event()[1] == "shed"
        assert "weir_event_streams 64\n" in server.get("/metrics").text
    until(lambda: "weir_event_streams 0\n" in server.get("/metrics").text, "all to be gone")
    with Follower(server) as follower:
        assert follower.head()[0] == "HTTP/1.1 200 OK"


def test_a_follower_that_does_not_read_delays_no_other(serve):
    server = serve(config=CONFIG)
    with Follower(server) as deaf, Follower(server) as follower, Wire(server.resp) as wire:
        follower.head()
        told = missed = 0
        for i in range(3000):  # the log drops lines beyond a burst of a hundred and ten a second
            assert wire.command("WEIR.SHED", "relief", str(i / 4000)) == b"+OK"
        assert follower.named("shed")[2]["deny"] == "0"
        assert deaf.head()[0] == "HTTP/1.1 200 OK"
        while told + missed < 50:
            _, name, data = deaf.event()
            told += name == "shed"
            missed += data["count"] if name == "missed" else 0


def test_a_stop_ends_the_streams(serve):
    server = serve(config=CONFIG)
    with Follower(server) as follower:
        follower.head()
        assert server.stop() == 0
        names = []
        while (event := follower.event()):
            names.append(event[1])
        assert names in ([], ["stopping"])


def deny_often(server, times, rule="one"):
    """Denies a key of a limit, which counts as a rule, more often than denials are kept."""
    for _ in range(times):
        server.post("/v1/batch", [{"limit": rule, "key": "ann"}] * 100)


def test_denials_are_events_for_those_who_ask_for_them(serve):
    server = serve(config=CONFIG + "denials: { per_second: 3 }\n")
    with Follower(server, query="?denials=yes") as follower, Follower(server, query="?denials=no") as other:
        follower.head(), other.head()
        deny_often(server, 1)
        shed(server, 0.5)
        kept = server.get("/v1/denials").json  # three, or six if a second has ended between the denials
        received = [follower.event() for _ in range(len(kept) + 1)]
        assert len(kept) in (3, 6)
        assert sorted(event[1] for event in received) == ["denial"] * len(kept) + ["shed"]
        denials = [data for _, name, data in received if name == "denial"]
        assert denials == kept[::-1]
        assert all(number is None for number, name, _ in received if name == "denial")
        assert other.event()[1] == "shed"


def test_denials_push_out_no_other_events(serve):
    server = serve(config=CONFIG + "denials: { per_second: 1000000 }\n")
    shed(server, 0.5)
    with Follower(server, query="?denials=yes") as follower:
        follower.head()
        deny_often(server, 10)
    shed(server, 0.25)
    with Follower(server, last=0, query="?denials=yes") as follower:
        follower.head()
        shed(server, 0.125)
        assert follower.event()[2]["deny"] == "0.125"
    with Follower(server, last=1) as follower:
        follower.head()
        shed(server, 0)
        assert "missed" not in [follower.event()[1] for _ in range(2)]


def test_the_log_has_at_most_one_denial_a_second_and_rule_and_no_secret(serve):
    server = serve("--log-format", "json", config=CONFIG + """
  tokens: { algorithm: fixed_window, rate: 1/h, align: first_request }
rules: [ { name: by-token, key: [header.x-api-key], limits: [tokens] } ]
denials: { key: full }
""")
    deny_often(server, 1)
    for _ in range(3):
        server.get("/auth", {"X-Api-Key": "s3cret"})
    assert server.stop() == 0
    until(lambda: server.lines.queue and server.lines.queue[-1] is None, "the end of its log")
    text = [*server.log, *(line for line in server.lines.queue if line)]
    lines = [json.loads(line) for line in text if '"event":"denied"' in line]
    for name in ("", "by-token"):
        seconds = [line["time"][:19] for line in lines if line["rule"] == name]
        assert seconds and len(seconds) == len(set(seconds))
    assert not any("s3cret" in line or '"ann"' in line for line in text)
    assert all(len(line["key"]) == len(line["id"]) == 16 and line["reason"] == "over_limit" for line in lines)


@pytest.mark.parametrize("query", ["?denials=maybe", "?denials", "?what=1"])
def test_a_wrong_parameter_is_an_error(serve, query):
    answer = serve(config=CONFIG).get(f"/v1/events{query}")
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith("expected only denials=yes or denials=no, found '")


@pytest.mark.parametrize("request_line, status", [
    ("POST /v1/events", 405), ("HEAD /v1/events", 405), ("GET /v1/events/", 404)])
def test_only_get_follows(serve, request_line, status):
    server = serve(config=CONFIG)
    method, path = request_line.split()
    assert server.get(path, method=method).status == status


def test_only_an_operator_follows(serve):
    server = serve(config=CONFIG)
    for headers in ({"Via": "1.1 proxy"}, {"Origin": "http://elsewhere.example"}):
        assert server.get("/v1/events", headers).status == 403
    assert re.search(r"^weir_event_streams 0$", server.get("/metrics").text, re.M)
