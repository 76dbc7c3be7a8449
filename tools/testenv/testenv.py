#!/usr/bin/env python3
"""Real servers for tests and for trying things out: builds them, starts them, stops them.

usage: testenv.py build etcd|go_spiffe|otel_collector|prometheus|promtool|kubernetes|kube-apiserver|
                        kube-controller-manager|kube-scheduler|kubectl|kwok [--output FILE]
       testenv.py up etcd [--members 1|3] [--name NAME]
       testenv.py up kubernetes [--name NAME]
       testenv.py down [NAME]
       testenv.py status

A server is built from a Go module beside this file that pins every source by its hash, and is kept in
~/.cache/capstan/testenv/<server>-<version>-<hash of the module>/, or taken out of Debian's package
without installing it, which would start it. `up` starts it on loopback and free
ports, several side by side under names of their own, and returns once it answers; `down` ends it, also
after a crash of anything. In Python since it must work before anything is built.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

# Not resolved: under Bazel the folder holds links to the declared files, and only those count.
HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
CACHE = os.path.join(HOME, ".cache", "capstan", "testenv")
RUN = os.path.join(CACHE, "run")

# What is there: the package to build in the module <server>/go.mod, and the module with its version.
SERVERS = {"etcd": ("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")}

# Clients of others, for tests of what we serve, and servers that only tests start: built in the same
# way.
OTHERS = {"go_spiffe": (".", "github.com/spiffe/go-spiffe/v2"),
          "otel_collector": (".", "go.opentelemetry.io/collector/otelcol")}
# The control plane: several programs of one module, which bears the version of Kubernetes. In the
# order in which `build kubernetes` makes them, the longest first.
KUBERNETES = {name: (package, "k8s.io/kubernetes") for name, package in (
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ("kwok", "sigs.k8s.io/kwok/cmd/kwok"))}
PROGRAMS = {**SERVERS, **OTHERS, **KUBERNETES}
KWOK_STAGES = ("node/fast/node-initialize.yaml",
               "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml", "pod/fast/pod-ready.yaml",
               "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml")

# Programs that Debian has: the package, the beginning of its version, the file in it.
DEBIAN = {"prometheus": ("prometheus", "2.42.", "usr/bin/prometheus"),
          "promtool": ("prometheus", "2.42.", "usr/bin/promtool")}

# Raised when the way of building changes, so that older results are not used.
RECIPE = "1"
# Where it lies when PATH does not say so: of upstream's archive, of Debian's package.
GO_PLACES = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")
# Fetched through the module proxy where the Go at hand cannot fetch a newer one by itself.
TOOLCHAIN = "v0.0.1-go1.26.0.linux-amd64"
READY_SECONDS = 30


def fail(message):
    sys.exit("testenv: " + message)


def say(message):
    print("testenv: " + message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(path):
    """Holds a lock that other processes and users of this cache respect."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---- building


