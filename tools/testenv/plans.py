"""How each server is started: the plan of an instance, a value that testenv and the C++ tests carry out.

A plan has
  server, version
  processes      in the order of their stages; the next stage starts when all of this one answer:
    name, command, environment, stage
    ready        checks that must hold: {"http": URL} answers 200, or a code in "also", with "ca",
                 "certificate" and "key" (files) as that client; {"kafka": "host:port"} has a broker
  ready_seconds  how long a stage may take
  endpoints      {name: URL or host:port}
  credentials    {name: file}
  values         what else a client must know
All of it is on loopback. What a plan needs in its folder is there when it is returned.
"""

import base64
import json
import os
import secrets

import kafka_instance
import programs

REGION = "us-east-1"
ACCESS_KEY = "testenv"
AZURE_ACCOUNT = "devstoreaccount1"
PROMETHEUS = """global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
  - job_name: targets
    file_sd_configs: [{files: [%s/*.json], refresh_interval: 1s}]
"""


class Wanted:
    """What an instance is asked to be."""

    def __init__(self, folder, ports, program, members=1, clusters=1, server=None, flags=None):
        self.folder, self.program, self.members, self.clusters = folder, program, members, clusters
        self.server, self.flags = server, flags or {}
        self.ports = iter(ports)

    def port(self):
        return next(self.ports)

    def at(self, *name):
        return os.path.join(self.folder, *name)


def process(name, command, ready, environment=None, stage=0):
    return {"name": name, "command": command, "environment": environment or {}, "stage": stage,
            "ready": ready}


def plan(server, version, processes, endpoints, credentials=None, values=None, ready_seconds=30):
    return {"server": server, "version": version, "processes": processes, "endpoints": endpoints,
            "credentials": credentials or {}, "values": values or {}, "ready_seconds": ready_seconds}


def write_private(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    return path


def version(name):
    """Of a program that is built, as its folder in the cache says."""
    if name in programs.FOLDERS:
        return programs.folder_version(name)
    if name in programs.DEBIAN:
        return programs.DEBIAN[name][1].rstrip(".-")
    folder = os.path.basename(os.path.dirname(programs.go_path(name)))
    return folder[len(programs.module_of(name)) + 1:].rpartition("-")[0]


def etcd_command(wanted, name, client, peer, cluster, *flags):
    return [wanted.program("etcd"), "--name=" + name, "--data-dir=" + wanted.at(name),
            "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
            "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
            "--initial-cluster=" + cluster, "--log-level=warn", *flags]


def etcd(wanted):
    names = ["m%d" % i for i in range(wanted.members)]
    clients = ["http://127.0.0.1:%d" % wanted.port() for _ in names]
    peers = ["http://127.0.0.1:%d" % wanted.port() for _ in names]
    cluster = ",".join("%s=%s" % one for one in zip(names, peers))
    return plan("etcd", version("etcd"), [
        process(name, etcd_command(wanted, name, client, peer, cluster), [{"http": client + "/health"}])
        for name, client, peer in zip(names, clients, peers)], dict(zip(names, clients)))


def kubernetes(wanted):
    import kubernetes_instance  # pylint: disable=import-outside-toplevel  # The others need none of it.

    etcd_port, peer_port, *ports = [wanted.port() for _ in range(6)]
    plane = kubernetes_instance.ControlPlane(wanted.folder, wanted.program("kubernetes"), ports)
    plane.prepare()
    client, peer = ["http://127.0.0.1:%d" % one for one in (etcd_port, peer_port)]
    processes = [process("etcd", etcd_command(wanted, "etcd", client, peer, "etcd=" + peer,
                                              *plane.store_flags()), [{"http": client + "/health"}])]
    for stage, (commands, checks) in enumerate((plane.server(client), plane.clients()), 1):
        processes += [process(name, command + wanted.flags.get(name, []), checks[name], stage=stage)
                      for name, command in commands.items()]
    processes[0]["command"] += wanted.flags.get("etcd", [])
    return plan("kubernetes", version("kubectl"), processes, {"kubernetes": plane.url(), "etcd": client}, {
        "kubeconfig": plane.at("admin.kubeconfig"), "ca": plane.at("ca.crt"),
        "certificate": plane.at("admin.crt"), "key": plane.at("admin.key")},
        {"kubectl": os.path.join(wanted.program("kubernetes"), "kubectl")}, ready_seconds=90)


def kafka(wanted):
    home, java = wanted.program("kafka"), programs.find_java()
    brokers = [kafka_instance.Broker(wanted.folder, "kafka-%d" % (i + 1), home, java,
                                     (wanted.port(), wanted.port())) for i in range(wanted.clusters)]
    kafka_instance.end_format([one.begin_format() for one in brokers])
    return plan("kafka", version("kafka"), [
        process(one.name, one.command(), [{"kafka": one.address}]) for one in brokers],
        {one.name: one.address for one in brokers}, ready_seconds=90)


def s3(wanted):
    program = wanted.server or "versitygw"
    port, key = wanted.port(), secrets.token_hex(20)
    url = "http://127.0.0.1:%d" % port
    data = wanted.at("data")
    os.makedirs(data)
    if program == "minio":
        command = [wanted.program(program), "server", "--quiet", "--address", "127.0.0.1:%d" % port,
                   "--certs-dir", wanted.at("certs"), data]
        environment = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": key, "MINIO_BROWSER": "off",
                       "MINIO_REGION": REGION, "MINIO_UPDATE": "off"}
        check = {"http": url + "/minio/health/ready"}
    else:
        os.makedirs(wanted.at("sidecar"))
        command = [wanted.program(program), "--port", "127.0.0.1:%d" % port, "--region", REGION, "posix",
                   "--sidecar", wanted.at("sidecar"), data]
        environment = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": key}
        # Nobody may list buckets without a name.
        check = {"http": url + "/", "also": [403]}
    file = write_private(wanted.at("credentials"), "[default]\naws_access_key_id = %s\n"
                         "aws_secret_access_key = %s\n" % (ACCESS_KEY, key))
    return plan("s3", "%s %s" % (program, version(program)),
                [process(program, command + wanted.flags.get(program, []), [check], environment)], {"s3": url},
                {"aws": file}, {"region": REGION})


