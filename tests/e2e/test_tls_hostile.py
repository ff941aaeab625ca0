"""Attacks on TLS: cut and forged records, endless handshakes, and certificates of others."""

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
from test_tls import certificates, command, config, https, openssl, trusting, wrapped  # pylint: disable=unused-import

HALF_OPEN = 1000
HANDSHAKE = 22
CLIENT_HELLO = 1


class Offline:
    """The TLS of a client without a socket; the test forwards, cuts or forges its records."""

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


def count(server, certificates):
    """The number of open connections, including the one of this request."""
    text = https(server, trusting(certificates), "/metrics")[1].decode()
    return int(re.search(r"^weir_connections (\d+)$", text, re.M)[1])


def left(server, certificates, key):
    with wrapped(server.resp, trusting(certificates)) as client:
        return int(command(client, "WEIR.PEEK", "login", key).split(b"\r\n")[3][1:])


@pytest.fixture(scope="module")
def shared_tls_server(certificates, tmp_path_factory):
    """One server for all attacks."""
    server = Server("--threads", "1", config=config(certificates), directory=tmp_path_factory.mktemp("whole"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


def test_incomplete_handshakes_are_counted_bounded_and_closed_in_time(serve, certificates):
    """A third of the clients sends nothing, a third stops after its hello, a third continues byte by byte."""
    server = serve("--threads", "1", config=config(certificates))
    assert https(server, trusting(certificates))[0] == 200
    before = resident(server)
    hello = Offline(trusting(certificates)).hello()
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Wire(server.resp if i % 2 else server.http)) for i in range(HALF_OPEN)]
        for wire in crowd[HALF_OPEN // 3:2 * HALF_OPEN // 3]:
            wire.send(hello)
        slow = crowd[2 * HALF_OPEN // 3:]
        for cut in range(1, 11):  # a few stop within a record or its header
            crowd.append(stack.enter_context(Wire(server.resp)))
            client = Offline(trusting(certificates))
            client.shake_hands(crowd[-1])
            crowd[-1].send(client.record(b"PING\n")[:cut])
        assert count(server, certificates) == HALF_OPEN + 10 + 1
        if BUILD.name not in SANITIZED:  # sanitizers keep freed memory
            assert resident(server) - before < HALF_OPEN * (96 << 10)

        def dribble():
            """Sends a byte each 50 ms, so that a complete hello would take longer than the deadline."""
            if time.monotonic() - began > dribble.sent * 0.05:
                for wire in slow:
                    with contextlib.suppress(ConnectionError):
                        wire.send(hello[dribble.sent % len(hello):][:1])
                dribble.sent += 1
            return count(server, certificates) == 1

        dribble.sent = 0
        until(dribble, "all of them to be closed")
        assert dribble.sent < len(hello)  # so the deadline closed the connections
        assert all(wire.rest() == b"" for wire in crowd[:HALF_OPEN // 3])
    assert time.monotonic() - began > 9
    assert https(server, trusting(certificates))[0] == 200


def test_incomplete_handshakes_count_as_connections_and_an_operator_is_served(serve, certificates):
    server = serve("--threads", "1", config=f"connections: 20\n{config(certificates)}")
    hello = Offline(trusting(certificates)).hello()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Wire(server.resp)).send(hello)
        with wrapped(server.resp, trusting(certificates)) as client:
            assert command(client, "WEIR.ACQUIRE", "login", "k").startswith(b"-ERR ")
        server.line_with("connections_full connections=20")
        assert https(server, trusting(certificates), "/healthz") == (200, b"ok\n")
    server.line_with("connections_free")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_a_record_that_is_cut_anywhere_is_no_request(shared_tls_server, certificates, key, version):
    with Wire(shared_tls_server.resp) as wire:
        client = Offline(trusting(certificates, version=version))
        client.shake_hands(wire)
        size = len(client.record(encode("WEIR.ACQUIRE", "login", key)))
    for cut in range(1, size, 3):
        with Wire(shared_tls_server.resp) as wire:
            client = Offline(trusting(certificates, version=version))
            client.shake_hands(wire)
            wire.send(client.record(encode("WEIR.ACQUIRE", "login", key))[:cut])
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()
    assert left(shared_tls_server, certificates, key) == 1000


def test_a_hello_that_is_cut_anywhere_leaks_nothing(shared_tls_server, certificates):
    hello = Offline(trusting(certificates)).hello()
    for cut in range(1, len(hello), 5):
        with Wire(shared_tls_server.resp if cut % 2 else shared_tls_server.http) as wire:
            wire.send(hello[:cut])
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: count(shared_tls_server, certificates) == 1, "the connections to be gone")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_a_forged_record_ends_the_connection(shared_tls_server, certificates, key, version):
    for at in 0, 3, 5, -1:  # the type, the length, the first and the last encrypted byte
        with Wire(shared_tls_server.resp) as wire:
            client = Offline(trusting(certificates, version=version))
            client.shake_hands(wire)
            record = bytearray(client.record(encode("WEIR.ACQUIRE", "login", key)))
            record[at] ^= 0x40
            wire.send(bytes(record))
            wire.send(client.record(encode("WEIR.ACQUIRE", "login", key)))
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()
    assert left(shared_tls_server, certificates, key) == 1000


def test_a_repeated_record_ends_the_connection_and_counts_once(shared_tls_server, certificates, key):
    with Wire(shared_tls_server.resp) as wire:
        client = Offline(trusting(certificates))
        client.shake_hands(wire)
        record = client.record(encode("WEIR.ACQUIRE", "login", key))
        wire.send(record)
        until(lambda: left(shared_tls_server, certificates, key) == 999, "the first")
        wire.send(record)
        wire.rest()  # ends by an alert
    assert left(shared_tls_server, certificates, key) == 999


def hello_of(length, fragment):
    """The beginning of a hello with a header that says `length`."""
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
def test_bytes_that_are_no_handshake_close_the_connection_at_once(shared_tls_server, certificates, protocol, name):
    with Wire(shared_tls_server.ports[protocol]) as wire, contextlib.suppress(ConnectionError):
        wire.send(GARBAGE[name])
        assert not re.search(rb"[*$:+]\d|HTTP|ERR", wire.rest())  # empty, or an alert
    assert left(shared_tls_server, certificates, "garbage") == 1000


def test_many_long_hellos_cost_bounded_memory(serve, certificates):
    server = serve("--threads", "1", config=config(certificates))
    assert https(server, trusting(certificates))[0] == 200
    before = resident(server)
    # The longest hello that OpenSSL accepts, without its last byte.
    begins = hello_of(131396, 16384) + (struct.pack(">BHH", HANDSHAKE, 0x0301, 16384) + bytes(16384)) * 7
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(Wire(server.resp)).send(begins)
        assert https(server, trusting(certificates), "/healthz") == (200, b"ok\n")
        if BUILD.name not in SANITIZED:
            assert resident(server) - before < 100 * (320 << 10)


@pytest.mark.parametrize("old", ["tls1", "tls1_1"])
def test_old_versions_are_refused_by_an_alert(shared_tls_server, certificates, old):
    said = s_client(shared_tls_server, certificates, f"-{old}", "-cipher", "DEFAULT:@SECLEVEL=0")
    assert "alert protocol version" in said.stderr, said


def s_client(server, certificates, *flags, send="", cert=None):
    own = ["-cert", certificates / f"{cert}.pem", "-key", certificates / f"{cert}.key"] if cert else []
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.resp}", "-CAfile",
                           certificates / "right.pem", "-verify_return_error", *own, *flags],
                          input=send, capture_output=True, text=True, timeout=PATIENCE, check=False)


