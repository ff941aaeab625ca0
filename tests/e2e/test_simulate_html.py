"""`weir simulate --html` makes one page that a browser draws on any screen without a network."""

import itertools
import json
import re

import pytest
from browser import Browser
from harness import one_thread, plain_build_only, weir
from test_simulate import LIMITS, MODELS, START, lines, simulate

pytestmark = [one_thread, plain_build_only]

HOSTILE = "</script><script>document.title='x'</script><b>&amp;"
BREAKER = """limits: { up: { algorithm: breaker, minimum: 5, sleep: 10s, probes: 3, ramp: 10s },
          bucket: { algorithm: token_bucket, rate: 9/s } }
"""
# The backend fails for 20 s, and the first probes take long.
FAILING = lines(*({"time": START + n / 10, "ip": "a", "latency_ms": 10_000 if 250 <= n < 310 else 1,
                   "status": 500 if 100 <= n < 300 else 200} for n in range(1000)))

BOXES = """((selector) => [...document.querySelectorAll(selector)].filter((e) => e.textContent.trim())
    .map((e) => e.getBoundingClientRect()).map((b) => [b.left, b.top, b.right, b.bottom]))"""
TABLE = """((id) => [...document.querySelectorAll(`#${id} tr`)].map((row) =>
    [...row.cells].map((cell) => cell.textContent)))"""
# Counts the bars of a series in each chart.
BARS = """((series) => [...document.querySelectorAll('.chart')].map((chart) =>
    [...chart.querySelectorAll(`.bars.${series}`)].map((path) =>
        (path.getAttribute('d').match(/M/g) ?? []).length)[0]))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def show(browser, tmp_path):
    """A function that simulates and opens the page: (report, browser)."""
    def show(limits, trace, *flags, **screen):
        config, page = tmp_path / "weir.yaml", tmp_path / "report.html"
        config.write_text(limits)
        report, _ = simulate(config, trace, "--html", page, *flags)
        browser.emulate(**screen)
        browser.open(page)
        assert browser.complaints() == []
        assert [url for url in browser.requested() if not url.startswith("file:")] == []
        return report, browser
    return show


def table(browser, name):
    """{limit: {title of a column: cell}} of a table."""
    head, *rows = browser.evaluate(f"{TABLE}('{name}')")
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def windows(browser):
    return browser.evaluate("view")


def apart(boxes):
    return all(a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
               for a, b in itertools.combinations(boxes, 2))


def test_the_page_draws_its_charts_and_zooms_all_of_them(show):
    names = [*MODELS, "pace"]
    trace = lines(*({"time": START + i // 40, "ip": HOSTILE} for i in range(4000)))
    report, browser = show(LIMITS + "  pace: { algorithm: pacer, rate: 1/s, slack: 0, max_wait: 5s }\n", trace)
    assert browser.evaluate("document.title") == "weir simulate"
    assert browser.evaluate("document.querySelector('b:not(.legend b, .keys b)')") is None
    assert HOSTILE in browser.evaluate("document.body.innerText")
    assert list(table(browser, "limits")) == names
    assert table(browser, "waits") == {"pace": {
        "waited": "104", "wait, mean": "4.86 s", "wait, p50": "5 s", "wait, p99": "5 s", "wait, max": "5 s"}}
    # Each chart has allowed and denied requests.
    for series in "passed", "denied":
        assert min(browser.evaluate(f"{BARS}('{series}')")) > 0
    assert len(browser.evaluate(f"{BARS}('passed')")) == len(names)
    # Drag over the middle of one chart.
    browser.evaluate("document.querySelector('.chart').scrollIntoView({ block: 'center' })")
    left, top, right, bottom = browser.evaluate(f"""{BOXES}('.chart')""")[0]
    before = windows(browser)
    browser.drag(left + (right - left) * 0.4, left + (right - left) * 0.6, (top + bottom) / 2)
    after = windows(browser)
    assert before[0] < after[0] < after[1] < before[1]
    assert after[1] - after[0] < 0.3 * (before[1] - before[0])
    ticks = browser.evaluate("charts.map((c) => [...c.svg.querySelectorAll('.tick-x')].map((t) => t.textContent).join())")
    assert len(set(ticks)) == 1
    # The buttons move and zoom.
    for name, (begin, end) in {"later": (1, 1), "earlier": (-1, -1), "out": (-1, 1), "in": (1, -1)}.items():
        was = windows(browser)
        browser.evaluate(f"document.querySelector('[data-zoom={name}]').click()")
        now = windows(browser)
        assert ((now[0] - was[0]) * begin > 0, (now[1] - was[1]) * end > 0) == (True, True), name
    browser.evaluate("document.querySelector('[data-zoom=all]').click()")
    assert windows(browser) == before
    assert browser.complaints() == []


def test_a_single_request_is_visible(show):
    _, browser = show(LIMITS, f"time,ip\n{START + 1}.001,a\n")
    assert windows(browser) == [(START + 1) * 1000 + 1, (START + 1) * 1000 + 2]
    assert set(browser.evaluate(f"{BARS}('passed')")) == {1}


def test_figures_are_in_percent_and_no_column_is_empty(show):
    trace = lines(*({"time": START, "ip": f"k{min(n, 7)}"} for n in range(31)))
    report, browser = show("limits: { a: { algorithm: fixed_window, rate: 2/m }, "
                           "b: { algorithm: fixed_window, rate: 100/m } }", trace)
    limits, keys = table(browser, "limits"), table(browser, "keys")
    assert limits["a"]["share denied"] == "71%" and limits["b"]["share denied"] == "0%"
    assert (keys["a"]["keys"], keys["a"]["keys hit"], keys["a"]["share hit"]) == ("8", "1", "13%")
    per_key = report["limits"]["a"]["hits"]
    for percentile in "p50", "p90", "p99", "max":
        assert keys["a"][f"denied per key hit, {percentile}"] == str(per_key["denied_per_key"][percentile]) == "22"
        assert keys["a"][f"requests per key, {percentile}"] == str(per_key["requests_per_key"][percentile])
        assert keys["b"][f"denied per key hit, {percentile}"] == "–"
    # Without denials the table has no columns for them.
    _, browser = show("limits: { b: { algorithm: fixed_window, rate: 100/m } }", trace)
    for name in "limits", "keys":
        for figures in table(browser, name).values():
            assert "–" not in figures.values()
            assert not any(title.startswith(("retry", "denied per")) for title in figures)
    assert browser.evaluate("document.getElementById('waits') ?? document.getElementById('judging')") is None
    assert browser.evaluate("[[1, 1e5], [99999, 1e5], [0, 5], [5, 5], [1, 3], [172, 1000], [2, 1000], "
                            "[4, 1e4], [45, 1000], [998, 1000], [0, 0]].map((n) => share(...n))") == [
        "<0.01%", ">99.99%", "0%", "100%", "33%", "17%", "0.2%", "0.04%", "4.5%", "99.8%", "0%"]


def test_each_chart_has_a_scale_of_its_own(show):
    trace = lines(*({"time": START + n / 100, "ip": "a", "path": "/big" if n % 100 else "/small"}
                    for n in range(2000)))
    _, browser = show("""
