"""Clients that attack TLS: cut and forged records, handshakes without an end, papers of others."""

import contextlib
import re
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest
import redis
from harness import BUILD, PATIENCE, SANITIZED, Server, Wire, encode, until, weir
from test_hostile import resident
from test_tls import command, config, https, openssl, papers, trusting, wrapped  # pylint: disable=unused-import

HALF_OPEN = 1000
HANDSHAKE = 22
CLIENT_HELLO = 1


class Offline:
    """A client's TLS, whose records the test carries, cuts or forges."""

    def __init__(self, context):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    def hello(self):
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def shake_hands(self, wire):
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                wire.send(self.outgoing.read())
                self.incoming.write(wire.socket.recv(65536))
        wire.send(self.outgoing.read())

    def record(self, data):
        self.tls.write(data)
        return self.outgoing.read()


def count(server, papers):
    """Open connections, with the one that asks."""
    text = https(server, trusting(papers), "/metrics")[1].decode()
    return int(re.search(r"^weir_connections (\d+)$", text, re.M)[1])


def left(server, papers, key):
    with wrapped(server.resp, trusting(papers)) as client:
        return int(command(client, "WEIR.PEEK", "login", key).split(b"\r\n")[3][1:])


@pytest.fixture(scope="module")
def whole(papers, tmp_path_factory):
    """One server for all attacks, which it survives."""
    server = Server("--threads", "1", config=config(papers), directory=tmp_path_factory.mktemp("whole"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


def test_half_open_handshakes_are_counted_bounded_and_closed_in_time(serve, papers):
    """A third says nothing, a third stops behind its hello, a third sends on, byte by byte."""
    server = serve("--threads", "1", config=config(papers))
    assert https(server, trusting(papers))[0] == 200
    before = resident(server)
    hello = Offline(trusting(papers)).hello()
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Wire(server.resp if i % 2 else server.http)) for i in range(HALF_OPEN)]
        for wire in crowd[HALF_OPEN // 3:2 * HALF_OPEN // 3]:
            wire.send(hello)
        slow = crowd[2 * HALF_OPEN // 3:]
        for cut in range(1, 11):  # and a few stop in the middle of a record, or of its header
            crowd.append(stack.enter_context(Wire(server.resp)))
            client = Offline(trusting(papers))
            client.shake_hands(crowd[-1])
            crowd[-1].send(client.record(b"PING\n")[:cut])
        assert count(server, papers) == HALF_OPEN + 10 + 1
        if BUILD.name not in SANITIZED:  # which keep what is freed
            assert resident(server) - before < HALF_OPEN * (96 << 10)

        def dribble():
            """A byte each 50 ms: a whole hello would take longer than the deadline."""
            if time.monotonic() - began > dribble.sent * 0.05:
                for wire in slow:
                    with contextlib.suppress(ConnectionError):
                        wire.send(hello[dribble.sent % len(hello):][:1])
                dribble.sent += 1
            return count(server, papers) == 1

        dribble.sent = 0
        until(dribble, "all of them to be closed")
        assert dribble.sent < len(hello)  # it was the deadline that closed them
        assert all(wire.rest() == b"" for wire in crowd[:HALF_OPEN // 3])
    assert time.monotonic() - began > 9
    assert https(server, trusting(papers))[0] == 200


def test_half_open_handshakes_take_places_and_an_operator_gets_in(serve, papers):
    server = serve("--threads", "1", config=f"connections: 20\n{config(papers)}")
    hello = Offline(trusting(papers)).hello()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Wire(server.resp)).send(hello)
        with wrapped(server.resp, trusting(papers)) as client:
            assert command(client, "WEIR.ACQUIRE", "login", "k").startswith(b"-ERR ")
        server.line_with("connections_full connections=20")
        assert https(server, trusting(papers), "/healthz") == (200, b"ok\n")
    server.line_with("connections_free")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_a_record_that_is_cut_anywhere_is_no_request(whole, papers, key, version):
    with Wire(whole.resp) as wire:
        client = Offline(trusting(papers, version=version))
        client.shake_hands(wire)
        size = len(client.record(encode("WEIR.ACQUIRE", "login", key)))
    for cut in range(1, size, 3):
        with Wire(whole.resp) as wire:
            client = Offline(trusting(papers, version=version))
            client.shake_hands(wire)
            wire.send(client.record(encode("WEIR.ACQUIRE", "login", key))[:cut])
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()
    assert left(whole, papers, key) == 1000


def test_a_hello_that_is_cut_anywhere_leaves_nothing_behind(whole, papers):
    hello = Offline(trusting(papers)).hello()
    for cut in range(1, len(hello), 5):
        with Wire(whole.resp if cut % 2 else whole.http) as wire:
            wire.send(hello[:cut])
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: count(whole, papers) == 1, "the connections to be gone")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_a_forged_record_ends_the_connection(whole, papers, key, version):
    for at in 0, 3, 5, -1:  # type, length, the first and the last byte of what is encrypted
        with Wire(whole.resp) as wire:
            client = Offline(trusting(papers, version=version))
            client.shake_hands(wire)
            record = bytearray(client.record(encode("WEIR.ACQUIRE", "login", key)))
            record[at] ^= 0x40
            wire.send(bytes(record))
            wire.send(client.record(encode("WEIR.ACQUIRE", "login", key)))
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()
    assert left(whole, papers, key) == 1000


def test_a_record_that_is_sent_twice_counts_once(whole, papers, key):
    with Wire(whole.resp) as wire:
        client = Offline(trusting(papers))
        client.shake_hands(wire)
        record = client.record(encode("WEIR.ACQUIRE", "login", key))
        wire.send(record)
        until(lambda: left(whole, papers, key) == 999, "the first")
        wire.send(record)
        wire.rest()  # ends, by an alert
    assert left(whole, papers, key) == 999


def hello_of(length, fragment):
    """The beginning of a hello that says it is so long, and never ends."""
    body = bytes([CLIENT_HELLO]) + length.to_bytes(3, "big") + bytes(fragment - 4)
    return struct.pack(">BHH", HANDSHAKE, 0x0301, fragment) + body


GARBAGE = {
    "a hello of 16 MiB": hello_of(0xffffff, 16384),
    "a record that is too long": struct.pack(">BHH", HANDSHAKE, 0x0301, 0xffff) + bytes(60000),
    "an SSL 2 hello": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(37),
    "an SSL 3 hello": struct.pack(">BHH", HANDSHAKE, 0x0300, 44) + b"\x01\0\0\x28\x03\0" + bytes(38),
    "data before a handshake": struct.pack(">BHH", 23, 0x0303, 32) + bytes(32),
    "a finished before a hello": struct.pack(">BHH", HANDSHAKE, 0x0303, 16) + b"\x14\0\0\x0c" + bytes(12),
    "an empty hello": struct.pack(">BHH", HANDSHAKE, 0x0301, 4) + b"\x01\0\0\0",
    "empty records": struct.pack(">BHH", HANDSHAKE, 0x0301, 0) * 5000,
    "commands": encode("WEIR.ACQUIRE", "login", "garbage") * 10,
    "a line": b"WEIR.ACQUIRE login garbage\r\n",
    "a request": b"GET /v1/acquire/login?key=garbage HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zeros": bytes(100),
}


@pytest.mark.parametrize("protocol", ["http", "resp"])
@pytest.mark.parametrize("name", GARBAGE)
def test_what_is_no_handshake_is_closed_at_once(whole, papers, protocol, name):
    with Wire(whole.ports[protocol]) as wire, contextlib.suppress(ConnectionError):
        wire.send(GARBAGE[name])
        assert not re.search(rb"[*$:+]\d|HTTP|ERR", wire.rest())  # nothing, or an alert
    assert left(whole, papers, "garbage") == 1000


def test_a_crowd_of_long_hellos_costs_bounded_memory(serve, papers):
    server = serve("--threads", "1", config=config(papers))
    assert https(server, trusting(papers))[0] == 200
    before = resident(server)
    # The longest that OpenSSL takes, but for its last byte.
    begins = hello_of(131396, 16384) + (struct.pack(">BHH", HANDSHAKE, 0x0301, 16384) + bytes(16384)) * 7
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(Wire(server.resp)).send(begins)
        assert https(server, trusting(papers), "/healthz") == (200, b"ok\n")
        if BUILD.name not in SANITIZED:
            assert resident(server) - before < 100 * (320 << 10)


@pytest.mark.parametrize("old", ["tls1", "tls1_1"])
def test_old_versions_are_refused_by_an_alert(whole, papers, old):
    said = s_client(whole, papers, f"-{old}", "-cipher", "DEFAULT:@SECLEVEL=0")
    assert "alert protocol version" in said.stderr, said


def s_client(server, papers, *flags, send="", cert=None):
    own = ["-cert", papers / f"{cert}.pem", "-key", papers / f"{cert}.key"] if cert else []
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.resp}", "-CAfile",
                           papers / "right.pem", "-verify_return_error", *own, *flags],
                          input=send, capture_output=True, text=True, timeout=PATIENCE, check=False)