class SClient:
    """Runs `openssl s_client`, writing and reading lines. It is killed if it stops answering."""

    def __init__(self, server, certificates, version):
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{server.resp}", version, "-CAfile",
             certificates / "right.pem"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
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


def test_renegotiation_is_refused(shared_tls_server, certificates):
    """s_client requests a renegotiation for the line R."""
    with SClient(shared_tls_server, certificates, "-tls1_2") as client:
        client.say("PING", "+PONG")
        client.say("R", "no renegotiation")
    assert left(shared_tls_server, certificates, "renegotiation") == 1000


def test_any_number_of_key_updates_is_accepted(shared_tls_server, certificates):
    """s_client updates its keys for the line K, and requests the same of the server."""
    with SClient(shared_tls_server, certificates, "-tls1_3") as client:
        for _ in range(20):
            client.say("K", "KEYUPDATE")
            client.say("PING", "+PONG")


@pytest.fixture(scope="module")
def forged(certificates):
    """Certificates that the authority did not sign for clients."""
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]

    def sign(name, subject, authority, *words):
        openssl(certificates, *new, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={subject}",
                *(["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"] if authority else []), *words)

    no_authority = ("-addext", "basicConstraints=critical,CA:false")
    sign("self", "client-of-right", None, *no_authority)
    sign("namesake", "right", None)
    sign("by-namesake", "client-of-right", "namesake", *no_authority)
    sign("by-leaf", "client-of-right", "client", *no_authority)
    sign("for-servers", "client-of-right", "right", *no_authority, "-addext", "extendedKeyUsage=serverAuth")
    (certificates / "by-leaf.pem").write_text(
        (certificates / "by-leaf.pem").read_text() + (certificates / "client.pem").read_text())
    openssl(certificates, "req", "-new", "-key", "client.key", "-out", "early.csr", "-subj", "/CN=client-of-right")
    for name, days in ("early", ("20990101000000Z", "20990201000000Z")), ("late", ("20000101000000Z", "20000201000000Z")):
        (certificates / "ca").mkdir(exist_ok=True)
        (certificates / "ca" / "index.txt").write_text("")
        (certificates / "ca.conf").write_text("[ca]\ndefault_ca=one\n[one]\ndatabase=ca/index.txt\nnew_certs_dir=ca\n"
                                        "default_md=sha256\npolicy=any\nrand_serial=yes\n[any]\ncommonName=supplied\n")
        openssl(certificates, "ca", "-batch", "-config", "ca.conf", "-in", "early.csr", "-out", f"{name}.pem", "-cert",
                "right.pem", "-keyfile", "right.key", "-startdate", days[0], "-enddate", days[1], "-notext")
        (certificates / f"{name}.key").write_bytes((certificates / "client.key").read_bytes())
    return certificates


