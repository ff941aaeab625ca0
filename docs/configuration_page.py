#!/usr/bin/env python3
"""Writes the manual page of the configuration file, packaging/man/weir.yaml.5.

    docs/configuration_page.py [--check]

The keys and their order come from the tables of src/readers/yaml, the algorithms from their
descriptions in C; what they mean stands here. A key that is missing here, or that no table has, is
an error. Needs a build with tests: build/, or WEIR_BUILD. With --check it writes nothing, and fails
if the page differs.
"""

import pathlib
import re
import sys

from manual import quoted
from parameters import algorithms, number

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "packaging/man/weir.yaml.5"
READERS = ROOT / "src/readers/yaml"
MADE = "Made by docs/configuration_page.py."
TABLE = re.compile(r"static const struct node_key (\w+)\[\] = \{\n(.*?)^\s*\};", re.M | re.S)
KEY = re.compile(r'(?:=\s*|^\s*)\{"(\w+)"([^{}]*)\}', re.M)

# Per key: type, default, meaning. The default None is none at all.
FILE = {
    "listen": ("mapping", None, "The addresses that the server listens at; see LISTEN."),
    "store": ("text", "memory", "Where counts live: `memory`, `file:PATH` or the URL of a Redis or Valkey, such as "
              "`redis://HOST:PORT/DATABASE`; see STORES."),
    "store_owner": ("text", None, "A user whose file store is accepted, besides the server's own user and root."),
    "store_group": ("text", None, "A group whose members may write the file store."),
    "capacity": ("number from 1 to 2^32", "1000000", "How many keys are counted at once; a file store that exists keeps "
                 "its own number."),
    "sync": ("time", "when the store is closed", "How often a file store is written out."),
    "order": ("`all` or `first`", "all", "Whether every rule that applies counts, or the first one that decides ends the "
              "search."),
    "koala": ("mapping", None, "For callers and rule files of Koala; see KOALA."),
    "attributes": ("list of names", "any name is fine", "What callers send besides `method`, `host`, `path` and `ip`; "
                   "`weir lint` warns of any other name in a rule."),
    "denials": ("mapping", None, "Which denials are kept for `weir why`; see DENIALS."),
    "nodes": ("number from 1 to 65536", "1", "How many servers share the Redis."),
    "prefix": ("text of at most 64 bytes, without braces", "weir:", "The beginning of every key in Redis."),
    "store_timeout": ("time from 1ms to 1m", "20ms", "How long a request waits for Redis."),
    "denied_cache": ("time of at most 1m", "1s", "How long a denial from Redis may be repeated without asking; `0s`: never."),
    "store_poll": ("time from 1ms to 1m", "50ms", "How often a waiting request looks for places that other servers freed."),
    "ipv6_prefix": ("number from 1 to 128", "64", "How many bits of an IPv6 address make a key."),
    "path_variants": ("`yes` or `no`", "no", "Whether `path` in rules also means its variants, such as `/login/` and `/LOGIN`."),
    "retry_jitter": ("decimal from 0 to 1", "0", "The most that is added, by chance, to the wait of a denied client, as a part of it."),
    "trusted_proxies": ("list of addresses", None, "The proxies whose `X-Forwarded-For` counts."),
    "auth": ("`yes`, `no` or `reports`", "yes", "Whether requests of proxies at `/auth` are answered; `reports`: "
             "answers have a permit, which the proxy reports."),
    "connections": ("number from 1 to 10000000", "10000", "How many connections may be open at once."),
    "idle": ("mapping", None, "How long connections may be idle; see IDLE."),
    "hosts": ("list of names", None, "Names that clients over HTTP may use for this server, besides `localhost` and "
              "addresses."),
    "tls": ("mapping", "no TLS", "The certificates of the listeners; see TLS."),
    "users": ("list of mappings", "`protected` decides", "Who may use the server; see USERS."),
    "protected": ("`yes`, `no` or a list of addresses", "yes", "Without users, who may change and administrate: only this "
                  "machine; everybody; or these networks, too."),
    "limits": ("mapping of names to limits", None, "The limits and their algorithms; see LIMITS."),
    "rules": ("list of mappings", None, "Which limits apply to which requests; see RULES."),
}
LISTEN = {
    "http": ("address", "127.0.0.1:8080", "For HTTP."),
    "resp": ("address", "127.0.0.1:6380", "For the protocol of Redis."),
    "admin": ("address", None, "For HTTP; takes the admin calls away from the other listeners."),
}
SOCKET = {
    "path": ("absolute path, required", None, "The file of the socket."),
    "mode": ("octal digits", "0600", "The permissions of the file."),
    "owner": ("text", "the server's user", "The user that owns the file, a name or a number."),
    "group": ("text", "the server's group", "The group of the file, a name or a number."),
}
IDLE = {
    "http": ("time", "5m", "After this time without traffic a connection over HTTP is closed; `0s`: never."),
    "resp": ("time", "0s", "The same for the protocol of Redis."),
}
TLS = {
    "cert": ("file in PEM, required", None, "The server's certificate, with what follows it in its chain."),
    "key": ("file in PEM", "the file of `cert`", "The private key, without a passphrase."),
    "ca": ("file in PEM", None, "Who signs the certificates of clients."),
    "clients": ("`none`, `optional` or `required`", "none", "Whether clients may or must show a certificate; needs `ca`."),
    "minimum": ("`1.2` or `1.3`", "1.2", "The lowest version of TLS that is accepted; write it in quotes."),
}
USERS = {
    "name": ("name, required", None, "The name in logs and logins, without blanks and colons."),
    "token": ("64 hexadecimal digits", None, "The SHA-256 of a token, as `weir passwd --token` prints it."),
    "password": ("hash", None, "The hash of a password, as `weir passwd` prints it."),
    "certificate": ("text", None, "A name in the client's certificate."),
    "unix": ("text", None, "The account of a program at a Unix socket."),
    "may": ("list of `ask`, `change` and `admin`, required", None, "What the user may do."),
    "limits": ("list of names and patterns such as `api*`", "all limits", "The limits that the user may use."),
}
DENIALS = {
    "keep": ("number", "10000", "How many denials are kept in memory; 0: none."),
    "per_second": ("number", "10", "How many are kept of each rule in a second."),
    "key": ("`digest` or `full`", "digest", "Whether the digest of a key is kept, or the key itself."),
    "attributes": ("`rule`, `none` or a list of names", "rule", "Which attributes are kept: those that the rule uses, none "
                   "or these."),
    "file": ("path, or `off`", "off", "A file to which denials are written, too. FILE.secret and, with Redis, FILE.redis-secret beside it keep digests the same after a restart."),
    "rotate": ("size from 8kB to 1GB", "64MB", "How large the file may be before a new one begins."),
    "files": ("number from 1 to 100", "4", "How many files there are."),
    "headers": ("`yes` or `no`", "no", "Whether denied answers over HTTP name the rule, the limit and the kept denial."),
}
KOALA = {
    "timezone": ("zone", "Asia/Shanghai", "The zone of the days in a file of Koala."),
    "unmatched": ("mapping", None, "The answer of a browse if no rule applies."),
    "unexceeded": ("mapping", None, "The answer of a browse if no rule denies."),
}
EVERY_LIMIT = {
    "on_store_failure": ("`local`, `open` or `closed`", "local", "While the limit's Redis is away: the server decides "
                         "by its share of the limit, allows all, or denies all."),
    "store": ("`memory` or a URL", "the file's", "The store of this limit. Those of `random`, `breaker`, `throttle` and "
              "`adaptive` take none."),
    "chunk": ("part from 1% to 100%", "each request asks", "Which part of the quota a server may take from Redis at once. "
              "Only for `token_bucket`, `leaky_bucket`, `fixed_window` and `resetting_bucket`."),
}
RULES = {
    "name": ("name", "rule-1, rule-2, ...", "The name in answers and metrics."),
    "answer": ("`allow` or `deny`", None, "The answer, instead of limits. With `order: first`, `allow` may stand beside "
               "limits."),
    "ipv6_prefix": ("number from 1 to 128", "the file's", "How many bits of `ip` make this rule's key."),
    "path_variants": ("`yes` or `no`", "the file's", "Whether `path` in this rule also means its variants."),
    "match": ("mapping of attributes to values", "all requests", "Which requests the rule applies to; see MATCHING."),
    "key": ("list of attributes", "one count for all", "The attributes that make the key."),
    "limits": ("list of names", None, "The limits, which all must allow the request."),
    "mode": ("`enforce` or `shadow`", "enforce", "A shadow rule counts, and never denies."),
    "on_store_failure": ("`local`, `open` or `closed`", "the limit's", "As for limits."),
    "priority": ("number from 0 to 9", "the caller's, or 0", "The priority of these requests; 0 is the highest."),
    "ip_numbers": ("`yes` or `no`", "no", "Whether an IPv4 address and its number are the same, as in Koala."),
    "feedback": ("list of two numbers", None, "How many units Koala's feedback takes back, for `erase1` and `erase2`."),
    "result": ("mapping", None, "Fields that a denial carries, at most 4096 bytes as JSON."),
}
MATCHING = {
    "in": ("file, or list of files", None, "Holds for values in one of these dictionaries."),
    "not_in": ("file, or list of files", None, "Holds for values in none of them."),
    "not": ("value, or list of values", None, "Holds if none of these forms does."),
    "all": ("list of values", None, "Holds if each of these does."),
}