def azure(wanted):
    node, port = programs.find_node(), wanted.port()
    key = base64.b64encode(secrets.token_bytes(64)).decode()
    url = "http://127.0.0.1:%d/%s" % (port, AZURE_ACCOUNT)
    data = wanted.at("data")
    os.makedirs(data)
    file = write_private(wanted.at("connection_string"),
                         "DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;" % (
                             AZURE_ACCOUNT, key, url))
    main = os.path.join(wanted.program("azurite"), "node_modules/azurite/dist/src/blob/main.js")
    return plan("azure", "Azurite " + version("azurite"), [process("azurite", [
        node, main, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", data, "--silent",
        "--skipApiVersionCheck", "--disableTelemetry", *wanted.flags.get("azurite", [])],
        # Nobody may list containers without a signature.
        [{"http": url + "?comp=list", "also": [400, 403]}],
        {"AZURITE_ACCOUNTS": "%s:%s" % (AZURE_ACCOUNT, key)})], {"blob": url}, {"connection_string": file},
        {"account": AZURE_ACCOUNT})


def gcs(wanted):
    port = wanted.port()
    url = "http://127.0.0.1:%d" % port
    data = wanted.at("data")
    os.makedirs(data)
    return plan("gcs", "fake-gcs-server " + version("fake_gcs_server"), [process("fake_gcs_server", [
        wanted.program("fake_gcs_server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
        "-external-url", url, "-public-host", "127.0.0.1:%d" % port, "-backend", "filesystem",
        "-filesystem-root", data, *wanted.flags.get("fake_gcs_server", [])],
        [{"http": url + "/storage/v1/b?project=testenv"}])], {"gcs": url}, None, {"project": "testenv"})


def prometheus(wanted):
    url = "http://127.0.0.1:%d" % wanted.port()
    targets, config = wanted.at("targets"), wanted.at("prometheus.yaml")
    os.makedirs(targets)
    with open(config, "w", encoding="utf-8") as file:
        file.write(PROMETHEUS % json.dumps(targets)[1:-1])
    return plan("prometheus", version("prometheus"), [process("prometheus", [
        wanted.program("prometheus"), "--config.file=" + config, "--storage.tsdb.path=" + wanted.at("data"),
        "--web.listen-address=" + url[len("http://"):], "--web.enable-lifecycle", "--log.level=warn",
        *wanted.flags.get("prometheus", [])],
        [{"http": url + "/-/ready"}])], {"prometheus": url}, None, {"targets": targets})


# Each server: what makes its plan, the programs it needs, and how many ports.
SERVERS = {
    "etcd": (etcd, lambda _: ["etcd"], lambda wanted: 2 * wanted.members),
    "kubernetes": (kubernetes, lambda _: ["kubernetes", "etcd"], lambda _: 6),
    "kafka": (kafka, lambda _: ["kafka"], lambda wanted: 2 * wanted.clusters),
    "s3": (s3, lambda wanted: [wanted.server or "versitygw"], lambda _: 1),
    "azure": (azure, lambda _: ["azurite"], lambda _: 1),
    "gcs": (gcs, lambda _: ["fake_gcs_server"], lambda _: 1),
    "prometheus": (prometheus, lambda _: ["prometheus"], lambda _: 1),
}
