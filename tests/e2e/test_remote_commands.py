"""Commands that ask a running server: why, key, reset, and ask over HTTP."""

import json
import re

import pytest
from harness import ROOT, Server, one_thread, weir
from test_client_logins import PASSWORD, named, no_login, way  # pylint: disable=unused-import
from test_tls import certificates  # pylint: disable=unused-import
from test_users import config_of, users, user as entry  # pylint: disable=unused-import

pytestmark = one_thread

RULES = """
limits:
  login: { algorithm: token_bucket, rate: 1/h, burst: 1 }
  spare: { algorithm: fixed_window, rate: 1/h, align: first_request }
  relief: { algorithm: random, deny: 0 }
rules:
  - { name: by-user, match: { path: /login }, key: [user], limits: [login] }
  - { name: trial, match: { path: /login }, key: [user], limits: [spare], mode: shadow }
  - { name: banned, match: { user: mallory }, answer: deny }
denials: { per_second: 1000 }
"""
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def at(server, protocol="http"):
    return ["--server", f"127.0.0.1:{server.ports[protocol]}"]


@pytest.fixture(scope="module")
def denying(tmp_path_factory):
    """A server that has denied `ann` and a key that is not printable, twice each."""
    server = Server(config=RULES, directory=tmp_path_factory.mktemp("denying"))
    for user in ("ann", "\x1b[2Jé") * 3:
        server.post("/v1/acquire", {"attributes": {"path": "/login", "user": user}})
    yield server
    assert server.stop() == 0


def test_why_lists_denials_newest_first(denying):
    done = weir("why", "ann", *at(denying))
    assert (done.returncode, done.stderr) == (0, "")
    title, *rows = done.stdout.splitlines()
    assert title.split() == ["TIME", "RULE", "LIMIT", "REASON", "RETRY", "AT", "ID", "ATTRIBUTES"]
    found = [re.fullmatch(rf"({TIME})  (by-user|trial \(shadow\)) +(login|spare)  over_limit  ({TIME}|- {{19}})  ([0-9a-f]{{16}})  path=/login user=\w+", row)
             for row in rows]
    assert all(found) and len(found) == 4, rows
    assert [row[1] for row in found] == sorted((row[1] for row in found), reverse=True)
    listed = denying.get("/v1/denials?key=ann").json
    assert [row[5] for row in found] == [denial["id"] for denial in listed]
    assert all(row[4] > row[1] for row in found if row[3] == "login")


def test_why_finds_a_key_by_name_or_digest_and_by_limit_and_time(denying):
    digest = weir("key", "ann", *at(denying)).stdout.strip()
    assert re.fullmatch("[0-9a-f]{16}", digest)
    by_name = weir("why", "ann", "--limit", "login", "--json", *at(denying))
    assert {(denial["limit"], denial["key"]) for denial in json.loads(by_name.stdout)} == {("login", digest)}
    assert by_name.stdout.endswith("]\n")
    assert weir("why", digest, "--limit", "login", "--json", *at(denying)).stdout == by_name.stdout
    assert weir("why", "ann", "--since", "1h", "--limit", "login", "--json", *at(denying)).stdout == by_name.stdout
    for flags in (["--since", "2200-01-01T00:00:00Z"], ["--limit", "relief"]):
        done = weir("why", "ann", *flags, *at(denying))
        assert (done.returncode, done.stdout) == (1, "")
        assert "no denial of 'ann'" in done.stderr
    done = weir("why", "nobody", "--json", *at(denying))
    assert (done.returncode, done.stdout, done.stderr) == (1, "[]\n", "")