# What the forms of values hold for.
FORMS = {
    '"*"': "anything but an empty value",
    '"!*"': "an empty value, or none",
    "/api/*": "for `path`: all paths that begin so",
    "10.0.0.0/8": "the addresses in it; so do `192.168.1.*` and `10.0.0.1-10.0.0.9`",
    "1-5": "the whole numbers from 1 to 5",
    '">5", "<5"': "the whole numbers above or below 5",
    '"!FORM"': "any value, except an empty one, for which the form does not hold",
    "\\TEXT": "exactly that text, also if it looks like another form",
    "TEXT": "exactly that text",
}
STORES = {
    "memory": "The server's own table.",
    "file:PATH": "A file, which outlives the server; only for `store` at the top.",
    "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]": "A Redis or Valkey.",
    "redis+unix://[USER:PASSWORD@]/PATH[?db=DATABASE]": "The same at a Unix socket.",
    "redis-cluster://[USER:PASSWORD@]HOST[:PORT],...": "A cluster, by some of its servers.",
    "redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../NAME[/DATABASE]": "The master that these Sentinels know as NAME.",
    "rediss://..., rediss-cluster://..., rediss+sentinel://...": "The same through TLS.",
}

# Per parameter, or ALGORITHM.PARAMETER where the meaning differs.
PARAMETERS = {
    "rate": "How many requests may pass in a period: COUNT/PERIOD, such as `5/s` or `10/100ms`.",
    "keys": "How many keys the limit has room for; by default what the capacity leaves it.",
    "max_wait": "How long a request may be held; `0s`: not at all.",
    "leaky_queue.max_wait": "How long a request may be held; by default as long as there is room.",
    "retry": "After which time a denied client may ask again.",
    "timezone": "The time zone of the calendar, such as `Asia/Shanghai`.",
    "queue": "How many more requests may wait for a place.",
    "permit_timeout": "After which time a permit that nobody reports ends.",
    "fixed_window.align": "Whether windows begin by the calendar, or with a key's first request.",
    "week_start": "The day on which a calendar week begins.",
    "burst": "How many requests may come at once.",
    "leaky_bucket.capacity": "How much the bucket holds.",
    "leaky_queue.capacity": "How many requests may wait.",
    "slack": "How many turns idle time saves up.",
    "warm_up": "How long a cold key takes to reach the rate.",
    "cold": "By how much a cold key begins slower than the rate.",
    "slots": "Into how many parts the period is cut.",
    "base": "How many requests of a day pass before the rate decides.",
    "deny": "The share of requests that is denied.",
    "concurrency.max": "How many requests may be in flight at once.",
    "lease": "After which time the place of a request that was not given back is free again.",
    "preset": "The library whose defaults the limit takes.",
    "breaker.window": "The time whose calls are judged.",
    "calls": "How many of the last calls are judged, in place of a time.",
    "breaker.minimum": "How many calls the window needs before the breaker may open.",
    "failure_rate": "The part of failed calls at which the breaker opens.",
    "failures": "How many failed calls open the breaker, in place of minimum and failure_rate.",
    "slow": "From which time on a call counts as slow; by default none does.",
    "slow_rate": "The part of slow calls at which the breaker opens.",
    "sleep": "How long an open breaker denies before it probes.",
    "sleep_max": "Up to which time each failed probe doubles the sleep.",
    "probes": "How many probes must succeed before the breaker closes.",
    "probe_timeout": "After which time a probe that nobody reports counts as failed; by default at least twice slow.",
    "ramp": "How long the share of requests that pass grows after the probes.",
    "max_concurrent": "How many calls may be in flight at once; by default any number.",
    "quorum": "How many servers must find the backend bad, with a Redis; 0: each decides alone.",
    "judge_only": "Whether the breaker only judges, and denies nothing.",
    "throttle.window": "The time whose requests are counted.",
    "k": "How many requests are fine for one that the backend accepts.",
    "throttle.minimum": "How many requests the window needs before any is denied; by default none.",
    "method": "How the limit is measured.",
    "initial": "The limit to start with; by default the method's.",
    "min": "The smallest limit; by default the method's.",
    "adaptive.max": "The largest limit; by default the method's.",
}

