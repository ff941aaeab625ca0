"""Runs the commands and programs that the documents show, and compares their output."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
import time

import pytest
from harness import BUILD, PATIENCE, ROOT, Server, Wire, plain_build_only

pytestmark = plain_build_only

spec = importlib.util.spec_from_file_location("record", ROOT / "tests/abi/record.py")
record = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record)

DOCUMENTS = ["README.md", "docs/protocols.md", "docs/proxies.md", "docs/library.md",
             "docs/operations.md", "docs/bench.md", "docs/simulate.md", "docs/guide.md",
             "docs/distributed.md", "docs/koala.md", "docs/migrating.md", "docs/articles.md", "docs/overload.md",
             "docs/compare.md", "docs/faq.md", "docs/breaker.md", "docs/throttle.md", "docs/adaptive.md", "docs/commands.md"]

README = """
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>
static int fail(const char *why)
{
	return fputs(why, stderr) < 0 ? 2 : 1;
}
int main(void)
{
	const char *key = "192.0.2.1";
	weir_limit *limit = NULL;
	weir_table *table = NULL;
	struct weir_error error;
	int status;
%s
	weir_table_close(table);
	weir_limit_close(limit);
	return !d.allowed;
}
"""


def blocks(document, language):
    """The fenced blocks of a language, also indented ones in lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", (ROOT / document).read_text(), re.M | re.S)
    return [textwrap.dedent(text) for _, text in found]


def steps(block):
    """(command, output or None if none is shown) of a console block."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output or None


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    config = (ROOT / "examples/weir.yaml").read_text()
    server = Server(config=config, directory=tmp_path_factory.mktemp("docs"))
    yield server
    assert server.stop() == 0


@pytest.mark.parametrize("document", ["README.md", "docs/protocols.md", "docs/bench.md", "docs/simulate.md",
                                      "docs/guide.md", "docs/koala.md", "docs/migrating.md", "docs/throttle.md",
                                      "docs/adaptive.md"])
def test_commands_print_the_output_that_the_page_shows(example, document):
    shown = [step for block in blocks(document, "console") for step in steps(block)]
    assert shown
    for command, expected in shown:
        run = command.replace("8080", str(example.http)).replace("6380", str(example.resp))
        run = run.replace("redis-cli", "redis-cli --no-raw")
        run = run.replace("build/weir ask", f"build/weir ask --server 127.0.0.1:{example.resp}")
        run = run.replace("build/weir", f"{BUILD}/weir")
        done = subprocess.run(["sh", "-c", run], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        assert done.stdout, done.stderr
        if expected is not None:
            assert done.stdout.strip() == expected.strip(), command


def library_examples():
    """The programs of docs/library.md. Shorter pieces are put into the first program, each alone and all together."""
    first, *others = blocks("docs/library.md", "c")
    before, after = re.split(r"^\tstatus = weir_acquire.*?(?=\tweir_table_close)", first, flags=re.M | re.S)
    after = after.replace("return 0;", "return !d.allowed;")
    programs, pieces = [[code for code in others if ("int main" in code) == whole] for whole in (True, False)]
    return [first, *programs, *(before + textwrap.indent(code, "\t") + after for code in [*pieces, "\n".join(pieces)])]


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A header that makes the compiler report each call whose status is ignored."""
    path = tmp_path_factory.mktemp("checked") / "checked.h"
    path.write_text("".join(f"#include <{header}>\n" for header in record.HEADERS) + "".join(
        f"__attribute__((warn_unused_result)) {prototype};\n"
        for prototype in record.functions(record.HEADERS).values() if prototype.startswith("int ")))
    return path


@pytest.mark.parametrize("code", [*(README % textwrap.indent(code, "\t") for code in blocks("README.md", "c")), *library_examples(),
                                  *((ROOT / "examples" / name).read_text() for name in ("first.c", "reload.c"))])
def test_c_code_compiles_decides_and_checks_each_call(code, checked, tmp_path, start_redis):
    source, program = tmp_path / "example.c", tmp_path / "example"
    if "redis://" in code:
        code = code.replace("127.0.0.1:6379", f"127.0.0.1:{start_redis().port}")
        code = code.replace(".timeout_ns = 1000000000", ".timeout_ns = 30000000000")
    source.write_text(code)
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", f"-I{ROOT}/include",
                    "-include", checked, source, "-o", program, f"-L{BUILD}/src", "-lweir_redis", "-lweir_rules", "-lweir"],
                   check=True, timeout=PATIENCE)
    words = [ROOT / "examples/weir.yaml"] if "argv" in code else []
    subprocess.run([program, *words], env={"LD_LIBRARY_PATH": f"{BUILD}/src"}, cwd=tmp_path, check=True,
                   timeout=PATIENCE)


