"""Makes certificates for Redis servers that speak TLS."""

import subprocess


def _openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


def make_certificates(directory):
    """Makes the files of two authorities, `right` and `wrong`, and of a server's certificate signed by the right one."""
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
           "-days", "2"]
    for name in "right", "wrong":
        _openssl(directory, *new, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
    _openssl(directory, *new, "-keyout", "server.key", "-out", "server.pem", "-subj", "/CN=server",
             "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:store", "-addext",
             "basicConstraints=critical,CA:false", "-CA", "right.pem", "-CAkey", "right.key")


def tls_options(directory, port):
    """Options of a Redis server that also speaks TLS, at `port`."""
    return ("--tls-port", port, "--tls-cert-file", directory / "server.pem", "--tls-key-file",
            directory / "server.key", "--tls-ca-cert-file", directory / "right.pem",
            "--tls-auth-clients", "no")
