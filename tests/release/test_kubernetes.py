"""The manifests: decoded as an API server does, and their containers run with exactly their arguments and environment.

There is no cluster here. An OCI runtime runs the image of the release with the settings that a node would give it.
"""

import json
import re
import subprocess

import pytest
from conftest import BUILD, run
from harness import ROOT, until
from oci import Container, Network, unpack

MANIFESTS = sorted((ROOT / "packaging/kubernetes").glob("*.yaml"))
DECODER = BUILD / "clients/kubernetes"


@pytest.fixture(scope="module")
def decoder():
    folder = ROOT / "tests/release/kubernetes"
    run("go", "build", "-buildvcs=false", "-modcacherw", "-o", DECODER, ".", cwd=folder,
        env={"GOMODCACHE": str(BUILD / "gomod")})
    return DECODER


@pytest.fixture(scope="module")
def objects(decoder):
    return json.loads(run(decoder, *MANIFESTS))


def named(objects, kind, name):
    [found] = [entry for entry in objects if entry["kind"] == kind and entry["metadata"]["name"] == name]
    return found


def pod_of(objects, name):
    return named(objects, "Deployment", name)["spec"]["template"]


def environment(container, objects):
    """The variables of a container, as a node sets them: from secrets, and with $(NAME) of earlier ones."""
    env = {}
    for entry in container.get("env", []):
        if "valueFrom" in entry:
            key = entry["valueFrom"]["secretKeyRef"]
            value = named(objects, "Secret", key["name"])["stringData"][key["key"]]
        else:
            value = expand(entry["value"], env)
        env[entry["name"]] = value
    return env


def expand(text, env):
    return re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], text)


def test_a_decoder_that_refuses_unknown_fields_takes_them(objects):
    assert [entry["kind"] for entry in objects] == [
        "Secret", "Deployment", "Service", "NetworkPolicy", "ConfigMap", "Deployment", "Service", "PodDisruptionBudget"]


@pytest.mark.parametrize(("before", "after"), [("readOnly: true", "readonly: true"), ("replicas: 2", 'replicas: "2"'),
                                               ("  selector: { app: weir }", "  selector: { app: weir }\n  selector: {}")])
def test_the_decoder_refuses_mistakes(decoder, tmp_path, before, after):
    text = (ROOT / "packaging/kubernetes/weir.yaml").read_text()
    assert before in text
    (tmp_path / "weir.yaml").write_text(text.replace(before, after, 1))
    assert subprocess.run([decoder, tmp_path / "weir.yaml"], capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("name", ["weir", "weir-redis"])
def test_what_refers_to_each_other_agrees(objects, name):
    deployment, service = named(objects, "Deployment", name), named(objects, "Service", name)
    pod = pod_of(objects, name)
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == pod["metadata"]["labels"]
    [container] = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        for kind in ("httpGet", "tcpSocket"):
            if kind in container.get(probe, {}):
                assert container[probe][kind]["port"] in ports
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
    assert {mount["name"] for mount in container.get("volumeMounts", [])} == set(volumes)
    for volume in volumes.values():
        assert named(objects, "ConfigMap", volume["configMap"]["name"])
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["resources"]["limits"]["memory"]


def test_the_image_has_the_version_of_the_release(objects):
    version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]
    [container] = pod_of(objects, "weir")["spec"]["containers"]
    assert container["image"] == f"weir:{version}"


def mount_config(top, data):
    """A directory as a node makes it of a ConfigMap: files are links through `..data`, which a change swaps."""
    update_config(top, data, "first")
    for name in data:
        (top / name).symlink_to(f"..data/{name}")


def update_config(top, data, version):
    (top / f"..{version}").mkdir()
    for name, text in data.items():
        (top / f"..{version}" / name).write_text(text)
    (top / "..data_tmp").symlink_to(f"..{version}")
    (top / "..data_tmp").replace(top / "..data")


