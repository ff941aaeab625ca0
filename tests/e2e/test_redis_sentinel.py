"""redis+sentinel:// finds, checks and follows the master, also if Sentinels are wrong or unavailable."""

import re

import pytest
from redis_callers import Served, until_reached
from harness import ROOT, metric, until
from redis_sentinel import NAME, FakeSentinel, Watched, role
from redis_servers import PROGRAMS, free_port
from redis_tls import tls_options

pytestmark = pytest.mark.first

# The time without an answer after which Sentinels take a master for dead; long, as machines may be busy.
DOWN_MS = 5000


@pytest.fixture
def watch(tmp_path, start_redis):
    """A function that starts a master, a replica and Sentinels."""
    started = []

    def start(**more):
        (tmp_path / "watched").mkdir()
        started.append(Watched(tmp_path / "watched", start_redis, **more))
        return started[-1]

    yield start
    for watched in started:
        watched.stop()


@pytest.fixture
def fake():
    """A function that starts servers that answer as Sentinels do."""
    started = []

    def start(*arguments, **more):
        started.append(FakeSentinel(*arguments, **more))
        return started[-1]

    yield start
    for sentinel in started:
        sentinel.stop()


@pytest.fixture
def replica_of(start_redis):
    """A function that starts a replica of a server."""
    def start(master, *options):
        replica = start_redis(*options)
        replica.client.replicaof("127.0.0.1", master.port)
        until(lambda: replica.client.info("replication")["master_link_status"] == "up", "the replica")
        return replica

    return start


def url_of(*sentinels):
    return f"redis+sentinel://{','.join(one if isinstance(one, str) else one.host for one in sentinels)}/{NAME}"


@pytest.mark.parametrize("program", ["redis", "valkey"])
def test_a_failover_is_followed_while_the_old_master_still_answers(watch, start_caller, key, program):
    watched = watch(program=program)
    one, other = (start_caller(watched.url.replace("redis", program)) for _ in range(2))
    assert [one.ask(key), other.ask(key), one.ask(key)] == [9, 8, 7]
    watched.master.pass_on()
    watched.fail_over()
    until_reached(one, watched.master)
    until_reached(other, watched.master)
    assert [one.ask(key), other.ask(key), one.ask(key)] == [6, 5, 4]


def test_a_master_that_dies_is_followed_by_its_replica(watch, start_caller, key):
    watched = watch(down_ms=DOWN_MS)
    one, other = (start_caller(watched.url) for _ in range(2))
    assert [one.ask(key), other.ask(key)] == [9, 8]
    watched.master.pass_on()
    watched.master.stop()
    watched.until_promoted()
    until_reached(one, watched.master)
    until_reached(other, watched.master)
    assert [one.ask(key), other.ask(key)] == [7, 6]


@pytest.mark.first
def test_a_master_that_resumes_after_a_failover_is_not_used_again(watch, start_caller, key):
    watched = watch(down_ms=DOWN_MS)
    one = start_caller(watched.url, timeout_ms=3000)  # the wait for an answer of a hanging master
    until_reached(one, watched.master)
    assert [one.ask(key), one.ask(key)] == [9, 8]
    watched.master.pass_on()
    old = watched.master
    with old.hung():
        watched.until_promoted()
        until_reached(one, watched.master)
        assert one.ask(key) == 7
    assert one.ask(key) == 6
    until(lambda: role(old) == "slave", "the old master to be demoted")
    assert one.ask(key) == 5
    assert watched.master.client.exists(f"weir:{{{key}}}:one")


def test_sentinels_that_are_not_in_the_url_are_used_when_the_others_are_unavailable(watch, start_caller, key):
    watched = watch()
    one = start_caller(url_of(f"127.0.0.1:{watched.sentinels[0].port}"))
    assert one.ask(key) == 9
    watched.master.pass_on()
    watched.sentinels[0].stop()
    watched.fail_over(sentinel=1)
    until_reached(one, watched.master)
    assert one.ask(key) == 8


