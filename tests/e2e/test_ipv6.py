"""An IPv6 address counts by its network, so a client that rotates its addresses has one limit."""

import random

from harness import Wire

LIMIT = 10


def addresses(network, n, seed=1):
    """`n` random addresses of a /64, in various spellings."""
    draw = random.Random(seed)
    for _ in range(n):
        groups = [draw.randrange(1 << 16) for _ in range(4)]
        yield draw.choice([
            network + ":".join(f"{group:x}" for group in groups),
            network + ":".join(f"{group:04X}" for group in groups),
            f"{network}:{groups[0]:x}",
        ])


def forwarded(server, address):
    return server.get("/auth", {"X-Original-URI": "/login", "X-Forwarded-For": address}).status


def test_a_client_that_rotates_through_a_64_has_one_limit_over_each_protocol(server):
    attacker, neighbour = "2001:db8:aaaa:1:", "2001:db8:aaaa:2:"
    with Wire(server.resp) as wire:
        passed = 0
        for i, address in enumerate(addresses(attacker, 100)):
            if i % 2:
                passed += forwarded(server, address) == 200
            else:
                passed += wire.command("WEIR.CHECK", "path", "/login", "ip", address)[0]
        assert passed == LIMIT
        assert wire.command("WEIR.PEEK", "login", "2001:db8:aaaa:1::/64")[2] == 0
        # The neighbouring network has used nothing.
        assert wire.command("WEIR.CHECK", "path", "/login", "ip", neighbour + ":1")[:3] == [
            1, LIMIT, LIMIT - 1]
    assert forwarded(server, f"[{neighbour}:2]:4711") == 200
    assert server.get("/v1/peek/login?key=2001:db8:aaaa:2::/64").json["remaining"] == LIMIT - 2


def test_an_ipv4_address_counts_by_itself_however_it_is_written(server):
    with Wire(server.resp) as wire:
        for address, left in (("203.0.113.64", 9), ("::ffff:203.0.113.64", 8),
                              ("::ffff:cb00:7140", 7), ("203.0.113.65", 9)):
            assert wire.command("WEIR.CHECK", "path", "/login", "ip", address)[2] == left
    assert forwarded(server, "::ffff:203.0.113.64") == 200
    assert server.get("/v1/peek/login?key=203.0.113.64").json["remaining"] == 6


def test_a_reload_changes_the_length_of_the_prefix(serve):
    config = """
limits: { site: { algorithm: token_bucket, rate: 3/h } }
rules: [{ key: [ip], limits: [site] }]
"""
    server = serve(config=config)
    with Wire(server.resp) as wire:
        def ask(address):
            return wire.command("WEIR.CHECK", "ip", address)[2]

        assert [ask("2001:db8::1"), ask("2001:db8:0:1::1")] == [2, 2]
        server.reload(config + "ipv6_prefix: 48\n")
        server.line_with("reloaded")
        assert [ask("2001:db8::1"), ask("2001:db8:0:1::1")] == [2, 1]
        server.reload(config.replace("key: [ip]", "key: [ip], ipv6_prefix: 128"))
        server.line_with("reloaded")
        assert [ask("2001:db8::1"), ask("2001:DB8:0::1"), ask("2001:db8::2")] == [2, 1, 2]
