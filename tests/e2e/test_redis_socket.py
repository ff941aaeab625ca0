"""redis+unix://: a Redis on a Unix socket of this machine."""

import pytest
from redis_callers import Served, until_reached


@pytest.mark.parametrize("program", ["redis", "valkey"])
def test_a_redis_on_a_socket_counts(start_redis, start_caller, tmp_path, key, program):
    path = tmp_path / "my redis"
    redis = start_redis("--requirepass", "hunter2", "--unixsocket", path, program=program)
    url = f"{program}+unix://:hunter2@{str(path).replace(' ', '%20')}?db=3"
    one, other = start_caller(url), start_caller(url)
    assert [one.ask(key), other.ask(key), one.ask(key)] == [9, 8, 7]
    redis.client.select(3)
    assert redis.client.exists(f"weir:{{{key}}}:one")
    # Its connections end, and it restarts at the same path.
    redis.cut_clients()
    until_reached(one)
    until_reached(other)
    redis.restart()
    until_reached(one)
    until_reached(other)


def test_a_missing_socket_is_named_in_the_log(start_redis, serve, tmp_path, key):
    path = tmp_path / "socket"
    one = Served(serve, f"redis+unix://{path}")
    assert one.ask(key) is None
    assert f"{path}: no such file or directory" in one.server.line_with("store_away")
    start_redis("--unixsocket", path)
    until_reached(one)
    one.server.line_with("store_back")