class Talk:
    """s_client, which is told and heard line by line. It is killed when it falls silent."""

    def __init__(self, server, papers, version):
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{server.resp}", version, "-CAfile",
             papers / "right.pem"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        self.timer = threading.Timer(PATIENCE, self.process.kill)

    def __enter__(self):
        self.timer.start()
        return self

    def __exit__(self, *_):
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()

    def say(self, line, answer):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        seen = ""
        while answer not in seen:
            heard = self.process.stdout.readline()
            assert heard, seen
            seen += heard


def test_renegotiation_is_refused(whole, papers):
    """s_client asks for one at the line R."""
    with Talk(whole, papers, "-tls1_2") as client:
        client.say("PING", "+PONG")
        client.say("R", "no renegotiation")
    assert left(whole, papers, "renegotiation") == 1000


def test_new_keys_are_taken_as_often_as_they_come(whole, papers):
    """s_client sends new keys at the line K, and wants the server's, too."""
    with Talk(whole, papers, "-tls1_3") as client:
        for _ in range(20):
            client.say("K", "KEYUPDATE")
            client.say("PING", "+PONG")


@pytest.fixture(scope="module")
def forged(papers):
    """Certificates that the authority of `papers` did not mean for clients."""
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]

    def sign(name, subject, authority, *words):
        openssl(papers, *new, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={subject}",
                *(["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"] if authority else []), *words)

    no_authority = ("-addext", "basicConstraints=critical,CA:false")
    sign("self", "client-of-right", None, *no_authority)
    sign("namesake", "right", None)
    sign("by-namesake", "client-of-right", "namesake", *no_authority)
    sign("by-leaf", "client-of-right", "client", *no_authority)
    sign("for-servers", "client-of-right", "right", *no_authority, "-addext", "extendedKeyUsage=serverAuth")
    (papers / "by-leaf.pem").write_text(
        (papers / "by-leaf.pem").read_text() + (papers / "client.pem").read_text())
    openssl(papers, "req", "-new", "-key", "client.key", "-out", "early.csr", "-subj", "/CN=client-of-right")
    for name, days in ("early", ("20990101000000Z", "20990201000000Z")), ("late", ("20000101000000Z", "20000201000000Z")):
        (papers / "ca").mkdir(exist_ok=True)
        (papers / "ca" / "index.txt").write_text("")
        (papers / "ca.conf").write_text("[ca]\ndefault_ca=one\n[one]\ndatabase=ca/index.txt\nnew_certs_dir=ca\n"
                                        "default_md=sha256\npolicy=any\nrand_serial=yes\n[any]\ncommonName=supplied\n")
        openssl(papers, "ca", "-batch", "-config", "ca.conf", "-in", "early.csr", "-out", f"{name}.pem", "-cert",
                "right.pem", "-keyfile", "right.key", "-startdate", days[0], "-enddate", days[1], "-notext")
        (papers / f"{name}.key").write_bytes((papers / "client.key").read_bytes())
    return papers