def test_why_without_a_key_lists_the_last_denials_with_their_keys(denying):
    done = weir("why", *at(denying))
    assert (done.returncode, done.stderr) == (0, "")
    title, *rows = done.stdout.splitlines()
    assert title.split() == ["TIME", "RULE", "LIMIT", "KEY", "REASON", "RETRY", "AT", "ID", "ATTRIBUTES"]
    listed = denying.get("/v1/denials?n=1000").json
    assert len(rows) == len(listed) == 8
    for row, denial in zip(rows, listed):
        at_once = rf"{denial['time']}  {denial['rule']}{' .shadow.' * denial['shadow']} +{denial['limit']}  {denial['key']}  over_limit  .*{denial['id']}"
        assert re.match(at_once, row), (row, denial)
    for flags, query in ((["--limit", "login"], "limit=login"), (["--rule", "trial"], "rule=trial"), (["--since", "1h"], "since=1h"),
                         (["--limit", "spare", "--rule", "trial", "--since", "1h"], "limit=spare&rule=trial")):
        done = weir("why", *flags, "--json", *at(denying))
        assert done.returncode == 0 and json.loads(done.stdout) == denying.get(f"/v1/denials?n=1000&{query}").json != []


def test_why_finds_a_denial_by_its_id(denying):
    denial = denying.get("/v1/denials?key=ann&limit=login").json[0]
    done = weir("why", "--id", denial["id"].upper(), *at(denying))
    assert (done.returncode, done.stderr) == (0, "")
    [row] = done.stdout.splitlines()[1:]
    assert row.split()[:5] == [denial["time"], "by-user", "login", denial["key"], "over_limit"] and denial["id"] in row
    as_json = weir("why", "ann", "--id", denial["id"], "--json", *at(denying))
    assert as_json.returncode == 0 and json.loads(as_json.stdout) == [denial]
    as_key = weir("why", denial["id"], *at(denying))
    assert (as_key.returncode, as_key.stdout) == (1, "")
    assert as_key.stderr.startswith(f"weir why: no denial of '{denial['id']}' is kept; if that is the id of a denial, use --id; the server keeps 8")
    wrong = weir("why", "--id", "9fa7", *at(denying))
    assert (wrong.returncode, wrong.stdout) == (2, "") and "expected id to be the 16 hexadecimal digits" in wrong.stderr


@pytest.mark.parametrize("flags, message", [
    (["--id", "0" * 16], f"no denial with the id '{'0' * 16}' is kept"),
    (["--limit", "relief"], "no denial by the limit 'relief' is kept"), (["--rule", "banned"], "no denial by the rule 'banned' is kept"),
    (["--limit", "CL.THROTTLE"], "no denial by the limit 'CL.THROTTLE' is kept"),
    (["--limit", "THROTTLE"], "no denial by the limit 'THROTTLE' is kept"),
    (["--since", "2200-01-01T00:00:00Z"], "no denial is kept since 2200-01-01T00:00:00Z"),
    (["bob", "--limit", "login"], "no denial of 'bob' by the limit 'login' is kept")])
def test_why_says_of_what_there_is_no_denial_and_how_far_back_the_list_goes(denying, flags, message):
    done = weir("why", *flags, *at(denying))
    oldest = denying.get("/v1/denials?n=1000").json[-1]["time"]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"weir why: {message}; the server keeps 8 denials, the oldest of {oldest}\n"


@pytest.mark.parametrize("zone, date, begin", [
    ("UTC", "2200-01-31", "2200-01-31T00:00:00Z"), ("Asia/Shanghai", "2200-01-31", "2200-01-30T16:00:00Z"),
    ("America/New_York", "2036-07-04", "2036-07-04T04:00:00Z")])
def test_since_a_date_begins_with_the_day_of_this_machine(denying, zone, date, begin):
    done = weir("why", "--since", date, *at(denying), env={"TZ": zone})
    assert done.returncode == 1 and done.stderr.startswith(f"weir why: no denial is kept since {begin}; "), done
    assert weir("why", "ann", "--since", "2020-01-31", *at(denying), env={"TZ": zone}).returncode == 0