def test_there_is_an_example_of_each_header_and_the_page_is_narrow():
    programs = "".join(library_examples())
    assert {header for header in record.HEADERS if f"#include <{header}>" in programs} == set(record.HEADERS)
    assert [line for line in (ROOT / "docs/library.md").read_text().splitlines()
            if len(line.expandtabs(4)) > 100] == []


# Declarations that examples of the headers use without showing them.
HEADERS = """
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <weir/engine.h>
#include <weir/limiter.h>
#include <weir/pool.h>
#include <weir/redis.h>
#include <weir/rules.h>
bool serve(void);
void use(void *result);
extern struct timespec t;
extern const char *name;
extern uint64_t now_ns;
extern void *argument, *result;
extern struct weir_ask ask;
extern struct weir_attribute user;
extern struct weir_decision d;
extern struct weir_error error;
extern struct weir_key key;
extern struct weir_permit permit;
extern struct weir_permits permits;
extern weir_config *config;
extern weir_engine *engine;
extern weir_limit *limit, *payments;
extern weir_limiter *limiter;
extern weir_pool *pool;
extern weir_pool_run run;
extern weir_pool_ticket *ticket;
extern weir_table *table;
extern int status;
"""


def test_the_examples_of_the_headers_compile_and_check_each_call(checked, tmp_path):
    source, examples = HEADERS, 0
    for header in sorted((ROOT / "include/weir").iterdir()):
        for comment in re.findall(r"^/\*\*\n(.*?)\*/\nWEIR_API", header.read_text(), re.M | re.S):
            [*code] = re.findall(r"(?:^ \*     .*\n)+", comment, re.M)
            assert code, comment
            for example in code:
                source += f"void example_{examples}(void);\nvoid example_{examples}(void)\n{{\n"
                source += re.sub(r"^ \*    ", "", example, flags=re.M) + "}\n"
                examples += 1
    assert examples > 50
    (tmp_path / "examples.c").write_text(source)
    subprocess.run(["gcc", "-c", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wunused-result",
                    f"-I{ROOT}/include", "-include", checked, tmp_path / "examples.c", "-o", tmp_path / "examples.o"],
                   check=True, timeout=PATIENCE)


def test_the_documented_parameters_are_those_of_the_algorithms(tmp_path):
    copy = tmp_path / "rules.md"
    copy.write_text((ROOT / "docs/rules.md").read_text().replace("| `rate`", "| `none`"))
    subprocess.run([sys.executable, ROOT / "docs/parameters.py", copy], check=True,
                   timeout=PATIENCE, env={**os.environ, "WEIR_BUILD": str(BUILD)})
    assert copy.read_text() == (ROOT / "docs/rules.md").read_text(), "see docs/parameters.py"


def decide_as_shown(part, directory, store="memory"):
    """Sends the requests of a table in docs/rules.md to a server with the rules beside it; returns the server."""
    # The timeout is longer than a busy machine delays Redis.
    config = f"store: {store}\nstore_timeout: 30s\n" + re.search(r"^```yaml\n(.*?)^```", part, re.M | re.S)[1]
    head = re.search(r"^\| request \| (.*) \|$", part, re.M)[1].split(" | ")
    rows = [[cell.strip(" `") for cell in row.split("|")[1:-1]]
            for row in re.findall(r"^\| `path.*$", part, re.M)]
    server = Server(config=config, directory=directory)
    with Wire(server.resp) as wire:
        for request, *cells in rows:
            allowed, _, left, _, _, reason, _, limit, rule = wire.command(
                "WEIR.CHECK", *request.split())
            found = {"answer": "allowed" if allowed else "denied", "reason": reason.decode(),
                     "limit": limit.decode(), "left": str(left), "rule": rule.decode()}
            shown = dict(zip(head, cells, strict=True))
            assert shown == {column: found.get(column, shown[column]) for column in shown}, request
    return server, len(rows)


def test_rules_are_evaluated_in_the_documented_order(tmp_path):
    text = (ROOT / "docs/rules.md").read_text()
    part = re.search(r"^## Which rule decides\n(.*?)^### ", text, re.M | re.S)[1]
    server, rows = decide_as_shown(part, tmp_path)
    assert rows == 9
    with Wire(server.resp) as wire:
        [left] = re.findall(r"^`trial` has (\d) left", part, re.M)
        assert wire.command("WEIR.PEEK", "trial", "192.0.2.1")[2] == int(left)
    assert server.stop() == 0