USERS = "users:\n  - { name: shop, certificate: client-of-right, may: [ask] }\n"


def test_a_certificate_that_has_not_begun_is_a_warning(forged, tmp_path):
    file = tmp_path / "early.yaml"
    file.write_text(config(forged, cert="early"))
    assert "warning: expected a certificate that is valid today" in weir("lint", file).stderr


def test_a_client_is_told_whose_certificates_count(serve, papers):
    server = serve(config=config(papers, clients="optional"))
    for version in "-tls1_2", "-tls1_3":
        assert "Acceptable client certificate CA names\nCN = right\n" in s_client(server, papers, version).stdout


@pytest.mark.parametrize("offered, chosen", [
    ("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES256-GCM-SHA384")])
def test_the_server_chooses_the_cipher(whole, papers, offered, chosen):
    """But for a client without a machine's help with AES, which asks for ChaCha first."""
    assert f"Cipher is {chosen}\n" in s_client(whole, papers, "-tls1_2", "-cipher", offered).stdout


@pytest.mark.parametrize("clients", ["optional", "required"])
def test_no_forged_certificate_is_a_login(serve, forged, clients):
    server = serve("--threads", "1", config=config(forged, clients=clients, users=USERS))
    for name in "self", "namesake", "by-namesake", "by-leaf", "for-servers", "early", "late", "foreign":
        for version in "-tls1_2", "-tls1_3":
            said = s_client(server, forged, version, "-ign_eof", send="WEIR.PEEK login k\nQUIT\n", cert=name)
            assert "alert" in said.stderr and "*7" not in said.stdout, (name, version, said)
    said = s_client(server, forged, "-ign_eof", send="WEIR.PEEK login k\nQUIT\n", cert="client")
    assert "*7" in said.stdout, said


