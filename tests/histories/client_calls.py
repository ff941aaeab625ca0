"""
Requests to real servers, in each protocol, and to the library. An answer is (allowed, remaining, reason,
limit, rule), or an error.
"""

import contextlib
import http.client
import json
import pathlib
import subprocess
import sys

import h2.exceptions

import history as format_of
from player import BUILD, PATIENCE, decision, escape

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from harness import Http, Wire, encode  # noqa: E402
from test_http2 import Http2  # noqa: E402

# How requests are sent together. Streams of HTTP/2 have no order among them; the elements of a batch have.
ORDERED = ["pipeline", "multi", "http", "batch", "batch over http2"]
WAYS = [*ORDERED, "http2", "library"]


def resp(request, key):
    op = request["op"]
    if op in ("check", "checkpeek"):
        return [f"WEIR.{op.upper()}", "k", key]
    cost = ["COST", request["cost"]] if "cost" in request else []
    return [f"WEIR.{op.upper()}", request["limit"], key, *cost]


def from_resp(request, reply):
    if not isinstance(reply, list):
        return ("error", "cost" if b"cost" in reply or b"grant" in reply else reply.decode())
    allowed, _, remaining, _, _, reason = reply[:6]
    if len(reply) > 7:
        return allowed, remaining, reason.decode(), reply[7].decode(), reply[8].decode()
    return allowed, remaining, reason.decode(), request["limit"], ""


def item(request, key):
    op = request["op"]
    what = {"attributes": {"k": key}} if op in ("check", "checkpeek") else \
        {"limit": request["limit"], "key": key}
    return {**what, **({"cost": request["cost"]} if "cost" in request else {})}


def verb(request):
    return {"check": "acquire", "checkpeek": "peek"}.get(request["op"], request["op"])


def from_json(request, value):
    if "error" in value:
        return ("error", "cost" if "cost" in value["error"]["code"] else value["error"]["code"])
    is_rule = request["op"] in ("check", "checkpeek")
    return (int(value["allowed"]), value.get("remaining"), value["reason"], value.get("limit"),
            value.get("rule", "") if is_rule else "")


def http_bytes(request, key):
    body = json.dumps(item(request, key)).encode()
    return (b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
            % (verb(request).encode(), len(body), body))


def http_reply(wire):
    length = 0
    wire.file.readline()
    while (line := wire.file.readline()) != b"\r\n":
        assert line, "the connection has ended"
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(wire.file.read(length))


def ask_batch(server, how, requests, key):
    body = json.dumps([{**item(request, key), "op": verb(request)} for request in requests])
    if how == "batch":
        with Http(server.http) as client:
            values = client.request("POST", "/v1/batch", body, {"Content-Type": "application/json"}).json
    else:
        with Http2(server) as client:
            values = json.loads(client.get("/v1/batch", method="POST", body=body.encode())[2])
    return [from_json(request, value) for request, value in zip(requests, values)]


def replies_of(wire, how, commands):
    """The replies to commands that are sent together, in a transaction if `how` is "multi"."""
    words = b"".join(encode(*command) for command in commands)
    if how == "multi":
        wire.send(encode("MULTI") + words + encode("EXEC"))
        return [wire.reply() for _ in range(len(commands) + 2)][-1]
    wire.send(words)
    return [wire.reply() for _ in commands]


def ask(server, how, requests, key):
    """The answers of requests that are sent together."""
    if how in ("pipeline", "multi"):
        with Wire(server.resp) as wire:
            replies = replies_of(wire, how, [resp(request, key) for request in requests])
        return [from_resp(request, reply) for request, reply in zip(requests, replies)]
    if how == "http":
        with Wire(server.http) as wire:
            wire.send(b"".join(http_bytes(request, key) for request in requests))
            return [from_json(request, http_reply(wire)) for request in requests]
    if how == "library":
        return [server.library.ask(request, key) for request in requests]
    if how.startswith("batch"):
        return ask_batch(server, how, requests, key)
    with Http2(server) as client:
        streams = [client.ask(f"/v1/{verb(request)}", "POST", body=json.dumps(item(request, key)).encode())
                   for request in requests]
        return [from_json(request, json.loads(body))
                for request, (_, _, body) in zip(requests, client.wait(*streams))]


def comparable(request, answer):
    """What the answer to a request by rules says of a limit without a rule depends on the protocol."""
    return answer[:4] if answer[0] != "error" else answer[:1]


class Broken(Exception):
    """The connection has ended, so nobody knows which requests took effect."""


def ask_broken(server, how, requests, key):
    """As `ask`, where connections may end at any time."""
    try:
        return ask(server, how, requests, key)
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException, h2.exceptions.ProtocolError, ValueError, IndexError, KeyError,
            AssertionError) as failure:
        raise Broken(str(failure)) from failure


class Library:
    """A program that uses libweir, with counts at the Redis of a port. It asks one request after another."""

    def __init__(self, port, config, timeout_ms, nodes, build=BUILD):
        self.process = subprocess.Popen([build / "tests" / "histories" / "library", str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        text = format_of.yaml(config)
        self._say(f"server 0 redis 0 0 {timeout_ms * 10**6} {nodes}")
        self._say(f"config 0 {len(text.encode())}\n{text}"[:-1])

    def _say(self, line):
        self.process.stdin.write(f"{line}\n\n".encode())
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().split()

    def ask(self, request, key):
        cost = request.get("cost", 1)
        op, key = request["op"], escape(key)
        if op == "check":
            words = self._say(f"check 0 {cost} - 0 - k={key}")
        elif op == "checkpeek":
            words = self._say(f"checkpeek 0 {cost} k={key}")
        elif op == "acquire":
            words = self._say(f"acquire 0 {request['limit']} {key} {cost} - 0 -")
        else:
            words = self._say(f"{op} 0 {request['limit']} {key} {cost}")
        answer = decision(words)
        if answer["status"]:
            return ("error", answer["status"])
        return (answer["allowed"], answer["remaining"], answer["reason"], answer["limit"], answer["rule"])

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE)