@pytest.mark.parametrize("at_redis", [False, True])
def test_with_first_match_the_first_rule_decides_as_documented(at_redis, tmp_path, start_redis):
    text = (ROOT / "docs/rules.md").read_text()
    part = re.search(r"^### The first rule decides\n(.*?)^## ", text, re.M | re.S)[1]
    store = f"redis://127.0.0.1:{start_redis().port}" if at_redis else "memory"
    server, rows = decide_as_shown(part, tmp_path, store)
    assert rows == 8
    assert server.stop() == 0


def test_values_match_as_documented(tmp_path):
    text = (ROOT / "docs/rules.md").read_text()
    part = re.search(r"^## Matching\n(.*?)^### Paths", text, re.M | re.S)[1]
    for line, name in re.findall(r"`([\w./]+)` in `(\w+\.txt)`", part):
        (tmp_path / name).write_text(line + "\n")
    (tmp_path / "proxies.txt").write_text("# none yet\n")
    asked = 0
    for config, rest in re.findall(r"^```yaml\n(.*?)^```\n(.*?)(?=^```yaml|\Z)", part, re.M | re.S):
        server = Server(config=config, directory=tmp_path)
        with Wire(server.resp) as wire:
            for request, rule in re.findall(r"^\| `((?:uid|agent) .*?)` \| ?`?(\w*)`? \|$", rest, re.M):
                found = wire.command("WEIR.CHECK", *request.split())[-1]
                assert (found or b"").decode() == rule, request
                asked += 1
        assert server.stop() == 0
    assert asked == 12


def test_the_first_program_prints_the_documented_decisions():
    begun = time.monotonic()
    done = subprocess.run([BUILD / "examples" / "first", "me"], capture_output=True, text=True,
                          timeout=PATIENCE, check=True)
    took_ms = (time.monotonic() - begun) * 1000
    lines = done.stdout.splitlines()
    assert lines[0] == "me: allowed, 9 of 10 left, retry after 0 ms"
    assert [line.split()[1] for line in lines[:10]] == ["allowed,"] * 10
    # The bucket refills a token each 200 ms in which the machine pauses the program.
    retries = [int(line.split()[-2]) for line in lines[10:] if line.startswith("me: denied, ")]
    assert 2 - took_ms / 200 <= len(retries) <= len(lines[10:]) == 2
    assert all(200 - took_ms <= retry <= 200 for retry in retries)


def test_the_configuration_beside_a_rule_file_of_koala_is_valid(tmp_path):
    ours = tmp_path / "weir.yaml"
    for config in blocks("docs/koala.md", "yaml"):
        ours.write_text(config)
        subprocess.run([BUILD / "weir", "lint", "--strict", "-c", ROOT / "examples/koala.conf", "-c", ours],
                       check=True, timeout=PATIENCE)


def lint_koala(directory, condition):
    (directory / "dict").write_text("x\n")
    path = directory / "rules.conf"
    path.write_text(f"[dicts]\ndict : dict\n[rules]\nrule : [direct] [dict @ dict] [] [result=2; return=1]\n"
                    f"rule : [direct] [{condition}] [] [result=2; return=2]\n[result]\n0:{{}}\n1:{{}}\n2:{{}}\n")
    done = subprocess.run([BUILD / "weir", "lint", path], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)
    return done.stderr.replace(str(path), "").splitlines()


def test_conditions_of_koala_are_read_as_documented(tmp_path):
    text = (ROOT / "docs/koala.md").read_text()
    good = re.search(r"^\| condition \|.*?\n\n", text, re.M | re.S)[0]
    conditions = [condition for row in re.findall(r"^\| (`k.*?) \|", good, re.M)
                  for condition in re.findall(r"`(.*?)`", row)]
    assert len(conditions) == 17
    for condition in [*conditions, "act=add-comment,1-5,10.0.0.0/8", "uid>5; uid<9"]:
        assert lint_koala(tmp_path, condition) == [], condition
    doubtful = re.search(r"^\| in the file \|.*?\n\n", text, re.M | re.S)[0]
    conditions = [condition for row in re.findall(r"^\| (`.*?) \|", doubtful, re.M)
                  for condition in re.findall(r"`(.*?)`", row)]
    assert len(conditions) == 15
    for condition in conditions:
        [line] = lint_koala(tmp_path, condition)
        assert ": warning: expected " in line, condition
    for condition in ("k=5-1", "k=2024-11"):
        [line] = lint_koala(tmp_path, condition)
        assert ": error: expected a range such as 1-5" in line


