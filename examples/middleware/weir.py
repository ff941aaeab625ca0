"""Asks Weir about each request of an ASGI or WSGI application, before the application does.

    application = WeirASGI(application, "http://127.0.0.1:8080")
    application = WeirWSGI(application, "http://127.0.0.1:8080", fail_open=False, token="weir_…")

A denied request is answered here, as Weir says: 429 or 503, with Retry-After. If Weir does not
answer within `timeout` seconds, the request passes (`fail_open`) or is answered 503. Where Weir has
users, `token` is one's; without it, WEIR_TOKEN of the environment is. Only the standard library is needed.
On Weir's own host use its Unix socket, "unix:/run/weir/http.sock".

If a limit waits for a report of the request, it gets one when the answer has been sent, with the duration and the
outcome: `success`, `failure` (5xx or an exception), `timeout` (504 or a TimeoutError), or `ignored` (4xx, or the
client has left). If the report fails, that is logged and changes nothing for the client.
"""

import asyncio
import http.client
import json
import logging
import os
import socket
import threading
import time
import urllib.parse

# Headers of Weir's answer that the client gets, too.
HEADERS = ("RateLimit", "RateLimit-Policy", "Retry-After")


ERRORS = (OSError, http.client.HTTPException, ValueError)


def outcome_of(status):
    if status == 504:
        return "timeout"
    return "failure" if status >= 500 else "success" if 200 <= status < 400 else "ignored"


def outcome_of_error(error):
    return "timeout" if isinstance(error, (TimeoutError, asyncio.TimeoutError)) else "failure"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.socket_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.socket_path)


def opener(url, timeout):
    """A function that makes a connection, and the path before those of the API."""
    address = urllib.parse.urlsplit(url)
    if address.scheme == "unix":
        return lambda: UnixConnection(address.path, timeout), ""
    connection = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    return lambda: connection(address.hostname, address.port, timeout=timeout), address.path.rstrip("/")


class Weir:
    """A connection for each thread, kept alive."""

    def __init__(self, url, fail_open=True, timeout=0.1, token=None):
        self.open_connection, self.path = opener(url, timeout)
        self.headers = {"Content-Type": "application/json"}
        token = token or os.environ.get("WEIR_TOKEN")
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.fail_open = fail_open
        self.threads = threading.local()

    def ask(self, **attributes):
        """(status, headers, permit): 200 where the request may pass; permit: None, or to be reported."""
        try:
            response, answer = self._post("/v1/acquire", {"attributes": attributes})
            if "allowed" not in answer:
                raise ValueError(f"{response.status} {answer}")
        except ERRORS as error:
            logging.getLogger("weir").warning("no decision: %r", error)
            return (200 if self.fail_open else 503), [], None
        return response.status, [(name, response.headers[name]) for name in HEADERS
                                 if name in response.headers], answer.get("permit")

    def report(self, permit, outcome, seconds):
        """How a request ended that passed with that permit."""
        try:
            response, answer = self._post("/v1/report", {
                "permit": permit, "outcome": outcome, "latency_ms": max(round(seconds * 1000), 1)})
            if response.status != 200:
                raise ValueError(f"{response.status} {answer}")
        except ERRORS as error:
            logging.getLogger("weir").warning("no report: %r", error)

    def _post(self, path, body):
        """The response and its JSON object."""
        connection = getattr(self.threads, "connection", None)
        is_new = connection is None
        if is_new:
            connection = self.open_connection()
        # Back only once it has answered: what fails half-way is closed.
        self.threads.connection = None
        try:
            connection.request("POST", self.path + path, json.dumps(body), self.headers)
            response = connection.getresponse()
            text = response.read()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            connection.close()
            if is_new:
                raise
            return self._post(path, body)  # Weir had closed the old one meanwhile
        except BaseException:
            connection.close()
            raise
        self.threads.connection = connection
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise ValueError(f"{response.status} {answer}")
        return response, answer


class Passed:
    """A request that Weir let pass, until its end is reported, once."""

    def __init__(self, report, permit):
        self.send_report, self.permit = report, permit
        self.begun, self.status = time.monotonic(), 0

    def ends(self, outcome=None):
        permit, self.permit = self.permit, None
        if permit:
            self.send_report(permit, outcome or outcome_of(self.status), time.monotonic() - self.begun)


class WeirASGI:
    def __init__(self, application, url, **options):
        self.application, self.weir = application, Weir(url, **options)

    def report(self, *what):
        """In a thread, so that a client that leaves cancels the request, but not its report."""
        asyncio.get_running_loop().run_in_executor(None, self.weir.report, *what)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.application(scope, receive, send)
        client = scope.get("client") or [""]
        status, headers, permit = await asyncio.to_thread(
            self.weir.ask, method=scope["method"], path=scope["path"], ip=client[0])
        headers = [(name.lower().encode(), value.encode()) for name, value in headers]
        if status == 200:
            return await self.run(scope, receive, send, headers, Passed(self.report, permit))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"too many requests\n"})

    async def run(self, scope, receive, send, headers, passed):
        async def send_with(message):
            if message["type"] == "http.response.start":
                passed.status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *headers]}
            try:
                await send(message)
            except OSError:
                passed.ends("ignored")  # the client has left
                raise
            if message["type"] == "http.response.body" and not message.get("more_body"):
                passed.ends()

        try:
            await self.application(scope, receive, send_with)
        except Exception as error:
            passed.ends(outcome_of_error(error))
            raise
        finally:
            passed.ends("ignored")  # cancelled, or ended without an answer: the client has left


class Body:
    """The answer of a WSGI application. The server closes it at the end, or when the client leaves."""

    def __init__(self, parts, passed):
        self.parts, self.passed, self.is_whole = parts, passed, False

    def __len__(self):
        return len(self.parts)

    def __iter__(self):
        try:
            yield from self.parts
        except Exception as error:
            self.passed.ends(outcome_of_error(error))
            raise
        self.is_whole = True

    def close(self):
        try:
            if hasattr(self.parts, "close"):
                self.parts.close()
        finally:
            self.passed.ends(None if self.is_whole else "ignored")


class WeirWSGI:
    def __init__(self, application, url, **options):
        self.application, self.weir = application, Weir(url, **options)

    def __call__(self, environ, start_response):
        # WSGI gives the path's bytes as Latin-1.
        path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1")
        status, headers, permit = self.weir.ask(method=environ["REQUEST_METHOD"],
                                                path=path.decode("utf-8", "replace"),
                                                ip=environ.get("REMOTE_ADDR", ""))
        if status != 200:
            start_response(f"{status} {http.client.responses[status]}", headers)
            return [b"too many requests\n"]
        passed = Passed(self.weir.report, permit)

        def start_with(line, more, *rest):
            passed.status = int(line.split()[0])
            return start_response(line, [*more, *headers], *rest)

        try:
            parts = self.application(environ, start_with)
        except Exception as error:
            passed.ends(outcome_of_error(error))
            raise
        return Body(parts, passed) if permit else parts
