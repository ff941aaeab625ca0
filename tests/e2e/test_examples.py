"""The programs in examples/ that serve HTTP."""

import re
import socket
import subprocess
import threading
import time

import pytest
from harness import BUILD, PATIENCE, Http, until

# The least and greatest Retry-After in seconds after five requests at once.
ROUTES = {"/counter": (60, 60), "/sliding-window": (54, 60), "/token-bucket": (12, 12),
          "/leaky-bucket": (12, 12)}


@pytest.fixture
def start():
    """A function that starts the server with arguments behind its port, and returns the port."""
    started = []

    def start(*arguments):
        process = subprocess.Popen([BUILD / "examples" / "handlers", "0", *arguments], stderr=subprocess.PIPE, text=True)
        started.append(process)
        return int(re.fullmatch(r"listening: http 127.0.0.1:(\d+)\n", process.stderr.readline())[1])

    yield start
    for process in started:
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.fixture
def port(start):
    return start()


def test_each_route_allows_five_requests_and_denies_the_sixth_with_retry_after(port):
    with Http(port) as client:
        for route, (least, most) in ROUTES.items():
            begun = time.monotonic()
            texts = [client.request("GET", route).text for _ in range(5)]
            assert texts == [f"{left} of 5 left\n" for left in (4, 3, 2, 1, 0)]
            denied = client.request("GET", route)
            assert (denied.status, denied.text) == (429, "too many requests\n")
            assert least - (time.monotonic() - begun) <= int(denied.headers["Retry-After"]) <= most
        assert client.request("GET", "/").status == 404
        refused = client.request("DELETE", "/counter")
        assert (refused.status, refused.headers["Allow"]) == (405, "GET")


def test_an_incomplete_request_does_not_block_a_thread(port):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        client.sendall(b"GET /counter HTT")
        assert client.recv(1000) == b""


def at_once(port):
    """Sends thirty requests at once: ([seconds until an allowed one passed], [(status, Retry-After) of a denied one])."""
    answers, gate = [], threading.Barrier(31)

    def ask():
        with Http(port) as client:
            gate.wait()
            answer = client.request("GET", "/fixed-rate")
            answers.append((time.monotonic(), answer.status, answer.headers["Retry-After"]))

    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    begin = time.monotonic()
    gate.wait()
    for thread in threads:
        thread.join()
    return (sorted(at - begin for at, status, _ in answers if status == 200),
            [(status, wait) for _, status, wait in answers if status != 200])


def test_the_pacer_delays_each_request_to_its_turn_and_denies_those_that_would_wait_too_long(port):
    passed, denied = at_once(port)
    assert len(passed) >= 5  # one at once, and four within 200 ms
    assert all(at >= nth * 0.05 for nth, at in enumerate(passed))
    # If the machine stood still, all thirty had a turn.
    denied = denied or until(lambda: at_once(port)[1], "too many")
    assert set(denied) == {(429, "1")}


def test_random_allows_some_requests_and_denies_others(port):
    with Http(port) as client:
        answers = [client.request("GET", "/random") for _ in range(100)]
    assert {(answer.status, answer.text) for answer in answers} == {
        (200, "served\n"), (429, "too many requests\n")}
    assert {answer.headers["Retry-After"] for answer in answers} == {None, "1"}


def test_servers_with_one_redis_share_the_counter_and_no_other_count(start, start_redis):
    shared = start_redis()
    clients = [Http(start(shared.url)) for _ in range(2)]
    begun = time.monotonic()
    counted = [clients[n % 2].request("GET", "/counter") for n in range(7)]
    assert [answer.text for answer in counted[:5]] == [f"{left} of 5 left\n" for left in (4, 3, 2, 1, 0)]
    assert [answer.status for answer in counted[5:]] == [429, 429]
    assert 60 - (time.monotonic() - begun) <= int(counted[5].headers["Retry-After"]) <= 60
    for client in clients:
        assert client.request("GET", "/token-bucket").text == "4 of 5 left\n"
    shared.stop()
    away = [client.request("GET", "/counter") for client in clients]
    # A denial may be repeated for a second without Redis.
    away = away if {answer.status for answer in away} == {503} else until(
        lambda: (again := clients[0].request("GET", "/counter")).status == 503 and [again], "the denial to be forgotten")
    assert {(answer.text, answer.headers["Retry-After"]) for answer in away} == {("no decision\n", "1")}
    assert clients[0].request("GET", "/sliding-window").status == 200
    for client in clients:
        client.connection.close()


def test_a_wrong_url_of_a_redis_is_refused():
    done = subprocess.run([BUILD / "examples" / "handlers", "0", "http://127.0.0.1"], capture_output=True, text=True, check=False,
                          timeout=PATIENCE)
    assert done.returncode == 1 and "redis://" in done.stderr
