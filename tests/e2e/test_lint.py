"""The errors and warnings of `weir lint` for mistyped files."""

import re

import pytest
from harness import one_thread, weir

pytestmark = one_thread

LIMIT = "{ algorithm: token_bucket, rate: 5/s }"


def lint(directory, text, *flags):
    """(exit code, [message without the file's name])"""
    file = directory / "weir.yaml"
    file.write_text(text)
    done = weir("lint", *flags, file)
    return done.returncode, [line.removeprefix(f"{file}:").strip() for line in done.stderr.splitlines()]


def test_each_mistake_of_a_file_is_reported_once_with_its_place(tmp_path):
    code, remarks = lint(tmp_path, """\
limits:
  login: { algorithm: token_bukcet, rate: 5/s }
  api: { algorithm: token_bucket, rate: 5/seconds, brust: 3 }
  dup: { algorithm: token_bucket, rate: 5/s }
  half: { algorithm: token_bucket }
  dup: { algorithm: token_bucket, rate: 6/s }
rules:
  - { name: r, key: [ip], limits: [lgin, api] }
  - { key: [ip], limts: [api] }
  - { key: [ip], limits: [api], limits: [half], mode: shadows }
listen: { http: 127.0.0.1:1, htp: 2 }
capcity: 5
""")
    assert code == 1
    assert [re.match(r"(\d+):\d+: error: (.*)", remark).groups() for remark in remarks] == [
        ("2", "expected algorithm to be one of token_bucket, leaky_bucket, fixed_window, resetting_bucket, "
              "sliding_window, sliding_log, pacer, leaky_queue, random, …, found \"token_bukcet\": "
              "did you mean \"token_bucket\"?"),
        ("3", "expected a rate of whole numbers from 1 with a unit of ms s m h d w month year, such as 5/s, "
              "10/100ms or 100/month, found \"5/seconds\": did you mean \"5/s\"?"),
        ("3", "expected a key of token_bucket (algorithm, rate, burst, on_store_failure, store, chunk), "
              "found \"brust\": did you mean \"burst\"?"),
        ("5", "expected rate in token_bucket, found none"),
        ("6", "expected each limit once, found \"dup\" again: the first is in line 4"),
        ("8", "expected the name of a limit (api, dup, dup, half, login), found \"lgin\": did you mean \"login\"?"),
        ("9", "expected a key of a rule with limits (name, ipv6_prefix, path_variants, match, key, "
              "limits, mode, on_store_failure, priority, ip_numbers, feedback, result), found \"limts\": did you mean \"limits\"?"),
        ("10", "expected each key of a rule with limits once, found \"limits\" again: the first is in line 10"),
        ("10", "expected mode to be one of enforce, shadow, found \"shadows\": did you mean \"shadow\"?"),
        ("11", "expected a key of listen (http, resp, admin), found \"htp\": did you mean \"http\"?"),
        ("12", remarks[-1].partition("error: ")[2]),
    ]
    assert remarks[-1].endswith("found \"capcity\": did you mean \"capacity\"?")


@pytest.mark.parametrize("rate, meant", [
    ("5/sec", "5/s"), ("5/Seconds", "5/s"), ("100/min", "100/m"), ("10/10secs", "10/10s"), ("3/hour", "3/h"),
    ("2/days", "2/d"), ("9/wk", "9/w"), ("7/months", "7/month"), ("5/S", "5/s"), ("5 / s", "5/s"), ("5 / ms", "5/ms"),
    ("5 per second", "5/s"), ("0.5/s", "1/2s"), ("2.5 per min", "5/2m"), ("1.5/10s", "3/20s"), ("0.0/s", None),
    ("1./s", None), ("0.0000001/s", None), ("99999999999/sec", None),
    ("5/100msec", "5/100ms"), ("5", None), ("x/sec", None), ("5/fortnight", None), ("0/sec", None)])
def test_a_unit_that_is_spelled_out_is_understood(tmp_path, rate, meant):
    code, [remark] = lint(tmp_path, f"limits:\n  a: {{ algorithm: token_bucket, rate: \"{rate}\" }}\n")
    assert code == 1
    assert "ms s m h d w month year" in remark
    assert remark.endswith(f'did you mean "{meant}"?' if meant else f'found "{rate}"')