limits: { big: { algorithm: token_bucket, rate: 9/s }, small: { algorithm: token_bucket, rate: 9/s } }
rules: [{ match: { path: /big }, key: [ip], limits: [big] }, { match: { path: /small }, key: [ip], limits: [small] }]
""", trace)
    highest = browser.evaluate("charts.map((c) => +[...c.svg.querySelectorAll('.tick-y')].at(-1).textContent)")
    assert highest[0] >= 10 * highest[1], highest
    heights = browser.evaluate("charts.map((c) => c.svg.querySelector('.outline').getBBox().height)")
    assert min(heights) > 70, heights


def test_bars_refine_when_zoomed_and_the_page_stays_small(show, tmp_path):
    trace = "time,ip\n" + "".join(f"{START + n},a\n" for n in range(86_400))
    report, browser = show("limits: { a: { algorithm: token_bucket, rate: 30/m } }", trace)
    timeline = report["limits"]["a"]["timeline"]
    assert timeline["width"] == 300 and len(timeline["asked"]) == 288
    assert browser.evaluate("charts[0].wide") == 10_000
    assert sum(browser.evaluate("charts[0].t.asked")) == 86_400
    steps = []
    while not browser.evaluate("document.querySelector('[data-zoom=in]').disabled"):
        step, bars = browser.evaluate("[charts[0].shown.step, charts[0].shown.bars.map((b) => [b.from, b.to, b.asked])]")
        assert all(to - begin == step and begin % step == 0 for begin, to, _ in bars)
        assert all(n == step / 1000 for _, _, n in bars[1:-1])
        assert 5 <= len(bars) <= 250
        steps.append(step)
        browser.evaluate("document.querySelector('[data-zoom=in]').click()")
    assert steps == sorted(steps, reverse=True) and steps[0] >= 300_000 and steps[-1] == 10_000, steps
    # All charts share the bound on the size of a page.
    limits = "".join(f"  l{n}: {{ algorithm: token_bucket, rate: 30/m }}\n" for n in range(20))
    _, browser = show(f"limits:\n{limits}", trace)
    assert browser.evaluate("charts.reduce((all, c) => all + c.t.asked.length, 0)") <= 65_536
    assert browser.evaluate("charts[0].wide") == 30_000
    assert (tmp_path / "report.html").stat().st_size < 1_000_000


def test_the_legend_names_each_series_and_shows_the_bar_below_the_pointer(show):
    report, browser = show(LIMITS, lines(*({"time": START + n / 10, "ip": "a"} for n in range(1000))))
    items = browser.evaluate("[...charts[0].svg.parentNode.querySelectorAll('.legend li')].map((i) => i.textContent)")
    bucket = report["limits"]["bucket"]
    assert items == ["bars of 500 ms", "came in 1,000", f"passed {bucket['allowed']}",
                     f"denied {bucket['denied']} ({bucket['denied'] / 1000:.0%})"]
    for series in "passed", "denied":
        assert browser.evaluate(
            f"getComputedStyle(document.querySelector('.swatch.{series}')).backgroundColor === "
            f"getComputedStyle(document.querySelector('.bars.{series}')).fill")
    # The bar below the pointer.
    browser.evaluate("charts[0].svg.scrollIntoView({ block: 'center' })")
    left, top, right, bottom = browser.evaluate(f"{BOXES}('.chart')")[0]
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=(left + right) / 2, y=(top + bottom) / 2)
    items = browser.evaluate("[...charts[0].svg.parentNode.querySelectorAll('.legend li')].map((i) => i.textContent)")
    assert " to " in items[0] and items[1] == "came in 5"


def test_phases_of_a_breaker_are_drawn_below_the_chart(show):
    report, browser = show(BREAKER, FAILING)
    times = report["limits"]["up"]["phases"]
    assert times["opened"] >= 2 and min(times["open_ms"], times["half_open_ms"], times["ramp_ms"]) > 900
    series = report["limits"]["up"]["timeline"]
    assert {len(series[name]) for name in ("asked", "open", "half_open", "ramp")} == {len(series["asked"])}
    assert "open" not in report["limits"]["bucket"]["timeline"]
    ends = report["limits"]["up"]["ends"]
    assert table(browser, "judging") == {"up": {
        **{f"{how} {what}": f"{ends[which][how]:,}" for which, how, what in (
            ("denied", "bad", "spared"), ("denied", "good", "lost"),
            ("passed", "bad", "passed"), ("passed", "good", "passed"))},
        "opened": str(times["opened"]),
        **{phase.replace("_", "-"): browser.evaluate(f"time({times[phase + '_ms']})")
           for phase in ("open", "half_open", "ramp")}}}
    for phase in "open", "half_open", "ramp":
        bars = browser.evaluate(f"{BARS}('{phase}')")
        assert bars[0] > 1 and bars[1] is None, (phase, bars)
    # Below the requests, not between them.
    above, below = (browser.evaluate(f"document.querySelector('.bars.{name}').getBoundingClientRect().{edge}")
                    for name, edge in (("passed", "bottom"), ("open", "top")))
    assert above <= below
    # The legend has the share of the time, of a key that was open for 30 s of 100 s, say.
    legend = browser.evaluate("[...charts[0].svg.parentNode.querySelectorAll('.legend')].at(-1).innerText")
    lasts = browser.evaluate("view[1] - view[0]")
    for phase in "open", "half_open", "ramp":
        said = re.search(rf"^\s*{phase.replace('_', '-')}\s+(\d+(?:\.\d)?)%$", legend, re.M)
        assert said and float(said[1]) == pytest.approx(100 * times[phase + "_ms"] / lasts, abs=0.6), legend
    # Without a breaker nothing is drawn there.
    _, browser = show(BREAKER, FAILING, "--limit", "bucket")
    assert browser.evaluate("document.getElementById('judging') ?? document.querySelector('.ramp')") is None


def test_limits_of_rules_in_shadow_mode_are_marked(show):
    _, browser = show("""
