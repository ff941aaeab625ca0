"""docs/articles.md has a valid limit for each term, which passes as many requests as the page says."""

import json
import re

import pytest
from harness import ROOT, plain_build_only, weir

pytestmark = plain_build_only

PAGE = (ROOT / "docs/articles.md").read_text()

# (limit, how many of six pass, or "" where a draw decides)
ROWS = re.findall(r"^\| [^|]+ \| [^|]+ \| `(\{.*?\})` \| (\d?) ?\|", PAGE, re.M)

TERMS = ["漏桶", "令牌桶", "滑动窗口", "计数器", "随机拒流", "真固定速率", "熔断", "分布式"]


def decisions(limit, directory):
    """Those of six requests at once, each of which takes 100 ms."""
    (directory / "log.csv").write_text("time,ip,latency_ms\n" + 6 * "1767225600,192.0.2.1,100\n")
    done = weir("simulate", "--try", f"limit: {limit}", "--trace", directory / "log.csv", "--decisions", "-")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == 6, done.stderr
    return found


def test_each_term_has_a_row():
    assert len(ROWS) == 13
    assert all(re.search(rf"^\| [^|]*{term}[^|]* \|", PAGE, re.M) for term in TERMS)


@pytest.mark.parametrize("limit, passed", ROWS)
def test_a_limit_is_valid_and_passes_as_many_requests_as_the_page_says(limit, passed, tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text(f"nodes: 2\nlimits:\n  limit: {limit}\n")
    done = weir("lint", path)
    assert done.returncode == 0, done.stderr
    found = [decision["allowed"] for decision in decisions(limit, tmp_path)]
    assert passed == "" or found.count(True) == int(passed)


def test_hit_quota_is_said_by_the_windows_that_the_page_names(tmp_path):
    named = re.search(r"\*\*`hit_quota`\*\* is (.*?)\.", PAGE, re.S)[1]
    algorithms = set(re.findall(r"`(\w+)`", named))
    for algorithm in ("fixed_window", "resetting_bucket", "sliding_window", "sliding_log", "sliding_counter", "token_bucket",
                      "leaky_bucket"):
        said = any(decision["reason"] == "hit_quota" for decision in decisions(f"{{ algorithm: {algorithm}, rate: 5/m }}", tmp_path))
        assert said == (algorithm in algorithms), algorithm


def test_a_pacer_at_its_default_lets_a_rested_key_pass_as_the_page_says(tmp_path):
    found = decisions("{ algorithm: pacer, rate: 20/s }", tmp_path)
    assert [decision.get("wait_ms", 0) for decision in found] == [0] * 6