@pytest.mark.parametrize("word, meant", [
    ("gcra", "token_bucket"), ("GCRA", "token_bucket"), ("sliding", "sliding_window"), ("leaky", "leaky_bucket"),
    ("fixed", "fixed_window"), ("tumbling", "fixed_window"), ("dry-run", None), ("log", None), ("tok", None)])
def test_a_word_of_another_program_for_an_algorithm_is_understood(tmp_path, word, meant):
    code, [remark] = lint(tmp_path, f"limits:\n  a: {{ algorithm: {word}, rate: 5/s }}\n")
    assert code == 1
    assert remark.endswith(f'found "{word}": did you mean "{meant}"?' if meant else f'found "{word}"')


@pytest.mark.parametrize("word", ["dry-run", "dry_run", "DryRun", "log", "monitor", "shad"])
def test_a_word_of_another_program_for_the_mode_shadow_is_understood(tmp_path, word):
    code, [remark] = lint(tmp_path, f"limits:\n  a: {LIMIT}\nrules:\n"
                                    f"  - {{ name: r, key: [ip], limits: [a], mode: {word} }}\n")
    assert code == 1
    assert remark.endswith(f'expected mode to be one of enforce, shadow, found "{word}": did you mean "shadow"?')


def test_the_error_of_a_tab_names_it(tmp_path):
    code, remarks = lint(tmp_path, f"limits:\n  a: {LIMIT}\n\tb: {LIMIT}\n")
    assert (code, remarks) == (1, ["3:1: error: expected blanks to indent by, found a tab"])


@pytest.mark.parametrize("name", ["http", "resp"])
def test_an_invalid_address_is_reported_with_its_place(tmp_path, name):
    code, [remark] = lint(tmp_path, f"capacity: 5\nlisten:\n  {name}: nonsense\n")
    assert code == 1
    assert remark.startswith("3:9: error: expected HOST:PORT")


def test_invalid_addresses_are_reported_beside_other_mistakes(tmp_path):
    code, remarks = lint(tmp_path, "listen: { http: nonsense, resp: 127.0.0.1:99999 }\n"
                                   "limits:\n  a: { algorithm: token_bucket, rate: 5/x }\n")
    assert code == 1
    assert [re.sub("expected (a )?", "", remark)[:26] for remark in remarks] == [
        "1:17: error: HOST:PORT or ", "1:33: error: HOST:PORT or ", "3:39: error: rate of whole"]


RULE = "rules:\n  - {{ match: {{ {} }}, key: [{}], limits: [a] }}\n"


@pytest.mark.parametrize("match, key, message", [
    ("pth: /x", "ip", '3:16: warning: expected an attribute that callers send, found "pth": did you mean "path"?'),
    ("path: /x", "ipp", '3:34: warning: expected an attribute that callers send, found "ipp": did you mean "ip"?'),
    ("method: get", "ip", '3:24: warning: expected a method in capital letters, found "get": no request at /auth has it'),
    ("method: [GET, Post]", "ip", '3:30: warning: expected a method in capital letters, found "Post": '
                                  'no request at /auth has it'),
    *((f"host: {host}", "ip", f'3:22: warning: expected a host in small letters, without a port and without a dot at '
       f'its end, found "{host.strip(chr(34))}": no request at /auth has it')
      for host in ("Example.com", '"!www.Example.com"', "example.com:80", "example.com.", '"[::1]:80"')),
    ("host: example.com", "host", None), ('host: ["[::1]", 10.0.0.1, "*"]', "host", None),
    ("ip: 10.0.0.1/8", "ip", '3:20: warning: expected the first address of a network, found "10.0.0.1/8": '
                             'only its first 8 bits count'),
    ("ip: \"2001:db8::1/32\"", "ip", '3:20: warning: expected the first address of a network, found '
                                     '"2001:db8::1/32": only its first 32 bits count'),
    ("ip: 10.0.0.0/8", "ip", None), ("method: [GET, HEAD]", "ip", None), ("method: \"*\"", "user", None),
    ("header.pth: x", "ip", None), ("tenant: x", "plan", None), ("ip: 10.0.0.1", "ip", None),
    ("ip: \"::ffff:10.0.0.0/104\"", "ip", None)])