limits: { login: { algorithm: fixed_window, rate: 5/m }, trial: { algorithm: fixed_window, rate: 2/m },
          both: { algorithm: fixed_window, rate: 99/m } }
rules:
  - { name: login, key: [ip], limits: [login, both] }
  - { name: <b>trial, key: [ip], limits: [trial, both], mode: shadow }
""", lines(*({"time": START, "ip": "a"} for _ in range(10))))
    marks = browser.evaluate("Object.fromEntries(charts.map((c) => "
                             "[c.name, c.svg.parentNode.querySelector('.shadow')?.textContent ?? '']))")
    assert marks == {"login": "", "trial": "shadow", "both": "partly shadow"}
    assert sorted(table(browser, "limits")) == ["both partly shadow", "login", "trial shadow"]
    assert browser.evaluate("charts.map((c) => c.legend.values.denied.parentNode.textContent)") == [
        "denied 5 (50%)", "would be denied 8 (80%)", "denied 0 (0%)"]
    said = browser.evaluate("document.getElementById('rules').innerText")
    assert 'Rule "<b>trial" is in shadow mode: it would have denied 8 of 10 requests (80%).' in said


@pytest.mark.parametrize("width", [360, 1200])
def test_clients_that_retry_are_drawn_with_a_verdict(browser, tmp_path, width):
    page = tmp_path / "report.html"
    done = weir("simulate", "--clients", "1000", "--timeout", "200ms", "--html", page, "--json",
                "--try", "places: { algorithm: concurrency, max: 20 }")
    report = json.loads(done.stdout)["clients"]
    for scheme in "light", "dark":
        browser.emulate(scheme=scheme, width=width)
        browser.open(page)
        assert browser.complaints() == []
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        shown = browser.evaluate("""[...document.querySelectorAll('.configuration')].map((e) => [
            e.querySelector('h2').textContent, e.querySelector('.verdict').textContent,
            e.querySelector('.verdict').matches('.fails'), e.querySelector('.bars.passed').getAttribute('d').split('M').length - 1,
            e.querySelector('.overload').getBBox().width > 20])""")
        assert shown == [[each["name"], each["verdict"], not each["recovers"],
                          sum(n > 0 for n in each["timeline"]["answered"]), True] for each in report["configurations"]]
        assert [fails for _, _, fails, _, _ in shown] == [True, False]
        for n in 1, 2:
            of = f".configuration:nth-child({n})"
            assert apart(browser.evaluate(f"{BOXES}('{of} .chart text')"))
            assert apart(browser.evaluate(f"{BOXES}('{of} .legend li, {of} h2, {of} .verdict')"))
    # Without limits there is nothing else on the page.
    assert weir("simulate", "--clients", "10", "--html", page).returncode == 0
    browser.open(page)
    assert browser.complaints() == []
    assert browser.evaluate("[...document.querySelectorAll('h2')].map((e) => e.textContent)") == ["without limits"]


# Machado, Oliveira and Fernandes (2009), for sight without one kind of cones; applied to linear red, green and blue.
SIGHT = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no long": ((.152286, 1.052583, -.204868), (.114503, .786281, .099216), (-.003882, -.048116, 1.051998)),
    "no middle": ((.367322, .860646, -.227968), (.280085, .672501, .047413), (-.01182, .04294, .968881)),
    "no short": ((1.255528, -.076749, -.178779), (-.078411, .930809, .147602), (.004733, .691367, .303900)),
}


def linear(colour):
    shares = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= .04045 else ((c + .055) / 1.055) ** 2.4 for c in shares]


def contrast(a, b):
    """The contrast ratio of WCAG 2."""
    a, b = sorted(sum(w * c for w, c in zip((.2126, .7152, .0722), linear(colour))) for colour in (a, b))
    return (b + .05) / (a + .05)


def lab(rgb):
    x, y, z = (sum(w * c for w, c in zip(row, rgb)) / white for row, white in (
        ((.4124, .3576, .1805), .9505), ((.2126, .7152, .0722), 1), ((.0193, .1192, .9505), 1.089)))
    f = [t ** (1 / 3) if t > .008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def difference(a, b, sight):
    """The distance of two colours in CIELAB; 2.3 is just noticeable."""
    a, b = (lab([min(1, max(0, sum(w * c for w, c in zip(row, linear(colour))))) for row in SIGHT[sight]])
            for colour in (a, b))
    return sum((p - q) ** 2 for p, q in zip(a, b)) ** .5


def colours(browser):
    names = ("page", "raised", "text", "muted", "asked", "passed", "denied", "open", "half_open", "ramp")
    return browser.evaluate(f"""Object.fromEntries({json.dumps(names)}.map((name) =>
        [name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()]))""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_distinguishable_with_each_kind_of_colour_blindness(show, scheme):
    _, browser = show(BREAKER, FAILING, scheme=scheme)
    found = colours(browser)
    for text, ground in itertools.product(("text", "muted"), ("page", "raised")):
        assert contrast(found[text], found[ground]) >= 4.5, (text, ground, found)
    for group in ("asked", "passed", "denied"), ("open", "half_open", "ramp"):
        for name in group:
            assert contrast(found[name], found["page"]) >= 3, (name, found)
        for a, b in itertools.combinations(group, 2):
            for sight in SIGHT:
                assert difference(found[a], found[b], sight) >= 25, (a, b, sight, found)
    # The phases stand below the requests: an open breaker must not look like denied requests.
    for a, b in itertools.product(("passed", "denied"), ("open", "half_open")):
        for sight in SIGHT:
            assert difference(found[a], found[b], sight) >= 20, (a, b, sight, found)