@pytest.mark.parametrize("since", ["soon", "", "2026-02-30", "2026-13-01", "2026-01-31 ", "1969-01-01", "2300-01-01", "2026-01"])
def test_since_names_the_forms_that_it_takes(denying, since):
    done = weir("why", "--since", since, *at(denying))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("weir why: --since: expected a span such as 1h, a date such as 2026-01-31, or a time such as "
                           f"2026-01-31T10:00:00Z, found '{since}'\n")


def test_why_says_how_many_denials_were_left_out(serve):
    server = serve(config=RULES.replace("per_second: 1000", "per_second: 1, keep: 1"))
    assert weir("why", "ann", *at(server)).stderr == "weir why: no denial of 'ann' is kept; the server keeps 0 denials\n"
    for _ in range(6):
        server.post("/v1/acquire", {"attributes": {"path": "/login", "user": "ann"}})
    left_out = server.get("/v1/status").json["denials"]["left_out"]
    done = weir("why", "bob", *at(server))
    assert left_out > 0 and re.search(rf"keeps 1 denial, the oldest of {TIME}, and has left out {left_out}\n", done.stderr), done


@pytest.mark.parametrize("flags, message", [
    (["--limit", "lgoin"], "limit, found 'lgoin': did you mean 'login'?"), (["--limit", "nosuch"], "limit, found 'nosuch'"),
    (["ann", "--rule", "by_user"], "rule, found 'by_user': did you mean 'by-user'?"), (["--rule", "baned"], "rule, found 'baned': did you mean 'banned'?"),
    (["--rule", "login", "--json"], "rule, found 'login'")])
def test_why_names_a_limit_or_rule_that_the_server_does_not_have(denying, flags, message):
    done = weir("why", *flags, *at(denying))
    assert (done.returncode, done.stderr) == (2, f"weir why: expected the name of a {message}\n")


def test_a_denial_without_a_key_is_found_by_its_limit_and_by_the_address_if_that_is_kept(tmp_path):
    server = Server(config="""
limits: { relief: { algorithm: random, deny: 1 } }
rules: [ { name: all, limits: [relief] } ]
denials: { attributes: [ip] }
""", directory=tmp_path)
    server.post("/v1/acquire", {"attributes": {"ip": "203.0.113.9", "path": "/"}})
    [row] = weir("why", "--limit", "relief", *at(server)).stdout.splitlines()[1:]
    assert row.split()[1:5] == ["all", "relief", "-", "shed"] and row.split()[-1] == "ip=203.0.113.9"
    assert server.get("/v1/denials").json[0]["key"] == ""
    [row] = weir("why", "203.0.113.9", *at(server)).stdout.splitlines()[1:]
    assert row.split()[1:4] == ["all", "relief", "shed"] and row.split()[-1] == "ip=203.0.113.9"
    assert weir("why", "203.0.113", *at(server)).returncode == 1
    assert server.stop() == 0


def test_a_denial_by_another_key_is_found_by_a_kept_address_or_header(serve):
    server = serve(config="""
limits: { tokens: { algorithm: fixed_window, rate: 1/h, align: first_request } }
rules: [ { name: by-token, match: { cookie.session: "*" }, key: [header.x-api-key], limits: [tokens] } ]
denials: { attributes: [path, ip, cookie.session], key: full }
""")
    for _ in range(2):
        server.post("/v1/acquire", {"attributes": {"ip": "203.0.113.9", "path": '/"x"\\', "header.x-api-key": "k", "cookie.session": "s3cret"}})
    [denial] = server.get("/v1/denials").json
    for key in ("203.0.113.9", '/"x"\\', "k", "s3cret", denial["attributes"]["cookie.session"]):
        assert json.loads(weir("why", key, "--json", *at(server)).stdout) == [denial], key
    for key in ("203.0.113", "ip", "path", "s3cre"):
        assert weir("why", key, *at(server)).returncode == 1