def test_a_valid_value_that_is_probably_a_mistake_is_a_warning(tmp_path, match, key, message):
    text = f"limits: {{ a: {LIMIT} }}\n" + RULE.format(match, key)
    for flags, code in (([], 0), (["--strict"], 1 if message else 0)):
        found, remarks = lint(tmp_path, text, *flags)
        assert (found, remarks) == (code, [message] if message else [])


def test_a_file_that_lists_attributes_may_use_no_others(tmp_path):
    text = "attributes: [tenant, plan]\nlimits: { a: " + LIMIT + " }\n" + RULE.format("tenant: x, usr: y", "ip, plan")
    assert lint(tmp_path, text) == (
        0, ['4:27: warning: expected method, host, path, ip or one of `attributes`, found "usr"'])
    near = text.replace("usr", "tenent")
    assert lint(tmp_path, near)[1] == [
        '4:27: warning: expected an attribute that callers send, found "tenent": did you mean "tenant"?']
    printed = weir("lint", "--to", "yaml", tmp_path / "weir.yaml").stdout
    assert "attributes: [tenant, plan]" in printed


MEANT = {
    "x-api-key": "header.x-api-key", "X-Api-Key": "header.x-api-key", "HTTP_X_Api_Key": "header.x-api-key", "Header.X-Api-Key": "header.x-api-key", "Cookie.Sid": "cookie.Sid", "headers.x-api-key": "header.x-api-key",
    "header-x-plan": "header.x-plan", "http_x_api_key": "header.x-api-key", "user-agent": "header.user-agent",
    "Authorization": "header.authorization", "cookies.session": "cookie.session", "cookie_session": "cookie.session",
    "arg_page": "query.page", "args.page": "query.page", "x-forwarded-for": "ip", "remote_addr": "ip",
    "X-Real-IP": "ip", "request_uri": "path", "http_host": "host", "request_method": "method",
}


@pytest.mark.parametrize("name, meant", MEANT.items())
@pytest.mark.parametrize("in_key", [True, False])
def test_a_name_of_a_header_cookie_or_parameter_without_its_prefix_is_a_warning(tmp_path, name, meant, in_key):
    rule = RULE.format("path: /x", f'"{name}"') if in_key else RULE.format(f'"{name}": "*"', "ip")
    text = f"limits: {{ a: {LIMIT} }}\n{rule}"
    code, [remark] = lint(tmp_path, text)
    column = rule.splitlines()[1].index(f'"{name}"') + 1
    assert (code, remark) == (0, f'3:{column}: warning: expected an attribute that callers send, found "{name}": '
                                 f'did you mean "{meant}"? If callers send it, list it in `attributes`')
    assert lint(tmp_path, text + f'attributes: ["{name}"]\n') == (0, [])
    assert len(lint(tmp_path, text + "attributes: [tenant]\n")[1]) == 1
    assert lint(tmp_path, f"limits: {{ a: {LIMIT} }}\n" + rule.replace(name, meant)) == (0, [])


@pytest.mark.parametrize("name", ["xyz", "x", "api_key", "http_version", "query", "header", "cookie", "url", "x_plan"])
def test_names_that_callers_may_well_send_are_no_warning(tmp_path, name):
    assert lint(tmp_path, f"limits: {{ a: {LIMIT} }}\n" + RULE.format(f"{name}: x", name)) == (0, [])


@pytest.mark.parametrize("match, key, pair", [
    ("header.x-plan: gold", "tenant", ("header.x-plan", "tenant")),
    ("tenant: a", "cookie.s", ("cookie.s", "tenant")),
    ("tenant: a, query.q: b", "ip", ("query.q", "tenant")),
    ('header.x-plan: gold, tenant: "!*"', "ip", None),
    ("path: /x, header.x-plan: gold", "ip, cookie.s", None),
    ("path: /x, tenant: a", "ip, plan", None)])
