"""Sends random requests to servers with random rule files, and compares all answers with an independent model.

Periods are hours, and midnight is hours away in the timezone of the file, so no answer depends on how
quick a machine is. `WEIR_TEST_SEED` replays a run.
"""

import datetime
import os
import random
import sys
import time
import urllib.parse

import pytest
from harness import ROOT, Http, Server

sys.path.insert(0, str(ROOT / "tests" / "model"))
import koala
from koala_files import as_model, random_file, random_parameters, write_dicts

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
RULE_FILES = 6
REQUESTS = 250


def zone_of_noon():
    """A timezone in which it is about noon. In its name POSIX reverses the sign."""
    ahead = 12 - datetime.datetime.now(datetime.timezone.utc).hour
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/GMT"


def ask(client, draw, path, parameters):
    """Sends the parameters in the query, in a form, or some in each."""
    pairs = list(parameters.items())
    cut = draw.choice([0, len(pairs), len(pairs)])
    query, body = (urllib.parse.urlencode(part) for part in (pairs[:cut], pairs[cut:]))
    if cut == len(pairs):
        return client.request("GET", f"{path}?{query}")
    return client.request("POST", f"{path}?{query}", body, FORM)


def many(client, items):
    arguments = [{"Id": str(i), "Arg": urllib.parse.quote(urllib.parse.urlencode(item), safe="")}
                 for i, item in enumerate(items)]
    body = urllib.parse.urlencode({"argsJson": koala.json.dumps(arguments)})
    return client.request("POST", "/multi/browse", body, FORM)


def one_request(draw, model, client):
    """Sends a random request: (the request, the answer of the model, the answer of the server)."""
    parameters, now = random_parameters(draw, blanks=True), time.time_ns()
    kind = draw.choices(["browse", "write", "update", "complete", "complete_write", "feedback", "value",
                         "many"], [3, 8, 4, 2, 4, 2, 3, 1])[0]
    if kind == "browse":
        return parameters, model.browse(parameters, now), ask(client, draw, "/rule/browse", parameters)
    if kind == "write":
        answer = ask(client, draw, "/rule/browse", {**parameters, "_writeThrough": "yes"})
        return parameters, model.browse(parameters, now, write=True), answer
    if kind == "update":
        return parameters, model.update(parameters, now), ask(client, draw, "/rule/update", parameters)
    if kind == "complete":
        answer = ask(client, draw, "/rule/browse_complete", parameters)
        return parameters, model.complete(parameters, now), answer
    if kind == "complete_write":
        answer = ask(client, draw, "/rule/browse_complete", {**parameters, "_writeThrough": "yes"})
        return parameters, model.complete(parameters, now, write=True), answer
    if kind == "feedback":
        erase = draw.choice(["erase1", "erase2"])
        answer = ask(client, draw, "/rule/feedback", {**parameters, "_feedbackType": erase})
        return (parameters, erase), model.feedback(parameters, now, erase), answer
    if kind == "value":
        no = draw.choice(model.rules).no
        answer = ask(client, draw, "/rule/value", {"rule_no": no, **parameters})
        return (no, parameters), model.value(no, parameters, now), answer
    items = [random_parameters(draw, blanks=True) for _ in range(draw.randint(0, 4))]
    expected = [{"ID": str(i), "Id": str(i), "Result": model.browse(item, now)}
                for i, item in enumerate(items)]
    return items, expected, many(client, items)


@pytest.fixture
def stores(start_redis, tmp_path):
    """A function that returns (settings for a store, the number of servers that share it)."""

    def of(name, number):
        if name == "redis":  # without a cache of denials, since feedback at another server ends a denial
            return f"store: {start_redis().url}\nstore_timeout: 30s\ndenied_cache: 0s\n", 2
        return {"memory": "", "file": f"store: file:{tmp_path}/state-{number}\ncapacity: 10000\n"}[name], 1

    return of


@pytest.mark.parametrize("store", ["memory", "file", "redis"])
def test_every_answer_equals_the_models(stores, tmp_path, store):
    seed = int(os.environ.get("WEIR_TEST_SEED", 1))
    draw, zone = random.Random(seed), zone_of_noon()
    write_dicts(tmp_path)
    for number in range(RULE_FILES):
        text = random_file(draw, [7200])
        (tmp_path / "rules.conf").write_text(text, encoding="utf-8")
        settings, servers = stores(store, number)
        config = settings + f"koala: {{ timezone: {zone} }}\n"
        follow(draw, text, zone, [
            Server("-c", tmp_path / "rules.conf", config=config, directory=tmp_path)
            for _ in range(servers)], f"WEIR_TEST_SEED={seed}, file {number}:\n{text}")


def follow(draw, text, zone, servers, what):
    model = as_model(text, zone)
    clients = [Http(server.http) for server in servers]
    try:
        for n in range(REQUESTS):
            asked, expected, answer = one_request(draw, model, draw.choice(clients))
            assert answer.status == 200, f"{what}request {n}: {asked}: {answer.text}"
            # Compared as text, so that the order of fields counts.
            found, wanted = koala.json.dumps(answer.json), koala.json.dumps(expected)
            assert found == wanted, f"{what}request {n}: {asked}"
    finally:
        for client in clients:
            client.connection.close()
        for server in servers:
            assert server.stop() == 0
