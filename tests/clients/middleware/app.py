"""An application behind the Python middleware: app.py asgi|wsgi URL open|closed SECONDS. Tells its port. TOKEN may be set."""

import asyncio
import os
import sys
import time
import wsgiref.simple_server

import uvicorn
from weir import WeirASGI, WeirWSGI


def status_of(path):
    """/status/404 asks for one; others raise what they are named after."""
    if path == "/raise":
        raise RuntimeError
    if path == "/late":
        raise TimeoutError
    return int(path.rpartition("/")[2]) if path.startswith("/status/") else 200


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    if scope["path"] == "/slow":
        await asyncio.sleep(0.05)
    await send({"type": "http.response.start", "status": status_of(scope["path"]),
                "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/endless":
        await send({"type": "http.response.body", "body": b"welcome\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    if scope["path"] == "/broken":
        raise RuntimeError
    await send({"type": "http.response.body", "body": b"welcome\n"})


def parts_of(path):
    yield b"welcome\n"
    while path == "/endless":
        yield b"welcome\n" * 1000
    if path == "/broken":
        raise RuntimeError


def wsgi(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/slow":
        time.sleep(0.05)
    start_response(f"{status_of(path)} OK", [("Content-Type", "text/plain")])
    return parts_of(path) if path in ("/endless", "/broken") else [b"welcome\n"]


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


kind, url, failing, seconds = sys.argv[1:]
options = {"fail_open": failing == "open", "timeout": float(seconds),
           "token": os.environ.get("TOKEN")}
if kind == "asgi":
    Server(uvicorn.Config(WeirASGI(asgi, url, **options), port=0, log_level="warning", lifespan="off")).run()
else:
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, WeirWSGI(wsgi, url, **options))
    print(server.server_port, flush=True)
    server.serve_forever()
