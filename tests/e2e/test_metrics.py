"""The metrics, parsed as Prometheus parses them, and the dashboard and alerts that use them."""

import json
import re
import time

import pytest
import yaml
from harness import ROOT, Wire, encode, until
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


def test_requests_latencies_connections_and_the_fill_of_the_table_are_metrics(serve):
    server = serve("--capacity", "5000", config=CONFIG)
    with Wire(server.resp) as wire:
        for i in range(10):
            wire.command("WEIR.ACQUIRE", "shadowed", f"k{i}")
        wire.command("NOSUCH")
        samples = scrape(server)
        assert total(samples, "weir_connections") >= 1
    assert total(samples, "weir_requests_total", protocol="resp") >= 10
    assert total(samples, "weir_errors_total", protocol="resp") == 1
    assert total(samples, "weir_errors_total", protocol="resp", status="ENOTFOUND") == 1
    assert total(samples, "weir_request_duration_seconds_count") >= 1
    assert total(samples, "weir_table_live_keys") == 10
    assert total(samples, "weir_table_cells") >= 5000
    assert total(samples, "weir_table_bytes") <= 20 * 5000 + 65536
    assert total(samples, "weir_table_evictions_total") == 0


def test_calls_to_redis_are_counted_in_a_histogram_of_their_time(serve, start_redis):
    redis = start_redis()
    server = serve("--threads", "2", config=f"store: {redis.url}\nstore_timeout: 5s\n" + CONFIG)
    for i in range(20):
        with Wire(server.resp) as wire:
            wire.command("WEIR.ACQUIRE", "shadowed", f"k{i}")
    with redis.hung(), Wire(server.resp) as wire:
        wire.command("WEIR.ACQUIRE", "shadowed", "k")
    samples = scrape(server)
    name, timeouts = "weir_store_call_duration_seconds", total(samples, "weir_store_timeouts_total")
    buckets = [(float(labels["le"]), value) for labels, value in samples[f"{name}_bucket"]]
    assert buckets == sorted(buckets) and len(buckets) == 13
    assert {labels["store"] for labels, _ in samples[f"{name}_bucket"]} == {redis.url}
    assert buckets[-1] == (float("inf"), total(samples, f"{name}_count"))
    assert total(samples, f"{name}_count") == total(samples, "weir_store_calls_total") - timeouts
    assert 0 < total(samples, f"{name}_sum") < 20 and timeouts == 1


def test_requests_that_arrive_together_are_decided_in_one_iteration(serve):
    server = serve("--threads", "1", config=CONFIG)
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "shadowed", "k") * 100)
        for _ in range(100):
            wire.reply()
    samples = scrape(server)
    assert total(samples, "weir_iteration_requests_sum") == 100
    assert total(samples, "weir_iteration_requests_count") < 100


def test_a_batch_is_one_request_of_many_decisions_and_errors(serve):
    server = serve(config=CONFIG)
    server.post("/v1/batch", [{"limit": "shadowed", "key": "k"}] * 3
                + [{"limit": "nosuch", "key": "k"}] * 2 + [{}])
    samples = scrape(server)
    assert total(samples, "weir_requests_total", protocol="http") == 1
    assert total(samples, "weir_decisions_total", limit="shadowed") == 3
    assert total(samples, "weir_errors_total", protocol="http", status="ENOTFOUND") == 2
    assert total(samples, "weir_errors_total", protocol="http") == 3


def test_reloads_are_counted_and_the_last_successful_one_has_a_timestamp(serve):
    server = serve(config=CONFIG)
    start = total(scrape(server), "weir_config_loaded_timestamp_seconds")
    assert abs(start - time.time()) < 60
    server.reload("nonsense: 1")
    until(lambda: total(scrape(server), "weir_reloads_total", result="failure") == 1, "a failure")
    assert total(scrape(server), "weir_config_loaded_timestamp_seconds") == start
    server.reload(CONFIG)
    until(lambda: total(scrape(server), "weir_reloads_total", result="success") == 1, "a success")
    assert total(scrape(server), "weir_config_loaded_timestamp_seconds") > start


