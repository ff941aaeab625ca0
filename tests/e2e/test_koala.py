"""Koala's endpoints and their answers, with counts in memory, in a file and at Redis."""

import concurrent.futures
import json
import socket
import urllib.parse

import pytest
from harness import PATIENCE, ROOT, Http, Wire, encode, metric, until

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ALLOW = {"Ret_type": 0, "Ret_code": 0, "Err_no": 0, "Err_msg": "", "Str_reason": "Allow",
         "Need_vcode": 0, "Vcode_len": 0, "Vcode_type": 0, "Other": "", "Version": 0}
PASS = {**ALLOW, "Ret_type": 1}

# Periods are an hour, so that no count ends during a test.
RULES = """
limits:
  "111": { algorithm: fixed_window, rate: 3/h, align: first_request }
  "115": { algorithm: base, base: 3, rate: 1/h, timezone: Asia/Shanghai }
  "1201": { algorithm: sliding_log, rate: 5/h }
rules:
  - name: "101"
    match: { uid: ["7"] }
    answer: deny
    result: { Ret_type: 2, Ret_code: 101, Err_no: 10 }
  - name: "111"
    match: { act: ask, uid: "*" }
    key: [act, uid]
    limits: ["111"]
    result: { Str_reason: Deny, Ret_type: 2, Ret_code: 111, Err_no: 10 }
  - name: "115"
    match: { act: base, ip: "*" }
    key: [act, ip]
    limits: ["115"]
    result: { Ret_type: 2, Ret_code: 115, Err_no: 10 }
  - name: "1201"
    match: { page: "*" }
    key: [page]
    limits: ["1201"]
    result: { Ret_type: 3, Ret_code: 1201, Err_no: 20 }
"""
DENIED_111 = {"Str_reason": "Deny", "Ret_type": 2, "Ret_code": 111, "Err_no": 10}
DENIED_101 = {"Ret_type": 2, "Ret_code": 101, "Err_no": 10}
STORES = ["memory", "file", "redis"]


@pytest.fixture
def koala(serve, start_redis, tmp_path):
    """Starts a server whose counts are in memory, in a file, or at Redis."""

    def start(store="memory", rules=RULES, more=""):
        url = {"memory": "memory", "file": f"file:{tmp_path}/state"}.get(store)
        if not url:
            url = start_redis().url
            more += "store_timeout: 30s\n"
        return serve("--store", url, "--capacity", "10000", config=more + rules)

    return start


def ask(server, path, **parameters):
    """Asks by GET. Two underscores in the name of a parameter stand for one."""
    query = urllib.parse.urlencode({name.replace("__", "_"): v for name, v in parameters.items()})
    answer = server.get(f"{path}?{query}")
    assert answer.status == 200, answer.text
    return answer.json


def browse(server, **parameters):
    return ask(server, "/rule/browse", **parameters)


def take(server, **parameters):
    return browse(server, __writeThrough="yes", **parameters)


def update(server, **parameters):
    assert ask(server, "/rule/update", **parameters) == {"err_no": 0, "err_msg": "OK"}


def value(server, rule, **parameters):
    answer = ask(server, "/rule/value", rule_no=rule, **parameters)
    assert list(answer) == ["err_no", "err_msg", "cache_val"]
    assert (answer["err_no"], answer["err_msg"]) == (0, "")
    return answer["cache_val"]


@pytest.mark.parametrize("store", STORES)
def test_browse_only_decides_and_write_through_also_counts(koala, store):
    server = koala(store)
    for _ in range(5):
        assert browse(server, act="ask", uid=1) == PASS
    assert [take(server, act="ask", uid=1) for _ in range(4)] == 3 * [PASS] + [DENIED_111]
    assert browse(server, act="ask", uid=1) == DENIED_111
    assert browse(server, act="ask", uid=2) == PASS
    assert browse(server, act="other", uid=1) == ALLOW