def test_a_name_ends_at_no_nul(serve, papers):
    """Some authority may sign what its own program reads as a whole, and another one up to the NUL."""
    def own(*words):
        openssl(papers, "x509", *words, "-days", "2")

    openssl(papers, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "nul.key",
            "-out", "nul.der", "-outform", "DER", "-subj", "/CN=shop@evil", "-addext", "subjectAltName=DNS:name@evil",
            "-addext", "basicConstraints=critical,CA:false", "-addext", "authorityKeyIdentifier=none")
    (papers / "nul.der").write_bytes((papers / "nul.der").read_bytes().replace(b"@evil", b"\0evil"))
    own("-in", "nul.der", "-inform", "DER", "-signkey", "nul.key", "-out", "signed.pem")
    own("-in", "signed.pem", "-CA", "right.pem", "-CAkey", "right.key", "-CAcreateserial", "-out", "nul.pem")
    names = "".join(f"  - {{ name: {name}, certificate: {name}, may: [ask] }}\n" for name in ("shop", "name"))
    server = serve(config=config(papers, clients="required", users=f"users:\n{names}"))
    with wrapped(server.resp, trusting(papers, "nul")) as client:
        assert command(client, "PING") == b"+PONG\r\n"
        assert command(client, "ACL", "WHOAMI").startswith(b"-NOAUTH")


def test_idle_and_unfinished_clients_cost_little(serve, papers):
    """Without room for whole records, that of OpenSSL or ours."""
    server = serve("--threads", "1", config=config(papers))
    assert https(server, trusting(papers))[0] == 200
    before = resident(server)
    with contextlib.ExitStack() as stack:
        context = trusting(papers)
        clients = [stack.enter_context(wrapped(server.resp, context)) for _ in range(400)]
        for client in clients:
            assert command(client, "PING") == b"+PONG\r\n"
        idle = resident(server) - before
        for client in clients:
            client.sendall(b"*1\r\n$4\r\nPI")
        assert https(server, trusting(papers))[0] == 200
        begun = resident(server) - before
        if BUILD.name not in SANITIZED:
            assert idle < 400 * (23 << 10) and begun - idle < 400 * (2 << 10)


def test_nobody_is_asked_for_a_passphrase(papers, tmp_path):
    """Not even by a reload: the server would wait for it."""
    openssl(papers, "ec", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key")
    file = tmp_path / "weir.yaml"
    file.write_text(config(papers).replace("server.key", "locked.key"))
    said = weir("serve", "-c", file, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", input="secret\n")
    assert said.returncode == 1
    assert f"key={papers}/locked.key: expected a key without a passphrase" in said.stderr
    assert "Enter" not in said.stderr


def test_a_certificate_without_its_key_is_no_login(serve, forged):
    server = serve(config=config(forged, clients="required", users=USERS))
    said = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.resp}", "-cert",
                           forged / "client.pem", "-key", forged / "self.key"],
                          input="", capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert said.returncode != 0