def test_attributes_that_no_request_has_together_are_a_warning(tmp_path, match, key, pair):
    text = f"limits: {{ a: {LIMIT} }}\n" + RULE.format(match, key)
    message = pair and (f'3:5: warning: expected attributes that one request has, found "{pair[0]}" beside "{pair[1]}" in '
                        f'rule "rule-1": the former is read only at /auth, where no request has the latter. If callers '
                        f'send both, list "{pair[1]}" in `attributes`')
    assert lint(tmp_path, text) == (0, [message] if message else [])
    assert lint(tmp_path, text + "attributes: [tenant, plan]\n") == (0, [])


@pytest.mark.parametrize("match, key, missing", [
    ("path: /api/*", "api_key", "api_key"), ("path: /api/*", "ip, user", "user"), ('user: "!*"', "user", "user"),
    ("path: /api/*", "header.x-api-key", None), ("purpose: sms", "number", None), ("path: /api/*", "ip", None)])
def test_a_key_that_no_proxy_sends_is_a_warning_behind_a_proxy(tmp_path, match, key, missing):
    text = f"limits: {{ a: {LIMIT} }}\n" + RULE.format(match, key)
    message = (f'3:5: warning: expected a key of attributes that a proxy sends, found "{missing}" in rule "rule-1": all requests '
               f'at /auth share one count. A header is `header.NAME`; if callers send "{missing}", list it in `attributes`')
    proxy = "trusted_proxies: [127.0.0.1]\n"
    assert lint(tmp_path, text + proxy) == (0, [message] if missing else [])
    for silent in ("", proxy + "auth: no\n", proxy + "attributes: [api_key, user, purpose, number]\n"):
        assert lint(tmp_path, text + silent) == (0, [])


def test_a_limit_that_no_rule_uses_is_a_warning_if_there_are_rules(tmp_path):
    limits = f"limits:\n  a: {LIMIT}\n  b: {LIMIT}\n"
    assert lint(tmp_path, limits) == (0, [])
    code, remarks = lint(tmp_path, limits + "rules: [{ key: [ip], limits: [a] }]\n")
    assert (code, remarks) == (0, ['3:3: warning: expected a rule that uses the limit "b", found none: '
                                   'only calls that name it count there'])


def test_the_errors_of_a_file_of_mistakes_are_bounded_in_number_time_and_memory(tmp_path):
    text = "limits:\n" + "".join(f"  l{i}: {{ algorithm: token_bucket, rate: x, brst: {i} }}\n" for i in range(20_000))
    code, remarks = lint(tmp_path, text)
    assert code == 1
    assert len(remarks) == 1001 and "more than are listed here" in remarks[-1]


@pytest.mark.parametrize("limit, message", [
    ("quorum: 2", 'expected a store at Redis beside quorum, found none: this server alone judges limit "a"'),
    ("slow_rate: 30%", 'expected slow beside slow_rate, found none: no call of limit "a" is slow'),
    ("calls: 10, minimum: 20", 'expected a minimum of at most the 10 calls of the window, found 20: '
                               'limit "a" is judged from 10 calls on'),
    ("calls: 10, failures: 20", 'expected failures of at most the 10 calls of the window, found 20: '
                                'limit "a" opens when all of these calls failed'),
    ("probe_timeout: 2m", 'expected a probe_timeout of at most permit_timeout, found a longer one: probes of '
                          'limit "a" end with their permits'),
    ("sleep_max: 4s", 'expected a sleep_max of at least sleep, found a shorter one: each sleep of '
                      'limit "a" is as long as the first'),
    ("sleep_max: 5s", None), ("probe_timeout: 1m", None), ("calls: 10, failures: 10", None), ("quorum: 0", None), ("slow_rate: 30%, slow: 1s", None), ("calls: 10, minimum: 10", None), ("calls: 10", None),
    ("preset: resilience4j, slow_rate: 30%", None)])
def test_settings_without_effect_are_warnings(tmp_path, limit, message):
    code, remarks = lint(tmp_path, f"limits:\n  a: {{ algorithm: breaker, {limit} }}\n")
    assert (code, remarks) == (0, [f"2:3: warning: {message}"] if message else [])


