"""Runs a page of docs/recipes/: writes its files, runs its commands in a directory, and compares their output."""

import contextlib
import functools
import getpass
import glob
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys

from harness import BUILD, PATIENCE, ROOT, Server, until
from redis_servers import free_port
from test_docs import steps
from test_proxies import reserved_port

RECIPES = ROOT / "docs" / "recipes"

# Ports that the pages name. Those of servers with SO_REUSEPORT are reserved, Weir chooses its own.
NGINX, APPLICATION, PHP, REDIS = "8000", "8001", "9000", "6379"
HTTP, RESP = "8080", "6380"

# A duration in an output is at least as long as the page says: machines may be slow.
DURATION = re.compile(r"\b(\d+\.\d+) s\b")

SLOW = "store_timeout: 30s\n"  # longer than a busy machine delays Redis

COMMENTS = re.compile(r"(?:#|--|;|//|<\?php //) (\S+)\n")


def sections(text):
    """(language, text) of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


def slowed(text):
    """Rates over a week, so that nothing refills while a test runs, and long calls that outlast a busy machine."""
    text = re.sub(r"(rate: \d+)/[smh]\b", r"\1/w", text)
    text = re.sub(r"^store: redis:.*\n", rf"\g<0>{SLOW}", text, flags=re.M)
    return text.replace("sleep(2)", "sleep(6)")


class Recipe:
    """The state of a page that runs: its directory, files, ports and programs."""

    def __init__(self, page, directory, stack, change=slowed):
        self.text = (RECIPES / page).read_text()
        self.directory, self.stack, self.change = directory, stack, change
        self.files = {path.name: path.read_text() for path in (RECIPES / "nginx").iterdir()}
        self.files["nginx.conf"] = f"user {getpass.getuser()};\n" + self.files["nginx.conf"]
        self.ports = {port: str(stack.enter_context(reserved_port())) for port in (NGINX, APPLICATION)}
        self.ports |= {port: str(free_port()) for port in (PHP, REDIS)}
        self.written, self.weirs, self.has_file = {}, [], False
        self.master = None
        self.path = os.pathsep.join([str(BUILD), os.path.dirname(sys.executable), os.environ["PATH"], "/usr/sbin"])

    def with_ports(self, text):
        """The text with the ports of this test, and with the names that the programs have on this machine."""
        text = re.sub(r"\b\d{4}\b", lambda found: self.ports.get(found[0], found[0]), text)
        text = text.replace(f"listen 127.0.0.1:{self.ports[NGINX]};", f"listen 127.0.0.1:{self.ports[NGINX]} reuseport;")
        if text.startswith("php-fpm"):
            text = re.sub(r"^\S+", os.path.basename(glob.glob("/usr/sbin/php-fpm*")[0]), text)
            text = text.replace(" -F", " -F -R") if os.getuid() == 0 else text
        return text

    def write_files(self):
        """Writes the files that are new, or that name a port which is known now."""
        for name, text in self.files.items():
            text = self.with_ports(text)
            if self.written.get(name) != text:
                path = self.directory / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
                self.written[name] = text

    def add_file(self, text):
        found = COMMENTS.match(text)
        assert found, f"no name in the first line of {text!r}"
        self.files[found[1]] = self.change(text)
        self.write_files()
        self.await_reload(found[1])

    def await_reload(self, name):
        """Waits until a server that runs with a file has read it again."""
        if self.has_file and name.endswith((".yaml", ".txt")):
            self.weirs[-1].line_with("reloaded")

    def run(self, command):
        command = self.with_ports(command)
        self.write_files()
        children = self.children()
        done = subprocess.run(["bash", "-c", command], cwd=self.directory, capture_output=True, text=True, check=False,
                              timeout=PATIENCE, env={**os.environ, "PATH": self.path, "WEIR_SERVER": self.server()})
        if "-s reload" in command:
            until(lambda: self.children() and not self.children() & children, "new workers of nginx")
        for name in re.findall(r">> (\S+\.txt)", command):
            self.await_reload(name)
        return done

    def server(self):
        """The address that commands of Weir ask."""
        return f"http://127.0.0.1:{self.ports.get(HTTP, HTTP)}"

    def children(self):
        """The workers of nginx."""
        if not self.master:
            return set()
        return set(subprocess.run(["pgrep", "-P", str(self.master.pid)], capture_output=True, text=True,
                                  check=False).stdout.split())

    def start(self, command):
        """Starts a command that keeps running, and waits until it serves."""
        self.write_files()
        words = shlex.split(self.with_ports(command.removesuffix("&")))
        if words[0] == "weir":
            self.start_weir(words[2:])
            return
        if words[0] == "gunicorn":
            words += ["--reuse-port", "--log-file", "gunicorn.log"]
        with open(self.directory / f"{words[0]}.log", "w", encoding="utf-8") as log:
            program = subprocess.Popen([shutil.which(words[0], path=self.path), *words[1:]], cwd=self.directory,
                                       stdout=log, stderr=log, env={**os.environ, "PATH": self.path})
        self.stack.callback(functools.partial(program.wait, PATIENCE))
        self.stack.callback(program.terminate)
        if words[0] == "nginx":
            self.master = program
        kind = {"nginx": NGINX, "gunicorn": APPLICATION, "redis-server": REDIS}.get(words[0], PHP)
        until(lambda: program.poll() is not None or listens(self.ports[kind]), f"{command}, see {self.directory}")
        assert program.poll() is None, f"{command}: {(self.directory / f'{words[0]}.log').read_text()}"

    def start_weir(self, words):
        """Starts Weir with its addresses replaced by free ones."""
        self.has_file = "-c" in words
        if "--store" in words:
            (self.directory / "slow.yaml").write_text(SLOW)
            words += ["-c", "slow.yaml"]
        words = [str(self.directory / word) if word.endswith((".yaml", ".conf")) else word for word in words]
        shown = {"--http": HTTP, "--resp": RESP}
        for flag in shown:
            if flag in words:
                at = words.index(flag)
                shown[flag] = words[at + 1].rpartition(":")[2]
                del words[at:at + 2]
        if "\nlisten: { http: " in self.files.get("weir.yaml", ""):
            server = Server("--resp", "127.0.0.1:0", *words, ports=False)
        else:
            server = Server(*words)
        self.weirs.append(server)
        self.stack.callback(self.stop_weir, server)
        self.ports |= {shown["--http"]: str(server.http), shown["--resp"]: str(server.resp)}

    @staticmethod
    def stop_weir(server):
        assert server.stop() == 0, server.log

    def play(self):
        """Goes through the page; returns the commands whose output it compared."""
        shown = []
        for language, text in sections(self.text):
            if language == "sh":
                for line in text.splitlines():
                    if line.endswith(" &"):
                        self.start(line)
                    else:
                        done = self.run(line)
                        assert done.returncode == 0, f"{line}: {done.stderr}"
            elif language == "console":
                for command, expected in steps(text):
                    done = self.run(command)
                    assert alike(done.stdout, expected), f"{command}\n{done.stdout}{done.stderr}"
                    shown.append(command)
            else:
                self.add_file(text)
        return shown


def alike(found, expected):
    """Whether an output is the expected one, with durations that are no shorter."""
    if expected is None:
        return True
    long_enough = [float(one) >= float(least) for one, least in zip(DURATION.findall(found), DURATION.findall(expected))]
    return DURATION.sub("", found).rstrip() == DURATION.sub("", expected).rstrip() and all(long_enough)


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


@contextlib.contextmanager
def recipe(page, directory, **more):
    with contextlib.ExitStack() as stack:
        yield Recipe(page, directory, stack, **more)