EXAMPLE = """\
listen: { http: 127.0.0.1:8080, resp: 127.0.0.1:6380 }
store: memory
capacity: 1000000
limits:
  login: { algorithm: token_bucket, rate: 5/s, burst: 10 }
  sms:   { algorithm: fixed_window, rate: 5/d, timezone: Asia/Shanghai }
  api:   { algorithm: sliding_window, rate: 1000/m, slots: 10 }
rules:
  - name: office
    match: { ip: [10.0.0.0/8, 192.168.1.*] }
    answer: allow
  - name: login-by-ip
    match: { path: /login }
    key: [ip]
    limits: [login]
    result: { code: 1001, text: "slow down" }
  - name: api-by-key
    match: { path: /api/*, header.x-api-key: "*" }
    key: [header.x-api-key]
    limits: [api]
  - name: sms-by-number
    match: { purpose: sms }
    key: [number]
    limits: [sms]
    mode: shadow
trusted_proxies: [127.0.0.0/8, "::1"]
"""

# Title, the table of the reader, the keys, and what stands before them.
SECTIONS = [
    ("TOP LEVEL", "yaml.c:file_keys", FILE, "All keys are optional, and so an empty file is valid."),
    ("LISTEN", "yaml.c:listen_keys", LISTEN, "An address is `HOST:PORT`, `unix:/PATH`, or a mapping as below. "
     "`plain:HOST:PORT` has no TLS."),
    ("UNIX SOCKETS", "read_listen.c:keys", SOCKET, "In place of the address `unix:/PATH` a mapping may stand."),
    ("IDLE", "yaml.c:idle_keys", IDLE, None),
    ("TLS", "read_tls.c:keys", TLS, "Names of files are relative to the configuration."),
    ("USERS", "read_user.c:user_keys", USERS, "A user has one of `token`, `password`, `certificate` and `unix`."),
    ("DENIALS", "read_denials.c:denials_keys", DENIALS, None),
    ("KOALA", "yaml.c:koala_keys", KOALA, None),
    ("LIMITS", "read_limit.c:store_keys", EVERY_LIMIT, "Every limit has the key `algorithm`. It may have the "
     "parameters of that algorithm, which stand below, and these:"),
    ("RULES", "read_rule.c:rule_keys", RULES, "A rule has either `limits` or `answer`."),
    ("MATCHING", "read_match.c:keys", MATCHING, "A rule applies if every attribute in `match` holds. The value of an "
     "attribute is a form, a list of forms of which one must hold, or a mapping with these keys:"),
]