class Pods:
    """The Redis and one server of the manifests, in one network. The service's name is in /etc/hosts, and Redis's port
    is the manifest's."""

    def __init__(self, release, objects, top):
        top.chmod(0o755)
        [archive] = release.glob("weir-*-container-*.tar")
        settings, rootfs = unpack(archive, top)
        self.network = Network()
        self.redis = self.start_redis(objects)
        pod = pod_of(objects, "weir")["spec"]
        [self.container] = pod["containers"]
        self.config = top / "config"
        self.config.mkdir()
        self.data = named(objects, "ConfigMap", "weir")["data"]
        mount_config(self.config, self.data)
        (top / "hosts").write_text("127.0.0.1 localhost weir-redis\n")
        [mount] = self.container["volumeMounts"]
        self.server = Container(
            top, rootfs, self.network, settings["config"]["Entrypoint"] + self.container["args"],
            environment(self.container, objects), pod["securityContext"]["runAsUser"],
            {mount["mountPath"]: self.config, "/etc/hosts": top / "hosts"}).until_listening()

    def start_redis(self, objects):
        [container] = pod_of(objects, "weir-redis")["spec"]["containers"]
        env = environment(container, objects)
        command = [*container["command"], *(expand(word, env) for word in container["args"])]
        self.password = env["REDIS_PASSWORD"]
        process = subprocess.Popen(self.network.enter(*command), stdout=subprocess.DEVNULL)
        until(lambda: self.redis_cli("PING").stdout == "PONG\n", "Redis")
        return process

    def redis_cli(self, *words):
        return subprocess.run(self.network.enter("redis-cli", "--no-auth-warning", "-a", self.password, *words),
                              capture_output=True, text=True, check=False)

    def probe(self, name):
        probe = self.container[name]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        return self.network.get(probe["path"], ports[probe["port"]])[0]

    def close(self):
        self.redis.terminate()
        self.redis.wait()
        self.network.close()


@pytest.fixture
def pods(release, objects, tmp_path):
    pods = Pods(release, objects, tmp_path)
    yield pods
    if pods.server.process.poll() is None:
        pods.server.stop()
    pods.close()


def test_the_containers_run_as_the_manifests_say(pods):
    assert [pods.probe(name) for name in ("startupProbe", "livenessProbe", "readinessProbe")] == [200, 200, 200]
    # On a busy machine a call to Redis may take longer than `store_timeout`, and the server decides alone.
    until(lambda: "degraded" not in pods.network.get("/v1/peek/login?key=a")[1], "an answer from Redis")
    assert pods.network.get("/v1/acquire/login?key=a")[0] == 200
    assert "weir:" in pods.redis_cli("KEYS", "*").stdout
    # Without Redis a server still is alive and ready, since it decides by policy.
    pods.redis.kill()
    pods.redis.wait()
    assert json.loads(pods.network.get("/v1/acquire/login?key=b")[1])["degraded"] is True
    assert [pods.probe("livenessProbe"), pods.probe("readinessProbe")] == [200, 200]
    assert pods.server.stop() == 0


def test_a_changed_config_map_takes_effect_without_a_restart(pods):
    update_config(pods.config, {"weir.yaml": pods.data["weir.yaml"].replace("burst: 10", "burst: 20")}, "second")
    until(lambda: '"quota":20' in pods.network.get("/v1/peek/login?key=a")[1], "the new burst")


def test_a_full_table_and_many_connections_stay_below_the_limit_of_memory(pods):
    # Without Redis direct commands count in the server's own table, at most `capacity` of them.
    pods.redis.kill()
    pods.redis.wait()
    pods.network.run("redis-benchmark", "-p", 6380, "-c", 200, "-n", 1_500_000, "-r", 1_200_000, "-P", 64, "-q",
                     "CL.THROTTLE", "key:__rand_int__", 9, 1, 86400)
    table = pods.network.get("/metrics")[1]
    assert float(re.search(r"^weir_table_live_keys ([\d.e+]+)$", table, re.M)[1]) > 500_000
    with open(f"/proc/{pods.server.pid()}/status", encoding="ascii") as file:
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024
    limit = re.fullmatch(r"(\d+)Mi", pods.container["resources"]["limits"]["memory"])
    assert peak < int(limit[1]) * 2**20 / 2