def test_colours_follow_the_scheme_and_paper_is_white(show):
    _, browser = show(BREAKER, FAILING)
    drawn = """[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
        getComputedStyle(document.querySelector('.bars.passed')).fill,
        getComputedStyle(document.querySelector('.chart text')).fill]"""
    light = browser.evaluate(drawn)
    browser.emulate(scheme="dark")
    dark = browser.evaluate(drawn)
    assert all(a != b for a, b in zip(light, dark)), (light, dark)
    assert light[0] == "rgb(255, 255, 255)"
    browser.emulate(scheme="dark", media="print")
    assert browser.evaluate(drawn) == light
    assert browser.evaluate("getComputedStyle(document.getElementById('zoom')).display") == "none"


@pytest.mark.parametrize("width", [360, 700, 1200])
def test_nothing_overflows_or_overlaps(show, width):
    long = "n" * 64
    limits = BREAKER.replace("bucket:", f"{long}: {{ algorithm: pacer, rate: 1/s }}, bucket:")
    trace = FAILING.replace('"ip": "a"', f'"ip": "{"k" * 200}"')
    _, browser = show(limits, trace, width=width)
    for move in None, "in", "in", "in", "in", "later":
        if move:
            browser.evaluate(f"document.querySelector('[data-zoom={move}]').click()")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        boxes = browser.evaluate(f"{BOXES}('body *:not(script, bdi, [hidden], [hidden] *)')")
        assert all(left >= 0 and right <= width for left, _, right, _ in boxes)
        for chart in range(3):
            of = f".limit:nth-child({chart + 1})"
            labels = browser.evaluate(f"{BOXES}('{of} .chart text')")
            assert len(labels) >= 4 and apart(labels), (width, move, labels)
            assert apart(browser.evaluate(f"{BOXES}('{of} .legend li, {of} h2, {of} .keys li')"))
    assert apart(browser.evaluate(f"{BOXES}('button, #shown')"))
    buttons = browser.evaluate(f"{BOXES}('button')")
    assert all(bottom - top >= 32 and right - left >= 32 for left, top, right, bottom in buttons)


