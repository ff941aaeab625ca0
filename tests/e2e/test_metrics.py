"""The metrics, as Prometheus itself would read them."""

from harness import Wire
from prometheus_client.parser import text_string_to_metric_families

CONFIG = """
limits:
  'quoted "name"': { algorithm: token_bucket, rate: 5/h }
  shadowed: { algorithm: token_bucket, rate: 1/h }
rules:
  - { name: shadow, key: [ip], limits: [shadowed], mode: shadow }
"""


def scrape(server):
    """{sample name: [(labels, value)]}"""
    answer = server.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    samples = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation, f"{family.name} has no HELP"
        assert family.type != "unknown", f"{family.name} has no TYPE"
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def total(samples, name, **labels):
    return sum(value for found, value in samples[name] if labels.items() <= found.items())


def test_every_decision_is_counted_once_by_limit_and_reason(serve):
    server = serve("--threads", "4", config=CONFIG)
    for _ in range(4):  # connections, so that several loops count
        with Wire(server.resp) as wire:
            for _ in range(2):
                wire.command("WEIR.ACQUIRE", 'quoted "name"', "k")
    samples = scrape(server)
    decisions = "weir_decisions_total"
    assert total(samples, decisions, limit='quoted "name"', reason="ok") == 5
    assert total(samples, decisions, limit='quoted "name"', reason="over_limit") == 3


def test_shadow_decisions_are_counted_apart(serve):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        for _ in range(3):
            assert wire.command("WEIR.CHECK", "ip", "1.1.1.1")[0] == 1
    samples = scrape(server)
    assert total(samples, "weir_shadow_decisions_total", limit="shadowed", reason="over_limit") == 2
    assert total(samples, "weir_decisions_total", limit="shadowed") == 0


def test_requests_latencies_connections_and_the_tables_fill_are_there(serve):
    server = serve("--capacity", "5000", config=CONFIG)
    with Wire(server.resp) as wire:
        for i in range(10):
            wire.command("WEIR.ACQUIRE", "shadowed", f"k{i}")
        wire.command("NOSUCH")
        samples = scrape(server)
        assert total(samples, "weir_connections") >= 1
    assert total(samples, "weir_requests_total", protocol="resp") >= 10
    assert total(samples, "weir_errors_total", protocol="resp") == 1
    assert total(samples, "weir_request_duration_seconds_count") >= 1
    assert total(samples, "weir_table_live_keys") == 10
    assert total(samples, "weir_table_cells") >= 5000
    assert total(samples, "weir_table_bytes") <= 20 * 5000 + 65536
    assert total(samples, "weir_table_evictions_total") == 0


def test_hostile_names_make_no_new_series(serve):
    server = serve(config=CONFIG)
    before = sum(map(len, scrape(server).values()))
    with Wire(server.resp) as wire:
        for i in range(100):
            wire.command("WEIR.ACQUIRE", f"nosuch{i}", "k")
            wire.command("CL.THROTTLE", f"k{i}", i, 1, 1)
    assert sum(map(len, scrape(server).values())) <= before + 20