def documented_permissions():
    """The permissions of the user that docs/distributed.md creates for Weir."""
    text = (ROOT / "docs/distributed.md").read_text().replace("\\\n", " ")
    return re.search(r"redis-cli ACL SETUSER weir (.*)", text)[1].replace("'", "").split()


def test_logins_tls_and_minimal_permissions_work_with_sentinels(watch, start_caller, certificates, start_redis, key):
    """Sentinels and Redis have different passwords, and speak TLS."""
    tls = [f"{tls_options(certificates, 0)[i][2:]} {tls_options(certificates, 0)[i + 1]}" for i in range(2, 10, 2)]
    port = free_port()
    watched = watch(options=["requirepass hunter2"], tls=tls)
    # These Sentinels cannot monitor a master that speaks only TLS, so they name its port for TLS.
    secure = start_redis(*tls_options(certificates, port))
    secure.client.execute_command("ACL", "SETUSER", "weir", *documented_permissions())
    for sentinel in watched.sentinels:
        sentinel.command("REMOVE", NAME)
        sentinel.command("MONITOR", NAME, "127.0.0.1", port, 2)
    hosts = ",".join(f"127.0.0.1:{sentinel.tls_port}" for sentinel in watched.sentinels)
    url = (f"rediss+sentinel://weir:password@{hosts}/{NAME}?ca={certificates / 'right.pem'}"
           "&sentinel_password=hunter2")
    one = start_caller(url)
    until_reached(one, secure)
    assert [one.ask(key), one.ask(key)] == [9, 8]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_role_of_a_server_is_checked_with_the_documented_permissions(fake, start_caller, start_redis, program, key):
    redis = start_redis(program=program)
    redis.client.execute_command("ACL", "SETUSER", "weir", *documented_permissions())
    one = start_caller(url_of(fake(redis)).replace("://", "://weir:password@"))
    assert [one.ask(key), one.ask(key)] == [9, 8]


def test_the_secret_of_permits_is_stored_at_the_master(fake, serve, start_redis):
    redis = start_redis()
    Served(serve, url_of(fake(redis)))
    until(lambda: redis.client.exists("weir:secret"), "the secret")


def test_unavailable_sentinels_delay_no_request(fake, start_caller, start_redis, key):
    redis = start_redis()
    hanging, good = fake(redis), fake(redis)
    hanging.hangs = True
    one = start_caller(url_of(hanging, f"127.0.0.1:{free_port()}", good))
    assert [one.ask(key), one.ask(key)] == [9, 8]
    good.hangs = True  # the known master stays valid
    assert one.ask(key) == 7
    redis.cut_clients()
    until_reached(one, redis)
    assert one.ask(key) == 6


def test_the_majority_of_sentinels_decides_and_in_a_tie_the_first(fake, start_caller, start_redis, key):
    first, second = start_redis(), start_redis()
    sentinels = [fake(first), fake(second), fake(second)]
    one, other = start_caller(url_of(*sentinels)), start_caller(url_of(*sentinels))
    until_reached(one, second)
    until_reached(other, second)
    assert [one.ask(key), other.ask(key)] == [9, 8]
    sentinels[1].master = first
    until_reached(one, first)
    sentinels[0].master, sentinels[1].master = second, first
    until_reached(one, second)
    sentinels[2].master = None  # a tie: one names the first server, one the second
    sentinels[0].master, sentinels[1].master = first, second
    until_reached(one, first)
    until_reached(other, first)


def test_a_replica_that_sentinels_name_is_not_written_to(fake, start_caller, start_redis, replica_of, key):
    master = start_redis()
    writable = replica_of(master, "--replica-read-only", "no")
    sentinels = [fake(writable), fake(writable), fake(master)]
    one = start_caller(url_of(*sentinels))
    until_reached(one, master)
    assert one.ask(key) == 9
    master.pass_on()
    assert sorted(writable.client.keys("weir:*one")) == sorted(master.client.keys("weir:*one"))