def test_metrics_show_the_memory_and_cpu_time_of_the_process(serve):
    server = serve(config=CONFIG)

    def memory():  # as the kernel reports it
        with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
            return [int(pages) * 4096 for pages in statm.read().split()[:2]]

    size, resident = memory()
    samples = scrape(server)
    assert 0 < total(samples, "process_cpu_seconds_total") < 60
    # A scrape allocates memory itself, much of it under a sanitizer.
    after_size, after_resident = memory()
    assert resident / 2 < total(samples, "process_resident_memory_bytes") < after_resident * 2
    assert size / 2 < total(samples, "process_virtual_memory_bytes") < after_size * 2
    assert abs(total(samples, "process_start_time_seconds") - time.time()) < 60


@pytest.fixture
def busy(serve):
    """Samples of a server that has used all features with metrics."""
    # No Redis listens at that port, so each call fails.
    far = "limits:\n  far: { algorithm: token_bucket, rate: 1/h, store: 'redis://127.0.0.1:1' }\n"
    up = "  up: { algorithm: breaker }\n"
    at_auth = "rules:\n  - { match: { path: /up }, limits: [up] }\n"
    server = serve(config=CONFIG.replace("limits:\n", far + up).replace("rules:\n", at_auth))
    server.get("/auth", {"X-Forwarded-Uri": "/up"})
    with Wire(server.resp) as wire:
        for _ in range(3):
            wire.command("WEIR.CHECK", "ip", "1.1.1.1")
        wire.command("WEIR.ACQUIRE", "far", "k")
        wire.command("WEIR.CHECK", "path", "/")  # without an `ip`
        wire.command("WEIR.ACQUIRE", "far", "")
    return scrape(server)


def assert_is_there(expression, samples, and_labels):
    """Asserts that all names and labels of a PromQL expression exist; returns the names."""
    names = set(re.findall(r"\b(?:weir|process)_\w+", expression))
    assert names and names <= samples.keys(), expression
    labels = {label for name in names for found, _ in samples[name] for label in found}
    used = re.findall(r"(\w+)=", expression) + [
        label for by in re.findall(r" by \(([^)]*)\)", expression) for label in by.split(", ")]
    assert set(used) | and_labels <= labels | {"instance"}, expression
    assert expression.count("(") == expression.count(")")
    return names


def test_the_dashboard_uses_existing_metrics(busy):
    dashboard = json.loads((ROOT / "packaging/grafana/weir.json").read_text())
    assert dashboard["schemaVersion"] >= 36
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [(x, y) for panel in panels for place in [panel["gridPos"]]
             for x in range(place["x"], place["x"] + place["w"])
             for y in range(place["y"], place["y"] + place["h"])]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24
    asked = set()
    for expression in (target["expr"] for panel in panels for target in panel["targets"]):
        asked |= assert_is_there(expression, busy, set())
    # The dashboard uses all metrics except for parts of histograms and a metric under its former name.
    unseen = {name for name in busy if not re.search("_(bucket|sum|count|created)$", name)} - asked
    assert unseen <= {"process_virtual_memory_bytes", "weir_answers_held"}


def test_the_alerts_use_existing_metrics(busy):
    [group] = yaml.safe_load((ROOT / "packaging/prometheus/weir.yml").read_text())["groups"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names) >= 8
    for rule in group["rules"]:
        told = " ".join(rule["annotations"].values())
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        if rule["expr"] != 'up{job="weir"} == 0':
            assert_is_there(rule["expr"], busy, set(re.findall(r"\$labels\.(\w+)", told)))


def test_hostile_names_make_no_new_series(serve):
    server = serve(config=CONFIG)
    before = sum(map(len, scrape(server).values()))
    with Wire(server.resp) as wire:
        for i in range(100):
            wire.command("WEIR.ACQUIRE", f"nosuch{i}", "k")
            wire.command("CL.THROTTLE", f"k{i}", i, 1, 1)
    assert sum(map(len, scrape(server).values())) <= before + 20