USERS = "users:\n  - { name: shop, certificate: client-of-right, may: [ask] }\n"


def test_a_certificate_that_is_not_yet_valid_is_a_warning(forged, tmp_path):
    file = tmp_path / "early.yaml"
    file.write_text(config(forged, cert="early"))
    assert "warning: expected a certificate that is valid today" in weir("lint", file).stderr


def test_the_server_names_the_authorities_that_it_accepts(serve, certificates):
    server = serve(config=config(certificates, clients="optional"))
    for version in "-tls1_2", "-tls1_3":
        assert "Acceptable client certificate CA names\nCN = right\n" in s_client(server, certificates, version).stdout


@pytest.mark.parametrize("offered, chosen", [
    ("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES256-GCM-SHA384")])
def test_the_server_chooses_the_cipher(shared_tls_server, certificates, offered, chosen):
    """A client that prefers ChaCha, as it has no hardware for AES, gets it."""
    assert f"Cipher is {chosen}\n" in s_client(shared_tls_server, certificates, "-tls1_2", "-cipher", offered).stdout


@pytest.mark.parametrize("clients", ["optional", "required"])
def test_no_forged_certificate_is_a_login(serve, forged, clients):
    server = serve("--threads", "1", config=config(forged, clients=clients, users=USERS))
    for name in "self", "namesake", "by-namesake", "by-leaf", "for-servers", "early", "late", "foreign":
        for version in "-tls1_2", "-tls1_3":
            said = s_client(server, forged, version, "-ign_eof", send="WEIR.PEEK login k\nQUIT\n", cert=name)
            assert "alert" in said.stderr and "*7" not in said.stdout, (name, version, said)
    said = s_client(server, forged, "-ign_eof", send="WEIR.PEEK login k\nQUIT\n", cert="client")
    assert "*7" in said.stdout, said