def test_a_demoted_master_is_used_no_more(fake, serve, start_redis, replica_of, key):
    """Sentinels report it late: the server refuses writes, and then Weir checks its role."""
    old = start_redis("--repl-diskless-sync-delay", 0)
    new = replica_of(old)
    sentinel = fake(old)
    one = Served(serve, url_of(sentinel))
    assert [one.ask(key), one.ask(key)] == [9, 8]
    old.pass_on()
    new.client.replicaof("NO", "ONE")
    old.client.replicaof("127.0.0.1", new.port)
    until(lambda: one.ask("other") is None, "the old master to refuse")
    assert "store_away" in one.server.line_with("READONLY")
    sentinel.master = new
    until_reached(one, new)
    one.server.line_with("store_back")
    assert [one.ask(key), one.ask(key)] == [7, 6]


REFUSALS = {
    "no master": (None, "this Sentinel knows no master"),
    "an error": (b"-IDONTKNOW really\r\n", "this Sentinel says IDONTKNOW really"),
    "a text": (b"+OK\r\n", "expected the address of a master, found another reply"),
    "one word": (b"*1\r\n$1\r\nh\r\n", "expected the address of a master"),
    "no port": (b"*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n", "expected the address of a master"),
    "a socket": (b"*2\r\n$5\r\n/sock\r\n$1\r\n1\r\n", "expected the address of a master"),
    "no name": (b"*2\r\n$0\r\n\r\n$4\r\n6379\r\n", "expected the address of a master"),
    "no reply": (b"what?\r\n", "expected a reply from Redis"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_sentinel_that_names_no_master_is_logged(fake, serve, start_redis, refusal, key):
    answer, why = REFUSALS[refusal]
    redis, sentinel = start_redis(), fake(answer)
    one = Served(serve, url_of(sentinel), timeout_ms=200)
    assert one.ask(key) is None
    line = one.server.line_with("store_away")
    assert f"no Sentinel names a master '{NAME}'; {sentinel.host}: {why}" in line, line
    assert metric(one.server, re.escape(f'weir_store_up{{store="{url_of(sentinel)}"}}')) == 0
    sentinel.master = redis
    until_reached(one, redis)
    one.server.line_with("store_back")


@pytest.mark.parametrize("password,why", [(None, "Redis says NOAUTH"), ("wrong", "Redis refuses user or password")])
def test_a_sentinel_that_refuses_the_password_is_logged(fake, serve, start_redis, password, why, key):
    sentinel = fake(start_redis(), password="hunter2")
    more = f"?sentinel_password={password}" if password else ""
    one = Served(serve, url_of(sentinel) + more, timeout_ms=200)
    assert one.ask(key) is None
    assert f"{sentinel.host}: {why}" in one.server.line_with("store_away")
    sentinel.password = password
    if password:
        until_reached(one)


def test_a_sentinel_named_as_the_master_is_refused(fake, serve, key):
    sentinel = fake()
    sentinel.master = sentinel
    one = Served(serve, url_of(sentinel))
    assert one.ask(key) is None
    line = one.server.line_with("store_away")
    assert f"{sentinel.host}: " in line and "ERR unexpected" in line, line


def test_the_number_of_sentinels_that_are_asked_is_bounded(fake, serve, start_redis, key):
    redis = start_redis()
    other = fake(redis, address="0.0.0.0")
    sentinel = fake(redis, others=[(f"127.0.1.{i}", other.port) for i in range(1, 100)])
    one = Served(serve, url_of(sentinel))
    assert one.ask(key) == 9
    assert not other.asked
    sentinel.stop()
    until(lambda: other.asked, "the other Sentinels to be asked")
    redis.cut_clients()
    until_reached(one, redis)
    assert one.ask(key) == 8
    assert len(other.asked) <= 16