def test_the_answer_is_the_result_of_the_rule_with_its_order_of_fields(koala):
    server = koala()
    for _ in range(3):
        update(server, act="ask", uid=1)
    answer = server.get("/rule/browse?act=ask&uid=1")
    assert answer.text == '{"Str_reason":"Deny","Ret_type":2,"Ret_code":111,"Err_no":10}'
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("store", STORES)
def test_update_counts_and_saturates(koala, store):
    server = koala(store)
    for used in (1, 2, 3, 3, 3):
        update(server, act="ask", uid=1)
        assert value(server, 111, act="ask", uid=1) == used
    assert value(server, 111, act="ask", uid=2) == 0
    assert value(server, 111, act="other", uid=1) == 0
    assert value(server, 101, uid=7) == 0


@pytest.mark.parametrize("store", STORES)
def test_update_counts_for_each_rule_by_itself(koala, store):
    """Also for rules after a rule that answers without counting, or whose count is full."""
    server = koala(store)
    for _ in range(5):
        update(server, act="ask", uid=7, page="index")
    assert value(server, 111, act="ask", uid=7) == 3
    assert value(server, 1201, page="index") == 5


@pytest.mark.parametrize("store", STORES)
def test_complete_names_every_exceeded_rule_in_order(koala, store):
    server = koala(store)
    complete = "/rule/browse_complete"
    assert ask(server, complete, act="other") == [ALLOW]
    assert ask(server, complete, act="ask", uid=7, page="p") == [DENIED_101]
    for _ in range(5):
        update(server, act="ask", uid=7, page="p")
    assert ask(server, complete, act="ask", uid=8, page="q") == [PASS]
    assert ask(server, complete, act="ask", uid=7, page="p") == [
        DENIED_101, DENIED_111, {"Ret_type": 3, "Ret_code": 1201, "Err_no": 20}]
    assert ask(server, complete, act="ask", uid=8, page="p") == [
        {"Ret_type": 3, "Ret_code": 1201, "Err_no": 20}]


@pytest.mark.parametrize("store", STORES)
def test_complete_charges_all_rules_unless_one_refuses(koala, store):
    server = koala(store)
    both = {"act": "ask", "uid": 1, "page": "p"}

    def counts():
        return value(server, 111, **both), value(server, 1201, **both)

    def complete(**parameters):
        return ask(server, "/rule/browse_complete", __writeThrough="yes", **parameters)

    assert ask(server, "/rule/browse_complete", __writeThrough="no", **both) == [PASS]
    assert counts() == (0, 0)
    for n in range(3):
        assert complete(**both) == [PASS]
        assert counts() == (n + 1, n + 1)
    for _ in range(2):
        assert complete(**both) == [DENIED_111]
        assert counts() == (3, 3)
    assert complete(act="ask", uid=7, page="p") == [DENIED_101]
    assert value(server, 1201, page="p") == 3 and value(server, 111, act="ask", uid=7) == 0
    for _ in range(2):
        update(server, page="p")
    assert complete(act="ask", uid=7, page="p") == [DENIED_101, {"Ret_type": 3, "Ret_code": 1201, "Err_no": 20}]
    assert complete(**both) == [DENIED_111, {"Ret_type": 3, "Ret_code": 1201, "Err_no": 20}]
    assert complete(act="other") == [ALLOW]


@pytest.mark.parametrize("store", STORES)
def test_complete_decides_and_charges_in_one_step(koala, store):
    """Exactly as many parallel requests pass as the count allows."""
    server = koala(store)
    path = "/rule/browse_complete?_writeThrough=yes&act=ask&uid=1&page=p"

    def one(_):
        return server.get(path).json == [PASS]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(one, range(64))) == 3
    assert value(server, 111, act="ask", uid=1) == value(server, 1201, page="p") == 3


@pytest.mark.parametrize("store", STORES)
def test_base_allows_its_base_and_then_a_window(koala, store):
    server = koala(store)
    assert [take(server, act="base", ip="10.0.0.1")["Ret_type"] for _ in range(5)] == [1, 1, 1, 2, 2]
    assert value(server, 115, act="base", ip="10.0.0.1") == 3