def test_why_shows_the_key_that_counts_if_it_is_not_the_one_asked_for(serve):
    server = serve(config="""
limits: { login: { algorithm: fixed_window, rate: 1/h, align: first_request } }
rules: [ { name: by-ip, key: [ip], limits: [login] } ]
denials: { key: full }
""")
    for address in ("2001:db8:1:2::7", "192.0.2.7"):
        for _ in range(2):
            server.post("/v1/acquire", {"attributes": {"ip": address}})
    assert weir("why", "192.0.2.7", *at(server)).stdout.splitlines()[1].split()[1:4] == ["by-ip", "login", "over_limit"]
    shown = weir("why", "2001:db8:1:2::7", *at(server)).stdout.splitlines()[1].split()
    assert shown[1:5] == ["by-ip", "login", "2001:db8:1:2::/64", "over_limit"]


def test_a_key_of_any_bytes_is_found(denying):
    assert weir("why", "\x1b[2Jé", *at(denying)).stdout.count("over_limit") == 4
    nobody = weir("why", b"\xff\x1b&key=ann".decode(errors="surrogateescape"), *at(denying))
    assert nobody.returncode == 1 and r"'\xff\x1b&key=ann'" in nobody.stderr
    wrong = weir("key", b"\xff".decode(errors="surrogateescape"), *at(denying))
    assert (wrong.returncode, wrong.stderr) == (2, "weir key: expected UTF-8 in the key over HTTP, found other bytes\n")


@pytest.mark.parametrize("words, message", [
    (["why", "a", "b"], "expected one KEY at most, found 2 arguments"),
    (["why", "-5"], "expected an option, found '-5'; see weir why --help, and write -- before an argument that begins with -"),
    (["why", ""], "expected KEY, found an empty one"), (["key"], "expected KEY, found 0 arguments"),
    (["reset", "login"], "expected LIMIT KEY, found 1 arguments"),
    (["key", "k" * 1100], "expected")])
def test_wrong_arguments_exit_with_2(denying, words, message):
    done = weir(*words, *at(denying))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize("url", [False, True])
def test_reset_makes_a_limit_forget_a_key(serve, url):
    server = serve(config=RULES)
    flags = ["--server", f"http://127.0.0.1:{server.http}"] if url else at(server, "resp")
    for _ in range(2):
        assert weir("ask", "login", "k", *flags).returncode == 0
        assert weir("ask", "login", "k", *flags).returncode == 1
        done = weir("reset", "login", "k", *flags)
        assert (done.returncode, done.stdout, done.stderr) == (0, "login k: no use is kept now, 1 of 1 left\n", "")
    never_seen = weir("reset", "login", "never-seen", *flags)
    assert (never_seen.returncode, never_seen.stdout) == (0, "login never-seen: no use is kept now, 1 of 1 left\n")
    no_quota = weir("reset", "relief", "k", *flags)
    assert (no_quota.returncode, no_quota.stdout) == (0, "relief k: no use is kept now\n")
    assert weir("reset", "nosuch", "k", *flags).returncode == 2


@pytest.mark.parametrize("words", [
    ["login", "k"], ["login", "k", "--peek"], ["login", "k", "--cost", "0"], ["login", "k", "--cost", "2"], ["nosuch", "k"],
    ["--attr", "path=/login", "--attr", "user=\"ann\"\\"], ["--attr", "path=/login", "--attr", "user=x", "--peek"],
    ["--attr", "path=/nowhere"], ["login", "k" * 1100]])
def test_ask_says_the_same_over_http_and_resp(serve, words):
    said = []
    for protocol in "http", "resp":
        server = serve(config=RULES)
        prefix = "http://" if protocol == "http" else ""
        runs = [weir("ask", *words, "--server", f"{prefix}127.0.0.1:{server.ports[protocol]}") for _ in range(2)]
        said.append([(done.returncode, re.sub(r"(?<=in )\d+ ms", "N ms", done.stdout), done.stderr)
                     for done in runs])
    assert said[0] == said[1]