def test_a_session_of_one_server_is_none_of_another(serve, papers):
    """Nor does a ticket of before let a client in once its authority is not trusted any more."""
    server = serve(config=config(papers, clients="required"))
    context = trusting(papers, "client", version=ssl.TLSVersion.TLSv1_2)
    with wrapped(server.resp, context) as client:
        assert command(client, "PING") == b"+PONG\r\n"
        session = client.session
        server.reload(config(papers, clients="required").replace("right.pem", "wrong.pem"))
        server.line_with("reloaded")
        assert command(client, "PING") == b"+PONG\r\n"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with context.wrap_socket(socket.create_connection(("127.0.0.1", server.resp), PATIENCE),
                                 server_hostname="127.0.0.1", session=session) as client:
            assert command(client, "PING") == b""
            raise ConnectionError


def sign_until(papers, name, seconds, authority="right", kind="CA:false"):
    """A certificate of that name that ends in so many seconds."""
    ends = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
    openssl(papers, "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    (papers / "brief").mkdir(exist_ok=True)
    (papers / "brief" / "index.txt").write_text("")
    (papers / "brief.conf").write_text(
        "[ca]\ndefault_ca=one\n[one]\ndatabase=brief/index.txt\nnew_certs_dir=brief\ndefault_md=sha256\n"
        f"policy=any\nrand_serial=yes\nx509_extensions=more\n[any]\ncommonName=supplied\n"
        f"[more]\nbasicConstraints=critical,{kind}\n")
    openssl(papers, "ca", "-batch", "-config", "brief.conf", "-in", f"{name}.csr", "-out", f"{name}.pem", "-cert",
            f"{authority}.pem", "-keyfile", f"{authority}.key", "-enddate", ends, "-notext")


def peek(server, papers, version, *flags):
    """What s_client says of its session, and Weir of its user."""
    said = s_client(server, papers, f"-{version}", "-ign_eof", *flags, send="WEIR.PEEK login k\nQUIT\n")
    return [word for word in ("Reused, ", "New, ", "*7", "NOAUTH", "alert") if word in said.stdout + said.stderr]


BRIEF = "".join(f"  - {{ name: {name}, certificate: {name}, may: [ask] }}\n" for name in ("brief", "below"))


@pytest.mark.parametrize("clients", ["optional", "required"])
def test_a_session_ends_with_the_certificates_of_its_client(serve, papers, clients):
    """That of `below` lasts, but not that of its authority. With TLS 1.3 each use makes a new ticket."""
    server = serve(config=config(papers, clients=clients, users=f"users:\n{BRIEF}"))
    sessions = [(name, version, papers / f"{name}-{version}.session")
                for name in ("brief", "below") for version in ("tls1_2", "tls1_3")]
    for seconds in 4, 8, 16, 32:  # a machine may stand still for the first ones
        sign_until(papers, "brief", seconds)
        sign_until(papers, "middle", seconds, kind="CA:true")
        sign_until(papers, "below", 3600, authority="middle")
        chain = {"brief": [], "below": ["-cert_chain", papers / "middle.pem"]}
        begun = [peek(server, papers, version, "-cert", papers / f"{name}.pem", "-key", papers / f"{name}.key",
                      *chain[name], "-sess_out", file) for name, version, file in sessions]
        used = [peek(server, papers, version, "-sess_in", file, "-sess_out", file) for _, version, file in sessions]
        if (begun, used) == ([["New, ", "*7"]] * 4, [["Reused, ", "*7"]] * 4):
            break
    else:
        raise AssertionError((begun, used))
    def refusal(version, file):
        found = peek(server, papers, version, "-sess_in", file, "-sess_out", file)
        return found if found[0] != "Reused, " else None

    for name, version, file in sessions:
        found = until(lambda v=version, f=file: refusal(v, f), "the certificate to expire")
        assert found[-1] == ("NOAUTH" if clients == "optional" else "alert"), (name, version, found)


@pytest.mark.parametrize("after", [{"clients": "none"}, {"ca": "wrong.pem"}], ids=["none", "wrong"])
@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_a_session_is_no_login_where_its_authority_counts_no_more(serve, papers, version, after):
    """A connection that is open stays its user, until that is taken away."""
    server = serve(config=config(papers, clients="optional", users=USERS))
    file = papers / "before.session"
    own = "-cert", papers / "client.pem", "-key", papers / "client.key"
    assert peek(server, papers, version, *own, "-sess_out", file) == ["New, ", "*7"]
    assert peek(server, papers, version, "-sess_in", file) == ["Reused, ", "*7"]
    clients = after.get("clients", "optional")
    text = config(papers, clients=clients, users=USERS).replace("right.pem", after.get("ca", "right.pem"))
    with wrapped(server.resp, trusting(papers, "client")) as client:
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        server.reload(text)
        server.line_with("reloaded")
        assert peek(server, papers, version, "-sess_in", file) == ["New, ", "NOAUTH"]
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        server.reload(text.replace("client-of-right", "other"))
        server.line_with("reloaded")
        assert command(client, "ACL", "WHOAMI").startswith(b"-NOAUTH")


def test_sessions_are_in_tickets_alone_and_a_handshake_brings_one(whole, papers):
    """What the server keeps of sessions would be its clients' to fill."""
    file = papers / "kept.session"
    assert peek(whole, papers, "tls1_2", "-no_ticket", "-sess_out", file) == ["New, ", "*7"]
    assert not file.exists()
    said = s_client(whole, papers, "-tls1_3", "-ign_eof", send="PING\nQUIT\n")
    assert said.stdout.count("New Session Ticket arrived") == 1, said


def test_programs_say_why_they_were_refused(serve, papers):
    server = serve("--threads", "1", config=config(papers, clients="required"))
    ca, own = papers / "right.pem", ["--cert", papers / "client.pem", "--key", papers / "client.key"]

    def run(*words):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE,
                              check=False)

    cli = ["redis-cli", "-p", server.resp, "--tls", "--cacert", ca]
    assert run(*cli, *own, "PING").stdout == "PONG\n"
    assert "PONG" not in run(*cli, "PING").stdout
    assert "PONG" not in run("redis-cli", "-p", server.resp, "PING").stdout
    url = f"https://localhost:{server.http}/healthz"
    assert run("curl", "-sS", "--cacert", ca, *own, url).stdout == "ok\n"
    for refused in ["--cacert", ca], ["--cacert", papers / "wrong.pem", *own], ["-k"]:
        said = run("curl", "-sS", *refused, url)
        assert (said.stdout, said.returncode in (35, 56, 58, 60)) == ("", True), said
    assert run("curl", "-sS", url.replace("https", "http")).returncode == 52
    with pytest.raises(redis.ConnectionError):
        redis.Redis(port=server.resp, ssl=True, ssl_ca_certs=str(papers / "wrong.pem"), retry=None).ping()
    with redis.Redis(port=server.resp, ssl=True, ssl_ca_certs=str(ca), ssl_certfile=str(own[1]),
                     ssl_keyfile=str(own[3])) as client:
        assert client.ping()
    lines = sum("tls_failed" in line for line in server.log)
    assert lines <= 4  # one in 10 s


def test_a_reload_under_load_loses_no_connection_and_no_request(serve, papers):
    server = serve("--threads", "2", config=config(papers))
    said = subprocess.Popen(["redis-benchmark", "-p", str(server.resp), "--tls", "--cacert", papers / "right.pem",
                             "-n", "30000", "-c", "20", "-P", "4", "-q", "WEIR.PEEK", "login", "k"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for i in range(10):
        server.reload(config(papers, cert="next" if i % 2 == 0 else "server"))
        server.line_with("reloaded")
        assert https(server, trusting(papers))[0] == 200
    text, _ = said.communicate(timeout=PATIENCE)
    assert said.returncode == 0 and "requests per second" in text, text
    assert "rror" not in text, text
