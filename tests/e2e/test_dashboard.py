"""The page at `/`, in a real browser: what it shows, what it changes, and whom it obeys."""

import base64
import hashlib
import json
import re
import subprocess

import pytest
from browser import Browser
from harness import Http, plain_build_only, until
from test_users import basic, user

pytestmark = plain_build_only

CONFIG = """
limits:
  login: { algorithm: token_bucket, rate: 3/h, burst: 3 }
  back: { algorithm: breaker, minimum: 2, window: 1h, sleep: 1h }
  relief: { algorithm: random, deny: 0.3 }
  served: { algorithm: adaptive, max: 30 }
denials: { key: full }
"""
MARKUP = "<img src=x onerror=document.title='run'>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"), network=True)
    yield browser
    browser.close()


@pytest.fixture
def show(browser):
    """A function that opens the page of a server, and waits until it shows all it can."""
    def open_page(server, path="/", width=1200, scheme="light", login=""):
        browser.emulate(width, scheme=scheme)
        browser.visit(f"http://{login}127.0.0.1:{server.http}{path}")
        wait(browser, "document.getElementById('live').dataset.state === 'live' && configuration.byName.size > 0")
        return browser
    yield open_page
    browser.call("Fetch.disable")
    browser.visit("about:blank")


def wait(browser, condition):
    until(lambda: browser.evaluate(f"Boolean({condition})"), condition)


def text(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")


def wait_for_text(browser, selector, part):
    until(lambda: part in text(browser, selector), f"{part!r} in {selector}")


def click(browser, selector, label):
    """Presses the button of a label, which must be there and can be pressed."""
    wait(browser, f"[...document.querySelectorAll({json.dumps(selector)})].some(b => b.innerText.trim() === {json.dumps(label)} && !b.disabled)")
    browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].find(b => b.innerText.trim() === {json.dumps(label)}).click()")


def look_up(browser, key):
    browser.evaluate(f"byId('name').value = {json.dumps(key)}, byId('search').requestSubmit()")
    wait(browser, f"byId('found').dataset.key === {json.dumps(key)} && !byId('found').hasAttribute('aria-busy')")


def deny_login(server, key, n=5):
    server.post("/v1/batch", [{"limit": "login", "key": key}] * n)


# ---- The answer -------------------------------------------------------------------------------------