@pytest.mark.parametrize("words", [["relief", "k"], ["--attr", "path=/search"]])
def test_ask_shows_no_numbers_of_a_limit_without_a_quota(serve, words):
    server = serve(config="limits: { relief: { algorithm: random, deny: 0.5 } }\n"
                          "rules: [ { match: { path: /search }, limits: [relief] } ]\n")
    done = weir("ask", *words, *at(server, "resp"))
    assert done.returncode in (0, 1) and " left" not in done.stdout, done.stdout


def test_each_command_reaches_a_server_over_each_transport(way):
    """With a login of the environment; `everything` may all."""
    flags = {name: [*flags, *named("everything")] for name, flags in way.items()}
    digest = weir("key", "k", *flags["http"], env=PASSWORD)
    assert (digest.returncode, digest.stderr) == (0, "")
    assert weir("why", "k", *flags["http"], env=PASSWORD).returncode == 1
    assert weir("reset", "login", "k", *flags["resp"], env=PASSWORD).returncode == 0
    address = way["http"][1]
    if not address.startswith("unix:"):
        url = [f"https://{address}" if "--tls" in way["http"] else f"http://{address}"]
        rest = [flag for flag in flags["http"][2:] if flag != "--tls"]
        for words in (["key", "k"], ["reset", "login", "k"], ["ask", "login", "k"]):
            assert weir(*words, "--server", *url, *rest, env=PASSWORD).returncode == 0


def test_a_user_without_the_right_is_refused(users):
    asker = {"WEIR_TOKEN": "weir_asker"}
    why = weir("why", "k", *at(users), env=asker)
    assert why.returncode == 2 and "expected" in why.stderr
    for flags in (at(users, "resp"), ["--server", f"http://127.0.0.1:{users.http}"]):
        done = weir("reset", "login", "k", *flags, env=asker)
        assert done.returncode == 1 and done.stderr.startswith("weir reset: ") and not done.stdout
        wrong = weir("reset", "login", "k", *flags, env={"WEIR_TOKEN": "guess"})
        assert wrong.returncode == 1 and "guess" not in wrong.stderr


def test_the_address_comes_from_the_environment(serve):
    server = serve(config=RULES)
    env = {"WEIR_SERVER": f"http://localhost:{server.http}/"}
    assert weir("ask", "login", "k", env=env).returncode == 0
    assert weir("ask", "login", "k", env=env).returncode == 1
    assert weir("why", "k", env=env).returncode == 0
    bench = weir("bench", "--limit", "login", "--keys", 1, "--requests", 3, "--connections", 1, "--json", env=env)
    assert bench.returncode == 0 and json.loads(bench.stdout)["denied"] == 2
    assert weir("ask", "login", "k", *at(server, "resp"), env=env).returncode == 1  # a flag beats it
    assert "WEIR_SERVER: expected" in weir("why", "k", env={"WEIR_SERVER": "nonsense"}).stderr


@pytest.mark.parametrize("address, message", [
    ("http://user:secret@h:1/", "found a URL with a login"), ("http://h:1/v1", "found a URL with a path"),
    ("http://h:1?x", "found a URL with a path"), ("http://", "found a URL with no host"), ("http://:80", "no host"),
    ("http://h:70000", "expected"), ("http://[::1]x:1", "expected"), ("http://" + "h" * 300, "expected"), ("", "expected"),
    ("ftp://h:1", "expected"), ("nosuch.invalid:80", "can't find the host nosuch.invalid"), ("127.0.0.1", "expected HOST:PORT or unix:/PATH, found '127.0.0.1'\n"),
    ("a b:80", "expected HOST:PORT with an IP address or localhost as HOST, or unix:/PATH, found 'a b:80'\n"),
    ("127.0.0.1:1", "no answer from 127.0.0.1:1: Connection refused"), ("http://[::1]:1", "no answer from http://[::1]:1"),
    ("unix:/nosuch/socket", "No such file")])