def reader_tables():
    """By file and name of a table, the keys that the reader knows in it; hidden ones are refused."""
    return {f"{path.name}:{name}": [key for key, rest in KEY.findall(body) if ".hidden" not in rest]
            for path in sorted(READERS.glob("*.c")) for name, body in TABLE.findall(path.read_text())}


def inline(text):
    return re.sub(r"`(.+?)`", r"\\fB\1\\fR", quoted(text))


def item(name, kind, default, meaning):
    after = "" if default is None else f"; default: {default}"
    return [".TP", f"\\fB{quoted(name)}\\fR ({inline(kind + after)})", inline(meaning)]


def section(title, keys, meanings, before):
    if sorted(keys) != sorted(meanings):
        sys.exit(f"{title}: expected the keys of the reader, found others: {set(keys) ^ set(meanings)}")
    out = [f".SH {title}"] + ([inline(before)] if before else [])
    return out + [line for key in keys for line in item(key, *meanings[key])]


def kind(parameter):
    """The type of a parameter, its bounds, and what it needs beside it."""
    text = parameter["type"]
    if parameter["words"]:
        text = ", ".join(f"`{word}`" for word in parameter["words"])
    elif text == "percent":
        text = f"part from {parameter['min']}% to {parameter['max']}%"
    elif text in ("number", "decimal"):
        text += f" from {parameter['min']} to {number(parameter['max'])}"
    elif text == "calendar rate":
        text = "rate, also per `month` and `year`"
    if parameter["required"]:
        text += ", required"
    if parameter["rival"]:
        text += f", not with `{parameter['rival']}`"
    return text + (f", with {parameter['with']}" if parameter["with"] else "")