def test_lines_of_a_dictionary_of_koala_are_read_as_documented(tmp_path):
    text = (ROOT / "docs/koala.md").read_text()
    words = re.findall("`(.*?)`", re.search(r"meaning\. (.*?) are words there", text, re.S)[1])
    assert len(words) == 6
    (tmp_path / "dict").write_text("\n".join([*words, "10.0.24.*"]))
    path = tmp_path / "rules.conf"
    path.write_text("[dicts]\ndict : dict\n[rules]\nrule : [direct] [a @ dict] [] [result=2; return=2]\n"
                    "[result]\n0:{}\n1:{}\n2:{}\n")
    server = Server("-c", path, directory=tmp_path)
    with Wire(server.resp) as wire:
        for value, is_in in [*((word, True) for word in words), ("10.0.24.9", True), ("10.1.2.3", False),
                             ("3", False), ("6", False), ("y", False)]:
            assert wire.command("WEIR.CHECK", "a", value)[0] == (not is_in), value
    assert server.stop() == 0


def test_the_policy_of_koala_is_as_documented():
    [shown] = blocks("docs/koala.md", "json")
    server = Server("-c", ROOT / "examples/koala.conf")
    lines = server.get("/dump/policy").text.splitlines(True)
    assert (len(lines), lines[-1]) == (6, shown)
    assert server.get("/dump/policy?rule_no=1201").text == shown
    told = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/koala.md").read_text()
                          .split("## The loaded rules")[1].split("## ")[0], re.M))
    assert told == {name for line in lines for name in json.loads(line)}
    assert server.stop() == 0


def test_every_link_of_the_documents_has_a_target():
    for document in [*DOCUMENTS, "docs/rules.md", "docs/install.md", "docs/security.md", "CONTRIBUTING.md", "SECURITY.md",
                     *(str(path.relative_to(ROOT)) for folder in ("design", "recipes")
                       for path in (ROOT / "docs" / folder).glob("*.md"))]:
        path = ROOT / document
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{document}: {target}"


def test_all_metrics_and_events_are_documented_and_exist(example):
    text = (ROOT / "docs/operations.md").read_text()
    metrics = re.findall(r"^# TYPE (weir_\w+)", example.get("/metrics").text, re.M)
    described = set(re.findall(r"`(weir_\w+)`", text))
    assert set(metrics) == described
    sources = "".join(path.read_text() for path in (ROOT / "src/server").rglob("*.c"))
    events = set(re.findall(r'log_(?:event|write|state)\([^;]*?(?:LOG_\w+|level),\s*"(\w+)"', sources))
    events |= set(re.findall(r'(?:log_(?:error|remark)|client_log_warn|overrides_log)\([^;]*?"(\w+)"', sources))
    headers = "".join(path.read_text() for path in (ROOT / "src/server").rglob("*.h"))
    events |= set(re.findall(r'#define \w+_EVENT +"(\w+)"', headers))
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (?:info|warning|error) \|", text, re.M)
    assert events == {event for row in rows for event in re.findall(r"`(\w+)`", row)}


def test_the_documented_settings_that_need_a_restart_are_those_of_the_server():
    source = (ROOT / "src/server/config/reload.c").read_text()
    table = re.search(r"settings\[\] = \{\n(.*?)\};", source[source.index("warn_restart_needed("):], re.S)[1]
    in_code = re.findall(r'\{"([\w.]+)",', table)
    assert "store_timeout" in in_code
    for document, part in (("docs/operations.md", r"These settings of the file change with a restart only[^.:]*(.*?)\n\n"),
                           ("docs/rules.md", r"the old rules asked for\.(.*?) change with a restart only\.")):
        told = re.search(part, (ROOT / document).read_text(), re.S)[1]
        assert set(re.findall(r"`([\w.]+)`", told)) == set(in_code), document


def test_each_error_of_redis_is_explained_in_the_design():
    source = (ROOT / "src/redis/script_reply.c").read_text()
    means = {"NEEDS_SCRIPT": "the script has to be loaded", "REDIRECTS": "another node has the slot",
             "IS_TRANSIENT": "the call is made again soon", "NODE_UNAVAILABLE": "the node is unavailable",
             "CONNECTION_USELESS": "the node is unavailable, and this connection is of no use", "FAILS_CALL": "this call alone fails"}
    in_code = {}
    for code, error in re.findall(r'\{"([^"]+)", ERROR_(\w+)\}', source):
        in_code.setdefault(means[error], set()).add(code)
    text = (ROOT / "docs/design/redis-failures.md").read_text()
    table = text[text.index("| what an error means |"):].split("\n\n")[0].splitlines()[2:]
    in_docs = {}
    for row in table:
        meaning, codes = row.strip("| ").split(" | ")
        in_docs[meaning.split(" ([")[0]] = set(re.findall("`([^`]+)`", codes.split(", and all others")[0]))
    assert in_docs == in_code and len(in_code) == len(means)
    refused = source[source.index("refused_texts[] = {"):].split("};")[0]
    for error in re.findall('"([^"]+)"', refused):
        assert f"`{error}`" in text.replace("\n", " ")