@pytest.mark.parametrize("store", STORES)
def test_parallel_requests_pass_exactly_up_to_the_limit(koala, store):
    server = koala(store)

    def take_ten(_):
        with Http(server.http) as client:
            path = "/rule/browse?page=x&_writeThrough=yes"
            return sum(client.request("GET", path).json["Ret_type"] == 1 for _ in range(10))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take_ten, range(8))) == 5


def test_servers_at_one_redis_share_one_set_of_counts(serve, start_redis):
    redis = start_redis()
    config = f"store: {redis.url}\nstore_timeout: 30s\n" + RULES
    servers = [serve(config=config) for _ in range(3)]

    def take_ten(server):
        with Http(server.http) as client:
            path = "/rule/browse?page=x&_writeThrough=yes"
            return sum(client.request("GET", path).json["Ret_type"] == 1 for _ in range(10))

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(take_ten, 2 * servers)) == 5
    assert [value(server, 1201, page="x") for server in servers] == [5, 5, 5]
    update(servers[0], act="ask", uid=1)
    update(servers[1], act="ask", uid=1)
    assert value(servers[2], 111, act="ask", uid=1) == 2


def test_an_unknown_rule_is_400_and_minus_2(koala):
    server = koala()
    answer = server.get("/rule/value?rule_no=999&uid=1")
    assert (answer.status, answer.json["err_no"]) == (400, -2)
    for path in ("/dump/counter", "/dump/policy"):
        answer = server.get(f"{path}?rule_no=999")
        assert (answer.status, answer.json["err_no"]) == (400, -2)
    assert server.get("/rule/value").json["err_no"] == -1


@pytest.mark.parametrize(("no", "shown"), [
    ("%00", "\\x00"), ("111%00", "111\\x00"), ("%ff%fe", "\\xff\\xfe"), ("a%0d%0aX: y", "a\\x0d\\x0aX: y"),
    ("'\"", "'\""), (500 * "x", 64 * "x"), (40 * "%e4%b8%ad", 21 * "\u4e2d" + "\\xe4"), ("0112", "0112"),
    ("0", "0"), ("00", "00"),
    ("-1", "-1")])
def test_an_invalid_rule_no_is_shown_unchanged(koala, no, shown):
    server = koala()
    for path in ("/rule/value", "/dump/counter", "/dump/policy"):
        answer = server.get(f"{path}?uid=1&rule_no={no.replace(' ', '+')}")
        assert (answer.status, answer.json) == (
            400, {"err_no": -2, "err_msg": f"expected the name of a rule, found '{shown}'"})


def test_an_empty_rule_no_means_all_rules(koala):
    server = koala()
    for path in ("/dump/counter", "/dump/policy"):
        assert server.get(f"{path}?rule_no=").text == server.get(path).text
        assert server.get(f"{path}?rule_no").text == server.get(path).text
    answer = server.get("/rule/value?rule_no=&uid=1")
    assert (answer.status, answer.json["err_no"]) == (400, -1)


def test_pages_of_rules_are_empty_without_rules(serve):
    server = serve(config="limits:\n  a: {algorithm: token_bucket, rate: 1/s}\n")
    for path in ("/dump/counter", "/dump/policy"):
        answer = server.get(path)
        assert (answer.status, answer.text) == (200, "")


def test_the_error_of_a_key_that_is_too_long_names_the_parameter(koala):
    server = koala()
    long = "x" * 1100
    for path in ("/rule/browse", "/rule/update", "/rule/browse_complete"):
        answer = server.get(f"{path}?act=ask&uid={long}&other={3 * long}")
        assert (answer.status, answer.json) == (400, {"err_no": -1, "err_msg": (
            "expected a key of at most 1024 bytes for rule '111', found a longer one, "
            "in which 'uid' has 1100")})
    answer = server.post("/v1/acquire", {"attributes": {"page": long}})
    assert (answer.status, answer.json["error"]["message"]) == (400, (
        "expected a key of at most 1024 bytes for rule '1201', found a longer one, in which 'page' has 1100"))
    assert server.get(f"/rule/browse?other={long}").json == ALLOW