def test_a_name_with_a_nul_is_refused(serve, certificates):
    """An authority may sign a name that its program reads as a whole and another program only up to the NUL."""
    def own(*words):
        openssl(certificates, "x509", *words, "-days", "2")

    openssl(certificates, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "nul.key",
            "-out", "nul.der", "-outform", "DER", "-subj", "/CN=shop@evil", "-addext", "subjectAltName=DNS:name@evil",
            "-addext", "basicConstraints=critical,CA:false", "-addext", "authorityKeyIdentifier=none")
    (certificates / "nul.der").write_bytes((certificates / "nul.der").read_bytes().replace(b"@evil", b"\0evil"))
    own("-in", "nul.der", "-inform", "DER", "-signkey", "nul.key", "-out", "signed.pem")
    own("-in", "signed.pem", "-CA", "right.pem", "-CAkey", "right.key", "-CAcreateserial", "-out", "nul.pem")
    names = "".join(f"  - {{ name: {name}, certificate: {name}, may: [ask] }}\n" for name in ("shop", "name"))
    server = serve(config=config(certificates, clients="required", users=f"users:\n{names}"))
    with wrapped(server.resp, trusting(certificates, "nul")) as client:
        assert command(client, "PING") == b"+PONG\r\n"
        assert command(client, "ACL", "WHOAMI").startswith(b"-NOAUTH")


def test_idle_clients_and_incomplete_records_cost_little_memory(serve, certificates):
    """Neither OpenSSL nor the server keeps a buffer for a whole record."""
    server = serve("--threads", "1", config=config(certificates))
    assert https(server, trusting(certificates))[0] == 200
    before = resident(server)
    with contextlib.ExitStack() as stack:
        context = trusting(certificates)
        clients = [stack.enter_context(wrapped(server.resp, context)) for _ in range(400)]
        for client in clients:
            assert command(client, "PING") == b"+PONG\r\n"
        idle = resident(server) - before
        for client in clients:
            client.sendall(b"*1\r\n$4\r\nPI")
        assert https(server, trusting(certificates))[0] == 200
        begun = resident(server) - before
        if BUILD.name not in SANITIZED:
            assert idle < 400 * (23 << 10) and begun - idle < 400 * (2 << 10)


def test_an_encrypted_key_is_an_error_without_a_prompt(certificates, tmp_path):
    """A reload would wait for the prompt."""
    openssl(certificates, "ec", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key")
    file = tmp_path / "weir.yaml"
    file.write_text(config(certificates).replace("server.key", "locked.key"))
    said = weir("serve", "-c", file, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", input="secret\n")
    assert said.returncode == 1
    assert f"key={certificates}/locked.key: expected a key without a passphrase" in said.stderr
    assert "Enter" not in said.stderr


def test_a_certificate_without_its_key_is_no_login(serve, forged):
    server = serve(config=config(forged, clients="required", users=USERS))
    said = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.resp}", "-cert",
                           forged / "client.pem", "-key", forged / "self.key"],
                          input="", capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert said.returncode != 0


def test_a_session_is_valid_at_its_own_server_only(serve, certificates):
    """A ticket is also refused once the authority of its client is not trusted any more."""
    server = serve(config=config(certificates, clients="required"))
    context = trusting(certificates, "client", version=ssl.TLSVersion.TLSv1_2)
    with wrapped(server.resp, context) as client:
        assert command(client, "PING") == b"+PONG\r\n"
        session = client.session
        server.reload(config(certificates, clients="required").replace("right.pem", "wrong.pem"))
        server.line_with("reloaded")
        assert command(client, "PING") == b"+PONG\r\n"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with context.wrap_socket(socket.create_connection(("127.0.0.1", server.resp), PATIENCE),
                                 server_hostname="127.0.0.1", session=session) as client:
            assert command(client, "PING") == b""
            raise ConnectionError


