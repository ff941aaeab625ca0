"""HTTP/2 on the port of HTTP: the same answers, parallel streams, and bounds against floods."""

import base64
import contextlib
import socket
import subprocess
import time
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest
from h2.errors import ErrorCodes
from harness import BUILD, CONFIG, PATIENCE, Http, metric, until
from hyperframe import frame as frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Http2:
    """A connection that collects the answers of its streams."""

    def __init__(self, server, window=None):
        self.socket = socket.create_connection(("127.0.0.1", server.http), timeout=10)
        config = h2.config.H2Configuration(validate_outbound_headers=False,
                                           normalize_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        if window is not None:
            self.h2.local_settings = h2.settings.Settings(client=True, initial_values={
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.answers, self.resets, self.goaway, self.last, self.ended = {}, {}, None, None, False
        self.informed = {}  # the status codes of interim answers
        self.h2.initiate_connection()
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, path, method="GET", headers=(), body=None, authority="127.0.0.1", end=True):
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path)]
        self.answers[stream] = [None, {}, b"", False]
        self.h2.send_headers(stream, fields + list(headers), end_stream=body is None and end)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=end)
        return stream

    def read(self):
        """Reads the next bytes. Returns False if the server has ended the connection."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.ended = not data
        for event in self.h2.receive_data(data) if data else ():
            if isinstance(event, h2.events.ResponseReceived):
                headers = dict(event.headers)
                self.answers[event.stream_id][0] = int(headers.pop(b":status"))
                self.answers[event.stream_id][1] = headers
            elif isinstance(event, h2.events.InformationalResponseReceived):
                self.informed.setdefault(event.stream_id, []).append(int(dict(event.headers)[b":status"]))
            elif isinstance(event, h2.events.DataReceived):
                self.answers[event.stream_id][2] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.answers[event.stream_id][3] = True
            elif isinstance(event, h2.events.StreamReset):
                self.resets[event.stream_id] = ErrorCodes(event.error_code)
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway, self.last = ErrorCodes(event.error_code), event.last_stream_id
        return not self.ended

    def wait(self, *streams):
        """Waits for the answers of the streams: [(status, fields, body)]."""
        self.flush()
        while not all(self.answers[s][3] or s in self.resets for s in streams) and self.read():
            try:
                self.flush()
            except h2.exceptions.ProtocolError:
                break
        return [tuple(self.answers[s][:3]) for s in streams]

    def get(self, path, **how):
        return self.wait(self.ask(path, **how))[0]


def raw(server):
    """A socket that has sent the preface of HTTP/2."""
    connection = socket.create_connection(("127.0.0.1", server.http), timeout=10)
    connection.sendall(PREFACE + frames.SettingsFrame(0).serialize())
    return connection


def goaway_of(data):
    """The code of the GOAWAY among frames, or None."""
    while len(data) >= 9:
        frame, length = frames.Frame.parse_frame_header(memoryview(data[:9]))
        if isinstance(frame, frames.GoAwayFrame):
            frame.parse_body(memoryview(data[9:9 + length]))
            return ErrorCodes(frame.error_code)
        data = data[9 + length:]
    return None


def flood(server, piece, count, first=b""):
    """Sends `piece` `count` times; returns the code of the GOAWAY that ended the connection."""
    got = b""
    with raw(server) as connection:
        try:
            connection.sendall(first)
            for _ in range(count):
                connection.sendall(piece)
                connection.setblocking(False)
                try:
                    got += connection.recv(1 << 20)
                except BlockingIOError:
                    pass
                connection.settimeout(10)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            while part := connection.recv(1 << 20):
                got += part
        except (ConnectionResetError, TimeoutError):
            pass
    return goaway_of(got)


def resident_kib(server):
    """Resident memory, or 0 with the address sanitizer, which keeps freed memory and has shadow memory."""
    if BUILD.name == "asan":
        return 0
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


ROUTES = [
    ("GET", "/v1/acquire/login?key={key}", None, ()),
    ("POST", "/v1/acquire", b'{"limit":"login","key":"{key}","cost":2}', ()),
    ("POST", "/v1/acquire", b'{"limit":"none","key":"{key}"}', ()),
    ("POST", "/v1/acquire", b'{', ()),
    ("GET", "/v1/peek/login?key={key}", None, ()),
    ("HEAD", "/v1/peek/login?key={key}", None, ()),
    ("POST", "/v1/peek", b'{"limit":"login","key":"{key}"}', ()),
    ("POST", "/v1/refund", b'{"limit":"login","key":"{key}"}', ()),
    ("POST", "/v1/reset", b'{"limit":"login","key":"{key}"}', ()),
    ("POST", "/v1/batch", b'[{"limit":"login","key":"{key}"},{"limit":"x","key":"y"}]', ()),
    ("POST", "/throttle",
     b'{"key":"{key}","max_burst":5,"count_per_period":10,"period":60}', ()),
    ("GET", "/auth", None, (("x-forwarded-uri", "/a?b"), ("x-forwarded-for", "10.0.0.1"))),
    ("GET", "/auth", None, (("x-forwarded-uri", "/a"), ("x-original-uri", "/b"))),
    ("GET", "/auth?deny=99", None, ()),
    ("GET", "/auth/x", None, ()),
    ("GET", "/v1/limits", None, ()),
    ("GET", "/v1/top?n=0", None, ()),
    ("GET", "/v1/limits", None, (("origin", "http://elsewhere.example"),)),
    ("GET", "/health", None, ()),
    ("HEAD", "/healthz", None, ()),
    ("GET", "/readyz", None, ()),
    ("GET", "/nothing/here", None, ()),
    ("DELETE", "/v1/acquire", None, ()),
]


@pytest.mark.parametrize("method, path, body, headers", ROUTES)
def test_a_route_answers_as_over_http_1(server, key, method, path, body, headers):
    with Http2(server) as http2:
        answer = http2.get(path.replace("{key}", f"{key}-2"), method=method, headers=headers,
                           authority=f"127.0.0.1:{server.http}",
                           body=body and body.replace(b"{key}", f"{key}-2".encode()))
    if body:
        body = body.replace(b"{key}", f"{key}-1".encode())
    plain = server.get(path.replace("{key}", f"{key}-1"), method=method, headers=dict(headers), body=body)
    expected = {name.lower().encode(): value.encode() for name, value in plain.headers.items()
                if name.lower() != "connection"}
    answer[1].pop(b"retry-after", None), expected.pop(b"retry-after", None)
    assert answer == (plain.status, expected, plain.text.encode())


def test_curl_reads_the_metrics(server):
    out = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version} %{http_code}",
                          f"http://127.0.0.1:{server.http}/metrics"], capture_output=True, text=True,
                         timeout=20, check=True).stdout
    assert out.endswith("2 200") and "# TYPE weir_" in out


@pytest.mark.parametrize("expect, told", [("100-continue", True), ("100-Continue", True), ("pizza", False)])
def test_a_client_that_expects_100_continue_gets_it(server, key, expect, told):
    with Http2(server) as http2:
        body = f'{{"limit":"login","key":"{key}"}}'.encode()
        stream = http2.ask("/v1/acquire", method="POST", headers=[("expect", expect)], end=False)
        asked = http2.ask("/healthz")  # its answer follows the interim one
        assert http2.wait(asked)[0][0] == 200
        assert http2.informed == ({stream: [100]} if told else {})
        http2.h2.send_data(stream, body, end_stream=True)
        assert http2.wait(stream)[0][0] == 200
        # Neither a request without a body nor one that is refused gets an interim answer.
        refused = http2.ask("/" + "a" * 17000, method="POST", headers=[("expect", expect)], end=False)
        whole = http2.ask("/healthz", headers=[("expect", expect)])
        assert [answer[0] for answer in http2.wait(refused, whole)] == [414, 200]
        assert sum(map(len, http2.informed.values())) == told


def test_fifty_streams_are_answered(server, key):
    with Http2(server) as http2:
        for _ in range(4):
            streams = [http2.ask(f"/v1/acquire/login?key={key}-{i}") for i in range(50)]
            assert {status for status, *_ in http2.wait(*streams)} == {200}


def test_a_request_in_single_bytes_is_the_same(server, key):
    http2 = Http2(server)
    stream = http2.ask("/v1/acquire", method="POST",
                       body=f'{{"limit":"login","key":"{key}"}}'.encode())
    for byte in http2.h2.data_to_send():
        http2.socket.sendall(bytes([byte]))
    [(status, _, body)] = http2.wait(stream)
    assert status == 200 and b'"remaining":9' in body


@pytest.mark.parametrize("how, status, code", [
    ({"headers": [("x-a", "a" * 5000)] * 4}, 431, b"header_too_large"),
    ({"headers": [("x-forwarded-for", "1.1.1.1")] * 25}, 431, b"header_too_large"),
    ({"path": "/" + "a" * 17000}, 414, b"target_too_long"),
    ({"path": "/v1/acquire", "method": "POST", "body": b"a" * 16384, "end": False, "more": 4}, 413,
     b"body_too_large"),
    ({"headers": [("host", "other")]}, 400, b"bad_request"),
    ({"method": "M" * 17}, 400, b"bad_request"),
])
def test_limits_on_input_are_those_of_http_1(server, how, status, code):
    how, more = dict(how), how.get("more", 0)
    how.pop("more", None)
    path = how.pop("path", "/healthz")
    with Http2(server) as http2:
        stream = http2.ask(path, **how)
        for _ in range(more):
            http2.flush()
            while http2.h2.local_flow_control_window(stream) < 16384:
                http2.read()
            http2.h2.send_data(stream, b"a" * 16384)
        [(got, _, body)] = http2.wait(stream)
        assert (got, code in body) == (status, True)
        assert http2.get("/healthz")[0] == 200  # the connection is still open


def test_events_need_http_1(server):
    with Http2(server) as http2:
        stream = http2.ask("/v1/events")
        http2.wait(stream)
        assert http2.resets == {stream: ErrorCodes.HTTP_1_1_REQUIRED}
        assert http2.get("/healthz")[0] == 200


def test_a_pending_stream_does_not_delay_other_streams(serve, key):
    server = serve(config="limits: { slow: { algorithm: token_bucket, rate: 1/s, burst: 1 } }")
    with Http2(server) as http2:
        assert http2.get(f"/v1/acquire/slow?key={key}")[0] == 200
        late = http2.ask("/v1/acquire", method="POST", body=(
            f'{{"limit":"slow","key":"{key}","wait_ms":5000}}').encode())
        streams = [http2.ask("/healthz") for _ in range(3)]
        assert [status for status, *_ in http2.wait(*streams)] == [200] * 3
        assert not http2.answers[late][3]
        assert http2.wait(late)[0][0] == 200


def test_a_header_for_a_stream_that_has_ended_ends_the_connection(server):
    with Http2(server) as client:
        stream = client.ask("/healthz")
        assert client.wait(stream)[0][0] == 200
        again = client.h2.encoder.encode([(":method", "GET"), (":scheme", "http"), (":path", "/healthz"),
                                          (":authority", "127.0.0.1")])
        client.socket.sendall(frames.HeadersFrame(stream, again, flags=["END_HEADERS", "END_STREAM"]).serialize())
        while client.read():
            pass
    assert client.goaway == ErrorCodes.STREAM_CLOSED


def test_a_server_that_stops_names_the_last_request_that_it_processed(serve):
    server = serve(config=CONFIG.replace("rules:", "  paced: { algorithm: pacer, rate: 1/s, slack: 0 }\nrules:"))
    with Http2(server) as client, Http2(server) as idle:
        assert idle.wait(idle.ask("/healthz"))[0][0] == 200
        held = [client.ask("/v1/acquire/paced?key=k") for _ in range(3)]
        client.wait(held[0])
        server.process.terminate()
        # Requests that were received are still answered.
        assert [answer[0] for answer in client.wait(*held)] == [200] * 3
        for connection, seen in (client, held[-1]), (idle, 1):
            while connection.read():
                pass
            assert (connection.goaway, connection.last) == (ErrorCodes.NO_ERROR, seen)
    assert server.process.wait(PATIENCE) == 0


def test_an_idle_connection_ends_with_the_number_of_the_last_processed_request(serve):
    server = serve(config=CONFIG + "idle: { http: 1s }\n")
    with Http2(server) as silent, Http2(server) as client:
        client.get("/healthz")
        last = client.ask("/healthz")
        client.wait(last)
        for connection, seen in (silent, 0), (client, last):
            while connection.read():
                pass
            assert (connection.goaway, connection.last) == (ErrorCodes.NO_ERROR, seen)
        # The server closes the socket, too.
        with pytest.raises(ConnectionError):
            for _ in range(PATIENCE * 10):
                client.socket.sendall(frames.PingFrame(0, b"12345678").serialize())
                time.sleep(0.1)


def test_a_request_that_trickles_in_ends_the_connection_in_10_seconds(server):
    """As over HTTP/1. PING frames, complete requests and later slow requests do not extend the time."""
    started = time.monotonic()
    with Http2(server) as client:
        stream = client.ask("/v1/acquire", "POST", body=b"{", end=False)
        client.socket.settimeout(0.5)
        while not client.ended and time.monotonic() < started + PATIENCE:
            try:
                client.h2.ping(b"12345678")
                client.h2.send_data(stream, b" ")
                client.ask("/healthz")
                client.ask("/v1/acquire", "POST", end=False)
                client.flush()
                client.read()
            except (TimeoutError, ConnectionError):
                pass
            time.sleep(0.2)
    assert client.ended and time.monotonic() - started > 9


def test_slow_requests_in_sequence_are_all_answered(server):
    """Each is complete in time, though together they take longer and one is always incomplete."""
    started = time.monotonic()
    with Http2(server) as client:
        body = b'{"limit": "login", "key": "slow"}'
        stream = client.ask("/v1/peek", "POST", body=body[:-1], end=False)
        while time.monotonic() < started + 13:
            time.sleep(1)
            after = client.ask("/v1/peek", "POST", body=body[:-1], end=False)
            client.h2.send_data(stream, body[-1:], end_stream=True)
            [answer] = client.wait(stream)
            assert answer[0] == 200
            stream = after


@pytest.mark.parametrize("host, is_good", [
    ("localhost:80", True), ("localhost", True), ("localhost:", True), ("[::1]:65535", True), ("[::1]", True),
    ("localhost:65536", False), ("localhost:8o", False), ("localhost:-1", False), ("[::1]:x", False),
    ("127.0.0.1:80 80", False)])
def test_a_host_with_an_invalid_port_is_refused(server, host, is_good):
    with Http(server.http) as client:
        statuses = {client.request("GET", path, headers={"Host": host}).status
                    for path in ("/v1/acquire/login?key=h", "/healthz", "/rule/browse?path=/x")}
    with Http2(server) as http2:
        statuses.add(http2.get("/healthz", authority=host)[0])
    assert (400 in statuses, 200 in statuses) == (not is_good, is_good)


def test_rapid_resets_end_the_connection(server):
    """CVE-2023-44487: the client opens and resets streams again and again."""
    with Http2(server) as http2:
        sent = 0
        while sent < 2000:
            try:
                for _ in range(20):
                    http2.h2.reset_stream(http2.ask("/healthz"))
                http2.flush()
            except (BrokenPipeError, ConnectionResetError):
                break
            sent += 20
        while http2.read():
            pass
        assert http2.goaway == ErrorCodes.ENHANCE_YOUR_CALM
        assert len([a for a in http2.answers.values() if a[0]]) < 500
    assert server.get("/healthz").status == 200


@pytest.mark.parametrize("piece", [
    frames.PingFrame(0, b"12345678").serialize(),
    frames.SettingsFrame(0).serialize(),
    frames.PriorityFrame(1, depends_on=0, stream_weight=5).serialize(),
    frames.WindowUpdateFrame(0, window_increment=1).serialize(),
    frames.ExtensionFrame(0x42, 0, body=b"").serialize(),
], ids=["ping", "settings", "priority", "window_update", "unknown"])
def test_floods_of_frames_end_the_connection(server, piece):
    before = resident_kib(server)
    assert flood(server, piece * 100, 200) == ErrorCodes.ENHANCE_YOUR_CALM
    assert resident_kib(server) - before < 8192
    assert server.get("/healthz").status == 200


def test_a_flood_of_empty_data_ends_the_connection(server):
    with Http2(server) as http2:
        stream = http2.ask("/v1/acquire", method="POST", end=False)
        http2.flush()
        try:
            for _ in range(300):
                http2.socket.sendall(frames.DataFrame(stream, b"").serialize() * 100)
        except (BrokenPipeError, ConnectionResetError):
            pass
        while http2.read():
            pass
        assert http2.goaway == ErrorCodes.ENHANCE_YOUR_CALM


def test_a_header_without_end_ends_the_connection(server):
    """A header in CONTINUATION frames ends the connection long before the budget for frames is used up."""
    fields = b"\x00\x01a\x7f\x81\x07" + b"b" * 262
    first = frames.HeadersFrame(1, fields).serialize()
    piece = frames.ContinuationFrame(1, fields).serialize()
    before = resident_kib(server)
    assert flood(server, piece * 10, 20, first) == ErrorCodes.ENHANCE_YOUR_CALM
    assert resident_kib(server) - before < 4096


def test_a_small_block_cannot_become_a_big_header(server):
    """A header compressed by HPACK has one long field and thousands of one-byte references to it."""
    name_value = b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000
    block = b"\x82\x86\x84\x41\x01h" + name_value + b"\xbe" * 12000
    frame = frames.HeadersFrame(1, block)
    frame.flags = {"END_HEADERS", "END_STREAM"}
    before = resident_kib(server)
    with raw(server) as connection:
        connection.sendall(frame.serialize())
        got = b""
        while b"header_too_large" not in got:
            got += connection.recv(65536)
    assert resident_kib(server) - before < 4096


def upload(http2, length):
    """Sends a request without the end of its body. The server may reset it meanwhile."""
    stream = http2.ask("/v1/acquire", method="POST", end=False)
    with contextlib.suppress(h2.exceptions.StreamClosedError):
        for at in range(0, length, 16384):
            piece = b"a" * min(16384, length - at)
            while http2.h2.local_flow_control_window(stream) < len(piece):
                http2.flush()
                http2.read()
            http2.h2.send_data(stream, piece)
    http2.flush()


def test_unfinished_requests_of_a_connection_take_bounded_memory(server):
    with Http2(server) as http2:
        for _ in range(30):
            upload(http2, 48 << 10)
        until(lambda: http2.resets or not http2.read(), "a reset")
        assert set(http2.resets.values()) == {ErrorCodes.ENHANCE_YOUR_CALM}
        assert http2.get("/healthz")[0] == 200


@pytest.mark.skipif(BUILD.name != "build", reason="a sanitizer takes memory of its own")
@pytest.mark.parametrize("length", [1, 1000, 16384, 60000])
def test_incomplete_requests_of_a_connection_take_at_most_320_kib(serve, length):
    """Sends as many incomplete requests as fit, before any login; docs/operations.md documents the bound."""
    server = serve("--threads", "1")
    connections = 40
    before = resident_kib(server)
    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            http2 = stack.enter_context(Http2(server))
            for _ in range(min(100, (2 << 20) // length)):
                upload(http2, length)
                if http2.resets:
                    break
        assert server.get("/healthz").status == 200
        assert (resident_kib(server) - before) / connections < 320


def test_a_client_that_opens_no_window_takes_bounded_memory(server):
    before = resident_kib(server)
    with Http2(server, window=0) as http2:
        while ErrorCodes.REFUSED_STREAM not in http2.resets.values():
            http2.ask("/metrics")
            http2.flush()
            http2.socket.settimeout(0.05)
            try:
                http2.read()
            except TimeoutError:
                pass
            assert len(http2.answers) < 100
        assert resident_kib(server) - before < 8192
        assert http2.answers[1][:3][0] == 200 and not http2.answers[1][3]


def test_requests_are_counted(server):
    name = 'weir_requests_total{protocol="http"}'
    before = metric(server, name)
    with Http2(server) as http2:
        http2.get("/healthz")
    assert metric(server, name) - before == 2  # and the request for the metrics before


def test_streams_wait_while_the_password_of_their_login_is_hashed(serve, key):
    """The first request is suspended until its password is hashed, then decided again."""
    script = 'print crypt("secret", "\\$y\\$j75\\$abcdefghijklmnop")'
    hashed = subprocess.run(["perl", "-e", script], check=True, text=True, capture_output=True).stdout
    server = serve(config=f"""
limits: {{ login: {{ algorithm: token_bucket, rate: 10/h }} }}
users:
  - {{ name: asker, password: "{hashed}", may: [ask] }}
""")

    def statuses(login, paths):
        proof = "Basic " + base64.b64encode(login).decode()
        with Http2(server) as http2:
            streams = [http2.ask(path, headers=[("authorization", proof)]) for path in paths]
            return [status for status, *_ in http2.wait(*streams)]

    asks = [f"/v1/acquire/login?key={key}"] * 3
    assert statuses(b"asker:secret", [*asks, "/v1/limits", *asks]) == [200, 200, 200, 403, 200, 200, 200]
    assert statuses(b"asker:wrong", [*asks, "/healthz"]) == [401, 401, 401, 200]
    answer = server.get(f"/v1/peek/login?key={key}",
                        headers={"Authorization": "Basic " + base64.b64encode(b"asker:secret").decode()})
    assert answer.json["remaining"] == 4
