"""Asks Weir about each request of an ASGI or WSGI application, before the application does.

    application = WeirASGI(application, "http://127.0.0.1:8080")
    application = WeirWSGI(application, "http://127.0.0.1:8080", fail_open=False, token="weir_…")

A denied request is answered here, as Weir says: 429 or 503, with Retry-After. If Weir does not
answer within `timeout` seconds, the request passes (`fail_open`) or is answered 503. Where Weir has
users, `token` is one's; without it, WEIR_TOKEN of the environment is. Only the standard library is needed.
"""

import asyncio
import http.client
import json
import logging
import os
import threading
import urllib.parse

# What Weir tells the client, too.
HEADERS = ("RateLimit", "RateLimit-Policy", "Retry-After")


class Weir:
    """A connection for each thread, kept alive."""

    def __init__(self, url, fail_open=True, timeout=0.1, token=None):
        address = urllib.parse.urlsplit(url)
        self.connection = (http.client.HTTPSConnection if address.scheme == "https"
                           else http.client.HTTPConnection)
        self.host, self.port = address.hostname, address.port
        self.headers = {"Content-Type": "application/json"}
        token = token or os.environ.get("WEIR_TOKEN")
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.path = address.path.rstrip("/") + "/v1/acquire"
        self.fail_open, self.timeout = fail_open, timeout
        self.threads = threading.local()

    def ask(self, **attributes):
        """(status, headers): 200 where the request may pass."""
        try:
            return self._post(json.dumps({"attributes": attributes}))
        except (OSError, http.client.HTTPException, ValueError) as error:
            logging.getLogger("weir").warning("no decision: %r", error)
            return (200 if self.fail_open else 503), []

    def _post(self, body):
        connection = getattr(self.threads, "connection", None)
        is_new = connection is None
        if is_new:
            connection = self.connection(self.host, self.port, timeout=self.timeout)
        # Back only once it has answered: what fails half-way is closed.
        self.threads.connection = None
        try:
            connection.request("POST", self.path, body, self.headers)
            response = connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            connection.close()
            if is_new:
                raise
            return self._post(body)  # Weir had closed the old one meanwhile
        except BaseException:
            connection.close()
            raise
        answer = json.loads(response.read())
        self.threads.connection = connection
        if not isinstance(answer, dict) or "allowed" not in answer:
            raise ValueError(f"{response.status} {answer}")
        return response.status, [(name, response.headers[name]) for name in HEADERS
                                 if name in response.headers]


class WeirASGI:
    def __init__(self, application, url, **options):
        self.application, self.weir = application, Weir(url, **options)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.application(scope, receive, send)
        client = scope.get("client") or [""]
        status, headers = await asyncio.to_thread(
            self.weir.ask, method=scope["method"], path=scope["path"], ip=client[0])
        headers = [(name.lower().encode(), value.encode()) for name, value in headers]
        if status == 200:
            async def send_with(message):
                if message["type"] == "http.response.start":
                    message = {**message, "headers": [*message.get("headers", []), *headers]}
                await send(message)

            return await self.application(scope, receive, send_with)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"too many requests\n"})


class WeirWSGI:
    def __init__(self, application, url, **options):
        self.application, self.weir = application, Weir(url, **options)

    def __call__(self, environ, start_response):
        # WSGI gives the path's bytes as Latin-1.
        path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1")
        status, headers = self.weir.ask(method=environ["REQUEST_METHOD"],
                                        path=path.decode("utf-8", "replace"),
                                        ip=environ.get("REMOTE_ADDR", ""))
        if status == 200:
            def start_with(line, more, *rest):
                return start_response(line, [*more, *headers], *rest)

            return self.application(environ, start_with)
        start_response(f"{status} {http.client.responses[status]}", headers)
        return [b"too many requests\n"]
