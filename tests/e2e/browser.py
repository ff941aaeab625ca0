"""Controls a page in headless Chromium by the DevTools protocol over a pipe, without a driver or a port."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

PATIENCE = 60  # Chromium is large, and other tests run at the same time


class Browser:
    """A browser with one page, without a network unless `network` is set."""

    def __init__(self, profile, *flags, network=False):
        # Chromium reads commands from descriptor 3 and writes messages to 4; each ends with a NUL.
        theirs_in, self.out = os.pipe()
        self.into, theirs_out = os.pipe()

        def place():
            in_, out = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(in_, 3)
            os.dup2(out, 4)

        program = shutil.which("chromium")
        assert program, "chromium is not installed"
        self.log = open(profile / "log", "w+")
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             f"--user-data-dir={profile}", "--window-size=1200,1000", "--remote-debugging-pipe",
             *flags],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)
        os.close(theirs_in)
        os.close(theirs_out)
        self.number, self.pending, self.events, self.session = 0, b"", [], None
        self.credentials = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=not network, latency=0,
                  downloadThroughput=-1, uploadThroughput=-1)

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            os.close(self.out)
            os.close(self.into)
            self.log.close()

    def _send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **params):
        number = self._send(method, **params)
        while (answer := self._message()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _message(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.into], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(self.into, 1 << 20) if ready else b""
            if not piece:
                self.log.seek(0)
                raise AssertionError(f"Chromium says nothing more: {self.log.read()[-2000:]}")
            self.pending += piece
        text, self.pending = self.pending.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") == "Fetch.requestPaused":
            self._send("Fetch.continueRequest", requestId=message["params"]["requestId"])
        if message.get("method") == "Fetch.authRequired":
            self._send("Fetch.continueWithAuth", requestId=message["params"]["requestId"],
                       authChallengeResponse=self._credentials())
        return message

    def _credentials(self):
        """They are typed once: who is asked again has typed wrong ones, and gives up."""
        credentials, self.credentials = self.credentials, None
        if not credentials:
            return {"response": "CancelAuth"}
        return {"response": "ProvideCredentials", "username": credentials[0], "password": credentials[1]}

    def type_password(self, user, password):
        """Logs in wherever a server makes the browser ask for a name and a password."""
        self.credentials = (user, password)
        self.call("Fetch.enable", handleAuthRequests=True)

    def open(self, path):
        self.visit(path.as_uri())

    def visit(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def requested(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def complaints(self):
        """Exceptions, and errors in the console."""
        return [event["params"] for event in self.events
                if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]

    def evaluate(self, expression):
        """The value of an expression, or the result of its promise."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def drag(self, x0, x1, y):
        for kind, x, buttons in (("mousePressed", x0, 1), ("mouseMoved", (x0 + x1) / 2, 1),
                                 ("mouseMoved", x1, 1), ("mouseReleased", x1, 0)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      buttons=buttons, clickCount=1)

    def emulate(self, width=1200, height=1000, scheme="light", media="screen"):
        """Emulates a screen of a width in CSS pixels, of a phone if it is narrow, or paper."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self):
        """The page as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