def sign_until(certificates, name, seconds, authority="right", kind="CA:false"):
    """Makes a certificate that ends in `seconds`."""
    ends = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
    openssl(certificates, "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    (certificates / "brief").mkdir(exist_ok=True)
    (certificates / "brief" / "index.txt").write_text("")
    (certificates / "brief.conf").write_text(
        "[ca]\ndefault_ca=one\n[one]\ndatabase=brief/index.txt\nnew_certs_dir=brief\ndefault_md=sha256\n"
        f"policy=any\nrand_serial=yes\nx509_extensions=more\n[any]\ncommonName=supplied\n"
        f"[more]\nbasicConstraints=critical,{kind}\n")
    openssl(certificates, "ca", "-batch", "-config", "brief.conf", "-in", f"{name}.csr", "-out", f"{name}.pem", "-cert",
            f"{authority}.pem", "-keyfile", f"{authority}.key", "-enddate", ends, "-notext")


def peek(server, certificates, version, *flags):
    """The words in the output of s_client about its session, and in Weir's reply about its user."""
    said = s_client(server, certificates, f"-{version}", "-ign_eof", *flags, send="WEIR.PEEK login k\nQUIT\n")
    words = {"Reused, ": "Reused, ", "New, ": "New, ", "*7": r"^\*7\r?$", "NOAUTH": "NOAUTH", "alert": "alert"}
    # By line, because s_client also prints tickets, as random letters.
    return [word for word, pattern in words.items() if re.search(pattern, said.stdout + said.stderr, re.MULTILINE)]


BRIEF = "".join(f"  - {{ name: {name}, certificate: {name}, may: [ask] }}\n" for name in ("brief", "below"))


@pytest.mark.parametrize("clients", ["optional", "required"])
def test_a_session_ends_with_the_certificates_of_its_client(serve, certificates, clients):
    """The certificate of `below` stays valid, but its authority's ends. With TLS 1.3 each use makes a new ticket."""
    server = serve(config=config(certificates, clients=clients, users=f"users:\n{BRIEF}"))
    sessions = [(name, version, certificates / f"{name}-{version}.session")
                for name in ("brief", "below") for version in ("tls1_2", "tls1_3")]
    for seconds in 4, 8, 16, 32:  # a busy machine may miss the first ones
        sign_until(certificates, "brief", seconds)
        sign_until(certificates, "middle", seconds, kind="CA:true")
        sign_until(certificates, "below", 3600, authority="middle")
        chain = {"brief": [], "below": ["-cert_chain", certificates / "middle.pem"]}
        begun = [peek(server, certificates, version, "-cert", certificates / f"{name}.pem", "-key", certificates / f"{name}.key",
                      *chain[name], "-sess_out", file) for name, version, file in sessions]
        used = [peek(server, certificates, version, "-sess_in", file, "-sess_out", file) for _, version, file in sessions]
        if (begun, used) == ([["New, ", "*7"]] * 4, [["Reused, ", "*7"]] * 4):
            break
    else:
        raise AssertionError((begun, used))
    def refusal(version, file):
        found = peek(server, certificates, version, "-sess_in", file, "-sess_out", file)
        return found if found[0] != "Reused, " else None

    for name, version, file in sessions:
        found = until(lambda v=version, f=file: refusal(v, f), "the certificate to expire")
        assert found[-1] == ("NOAUTH" if clients == "optional" else "alert"), (name, version, found)


@pytest.mark.parametrize("after", [{"clients": "none"}, {"ca": "wrong.pem"}], ids=["none", "wrong"])
@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_a_session_is_no_login_if_its_authority_is_no_longer_trusted(serve, certificates, version, after):
    """An open connection stays logged in until its user is removed."""
    server = serve(config=config(certificates, clients="optional", users=USERS))
    file = certificates / "before.session"
    own = "-cert", certificates / "client.pem", "-key", certificates / "client.key"
    assert peek(server, certificates, version, *own, "-sess_out", file) == ["New, ", "*7"]
    assert peek(server, certificates, version, "-sess_in", file) == ["Reused, ", "*7"]
    clients = after.get("clients", "optional")
    text = config(certificates, clients=clients, users=USERS).replace("right.pem", after.get("ca", "right.pem"))
    with wrapped(server.resp, trusting(certificates, "client")) as client:
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        server.reload(text)
        server.line_with("reloaded")
        assert peek(server, certificates, version, "-sess_in", file) == ["New, ", "NOAUTH"]
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        server.reload(text.replace("client-of-right", "other"))
        server.line_with("reloaded")
        assert command(client, "ACL", "WHOAMI").startswith(b"-NOAUTH")


def test_sessions_are_stored_in_tickets_only_one_per_handshake(shared_tls_server, certificates):
    """Clients could fill a cache of sessions in the server."""
    file = certificates / "kept.session"
    assert peek(shared_tls_server, certificates, "tls1_2", "-no_ticket", "-sess_out", file) == ["New, ", "*7"]
    assert not file.exists()
    said = s_client(shared_tls_server, certificates, "-tls1_3", "-ign_eof", send="PING\nQUIT\n")
    assert said.stdout.count("New Session Ticket arrived") == 1, said


def test_programs_report_why_they_were_refused(serve, certificates):
    server = serve("--threads", "1", config=config(certificates, clients="required"))
    ca, own = certificates / "right.pem", ["--cert", certificates / "client.pem", "--key", certificates / "client.key"]

    def run(*words):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE,
                              check=False)

    cli = ["redis-cli", "-p", server.resp, "--tls", "--cacert", ca]
    assert run(*cli, *own, "PING").stdout == "PONG\n"
    assert "PONG" not in run(*cli, "PING").stdout
    assert "PONG" not in run("redis-cli", "-p", server.resp, "PING").stdout
    url = f"https://localhost:{server.http}/healthz"
    assert run("curl", "-sS", "--cacert", ca, *own, url).stdout == "ok\n"
    for refused in ["--cacert", ca], ["--cacert", certificates / "wrong.pem", *own], ["-k"]:
        said = run("curl", "-sS", *refused, url)
        assert (said.stdout, said.returncode in (35, 56, 58, 60)) == ("", True), said
    assert run("curl", "-sS", url.replace("https", "http")).returncode == 52
    with pytest.raises(redis.ConnectionError):
        redis.Redis(port=server.resp, ssl=True, ssl_ca_certs=str(certificates / "wrong.pem"), retry=None).ping()
    with redis.Redis(port=server.resp, ssl=True, ssl_ca_certs=str(ca), ssl_certfile=str(own[1]),
                     ssl_keyfile=str(own[3])) as client:
        assert client.ping()
    lines = sum("tls_failed" in line for line in server.log)
    assert lines <= 4  # one in 10 s


def test_a_reload_under_load_closes_no_connection_and_loses_no_request(serve, certificates):
    server = serve("--threads", "2", config=config(certificates))
    said = subprocess.Popen(["redis-benchmark", "-p", str(server.resp), "--tls", "--cacert", certificates / "right.pem",
                             "-n", "30000", "-c", "20", "-P", "4", "-q", "WEIR.PEEK", "login", "k"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for i in range(10):
        server.reload(config(certificates, cert="next" if i % 2 == 0 else "server"))
        server.line_with("reloaded")
        assert https(server, trusting(certificates))[0] == 200
    text, _ = said.communicate(timeout=PATIENCE)
    assert said.returncode == 0 and "requests per second" in text, text
    assert "rror" not in text, text
