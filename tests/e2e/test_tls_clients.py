"""`weir ask` and `weir bench` as clients that speak TLS."""

import json

import pytest
from harness import weir
from test_tls import LIMITS, config, papers  # pylint: disable=unused-import


@pytest.fixture
def closed(serve, papers):
    """Only clients with a certificate get in."""
    return serve(config=config(papers, clients="required"))


def flags(papers, cert="client", ca="right"):
    return ["--tls", "--cacert", papers / f"{ca}.pem", "--cert", papers / f"{cert}.pem",
            "--key", papers / f"{cert}.key"]


def ask(port, *words, host="127.0.0.1"):
    return weir("ask", "login", "k", "--server", f"{host}:{port}", *words)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_ask(closed, papers, host):
    asked = ask(closed.resp, *flags(papers), host=host)
    assert (asked.returncode, "999 of 1000 left" in asked.stdout) == (0, True), asked
    assert ask(closed.resp, "--cost", 999, *flags(papers), host=host).returncode == 0
    assert ask(closed.resp, *flags(papers), host=host).returncode == 1
    chained = papers / "both.pem"
    chained.write_text((papers / "client.pem").read_text() + (papers / "client.key").read_text())
    peeked = ask(closed.resp, "--peek", "--tls", "--cacert", papers / "right.pem", "--cert", chained, host=host)
    assert peeked.returncode == 1, peeked


def test_ask_says_why_not(closed, papers, serve):
    def fails(*words, port=closed.resp):
        asked = ask(port, *words)
        assert (asked.returncode, asked.stdout) == (2, "")
        return asked.stderr

    assert "its certificate is refused: " in fails(*flags(papers, ca="wrong"))
    assert "hostname mismatch" in fails(*flags(papers), "--sni", "other.example.com").lower()
    assert "certificate required" in fails("--tls", "--cacert", papers / "right.pem")
    assert "unknown ca" in fails(*flags(papers, cert="foreign")).lower()
    assert "no answer from" in fails()  # without TLS
    plain = serve(config=LIMITS)
    assert "expected TLS" in fails(*flags(papers), port=plain.resp)
    for words, said in [
            (["--cacert", "a"], "expected --tls beside --cacert"),
            (["--sni", "a"], "expected --tls beside --sni"),
            (["--tls", "--cacert", papers / "none.pem"],
             f"--tls: expected a file in PEM in ca={papers}/none.pem, found: No such file or directory"),
            (["--tls", "--key", papers / "client.key"], "expected cert=FILE beside it")]:
        assert said in fails(*words)


def test_a_name_in_the_certificate_may_be_asked_for(serve, papers):
    server = serve(config=config(papers, cert="next"))
    asked = ask(server.resp, "--tls", "--cacert", papers / "right.pem", "--sni", "next")
    assert (asked.returncode, asked.stderr) == (0, "")


@pytest.mark.parametrize("protocol, depth", [("resp", 1), ("resp", 16), ("http", 1)])
def test_bench(closed, papers, protocol, depth):
    done = weir("bench", "--server", f"127.0.0.1:{closed.ports[protocol]}", "--protocol", protocol,
                "--limit", "login", "--connections", 10, "--threads", 2, "--requests", 3200, "--keys", 100,
                "--pipeline", depth, "--json", *flags(papers))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["answered"], result["errors"], result["disconnects"]) == (3200, 0, 0)
    assert result["allowed"] == 3200


def test_bench_says_why_not(closed, papers):
    def fails(*words):
        done = weir("bench", "--server", f"127.0.0.1:{closed.resp}", "--limit", "login", "--requests", 10, *words)
        assert done.returncode == 2
        return done.stderr

    assert "(connection 1): its certificate is refused" in fails(*flags(papers, ca="wrong"))
    assert "certificate required" in fails("--tls", "--cacert", papers / "right.pem")
    assert "expected --tls beside --cert" in fails("--cert", papers / "client.pem")