def go_version(go):
    found = subprocess.run([go, "version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           cwd="/", env=dict(os.environ, GOTOOLCHAIN="local", HOME=HOME))
    match = re.search(rb"go(\d+)\.(\d+)", found.stdout)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def find_go():
    places = (shutil.which("go"),) + GO_PLACES
    found = [(go_version(go), go) for go in places if go and os.path.exists(go)]
    if not found:
        fail("needs Go to build the servers that tests use. ./dev setup installs it; by hand:\n"
             "  apt-get install golang-go    (any version; a newer one is fetched where needed)")
    version, go = max(found, key=lambda one: one[0])
    # From 1.21 on Go fetches the toolchain that a module asks for by itself.
    return go if version >= (1, 21) else fetch_toolchain(go)


def fetch_toolchain(go):
    """Gets a newer Go with an older one, the way that newer ones do it themselves."""
    say("fetching a newer Go (65 MB) with %s" % go)
    listed = run_go([go, "mod", "download", "-json", "golang.org/toolchain@" + TOOLCHAIN], cwd="/",
                    env={"GOFLAGS": "", "GO111MODULE": "on"}, stdout=subprocess.PIPE)
    folder = json.loads(listed.stdout)["Dir"]
    for top in ("bin", "pkg/tool"):
        for parent, _, names in os.walk(os.path.join(folder, top)):
            for name in names:
                os.chmod(os.path.join(parent, name), 0o755)
    module = os.path.join(folder, "src", "go.mod")
    if not os.path.exists(module):
        os.chmod(os.path.dirname(module), 0o755)
        shutil.copyfile(os.path.join(folder, "src", "_go.mod"), module)
    return os.path.join(folder, "bin", "go")


def run_go(command, cwd, env, stdout=None):
    """Runs Go; its own output goes to stderr, and an error says what to do."""
    environment = dict(os.environ, HOME=HOME, CGO_ENABLED="0", GOWORK="off", **env)
    process = subprocess.run(command, cwd=cwd, env=environment, stdout=stdout or sys.stderr,
                             stderr=subprocess.PIPE)
    errors = process.stderr.decode(errors="replace")
    if process.returncode == 0:
        return process
    sys.stderr.write(errors)
    if re.search(r"dial tcp|proxyconnect|no such host|i/o timeout|connection refused|TLS|40[34] ",
                 errors):
        fail("Go modules cannot be downloaded. This needs the network once, or a mirror:\n"
             "  go env -w GOPROXY=https://<mirror>")
    if "no space left" in errors:
        fail("no space left in %s" % CACHE)
    fail("failed: " + " ".join(command))


def module_of(server):
    """The folder beside this file whose go.mod pins the program."""
    return "kubernetes" if server in KUBERNETES else server


def linker_flags(server, version):
    """Without symbols, since nobody debugs them. Kubernetes would call itself v0.0.0 and clients
    that check for skew would refuse it."""
    flags = ["-s", "-w"]
    if server in KUBERNETES:
        major, minor = version.split(".")[:2]
        stamp = {"gitVersion": "v" + version, "gitMajor": major, "gitMinor": minor,
                 "gitTreeState": "clean", "gitCommit": "testenv",
                 "buildDate": "1970-01-01T00:00:00Z"}
        flags += ["-X k8s.io/component-base/version.%s=%s" % one for one in stamp.items()]
    return " ".join(flags)


def binary_path(server):
    """Where the built server is kept, whether it is there or not."""
    folder = os.path.join(HERE, module_of(server))
    digest = hashlib.sha256(RECIPE.encode())
    version = ""
    sources = [name for name in sorted(os.listdir(folder)) if name.endswith(".go")]
    for name in ["go.mod", "go.sum"] + sources:
        with open(os.path.join(folder, name), "rb") as pinned:
            content = pinned.read()
        digest.update(content)
        match = re.search((r"^\s*%s v(\S+)" % re.escape(PROGRAMS[server][1])).encode(), content, re.M)
        if name == "go.mod":
            version = match.group(1).decode()
    name = "%s-%s-%s" % (module_of(server), version, digest.hexdigest()[:12])
    return os.path.join(CACHE, name, server)


def build_kubernetes():
    """Returns the folder of the control plane's programs, each built if need be."""
    for step, program in enumerate(KUBERNETES, 1):
        if not os.path.exists(binary_path(program)):
            say("step %d of %d: %s" % (step, len(KUBERNETES), program))
        build(program)
    folder = os.path.dirname(binary_path("kubectl"))
    stages = os.path.join(folder, "stages")
    if not os.path.exists(stages):
        # What kwok is to do with Nodes and Pods: it refuses to run without, and carries none itself.
        listed = run_go([find_go(), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"],
                        cwd=os.path.join(HERE, "kubernetes"), env={}, stdout=subprocess.PIPE)
        source = os.path.join(listed.stdout.decode().strip(), "kustomize", "stage")
        new = "%s.%d" % (stages, os.getpid())
        os.makedirs(new)
        for file in KWOK_STAGES:
            shutil.copyfile(os.path.join(source, file), os.path.join(new, os.path.basename(file)))
        os.rename(new, stages)
    return folder


def unpack(program):
    """Returns the path of a program of Debian's, its package downloaded and unpacked if need be."""
    package, version, file = DEBIAN[program]
    name = "%s-%sdebian" % (package, version)
    folder = os.path.join(CACHE, name)
    with locked(os.path.join(CACHE, package + ".lock")):
        if not os.path.exists(folder):
            say("fetching %s from the Debian mirror" % package)
            new = folder + ".new"
            shutil.rmtree(new, ignore_errors=True)
            os.makedirs(new)
            command = ["apt-get", "download", "-q", "%s=%s*" % (package, version)]
            if subprocess.run(command, cwd=new, stdout=sys.stderr, check=False).returncode != 0:
                fail("%s %s* cannot be downloaded. This needs Debian 12 and its mirror once, with "
                     "package lists that are not old:\n  apt-get update" % (package, version))
            archives = [one for one in os.listdir(new) if one.endswith(".deb")]
            subprocess.run(["dpkg-deb", "-x", os.path.join(new, archives[0]), new], check=True)
            os.remove(os.path.join(new, archives[0]))
            os.rename(new, folder)
    return os.path.join(folder, file)


def build(server):
    """Returns the path of the server's program, built if need be."""
    if server in DEBIAN:
        return unpack(server)
    binary = binary_path(server)
    if os.path.exists(binary):
        return binary
    module = module_of(server)
    with locked(os.path.join(CACHE, module + ".lock")):
        if os.path.exists(binary):
            return binary
        go = find_go()
        name = os.path.basename(os.path.dirname(binary))
        say("building %s of %s: %s, once" % (
            server, name,
            "minutes, with 800 MB to download" if server in KUBERNETES else "a minute or two"))
        started = time.monotonic()
        os.makedirs(os.path.dirname(binary), exist_ok=True)
        # Go writes nothing into the module with -mod=readonly, so that the hashes stay what they are.
        run_go([go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath",
                "-ldflags=" + linker_flags(server, name[len(module) + 1:].rpartition("-")[0]), "-o",
                binary + ".new", PROGRAMS[server][0]], cwd=os.path.join(HERE, module), env={})
        os.rename(binary + ".new", binary)
        say("built %s in %d s" % (server, time.monotonic() - started))
    return binary


# ---- running


def free_ports(count):
    """Ports that nobody uses now. Held together, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def start_time(pid):
    """When a process began, which with its pid names it for ever; None if it is not there."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def processes(folder):
    """The running processes that `up` noted in the folder, as {pid: name}."""
    found = {}
    with contextlib.suppress(OSError):
        with open(os.path.join(folder, "pids"), encoding="ascii") as pids:
            for line in pids:
                fields = line.split()
                if len(fields) == 3 and start_time(int(fields[0])) == fields[1]:
                    found[int(fields[0])] = fields[2]
    return found


def start(folder, name, command, notify):
    """Starts a server of its own session and notes its pid before anything can go wrong."""
    with open(os.path.join(folder, name + ".log"), "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True, env=dict(os.environ, NOTIFY_SOCKET=notify))
    with open(os.path.join(folder, "pids"), "a", encoding="ascii") as pids:
        pids.write("%d %s %s\n" % (process.pid, start_time(process.pid), name))
    return process


def up_etcd(name, members):
    if members not in (1, 3):
        fail("etcd has 1 or 3 members")
    binary = build("etcd")
    folder = os.path.join(RUN, name)
    with locked(os.path.join(RUN, "lock")):
        if processes(folder):
            fail("%s is up; testenv down %s" % (name, name))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        ports = free_ports(2 * members)
        clients = ["http://127.0.0.1:%d" % port for port in ports[:members]]
        peers = ["http://127.0.0.1:%d" % port for port in ports[members:]]
        cluster = ",".join("m%d=%s" % (i, peer) for i, peer in enumerate(peers))
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind("")  # an abstract name of the kernel's choice
        started = [
            start(folder, "m%d" % i, [
                binary, "--name=m%d" % i, "--data-dir=" + os.path.join(folder, "m%d" % i),
                "--listen-client-urls=" + clients[i], "--advertise-client-urls=" + clients[i],
                "--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i],
                "--initial-cluster=" + cluster, "--log-level=warn"], "@" + notify.getsockname()[1:].decode())
            for i in range(members)
        ]
        # etcd tells the socket when it serves.
        deadline = time.monotonic() + READY_SECONDS
        for _ in started:
            while not select.select([notify], [], [], 0.2)[0]:
                dead = [process for process in started if process.poll() is not None]
                if dead or time.monotonic() > deadline:
                    down(name, keep_logs=True)
                    fail("etcd did not start; see %s/*.log" % folder)
            notify.recv(64)
        with open(os.path.join(folder, "endpoints"), "w", encoding="ascii") as endpoints:
            endpoints.write(",".join(clients))
    print(",".join(clients))


def up_kubernetes(name):
    import kubernetes_instance  # pylint: disable=import-outside-toplevel  # `build` needs none of it.

    programs, etcd = build_kubernetes(), build("etcd")
    folder = os.path.join(RUN, name)
    with locked(os.path.join(RUN, "lock")):
        if processes(folder):
            fail("%s is up; testenv down %s" % (name, name))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder, mode=0o700)
        plane = kubernetes_instance.ControlPlane(folder, programs, etcd, free_ports(6))
        plane.prepare()
        for commands, ready in ((plane.store(), None), (plane.server(), lambda: plane.answers("/readyz")),
                                (plane.clients(), plane.usable)):
            started = [start(folder, one, commands[one], "") for one in commands]
            deadline = time.monotonic() + 2 * READY_SECONDS
            while ready is not None and not ready():
                if any(one.poll() is not None for one in started) or time.monotonic() > deadline:
                    down(name, keep_logs=True)
                    fail("kubernetes did not start; see %s/*.log" % folder)
                time.sleep(0.05)
        with open(os.path.join(folder, "endpoints"), "w", encoding="ascii") as endpoints:
            endpoints.write(plane.at("admin.kubeconfig"))
    print(plane.at("admin.kubeconfig"))


def down(name, keep_logs=False):
    folder = os.path.join(RUN, name)
    # What it kept is deleted, so there is nothing to end in good order.
    for pid in processes(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while processes(folder):
        if time.monotonic() > deadline:
            fail("%s does not end: %s" % (name, sorted(processes(folder))))
        time.sleep(0.01)
    if not keep_logs:
        shutil.rmtree(folder, ignore_errors=True)


def names():
    if not os.path.isdir(RUN):
        return []
    return sorted(name for name in os.listdir(RUN) if os.path.isdir(os.path.join(RUN, name)))


def status():
    for name in names():
        folder = os.path.join(RUN, name)
        running = processes(folder)
        endpoints = ""
        with contextlib.suppress(OSError):
            with open(os.path.join(folder, "endpoints"), encoding="ascii") as found:
                endpoints = found.read()
        print("%-12s %d running  %s" % (name, len(running), endpoints if running else ""))


def main(argv):
    parser = argparse.ArgumentParser(prog="testenv", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="build a program, unless that was done before")
    command.add_argument("server", choices=sorted({**PROGRAMS, **DEBIAN, "kubernetes": None}))
    command.add_argument("--output", help="also copy its program here")
    command = commands.add_parser("up", help="start a server; prints where it answers")
    command.add_argument("server", choices=sorted([*SERVERS, "kubernetes"]))
    command.add_argument("--members", type=int, default=1)
    command.add_argument("--name", help="to have several; by default the server's name")
    command = commands.add_parser("down", help="stop a server and delete what it kept")
    command.add_argument("name", nargs="?", help="by default all of them")
    commands.add_parser("status", help="what is up, and where")
    options = parser.parse_args(argv)
    if options.command == "build" and options.server == "kubernetes":
        if options.output:
            fail("build kubernetes makes several programs: --output goes with one of %s" %
                 ", ".join(KUBERNETES))
        print(build_kubernetes())
    elif options.command == "build":
        binary = build(options.server)
        if options.output:
            shutil.copy(binary, options.output)
    elif options.command == "up":
        name = options.name or options.server
        if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
            fail("a name has at most 32 small letters, digits and -")
        if options.server == "kubernetes":
            if options.members != 1:
                fail("--members goes with etcd; a control plane has one of each part")
            up_kubernetes(name)
        else:
            up_etcd(name, options.members)
    elif options.command == "down":
        with locked(os.path.join(RUN, "lock")):
            if options.name and options.name not in names():
                fail("there is no %s; there are: %s" % (options.name, ", ".join(names())))
            for name in [options.name] if options.name else names():
                down(name)
    else:
        status()


if __name__ == "__main__":
    main(sys.argv[1:])