@pytest.mark.parametrize("width", [360, 1200])
def test_a_suggestion_has_a_curve(show, tmp_path, width):
    _, browser = show(LIMITS, FAILING, width=width)
    page = tmp_path / "report.html"
    # In the form of the report.
    suggestion = {"limit": f"login: {HOSTILE}", "count": 22, "by": "keys", "deny": 0.1, "curve": [
        {"count": n, "requests": 1000, "denied": 1000 // n, "keys": 50, "hit": 110 // n}
        for n in (3, 4, 6, 8, 11, 16, 20, 21, 22, 23, 30, 50, 100, 400, 1000)]}
    text = page.read_text()
    assert text.count(',"limits":{') == 1
    page.write_text(text.replace(',"limits":{', ',"suggestion":' + json.dumps(suggestion).replace("<", "\\u003c")
                                 + ',"limits":{'))
    browser.open(page)
    assert browser.complaints() == []
    said = browser.evaluate("document.getElementById('suggestion').innerText")
    assert HOSTILE in said and "at most 10% of keys" in said
    assert "denies 4.5% of requests and hits 10% of keys" in said
    labels = browser.evaluate(f"{BOXES}('.curve text')")
    assert len(labels) >= 5 and apart(labels), labels
    assert browser.evaluate("document.querySelector('.suggested').textContent") == "22"
    assert browser.evaluate("[...document.querySelectorAll('.curve path')].map((p) => p.getAttribute('d').split('L').length)") == [15, 15]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_a_page_without_requests_to_draw_has_no_buttons(show):
    _, browser = show("""
limits: { a: { algorithm: token_bucket, rate: 9/s } }
rules: [{ match: { path: /a }, limits: [a] }]
""", f"time,path\n{START},/b\n")
    assert browser.evaluate("document.querySelector('.chart')") is None
    assert browser.evaluate("document.getElementById('zoom').hidden") is True
