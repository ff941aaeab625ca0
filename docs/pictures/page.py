"""page.py: makes page.png, the picture of the page at `/`, by a server and Chromium.

`WEIR_BUILD=build build/venv/bin/python docs/pictures/page.py` needs what the tests need. The server is real; the hour of
traffic is an example, which is given to the page in place of the server's.
"""

import json
import math
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/e2e"))

from browser import Browser  # noqa: E402
from harness import Server, until  # noqa: E402

CONFIG = """
limits:
  login: { algorithm: token_bucket, rate: 5/h, burst: 10 }
  search: { algorithm: sliding_window, rate: 200/m }
  api: { algorithm: token_bucket, rate: 100/s }
  sms: { algorithm: fixed_window, rate: 5/d }
  payments: { algorithm: breaker, minimum: 5, sleep: 1h }
  prefetch: { algorithm: random, deny: 0.25 }
rules:
  - { name: login-by-ip, match: { path: /login }, key: [ip], limits: [login] }
denials: { key: full }
"""
KEY = "203.0.113.9"


def hour(now):
    """An hour with an attack on the login, and a service that fails for five minutes."""
    draw = random.Random(1)

    def wave(level, change, period):
        return [round(level * (1 + change * math.sin(second / period)) * draw.uniform(.85, 1.15)) for second in range(3600)]

    attack = [round(90 * math.exp(-((second - 2500) / 90) ** 2) * draw.uniform(.7, 1.3)) for second in range(3600)]
    fails = range(1200, 1500)
    payments = wave(14, .1, 400)
    return {"now": now, "from": now - 3599, "others": {}, "limits": [
        {"limit": "api", "allowed": wave(62, .3, 700)},
        {"limit": "search", "allowed": wave(34, .4, 1100)},
        {"limit": "login", "allowed": wave(9, .2, 500), "denied": attack},
        {"limit": "payments", "allowed": [n // 9 if second in fails else n for second, n in enumerate(payments)],
         "breaker_open": [n - n // 9 if second in fails else 0 for second, n in enumerate(payments)]},
        {"limit": "prefetch", "allowed": wave(9, .2, 600), "shed": wave(3, .2, 600)}]}


def ask_server(server):
    for n in range(17):
        server.post("/v1/acquire", {"attributes": {"path": "/login", "ip": KEY}})
        if n < 8:
            server.post("/v1/acquire", {"limit": "sms", "key": "+491512345678"})
            server.post("/v1/acquire", {"limit": "sms", "key": "+4915187654321"})
    for _ in range(6):
        permit = server.post("/v1/acquire", {"limit": "payments", "key": "eu"}).json.get("permit")
        if permit:
            server.post("/v1/report", {"permit": permit, "outcome": "failure"})


def main():
    with tempfile.TemporaryDirectory() as directory:
        server = Server("--capacity", "20000", config=CONFIG, directory=directory)
        browser = Browser(pathlib.Path(directory), network=True)
        try:
            ask_server(server)
            browser.emulate(width=1280, height=900)
            browser.visit(f"http://127.0.0.1:{server.http}/")
            until(lambda: browser.evaluate("configuration.byName.size > 0 && memory !== null && top10.length >= 3 && status.keys > 0"), "the page")
            example = json.dumps(hour(browser.evaluate("history.now")))
            browser.evaluate(f"questions[1].due = Infinity, forgetHistory(), addToHistory({example}), drawChart(), showTiles(), showLimits()")
            browser.evaluate(f"lookUp({json.dumps(KEY)})")
            browser.evaluate("byId('server').textContent = byId('server').textContent.replace(/:\\d+/, ':8080'),"
                             "document.documentElement.style.overflow = 'hidden', document.activeElement.blur(), window.scrollTo(0, 0)")
            (HERE / "page.png").write_bytes(browser.screenshot())
        finally:
            browser.close()
            server.stop()


main()
