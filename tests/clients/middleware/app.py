"""An application behind the Python middleware: app.py asgi|wsgi URL open|closed SECONDS. Tells its port. TOKEN may be set."""

import os
import sys
import wsgiref.simple_server

import uvicorn
from weir import WeirASGI, WeirWSGI


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"welcome\n"})


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"welcome\n"]


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
