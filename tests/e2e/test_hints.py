"""Errors of a running server say what was probably meant."""

import pytest
from harness import Wire

LIMITS = "limits:\n  login: { algorithm: fixed_window, rate: 5/h }\n  other: { algorithm: fixed_window, rate: 5/h }\n"


def messages(server, name):
    """The messages of acquire, peek and a batch over HTTP, and of WEIR.ACQUIRE and WEIR.SHED over RESP."""
    body = {"limit": name, "key": "k"}
    found = [server.post(path, body).json["error"]["message"] for path in ("/v1/acquire", "/v1/peek", "/v1/reset")]
    found += [server.post("/v1/batch", [body]).json[0]["error"]["message"]]
    with Wire(server.resp) as wire:
        for words in (["WEIR.ACQUIRE", name, "k"], ["WEIR.SHED", name, "0.5"]):
            found.append(wire.command(*words).decode().removeprefix("-ERR "))
    return set(found)


def test_an_unknown_limit_names_a_similar_one(serve):
    server = serve(config=LIMITS)
    assert messages(server, "logn") == {"expected the name of a limit, found 'logn': did you mean 'login'?"}
    assert messages(server, "othr") == {"expected the name of a limit, found 'othr': did you mean 'other'?"}
    assert messages(server, "nowhere") == {"expected the name of a limit, found 'nowhere'"}


@pytest.mark.parametrize("name", ["lo\x1b[2Jn", "x" * 1000, "l\u202egin", ""])
def test_a_hostile_name_is_cut_and_escaped(serve, name):
    for message in messages(serve(config=LIMITS), name):
        assert len(message) < 400 and all(" " <= character <= "~" for character in message), message


def test_a_user_learns_of_no_limit_that_is_not_hers(serve):
    server = serve(config=LIMITS + 'users: [ { name: some, token: '
                   '"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8", may: [ask, admin], limits: [other] } ]\n')
    headers = {"Authorization": "Bearer password"}
    with Wire(server.resp) as wire:
        assert wire.command("AUTH", "password") == b"+OK"
        for words in (["WEIR.ACQUIRE", "logn", "k"], ["WEIR.SHED", "logn", "0.5"]):
            assert wire.command(*words) == b"-ERR expected the name of a limit, found 'logn'"
        assert b"did you mean 'other'?" in wire.command("WEIR.SHED", "othr", "0.5")
    assert "login" not in server.get("/v1/acquire/logn?key=k", headers).text


def test_a_batch_of_unknown_names_compares_some_of_them(serve):
    """The first errors of an iteration have hints; the others are as good, without."""
    limits = "".join(f"  limit-number-{n:04}: {{ algorithm: fixed_window, rate: 5/h }}\n" for n in range(400))
    server = serve(config="limits:\n" + limits)
    found = [item["error"]["message"] for item in
             server.post("/v1/batch", [{"limit": "limit-number-0399x", "key": "k"}] * 100).json]
    assert "did you mean" in found[0]
    assert "did you mean" not in found[-1] and "expected the name of a limit" in found[-1]


@pytest.mark.parametrize("words, usage", [
    (["WEIR.RESET", "a"], "WEIR.RESET limit key"), (["weir.acquire", "a"], "WEIR.ACQUIRE limit key [COST n] [WAIT ms] [PRIORITY n] [PERMIT]"),
    (["PING", "a", "b"], "PING [message]"), (["ECHO"], "ECHO message"), (["select"], "SELECT index"), (["AUTH"], "AUTH [user] secret"),
    (["CONFIG"], "CONFIG GET parameter [parameter ...]"), (["CLIENT"], "CLIENT subcommand [argument ...]"),
    (["MULTI", "x"], "MULTI"), (["WATCH"], "WATCH key [key ...]"), (["ACL"], "ACL WHOAMI"),
    (["TTL"], "TTL key"), (["DEL"], "DEL key [key ...]"), (["CL.THROTTLE", "k"], "CL.THROTTLE key max_burst count period [quantity]")])
def test_a_wrong_number_of_arguments_names_the_right_ones(server, words, usage):
    with Wire(server.resp) as wire:
        name = usage.split()[0]
        assert wire.command(*words).decode() == f"-ERR wrong number of arguments for '{name}' command: expected {usage}"


@pytest.mark.parametrize("words, usage", [
    (["CONFIG", "GET"], "CONFIG GET parameter [parameter ...]"), (["CLIENT", "SETNAME"], "CLIENT SETNAME name"),
    (["CLIENT", "ID", "x"], "CLIENT ID"), (["CLIENT", "SETINFO", "x"], "CLIENT SETINFO attribute value")])
def test_a_wrong_number_of_arguments_of_a_subcommand_names_the_right_ones(server, words, usage):
    with Wire(server.resp) as wire:
        name = "|".join(usage.split()[:2])
        assert wire.command(*words).decode() == f"-ERR wrong number of arguments for '{name}' command: expected {usage}"