def test_an_address_that_is_wrong_is_an_error(address, message):
    done = weir("why", "k", "--server", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "secret" not in done.stderr


def test_tls_and_a_url_without_it_contradict_each_other():
    done = weir("why", "k", "--tls", "--server", "http://127.0.0.1:1")
    assert (done.returncode, done.stderr) == (2, "weir why: expected https:// in --server beside --tls, found http://\n")


def test_the_other_protocols_port_is_named(denying):
    done = weir("why", "k", *at(denying, "resp"))
    assert done.returncode == 2 and "expected Weir's HTTP address" in done.stderr
    done = weir("bench", "--protocol", "resp", "--server", f"http://127.0.0.1:{denying.http}")
    assert done.returncode == 2 and "expected --protocol http" in done.stderr


def test_operations_page_shows_the_table_as_it_is():
    page = (ROOT / "docs/operations.md").read_text()
    assert re.search(rf"^TIME +RULE +LIMIT +REASON +RETRY AT +ID +ATTRIBUTES\n{TIME}  login-by-ip  login +over_limit  {TIME}  [0-9a-f]{{16}}(  \S.*)?$",
                     page, re.M)


def test_status_shows_what_the_server_runs(serve, start_redis):
    redis = start_redis()
    server = serve(config=f"""
limits:
  back: {{ algorithm: breaker, preset: hystrix }}
  shared: {{ algorithm: fixed_window, rate: 1/h, store: "{redis.url}" }}
  relief: {{ algorithm: random, deny: 0 }}
""")
    assert ["switched", "none"] in [line.split() for line in weir("status", *at(server)).stdout.splitlines()]
    server.post("/v1/shed", {"limit": "relief", "deny": 0.25, "until": "2100-01-01T00:00:00Z"})
    server.post("/v1/breaker", {"limit": "back", "key": "db-1", "state": "open"})
    done = weir("status", *at(server))
    assert (done.returncode, done.stderr) == (0, "")
    shown = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert ["state", "ready"] in shown and ["files", str(server.config)] in shown
    assert ["listeners", f"http 127.0.0.1:{server.http}"] in shown and ["resp", f"127.0.0.1:{server.resp}"] in shown
    assert ["limits", "3, in 0 rules"] in shown and ["open", "breakers  back db-1"] in shown
    assert str(redis.port) in re.search(r"^stores +memory\n +(.*)", done.stdout, re.M)[1]
    assert re.search(rf"^switched +relief denies 0.25 by 127.0.0.1 at {TIME} until 2100-01-01T00:00:00Z\n"
                     rf" +back db-1 forced open by 127.0.0.1 at {TIME}$", done.stdout, re.M), done.stdout
    as_json = weir("status", "--json", *at(server))
    assert as_json.returncode == 0 and json.loads(as_json.stdout)["open_breakers"] == [{"limit": "back", "key": "db-1"}]
    server.config.write_text("nonsense: 1\n")
    assert weir("reload", *at(server)).returncode == 1
    done = weir("status", *at(server))
    assert done.returncode == 0 and re.search(r"^LAST RELOAD FAILED +\S*weir.yaml:1:1: ", done.stdout, re.M)


@pytest.mark.parametrize("flags, shown", [([], "state  ready\n"), (["--json"], '{"ready":true}\n')])
def test_without_the_right_status_shows_readiness_alone(users, flags, shown):
    for env in ({"WEIR_TOKEN": "weir_asker"}, {"WEIR_TOKEN": "guess"}, {}):
        done = weir("status", *flags, *at(users), env=env)
        assert (done.returncode, done.stdout) == (0, shown)
        assert done.stderr.startswith("weir status: ")


def test_status_of_no_server_is_an_error(denying):
    assert weir("status", "--server", "127.0.0.1:1").returncode == 2
    assert weir("status", *at(denying, "resp")).returncode == 2
    assert weir("status", "more", *at(denying)).returncode == 2