def default(parameter):
    value = parameter["default"]
    if value is None or parameter["required"]:
        return None
    return "the rate's count" if value == "rate" else str(value).partition(",")[0]


def parameter_items(found):
    used, out = set(), []
    for algorithm in found:
        out += [f".SS {quoted(algorithm['name'])}"]
        for parameter in algorithm["parameters"]:
            names = [name for name in (f"{algorithm['name']}.{parameter['name']}", parameter["name"]) if name in PARAMETERS]
            if not names:
                sys.exit(f"expected a meaning of {parameter['name']} of {algorithm['name']}, found none")
            used.add(names[0])
            out += item(parameter["name"], kind(parameter), default(parameter), PARAMETERS[names[0]])
    if used != PARAMETERS.keys():
        sys.exit(f"expected parameters of algorithms, found {PARAMETERS.keys() - used}")
    return out


def listed(names):
    return [line for name, text in names.items() for line in (".TP", f"\\fB{quoted(name)}\\fR", inline(text))]


def page():
    tables = reader_tables()
    known = {table for _, table, _, _ in SECTIONS}
    if tables.keys() != known:
        sys.exit(f"expected sections for the reader's tables, found a difference: {tables.keys() ^ known}")
    extra = {"LIMITS": item("algorithm", "name, required", None, "One of the algorithms below.") + parameter_items(algorithms()),
             "MATCHING": [".PP", "The forms hold for:", *listed(FORMS)]}
    out = [f'.\\" {MADE}', '.TH WEIR.YAML 5 "" "" "Weir"', ".nh", ".ad l", ".SH NAME",
           "weir.yaml \\- configuration of the rate limiter Weir", ".SH DESCRIPTION",
           inline("A file of YAML says where Weir listens, which limits exist, and which requests they apply to. "
                  "It is one document in UTF-8, without aliases and tags. `weir lint` checks it, and names the line and "
                  "column of every mistake. A server doesn't start with a bad file, and a reload with one changes nothing."),
           ".PP", inline("A time is a whole number with the unit `ms`, `s`, `m`, `h`, `d` or `w`. "
                         "A name has 1 to 64 bytes. The variables and flags of `weir serve` beat the file.")]
    for title, table, meanings, before in SECTIONS:
        out += section(title, tables[table], meanings, before) + extra.get(title, [])
    out += [".SH STORES", "The URL may have valkey in place of redis.", *listed(STORES), ".SH FILES", ".TP",
            ".I /etc/weir/weir.yaml", "The configuration of the packaged service.", ".SH EXAMPLES", ".nf",
            quoted(EXAMPLE.rstrip("\n")), ".fi", ".SH SEE ALSO", ".BR weir (1),", ".BR weir\\-lint (1),",
            ".BR weir\\-passwd (1),", ".BR weir\\-serve (1),", ".BR weir\\-simulate (1)", ".PP",
            "docs/rules.md in the documents of Weir tells more of each key."]
    return "\n".join(out) + "\n"


def main():
    text = page()
    if "--check" in sys.argv:
        is_same = PAGE.exists() and PAGE.read_text() == text
        sys.exit(None if is_same else f"to be made anew by docs/configuration_page.py: {PAGE.relative_to(ROOT)}")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
