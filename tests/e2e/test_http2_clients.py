"""HTTP/2 as others speak it: h2spec's cases."""

import json
import os
import subprocess

import pytest
from harness import CONFIG, PATIENCE, ROOT, one_thread
from test_tls import config, papers  # pylint: disable=unused-import

MADE = ROOT / "build" / "clients"

# Cases that expect another answer, and why ours is right.
DISPUTED = {
    # RFC 9113, 3.4: no GOAWAY is due to a peer that does not speak HTTP/2. Ours may speak HTTP/1,
    # and is told 400 as HTTP/1.1 has it.
    "http2/3.5/2": "Sends invalid connection preface",
}


@pytest.fixture(params=["plain", "tls"])
def either(request, serve, papers):
    """A server, and the word for how it is reached."""
    settings = CONFIG if request.param == "plain" else config(papers)
    return serve(config=settings), request.param


def trust(papers):
    return {**os.environ, "SSL_CERT_FILE": str(papers / "right.pem"),
            "NODE_EXTRA_CA_CERTS": str(papers / "right.pem")}


@one_thread
def test_every_case_of_h2spec_is_passed(either, papers):
    server, how = either
    done = subprocess.run([MADE / "h2spec", str(server.http), "/v1/limits", how], env=trust(papers), text=True,
                          capture_output=True, timeout=PATIENCE * 5, check=True)
    verdicts = json.loads(done.stdout.splitlines()[-1])
    assert len(verdicts) == 146
    failed = {verdict["Case"]: verdict["Name"] for verdict in verdicts if verdict["Fault"]}
    assert failed == DISPUTED, [verdict for verdict in verdicts if verdict["Fault"]]
    assert server.process.poll() is None