def test_a_query_may_contain_unescaped_bytes(koala):
    """curl sends such bytes, and browsers do after a '?'."""
    server = koala()
    for raw in ("\u00e9".encode(), "\u4e2d\u6587".encode(), b"\x80\xff"):
        request = (b"GET /rule/browse?act=ask&uid=" + raw
                   + b"&_writeThrough=yes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with Wire(server.http) as wire:
            wire.send(2 * request)
            answer = b""
            while answer.count(b"Ret_type") < 2:
                answer += wire.socket.recv(65536)
        assert answer.count(b" 200 OK") == 2
        coded = urllib.parse.quote_from_bytes(raw)
        assert server.get(f"/rule/value?rule_no=111&act=ask&uid={coded}").json["cache_val"] == 2


def test_a_form_in_the_body_is_read_whatever_the_method(koala):
    """If a form of a GET were ignored, its parameters would evade the rules."""
    server = koala()
    assert server.get("/rule/browse", FORM, "GET", "uid=7").json == DENIED_101
    assert server.get("/rule/browse?uid=8", FORM, "GET", "uid=7").json == ALLOW
    assert server.get("/rule/browse", {"Content-Type": "text/plain"}, "GET", "uid=7").status == 400


def test_a_feedback_of_another_type_is_an_error(koala):
    server = koala()
    for kind in ("erase3", "ERASE1", "1", "erase1%00"):
        answer = server.get(f"/rule/feedback?page=p&_feedbackType={kind}")
        assert (answer.status, answer.json["err_no"]) == (400, -1)
        assert "expected _feedbackType to be erase1 or erase2" in answer.json["err_msg"]
    for kind in ("", "erase1", "erase2"):
        assert ask(server, "/rule/feedback", page="p", __feedbackType=kind) == {"err_no": 0, "err_msg": "OK"}


def test_a_form_and_a_query_are_equivalent(koala):
    server = koala()

    def post(path, body, headers=None):
        return server.get(path, FORM if headers is None else headers, "POST", body)

    assert post("/rule/browse", "uid=7").json == DENIED_101
    assert post("/rule/browse", "uid=7", {}).json == DENIED_101
    assert post("/rule/browse", "uid=7", {"Content-Type": FORM["Content-Type"] + "; charset=utf-8"}
                ).json == DENIED_101
    # The query is read before the form, and the first value of a name counts.
    assert post("/rule/browse?uid=7", "uid=8").json == DENIED_101
    assert post("/rule/browse?uid=8", "uid=7").json == ALLOW
    assert post("/rule/update?act=ask", "uid=5").json == {"err_no": 0, "err_msg": "OK"}
    assert value(server, 111, act="ask", uid=5) == 1


def test_a_body_in_another_form_is_an_error(koala):
    server = koala()
    for kind in ("multipart/form-data; boundary=x", "application/json", "text/plain"):
        answer = server.get("/rule/browse", {"Content-Type": kind}, "POST", '{"uid":7}')
        assert (answer.status, answer.json["err_no"]) == (400, -1)
        assert "application/x-www-form-urlencoded" in answer.json["err_msg"]


@pytest.mark.parametrize("query", [
    "x&uid=7", "uid=7&x", "=&uid=7", "=x&uid=7", "&&uid=7&", "x=%zz&uid=7", "x=%&uid=7", "x;y&uid=7",
    "%75id=7", "uid=%37", "x=1&x=2&uid=7", "uid=7&uid=8", "%00=1&uid=7", "a%00b=1&uid=7"])
def test_a_malformed_parameter_hides_no_other(koala, query):
    assert koala().get(f"/rule/browse?{query}").json == DENIED_101


def test_values_are_decoded(koala):
    server = koala()
    update(server, act="ask", uid="a b&c=d|e")
    for query in ("uid=a+b%26c%3Dd%7Ce&act=ask", "act=%61sk&uid=a%20b%26c%3dd|e"):
        answer = server.get(f"/rule/value?rule_no=111&{query}")
        assert answer.json["cache_val"] == 1


def test_an_absent_or_empty_value_matches_no_rule(koala):
    server = koala()
    for query in ("act=ask", "act=ask&uid", "act=ask&uid=", "act=ask&uid=&uid=1", "_act=ask&uid=1"):
        assert server.get(f"/rule/browse?{query}").json == ALLOW


def test_parameters_are_bounded(koala):
    server = koala()
    many = "&".join(f"p{i}=1" for i in range(63))
    assert server.get(f"/rule/browse?{many}&uid=7").json == DENIED_101
    for query in (f"{many}&q=1&uid=7", 65 * "x&" + "uid=7"):
        answer = server.get(f"/rule/browse?{query}")
        assert (answer.status, answer.json["err_no"]) == (400, -1)
        assert "at most 64" in answer.json["err_msg"]
    answer = server.get(f"/rule/browse?act=ask&uid={1100 * 'x'}")
    assert (answer.status, answer.json["err_no"]) == (400, -1)
    assert server.get("/rule/browse?uid=7").json == DENIED_101


def many(server, items):
    arguments = [{"Id": i, "Arg": urllib.parse.quote(arg, safe="")} for i, arg in items]
    return server.get("/multi/browse?" + urllib.parse.urlencode({"argsJson": json.dumps(arguments)}))


@pytest.mark.parametrize("store", STORES)
def test_multi_browse_answers_as_single_requests_do(koala, store):
    server = koala(store)
    for _ in range(3):
        update(server, act="ask", uid=1)
    queries = ["act=ask&uid=1", "act=ask&uid=2", "uid=7", "x&uid=7", "uid=7&uid=8", "",
               "act=ask&uid=a%2Bb", "x=%zz&uid=7"]
    answer = many(server, [(str(i), query) for i, query in enumerate(queries)])
    assert answer.json == [
        {"ID": str(i), "Id": str(i), "Result": server.get(f"/rule/browse?{query}").json}
        for i, query in enumerate(queries)]


def test_each_item_of_multi_browse_may_write_through(koala):
    server = koala()
    arg = "act=ask&uid=1&_writeThrough=yes"
    types = [item["Result"]["Ret_type"] for item in many(server, [("a", arg)] * 5).json]
    assert types == [1, 1, 1, 2, 2]
    types = [item["Result"]["Ret_type"] for item in many(server, [("a", "act=ask&uid=2")] * 5).json]
    assert types == [1] * 5


def test_a_bad_item_of_multi_browse_affects_no_other(koala):
    server = koala()
    good = {"Id": "g", "Arg": "uid%3D7"}
    bad = [{"Id": "b"}, {"Idd": "b"}, {"Id": [], "Arg": ""}, {"Id": "b", "Arg": {}}, 5,
           {"Id": "b", "Arg": 65 * "x%26"}]
    body = urllib.parse.urlencode({"argsJson": json.dumps([x for b in bad for x in (b, good)])})
    answer = server.get("/multi/browse", FORM, "POST", body).json
    assert [item["Result"] for item in answer[1::2]] == len(bad) * [DENIED_101]
    assert all(item["Result"]["err_no"] == -1 for item in answer[::2])


@pytest.mark.parametrize("value", ["", "x", "{}", "5", "[", json.dumps(1001 * [{}])])
def test_items_that_are_no_array_are_an_error(koala, value):
    answer = koala().get("/multi/browse", FORM, "POST", urllib.parse.urlencode({"argsJson": value}))
    assert (answer.status, answer.json["err_no"]) == (400, -1)


def test_counters_of_answers_per_rule_survive_reloads(koala):
    server = koala()
    for _ in range(5):
        take(server, act="ask", uid=1)
    browse(server, act="ask", uid=7)
    ask(server, "/rule/browse_complete", act="ask", uid=1)
    many(server, [("a", "act=ask&uid=2"), ("b", "act=ask&uid=1")])
    update(server, act="ask", uid=3)
    expected = ("rule_no:101  allow:0  deny:1\n"
                "rule_no:111  allow:4  deny:4\n"
                "rule_no:115  allow:0  deny:0\n"
                "rule_no:1201  allow:0  deny:0\n")
    assert server.get("/dump/counter").text == expected
    assert server.get("/dump/counter?rule_no=111").text == "rule_no:111  allow:4  deny:4\n"
    server.reload(RULES.replace('name: "115"', 'name: "116"'))
    until(lambda: "rule_no:116" in server.get("/dump/counter").text, "a reload")
    assert server.get("/dump/counter").text == expected.replace("115", "116")


def test_policy_lists_the_rules_that_are_loaded(koala):
    server = koala()
    lines = [json.loads(line) for line in server.get("/dump/policy").text.splitlines()]
    assert [line["name"] for line in lines] == ["101", "111", "115", "1201"]
    only = json.loads(server.get("/dump/policy?rule_no=111").text)
    assert only == lines[1]
    assert only["result"] == DENIED_111
    assert only["limits"][0]["rate"] == "3/h"


def test_policy_shows_the_rules_in_koalas_language(serve):
    server = serve("-c", ROOT / "examples" / "koala.conf", config=None)
    lines = [json.loads(line) for line in server.get("/dump/policy").text.splitlines()]
    assert lines[0]["match"] == [{"attribute": "uid", "in": ["dicts/staff.dat"]}]
    assert lines[0]["answer"] == "allow"
    assert lines[5]["feedback"] == [2, 4]
    assert [line["key"] for line in lines[1:3]] == [["act", "uid"], ["act", "uid"]]


def test_health_follows_the_store(koala):
    assert koala().get("/monitor/alive").json == {"errno": 0, "errmsg": "OK!"}


def test_health_follows_redis(serve, start_redis):
    redis = start_redis()
    server = serve(config=f"store: {redis.url}\nlimits: {{ a: {{ algorithm: token_bucket, rate: 1/h }} }}\n")

    def alive():
        answer = server.get("/monitor/alive")
        return answer.status, answer.json

    assert until(lambda: alive() == (200, {"errno": 0, "errmsg": "OK!"}), "a connection")
    redis.stop()  # and there are no requests but those for health
    down = (500, {"errno": -1, "errmsg": "redis-error!"})
    assert until(lambda: alive() == down, "the loss to be seen")
    redis.restart()
    assert until(lambda: alive() == (200, {"errno": 0, "errmsg": "OK!"}), "the way back")


AWAY = """
store_timeout: 50ms
limits:
  "1": { algorithm: fixed_window, rate: 3/h, align: first_request, on_store_failure: POLICY }
rules:
  - name: "1"
    match: { uid: "*" }
    key: [uid]
    limits: ["1"]
    result: { Ret_type: 2, Ret_code: 1, Err_no: 10 }
"""


@pytest.mark.parametrize(("policy", "types", "error"), [
    ("local", [1, 1, 1, 2], 0), ("open", [1, 1, 1, 1], 0), ("closed", [2, 2, 2, 2], -1)])
def test_without_its_store_each_limit_follows_its_policy(serve, start_redis, policy, types, error):
    redis = start_redis()
    server = serve("--store", redis.url, config=AWAY.replace("POLICY", policy))
    redis.stop()
    until(lambda: server.get("/monitor/alive").status == 500 or take(server, uid="first") and False,
          "the loss to be seen")
    assert [take(server, uid=1)["Ret_type"] for _ in range(4)] == types
    answer = server.get("/rule/update?uid=2")
    assert (answer.status, answer.json["err_no"]) == (200, error)
    assert metric(server, f'weir_store_failures_total{{limit="1",policy="{policy}"}}') >= 5
    assert any("store_away" in line for line in server.log) or server.line_with("store_away")


def test_feedback_and_dumps_are_for_callers_of_this_machine_only(koala):
    """A request that a proxy forwards is not one of this machine."""
    server = koala()
    for path in ("/rule/feedback?page=1", "/dump/policy", "/dump/counter"):
        answer = server.get(path, {"X-Forwarded-For": "1.2.3.4"})
        assert (answer.status, answer.json["err_no"]) == (403, -1)
    for path in ("/rule/browse?uid=7", "/rule/update?uid=9", "/rule/value?rule_no=111", "/monitor/alive"):
        assert server.get(path, {"X-Forwarded-For": "1.2.3.4"}).status == 200


def test_requests_of_pages_of_other_sites_are_refused(koala):
    server = koala()
    for path in ("/rule/browse?uid=7", "/rule/update?uid=9", "/multi/browse?argsJson=[]"):
        assert server.get(path, {"Sec-Fetch-Site": "cross-site"}).status == 403


def test_other_methods_are_refused(koala):
    server = koala()
    answer = server.get("/rule/browse?uid=7", method="DELETE")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, POST, PUT")
    assert server.get("/rule/browse?uid=7", method="PUT").json == DENIED_101
    assert server.get("/rule/update?act=ask&uid=1", method="HEAD").status == 200
    assert value(server, "0111", act="ask", uid=1) == 1
    assert server.get("/monitor/alive/", method="HEAD").status == 200


def test_slashes_before_and_after_a_path_are_ignored(koala):
    server = koala()
    for path in ("/rule/browse/", "//rule/browse", "///rule/browse//"):
        assert server.get(f"{path}?uid=7").json == DENIED_101
    for path in ("/rule//browse", "//v1/limits", "/v1/limits/"):
        assert server.get(f"{path}?uid=7").status == 404


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_a_leak_with_a_count_above_the_maximum_of_a_log_counts_and_refunds(serve, start_redis, tmp_path, store):
    path = tmp_path / "rules.conf"
    path.write_text("[RULES]\nRule : [leak] [page=+] [time=3600; count=20000; erase1=2; erase2=9] "
                    "[result=2; return=9]\n[RESULT]\n" + "".join(f'{n} : {{"Ret_type":{n}}}\n' for n in range(3)))
    server = serve("-c", path, "--store", start_redis().url if store == "redis" else "memory",
                   config="store_timeout: 30s\ndenied_cache: 0s\n")
    body = json.dumps({"attributes": {"page": "p"}, "cost": 9999})
    for _ in range(2):
        assert server.get("/v1/acquire", {}, "POST", body).json["allowed"]
    assert [take(server, page="p")["Ret_type"] for _ in range(3)] == [1, 1, 2]
    assert ask(server, "/rule/feedback", page="p") == {"err_no": 0, "err_msg": "OK"}
    assert value(server, 9, page="p") == 19998
    ask(server, "/rule/feedback", page="p", __feedbackType="erase2")
    assert value(server, 9, page="p") == 19989
    assert browse(server, page="p") == {**PASS, "Str_reason": ""}


def test_a_request_without_a_host_is_answered(koala):
    """Koala's own SDK for Go sends none, and reads an error as an allowed request."""
    server = koala()

    def lines(target):
        with socket.create_connection(("127.0.0.1", server.http), PATIENCE) as client:
            client.sendall(f"GET {target} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
            return client.makefile("r").read().splitlines()

    found = lines("/rule/browse?uid=7%20")
    assert found[0] == "HTTP/1.1 200 OK" and json.loads(found[-1]) == DENIED_101
    assert lines("/dump/policy")[0] == lines("/rule/feedback?uid=7")[0] == "HTTP/1.1 200 OK"
    assert lines("/v1/limits")[0] == "HTTP/1.1 400 Bad Request"


def test_a_rule_without_a_result_has_koalas_fields(serve):
    server = serve(config="""
limits: { one: { algorithm: fixed_window, rate: 1/h } }
rules:
  - name: by-uid
    match: { uid: "*" }
    key: [uid]
    limits: [one]
""")
    assert take(server, uid=1) == PASS
    assert take(server, uid=1) == {**ALLOW, "Ret_type": 2, "Err_no": 10, "Str_reason": "Deny"}
    assert browse(server) == ALLOW


def test_counts_are_shared_with_the_other_protocols(koala):
    server = koala()
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.CHECK", "act", "ask", "uid", "1"))
        assert wire.reply()[0] == 1
    assert value(server, 111, act="ask", uid=1) == 1