@pytest.mark.parametrize("setting, message", [
    ("users: [{ name: shop, certificate: shop, may: [ask] }]",
     "2:17: warning: expected `tls` with `clients` beside a user's certificate, found none: "
     "no client can be user 'shop'"),
    ("users: [{ name: shop, unix: root, may: [ask] }]",
     "2:17: warning: expected a listener at a Unix socket beside a user's account, found none: "
     "no client can be user 'shop'"),
    ("{ listen: { http: unix:/tmp/x }, users: [{ name: shop, unix: root, may: [ask] }] }", None),
    (f"protected: no\nusers: [{{ name: shop, token: {'ab' * 32}, may: [ask] }}]",
     "warning: expected no `protected` beside users, found it: users alone decide, whatever the address"),
    ("listen: { http: 127.0.0.1:7, resp: 127.0.0.1:7 }",
     "2:36: error: resp: expected another address than http has, found the same"),
    ("listen: { resp: unix:/run/w.sock, admin: unix:/run/w.sock }",
     "2:42: error: admin: expected another address than resp has, found the same"),
    ("listen: { http: 127.0.0.1:0, resp: 127.0.0.1:0 }", None),
    ("users: [{ name: shop, unix: nobody-of-that-name, may: [ask] }]",
     "2:17: error: unix: expected a user of this system, found 'nobody-of-that-name'"),
])
def test_a_user_or_setting_that_can_never_apply_is_a_warning(tmp_path, setting, message):
    text = setting if setting.startswith("{") else f"limits: {{ login: {LIMIT} }}\n{setting}\n"
    code, remarks = lint(tmp_path, text)
    assert remarks == ([message] if message else [])
    assert code == (1 if message and "error" in message else 0)


def test_users_may_use_limits_of_another_file(tmp_path):
    ours, koalas = tmp_path / "weir.yaml", tmp_path / "rules.conf"
    ours.write_text(f"limits: {{ login: {LIMIT} }}\nlisten: {{ http: unix:/tmp/x }}\nusers:\n"
                    "  - { name: shop, unix: root, may: [ask], limits: [login, \"101\", nowhere] }\n")
    koalas.write_text("[rules]\nrule : [count] [uid=+] [time=9; count=9] [result=1; return=101]\n"
                      '[result]\n0 : { "Ret_type":0 }\n1 : { "Ret_type":1 }\n2 : { "Ret_type":2 }\n')
    done = weir("lint", "-c", ours, "-c", koalas)
    assert [line for line in done.stderr.splitlines() if "limit that matches" in line] == [
        f"{ours}:4:66: warning: expected a limit that matches 'nowhere', found none: the user can use no limit by it"]


def test_breakers_count_in_the_server_and_need_no_nodes(tmp_path):
    text = "store: redis://127.0.0.1:1\nlimits:\n  a: { algorithm: breaker, quorum: 2 }\n"
    assert lint(tmp_path, text) == (0, [])


BANNED = "limits: { login: %s }\nrules: [{ match: { %s }, answer: deny }, { key: [ip], limits: [login] }]\n"


@pytest.mark.parametrize("match, lines, place, found", [
    ("ip: { in: banned.txt }", "# guessers\n10.0.0.0/8\n198.51.100.66 # guesser\n", "3:1", '"198.51.100.66 # guesser"'),
    ("ip: { not_in: banned.txt }", "300.1.1.1\n::1\noffice\n", "1:1", '"300.1.1.1" and 1 more such line'),
    ("ip: { in: banned.txt }", "10.*.0.*\n10.0.0.1-10.0.0.9\n2001:db8::/32\n[::1]\n", None, None),
    ("ip: { in: banned.txt }, host: { in: banned.txt }", "10.0.0.1\nexample.com\n", None, None),
    ("host: { in: banned.txt }", "example.com\n", None, None),
])
def test_a_line_of_a_list_of_addresses_that_matches_no_address_is_a_warning(tmp_path, match, lines, place, found):
    (tmp_path / "banned.txt").write_text(lines)
    code, remarks = lint(tmp_path, BANNED % (LIMIT, match), "--strict")
    assert remarks == ([f"{tmp_path}/banned.txt:{place}: warning: expected an address or a range, since only `ip` is looked "
                        f"up here, found {found}: it matches no address. A comment needs a line of its own"] if found else [])
    assert code == (1 if found else 0)