def test_the_page_admits_only_its_own_script_and_no_frame(serve):
    server = serve()
    answer = server.get("/")
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self'" and "unsafe" not in str(policy)
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert policy[directive] == f"'sha256-{digest}'"
    assert [answer.headers[name] for name in ("X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cache-Control")] == [
        "DENY", "nosniff", "no-referrer", "no-store"]
    assert not re.findall(r"(?:src|href)=\"?(?:https?:)?//", answer.text)  # nothing of another site
    assert len(answer.text) < 80_000
    with Http(server.http) as client:
        assert client.request("HEAD", "/").text == ""
        assert client.request("POST", "/", "").status == 405
        assert client.request("GET", "/elsewhere").status == client.request("GET", "//").status == 404
        assert client.request("GET", "/?from=bookmark").status == 200
        assert client.request("GET", "/", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
        assert client.request("GET", "/", headers={"Host": "rebound.example"}).status == 403
        assert client.request("GET", "/", headers={"X-Forwarded-For": "1.2.3.4"}).status == 403
    by_http2 = subprocess.run(["curl", "-si", "--http2-prior-knowledge", f"http://127.0.0.1:{server.http}/"], check=True,
                              capture_output=True, text=True).stdout
    assert by_http2.startswith("HTTP/2 200") and "x-frame-options: DENY" in by_http2
    assert by_http2.replace("\r\n", "\n").endswith(answer.text)


# ---- What it shows ----------------------------------------------------------------------------------

def test_it_shows_traffic_by_limit_and_result(serve, show):
    server = serve(config=CONFIG)
    deny_login(server, "k", 8)
    browser = show(server)
    wait_for_text(browser, "#limits tbody tr", "login")
    until(lambda: re.search(r"\b3\b.*\b5\b.*63%", text(browser, "#limits tbody tr").replace("\n", " ")), "three allowed of eight")
    assert re.search(r"allowed\s+3\s+denied\s+5", text(browser, "#legend").replace("\n", " "))
    click(browser, "#limits button", "login")
    assert text(browser, "#chosen") == "login"
    assert browser.evaluate("document.querySelector('#limits tr[aria-current=true]').innerText").startswith("login")
    coloured = browser.evaluate("""(() => {
        const canvas = byId('chart'), seen = new Set();
        chart.span = 300; drawChart();
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        for (let i = 0; i < data.length; i += 4) seen.add([...data.slice(i, i + 3)].map(n => n.toString(16).padStart(2, '0')).join(''));
        return [colours.allowed, colours.denied].every(each => seen.has(each.slice(1)));
    })()""")
    assert coloured
    click(browser, "button", "Show all limits")
    assert text(browser, "#chosen") == "All limits"
    wait_for_text(browser, "#top", "k")
    wait_for_text(browser, "#tiles", "Memory")
    wait_for_text(browser, "#stores", "reachable")
    assert browser.complaints() == []


def test_a_number_of_keys_from_a_sample_is_no_exact_one(serve, show):
    server = serve("--capacity", "1000000", config=CONFIG)
    browser = show(server)
    wait_for_text(browser, "#tiles", "< 1")
    for _ in range(3):
        server.post("/v1/batch", [{"limit": "login", "key": f"k{i}"} for i in range(1000)])
    wait_for_text(browser, "#tiles", "about ")


def test_names_and_keys_that_are_markup_are_text(serve, show):
    quoted = json.dumps(MARKUP)
    server = serve(config=f"limits:\n  {quoted}: {{ algorithm: token_bucket, rate: 1/h }}\n  {json.dumps(MARKUP + '2')}: {{ algorithm: breaker, failures: 1, sleep: 1h }}\n"
                          f"rules:\n  - {{ name: '<b>by path', match: {{ path: /a }}, key: [path], limits: [{quoted}] }}\ndenials: {{ key: full }}\n")
    for _ in range(3):
        assert "error" not in server.post("/v1/acquire", {"limit": MARKUP, "key": MARKUP}).json
        server.post("/v1/acquire", {"attributes": {"path": "/a"}})
    permit = server.post("/v1/acquire", {"limit": MARKUP + "2", "key": MARKUP}).json["permit"]
    server.post("/v1/report", {"permit": permit, "outcome": "failure"})
    browser = show(server)
    for section in ("#limits", "#top", "#breakers"):
        wait_for_text(browser, section, MARKUP)
    look_up(browser, MARKUP)
    assert MARKUP in text(browser, "#states") and MARKUP in text(browser, "#denials")
    click(browser, "#states button", "Reset…")
    assert MARKUP in text(browser, "#question")
    assert browser.evaluate("document.querySelectorAll('img, b.x').length") == 0
    assert browser.evaluate("document.title") == "Weir"
    assert browser.complaints() == []


def test_ten_thousand_limits_make_few_rows(serve, show):
    limits = "".join(f"  limit{n}: {{ algorithm: token_bucket, rate: 1/h }}\n" for n in range(10000))
    server = serve(config="limits:\n" + limits)
    for begin in range(0, 2000, 1000):
        server.post("/v1/batch", [{"limit": f"limit{n}", "key": "k"} for n in range(begin, begin + 1000)])
    browser = show(server)
    wait_for_text(browser, "#limits", "All other limits")
    wait_for_text(browser, "#more", "more: find them by name")
    browser.evaluate("byId('filter').value = 'limit9999', byId('filter').dispatchEvent(new Event('input'))")
    wait_for_text(browser, "#limits tbody", "limit9999")
    look_up(browser, "k")
    assert "Only the 1,000 busiest limits were asked" in text(browser, "#found")
    browser.evaluate("byId('filter').value = '', byId('filter').dispatchEvent(new Event('input'))")
    assert browser.evaluate("document.querySelectorAll('#limits tbody tr').length") == 41
    assert browser.complaints() == []


def test_a_key_has_its_state_in_every_limit_and_its_denials(serve, show):
    server = serve(config=CONFIG)
    deny_login(server, "203.0.113.9", 4)
    browser = show(server)
    look_up(browser, "203.0.113.9")
    state = text(browser, "#states tbody").split()
    assert state[:4] == ["login", "over", "limit", "0"] and "3 limits have nothing counted" in text(browser, "#found")
    assert "over limit" in text(browser, "#denials")
    look_up(browser, "nobody")
    assert "No denial of this key is kept" in text(browser, "#found")


def test_without_traffic_each_part_says_so(serve, show):
    browser = show(serve(config=CONFIG))
    wait_for_text(browser, "#breakers", "All breakers are closed.")
    wait_for_text(browser, "#top", "No key was denied")
    wait_for_text(browser, "#measured", "No adaptive limit has denied")
    assert "Type a key" in text(browser, "#found")


@pytest.mark.parametrize("width", [390, 900, 1600])
def test_it_fits_every_screen_in_dark_and_light(serve, show, width):
    server = serve(config=CONFIG)
    deny_login(server, "a-long-key-" * 20)
    backgrounds = set()
    for scheme in ("light", "dark"):
        browser = show(server, width=width, scheme=scheme)
        wait_for_text(browser, "#top", "a-long-key")
        look_up(browser, "a-long-key-" * 20)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        backgrounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        # Contrast as the accessibility guidelines (WCAG 2) define it, at least 4.5 for text.
        low = browser.evaluate("""(() => {
            const light = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255)
                .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
            const ratio = (a, b) => { const [x, y] = [light(colour(a)), light(colour(b))].sort((p, q) => q - p); return (x + .05) / (y + .05); };
            return ['text', 'muted', 'accent', 'bad', 'good'].flatMap(name => ['card', 'page'].map(on => [name, on, ratio(name, on)]))
                .concat([['on-accent', 'accent', ratio('on-accent', 'accent')]]).filter(([, , found]) => found < 4.5);
        })()""")
        assert low == []
    assert len(backgrounds) == 2


KEYS = """
limits:
  login: { algorithm: token_bucket, rate: 1/h, burst: 1 }
  narrow: { algorithm: token_bucket, rate: 1/h, burst: 1 }
  ad: { algorithm: adaptive, initial: 2, min: 1, max: 3 }
rules:
  - { name: six, match: { path: /login }, key: [ip], limits: [login] }
  - { name: narrow, match: { path: /narrow }, key: [ip], ipv6_prefix: 77, limits: [narrow] }
  - { name: adr, match: { path: /ad }, key: [header.x-api-key], limits: [ad] }
  - { name: both, match: { path: /both }, key: [user, path], limits: [login] }
"""


def ask_rules(server, n=3, **attributes):
    return server.post("/v1/batch", [{"attributes": {name.replace("api_key", "header.x-api-key"): value for name, value in attributes.items()}}] * n)


def state_rows(browser):
    return browser.evaluate("[...document.querySelectorAll('#states tbody tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))")


@pytest.mark.parametrize("kept", ["digest", "full"])
@pytest.mark.parametrize("address", ["2001:db8:1:2::7", "2001:DB8:1:2:0:0:0:7", "::1", "fe80::1:0:0:1", "1:0:0:2:fff8:ffff::"])
def test_an_ipv6_address_is_looked_up_by_the_network_that_counts(serve, show, address, kept):
    server = serve(config=f"{KEYS}denials: {{ key: {kept} }}\n")
    for path in ("/login", "/narrow"):
        ask_rules(server, path=path, ip=address)
    browser = show(server)
    look_up(browser, address)
    rows = sorted(state_rows(browser))
    assert [row[0] for row in rows] == ["login", "narrow"] and all(row[2:4] == ["over limit", "0 of 1"] for row in rows), rows
    assert rows[0][1].endswith("/64") and rows[1][1].endswith("/77")
    assert "Key" in text(browser, "#states thead") and "1 limit has nothing counted" in text(browser, "#found")
    browser.evaluate("document.querySelector('#states tr[data-limit=login] button').click()")
    assert f"“{rows[0][1]}”" in text(browser, "#question")
    click(browser, "#confirm button", "Reset")
    wait(browser, "document.querySelectorAll('#states tbody tr').length === 1 && !byId('found').hasAttribute('aria-busy')")
    assert ask_rules(server, 1, path="/login", ip=address).json[0]["allowed"]


def test_a_value_of_a_joined_key_is_not_told_that_nothing_is_counted(serve, show):
    server = serve(config=KEYS)
    ask_rules(server, user="ann", path="/both")
    browser = show(server)
    look_up(browser, "ann")
    assert "login: the key that counts is shown by its digest only" in text(browser, "#found")
    assert "2 limits have nothing counted" in text(browser, "#found")


def test_a_secret_key_has_its_own_numbers(serve, show):
    server = serve(config=KEYS)
    ask_rules(server, 5, path="/ad", api_key="k1")
    digest = server.post("/v1/key", {"key": "k1"}).json["digest"]
    browser = show(server)
    wait_for_text(browser, "#measured tbody", digest)
    assert text(browser, "#measured tbody").split() == ["ad", digest, "2", "2"]
    click(browser, "#top button", digest)
    wait(browser, f"byId('found').dataset.key === '{digest}'")
    [row] = state_rows(browser)
    assert row[:3] == ["ad", "over limit", "0 of 2"] and "queue" not in row[1]
    assert browser.complaints() == []


def test_a_digest_that_finds_no_key_says_so(serve, show):
    server = serve(config=KEYS)
    ask_rules(server, path="/login", ip="192.0.2.1")
    browser = show(server)
    look_up(browser, server.post("/v1/key", {"key": "192.0.2.1"}).json["digest"])
    assert "the digest of a key" in text(browser, "#found") and "nothing counted" not in text(browser, "#found")
    assert "over limit" in text(browser, "#denials")


# ---- What it changes --------------------------------------------------------------------------------

def deny_of(server):
    return next(limit for limit in server.get("/v1/limits").json if limit["name"] == "relief")["deny"]


def test_a_change_is_asked_for_twice_and_logged(serve, show):
    server = serve(config=CONFIG)
    deny_login(server, "k", 4)
    browser = show(server)
    wait(browser, "document.querySelector('#shedding input')")
    browser.evaluate("document.querySelector('#shedding input').value = 60, document.querySelector('#shedding form').requestSubmit()")
    assert "deny 60% of its requests" in text(browser, "#question")
    click(browser, "#confirm button", "Cancel")
    assert not browser.evaluate("byId('confirm').open") and deny_of(server) == 0.3
    browser.evaluate("document.querySelector('#shedding input').value = 60, document.querySelector('#shedding form').requestSubmit()")
    click(browser, "#confirm button", "Deny 60%")
    until(lambda: deny_of(server) == 0.6, "the share")
    assert "by=127.0.0.1" in server.line_with(" shed ")

    look_up(browser, "k")
    click(browser, "#states button", "Reset…")
    assert server.get("/v1/peek/login?key=k").json["remaining"] == 0
    click(browser, "#confirm button", "Reset")
    wait(browser, "!byId('confirm').open")
    until(lambda: server.get("/v1/peek/login?key=k").json["remaining"] == 3, "the reset")
    digest = server.post("/v1/key", {"key": "k"}).json["digest"]
    assert server.line_with(" info reset ").endswith(f" reset limit=login key={digest} by=127.0.0.1")


def test_a_breaker_is_forced_and_released(serve, show):
    server = serve(config=CONFIG)
    for _ in range(2):
        permit = server.post("/v1/acquire", {"limit": "back", "key": "eu"}).json["permit"]
        server.post("/v1/report", {"permit": permit, "outcome": "failure"})
    browser = show(server)
    wait_for_text(browser, "#breakers", "eu")
    for button, confirm, phase in (("Close…", "Close the breaker", "forced closed"), ("Open…", "Open the breaker", "forced open")):
        click(browser, "#breakers button", button)
        click(browser, "#confirm button", confirm)
        wait_for_text(browser, "#breakers", phase)
    assert not server.get("/v1/peek/back?key=eu").json["allowed"]
    click(browser, "#breakers button", "Release…")
    click(browser, "#confirm button", "Release the breaker")
    wait(browser, "!byId('confirm').open && !document.querySelector('#breakers tbody').innerText.includes('forced')")
    for state in ("closed", "open", "auto"):
        assert "by=127.0.0.1" in server.line_with(f" breaker_forced limit=back key=eu state={state} ")


def test_a_healthy_breaker_is_forced_open_after_a_search(serve, show):
    server = serve(config=CONFIG)
    browser = show(server)
    for key, shown in (("eu", "“eu”"), ("", "“(no key)”")):
        look_up(browser, key)
        assert state_rows(browser)[0][:2] == ["back", "would pass"]
        click(browser, "#states button", "Open…")
        assert shown in text(browser, "#question") and server.get(f"/v1/peek/back?key={key}").json["allowed"]
        click(browser, "#confirm button", "Open the breaker")
        wait_for_text(browser, "#states", "breaker open")
        wait_for_text(browser, "#breakers", "forced open")
        assert not server.get(f"/v1/peek/back?key={key}").json["allowed"]
        assert "by=127.0.0.1" in server.line_with(" breaker_forced limit=back ")


def test_the_buttons_force_keys_that_the_page_shows_by_another_text(serve, show):
    server = serve(config="""
limits: { all: { algorithm: breaker, minimum: 1, sleep: 1h }, tokens: { algorithm: breaker, minimum: 1, sleep: 1h } }
rules:
  - { name: all, match: { purpose: s }, limits: [all] }
  - { name: token, match: { purpose: t }, key: [header.x-api-key], limits: [tokens] }
""")
    digest = server.post("/v1/key", {"key": "s3cret"}).json["digest"]
    for attributes, name in (({"purpose": "s"}, "(no key)"), ({"purpose": "t", "header.x-api-key": "s3cret"}, digest)):
        permit = server.post("/v1/acquire", {"attributes": attributes}).json["permit"]
        server.post("/v1/report", {"permit": permit, "outcome": "failure"})
        assert server.post("/v1/acquire", {"attributes": attributes}).status == 503
        browser = show(server)
        wait_for_text(browser, "#breakers", name)
        click(browser, "#breakers button", "Close…")
        wait_for_text(browser, "#confirm", f"“{name}”")
        click(browser, "#confirm button", "Close the breaker")
        wait_for_text(browser, "#breakers", "forced closed")
        assert server.post("/v1/acquire", {"attributes": attributes}).status == 200
        click(browser, "#breakers button", "Release…")
        click(browser, "#confirm button", "Release the breaker")
        wait_for_text(browser, "#breakers", "All breakers are closed.")


def test_a_refusal_of_the_server_is_shown(serve, show):
    server = serve(config=CONFIG)
    browser = show(server)
    wait(browser, "document.querySelector('#shedding input')")
    server.reload(CONFIG.replace("  relief: { algorithm: random, deny: 0.3 }\n", ""))
    server.line_with("reloaded")
    browser.evaluate("confirmFirst({question: 'q', consequence: 'c', path: '/v1/shed', body: {limit: 'relief', deny: 1}, text: 'Deny', done() {}})")
    click(browser, "#confirm button", "Deny")
    wait_for_text(browser, "#refused", "expected the name of a limit, found 'relief'")


def test_it_says_that_the_server_is_gone(serve, show):
    server = serve(config=CONFIG)
    browser = show(server)
    assert server.stop() == 0
    wait_for_text(browser, "#alarm", "has not answered since")
    assert text(browser, "#live") == "no answer"


# ---- Users ------------------------------------------------------------------------------------------

USERS = "users:\n" + "".join((user("all", password="secret", may=["ask", "change", "admin"]), user("looker", password="look", may=["ask", "admin"]),
                              user("asker", password="ask", may=["ask"]), user("adm", password="adm", may=["admin"])))


def test_a_browser_logs_in(serve, show, browser):
    server = serve(config=CONFIG + USERS)
    answer = server.get("/")
    assert answer.status == 401
    assert [value.split()[0] for value in answer.headers.get_all("WWW-Authenticate")] == ["Bearer", "Basic"]
    browser.type_password("all", "secret")
    show(server)
    server.get("/v1/batch", {"Authorization": basic("all", "secret")}, "POST", json.dumps([{"limit": "login", "key": "k"}] * 4))
    look_up(browser, "k")
    click(browser, "#states button", "Reset…")
    click(browser, "#confirm button", "Reset")
    wait(browser, "!byId('confirm').open")
    until(lambda: server.get("/v1/peek/login?key=k", {"Authorization": basic("all", "secret")}).json["remaining"] == 3, "the reset")


def test_a_login_in_the_address_reaches_all_answers(serve, show):
    server = serve(config=CONFIG + USERS)
    browser = show(server, login="all:secret@")
    server.get("/v1/batch", {"Authorization": basic("all", "secret")}, "POST", json.dumps([{"limit": "login", "key": "k"}] * 4))
    look_up(browser, "k")
    click(browser, "#states button", "Reset…")
    click(browser, "#confirm button", "Reset")
    wait(browser, "!byId('confirm').open")
    until(lambda: server.get("/v1/peek/login?key=k", {"Authorization": basic("all", "secret")}).json["remaining"] == 3, "the reset")


def test_a_user_without_the_right_sees_no_button_and_changes_nothing(serve, show, browser):
    server = serve(config=CONFIG + USERS)
    assert server.get("/", {"Authorization": basic("asker", "ask")}).status == 403
    browser.type_password("looker", "look")
    show(server)
    server.get("/v1/batch", {"Authorization": basic("all", "secret")}, "POST", json.dumps([{"limit": "login", "key": "k"}] * 4))
    look_up(browser, "k")
    assert "over limit" in text(browser, "#states") and "Reset" not in text(browser, "#states")
    assert browser.evaluate("ask('/v1/reset', {limit: 'login', key: 'k'}).catch(error => error.message)") == \
        "expected a user who may change, found 'looker'"
    assert server.get("/v1/peek/login?key=k", {"Authorization": basic("all", "secret")}).json["remaining"] == 0


def test_a_user_who_may_only_admin_sees_all_but_the_state_of_keys(serve, show, browser):
    server = serve(config=CONFIG + USERS)
    server.get("/v1/batch", {"Authorization": basic("all", "secret")}, "POST", json.dumps([{"limit": "login", "key": "k"}] * 4))
    browser.type_password("adm", "adm")
    show(server)
    wait_for_text(browser, "#measured tbody", "log in as a user who may ask")
    until(lambda: re.search(r"Memory\s+[\d.]+ MB", text(browser, "#tiles")), "the memory")
    look_up(browser, "k")
    assert "To see it, log in as a user who may ask." in text(browser, "#found") and "over limit" in text(browser, "#denials")
    assert text(browser, "#live") == "live" and text(browser, "#alarm") == ""
    assert browser.evaluate("document.querySelectorAll('#shedding button').length") == 1
    assert browser.complaints() == []
