"""Gets the programs that testenv starts: builds or downloads each once and keeps it in the user's cache.

A program lies in ~/.cache/capstan/testenv/<name>-<version>-<hash of what pins it>/. It is made beside
that and renamed when whole, under a lock, so a caller finds all of it or nothing, and of several callers
one works while the others wait.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

# Not resolved: under Bazel the folder holds links to the declared files, and only those count.
HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
CACHE = os.path.join(HOME, ".cache", "capstan", "testenv")

# What is built of Go modules: the package to build in the module <name>/go.mod, and the module whose
# version it bears.
GO = {
    "etcd": ("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    "fake_gcs_server": ("github.com/fsouza/fake-gcs-server", "github.com/fsouza/fake-gcs-server"),
    "minio": ("github.com/minio/minio", "github.com/minio/minio"),
    "versitygw": ("github.com/versity/versitygw/cmd/versitygw", "github.com/versity/versitygw"),
    # Clients of others, for tests of what we serve, and servers that only tests start.
    "client_go": (".", "k8s.io/client-go"),
    "go_spiffe": (".", "github.com/spiffe/go-spiffe/v2"),
    "otel_collector": (".", "go.opentelemetry.io/collector/otelcol"),
    "stand_in_kubelet": (".", "k8s.io/cri-streaming"),
}
# The control plane: several programs of one module, which bears the version of Kubernetes. In the
# order in which `build kubernetes` makes them, the longest first.
KUBERNETES = {name: (package, "k8s.io/kubernetes") for name, package in (
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ("kwok", "sigs.k8s.io/kwok/cmd/kwok"))}
GO_PROGRAMS = {**GO, **KUBERNETES}
KWOK_STAGES = ("node/fast/node-initialize.yaml",
               "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml", "pod/fast/pod-ready.yaml",
               "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml")

# Programs that Debian has: the package, the beginning of its version, the file in it.
DEBIAN = {"prometheus": ("prometheus", "2.42.", "usr/bin/prometheus"),
          "promtool": ("prometheus", "2.42.", "usr/bin/promtool"),
          # Produces and consumes by hand. Run with LD_LIBRARY_PATH: its libraries lie beside it.
          "kcat": ("kcat", "1.7.1-", "usr/bin/kcat")}
# What else is unpacked with a package.
DEBIAN_LIBRARIES = {"kcat": ("librdkafka1=2.0.2-*", "libyajl2=2.1.0-*")}

# Folders of files that an interpreter runs: what pins them, beside this file.
FOLDERS = {"azurite": ("azurite/package.json", "azurite/package-lock.json"),
           "kafka": ("kafka/pom.xml", "kafka/sha256sums")}

NAMES = sorted([*GO_PROGRAMS, *DEBIAN, *FOLDERS, "kubernetes"])

# What one waits for, said before it begins.
COSTS = {"fake_gcs_server": "a minute or two", "minio": "some 8 minutes",
         "versitygw": "some 4 minutes", **dict.fromkeys(KUBERNETES, "minutes, with 800 MB to download")}

# Raised when the way of building changes, so that older results are not used.
RECIPE = "1"
# Where it lies when PATH does not say so: of upstream's archive, of Debian's package.
GO_PLACES = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")
# Fetched through the module proxy where the Go at hand cannot fetch a newer one by itself.
TOOLCHAIN = "v0.0.1-go1.26.0.linux-amd64"
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
JAVA_AT_LEAST, NODE_AT_LEAST = 17, 18
PROGRESS_SECONDS = 10
LIBC = ctypes.CDLL(None)
OFFLINE = re.compile(
    r"dial tcp|proxyconnect|no such host|i/o timeout|connection refused|TLS|: 40[34] |Could not transfer "
    r"artifact|Could not resolve dependencies|Unknown host|ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|E40[34]")


def fail(message):
    sys.exit("testenv: " + message)


def say(message):
    print("testenv: " + message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(path, waiting=None):
    """Holds a lock that other processes and users of this cache respect; yields its descriptor.

    Says `waiting` if another has it.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                say(waiting)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


# ---- running what builds


def end_with_parent():
    """Of a child between fork and exec: has the kernel end it when this tool dies."""
    LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def run_tool(command, cwd, env=None, what=None, lock=None, stdout=None):
    """Runs a build tool; returns (exit code, its stdout if asked for, what it said).

    Progress goes to stderr every few seconds. The tool ends with us, and holds `lock` until it has, so
    that nobody builds beside its last breath.
    """
    process = subprocess.Popen(
        command, cwd=cwd, env=dict(os.environ, HOME=HOME, **(env or {})), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE if stdout else subprocess.STDOUT, text=True,
        errors="replace", preexec_fn=end_with_parent, pass_fds=() if lock is None else (lock,))
    said, answered = [], []

    def read(stream, lines):
        for line in stream:
            lines.append(line)

    threads = [threading.Thread(target=read, args=one, daemon=True) for one in (
        [(process.stdout, answered), (process.stderr, said)] if stdout else [(process.stdout, said)])]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    while True:
        try:
            code = process.wait(PROGRESS_SECONDS)
            break
        except subprocess.TimeoutExpired:
            if what:
                fetched = sum(1 for line in said if "ownload" in line)
                say("%s: %d s%s" % (what, time.monotonic() - started,
                                    ", %d files downloaded" % fetched if fetched else ""))
    for thread in threads:
        thread.join()
    return code, "".join(answered), "".join(said)


def check_tool(command, code, said, mirror):
    """Ends us, with what to do, if a build tool failed."""
    if code == 0:
        return
    sys.stderr.write(said[-8000:])
    if "no space left" in said.lower():
        fail("no space left in %s" % CACHE)
    if OFFLINE.search(said):
        fail(mirror)
    fail("failed: " + " ".join(command))


def run_go(command, cwd, env=None, what=None, lock=None, stdout=False):
    """Runs Go and returns its output; an error says what to do."""
    code, answered, said = run_tool(command, cwd, {"CGO_ENABLED": "0", "GOWORK": "off", **(env or {})},
                                    what, lock, stdout)
    check_tool(command, code, said, "Go modules cannot be downloaded. This needs the network once, or a "
               "mirror:\n  go env -w GOPROXY=https://<mirror>")
    return answered


def version_of(command):
    """The first number that a program calls itself by; 0 if it does not run."""
    try:
        found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               check=False)
    except OSError:
        return 0
    match = re.search(r"(\d+)[.\d]", found.stdout)
    return int(match.group(1)) if found.returncode == 0 and match else 0


def find(program, at_least, arguments, packages):
    """The path of an interpreter or build tool in PATH."""
    path = shutil.which(program)
    version = version_of([path, *arguments]) if path else 0
    if version < at_least:
        fail("needs %s %d or newer, found %s. ./dev setup installs it; by hand:\n  apt-get install %s" %
             (program, at_least, "%s %d" % (path, version) if path else "none", packages))
    return path


def find_java():
    return find("java", JAVA_AT_LEAST, ["-version"], "openjdk-17-jre-headless")


def find_node():
    return find("node", NODE_AT_LEAST, ["--version"], "nodejs")


# ---- Go


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
                    env={"GOFLAGS": "", "GO111MODULE": "on"}, stdout=True)
    folder = json.loads(listed)["Dir"]
    for top in ("bin", "pkg/tool"):
        for parent, _, names in os.walk(os.path.join(folder, top)):
            for name in names:
                os.chmod(os.path.join(parent, name), 0o755)
    module = os.path.join(folder, "src", "go.mod")
    if not os.path.exists(module):
        os.chmod(os.path.dirname(module), 0o755)
        shutil.copyfile(os.path.join(folder, "src", "_go.mod"), module)
    return os.path.join(folder, "bin", "go")


def module_of(program):
    """The folder beside this file whose go.mod pins the program."""
    return "kubernetes" if program in KUBERNETES else program


def linker_flags(program, version):
    """Without symbols, since nobody debugs them. Kubernetes would call itself v0.0.0 and clients
    that check for skew would refuse it."""
    flags = ["-s", "-w"]
    if program in KUBERNETES:
        major, minor = version.split(".")[:2]
        stamp = {"gitVersion": "v" + version, "gitMajor": major, "gitMinor": minor,
                 "gitTreeState": "clean", "gitCommit": "testenv",
                 "buildDate": "1970-01-01T00:00:00Z"}
        flags += ["-X k8s.io/component-base/version.%s=%s" % one for one in stamp.items()]
    return " ".join(flags)


def go_path(program):
    """Where the built program is kept, whether it is there or not."""
    folder = os.path.join(HERE, module_of(program))
    digest = hashlib.sha256(RECIPE.encode())
    version = ""
    sources = [name for name in sorted(os.listdir(folder)) if name.endswith(".go")]
    for name in ["go.mod", "go.sum"] + sources:
        with open(os.path.join(folder, name), "rb") as pinned:
            content = pinned.read()
        digest.update(content)
        match = re.search((r"^\s*%s v(\S+)" % re.escape(GO_PROGRAMS[program][1])).encode(), content, re.M)
        if name == "go.mod":
            version = match.group(1).decode()
    name = "%s-%s-%s" % (module_of(program), version, digest.hexdigest()[:12])
    return os.path.join(CACHE, name, program)


def build_go(program, lock):
    binary = go_path(program)
    module = module_of(program)
    name = os.path.basename(os.path.dirname(binary))
    os.makedirs(os.path.dirname(binary), exist_ok=True)
    # Go writes nothing into the module with -mod=readonly, so that the hashes stay what they are.
    run_go([find_go(), "build", "-mod=readonly", "-buildvcs=false", "-trimpath",
            "-ldflags=" + linker_flags(program, name[len(module) + 1:].rpartition("-")[0]), "-o",
            binary + ".new", GO_PROGRAMS[program][0]], cwd=os.path.join(HERE, module),
           what="building " + program, lock=lock)
    os.rename(binary + ".new", binary)


def copy_stages(stages, lock):
    """What kwok is to do with Nodes and Pods: it refuses to run without, and carries none itself."""
    listed = run_go([find_go(), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"],
                    cwd=os.path.join(HERE, "kubernetes"), lock=lock, stdout=True)
    source = os.path.join(listed.strip(), "kustomize", "stage")
    new = emptied(stages + ".new")
    for file in KWOK_STAGES:
        shutil.copyfile(os.path.join(source, file), os.path.join(new, os.path.basename(file)))
    os.rename(new, stages)


def build_kubernetes():
    """Returns the folder of the control plane's programs, each built if need be."""
    for step, program in enumerate(KUBERNETES, 1):
        if not os.path.exists(go_path(program)):
            say("step %d of %d: %s" % (step, len(KUBERNETES), program))
        build(program)
    folder = os.path.dirname(go_path("kubectl"))
    stages = os.path.join(folder, "stages")
    once(stages, "kubernetes", lambda lock: copy_stages(stages, lock), "copying kwok's stages")
    return folder


# ---- archives


def emptied(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def debian_path(program):
    package, version, file = DEBIAN[program]
    return os.path.join(CACHE, "%s-%sdebian" % (package, version), file)


def unpack(program, lock):
    """Downloads a package of Debian's and unpacks it, without installing it, which would start it."""
    package, version, file = DEBIAN[program]
    folder = debian_path(program)[:-len(file) - 1]
    new = emptied(folder + ".new")
    command = ["apt-get", "download", "-q", "%s=%s*" % (package, version),
               *DEBIAN_LIBRARIES.get(package, ())]
    code, _, said = run_tool(command, new, what="fetching " + package, lock=lock)
    if code != 0:
        sys.stderr.write(said)
        fail("%s %s* cannot be downloaded. This needs Debian 12 and its mirror once, with "
             "package lists that are not old:\n  apt-get update" % (package, version))
    for archive in [os.path.join(new, one) for one in os.listdir(new) if one.endswith(".deb")]:
        subprocess.run(["dpkg-deb", "-x", archive, new], check=True)
        os.remove(archive)
    os.rename(new, folder)


def folder_version(name):
    """The version that the pinning file says."""
    with open(os.path.join(HERE, FOLDERS[name][0]), encoding="utf-8") as file:
        text = file.read()
    if name == "azurite":
        return json.loads(text)["dependencies"]["azurite"]
    return re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>([\d.]+)<", text).group(1)


def folder_path(name):
    digest = hashlib.sha256(RECIPE.encode())
    for file in FOLDERS[name]:
        with open(os.path.join(HERE, file), "rb") as pinned:
            digest.update(pinned.read())
    return os.path.join(CACHE, "%s-%s-%s" % (name, folder_version(name), digest.hexdigest()[:12]))


def checksums(folder):
    """{file: SHA-256} of the files of a folder."""
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def check_sums(folder, sums):
    """Ends us unless the folder holds just the files of `sums`, a file as sha256sum writes it."""
    with open(sums, encoding="ascii") as file:
        expected = {line.split()[1]: line.split()[0] for line in file if line.strip()}
    found = checksums(folder)
    wrong = sorted(name for name in {**expected, **found} if expected.get(name) != found.get(name))
    if wrong:
        fail("%s are not the files that %s says. A mirror changed them, or a version was changed without "
             "its sums: look at them in %s" % (", ".join(wrong), sums, folder))


def copy_jars(folder, lock):
    """Maven's artifacts and what they need, none of them compiled, each held against its sum."""
    java = find_java()
    maven = shutil.which("mvn") or fail(
        "needs Maven to fetch Kafka. ./dev setup installs it; by hand:\n  apt-get install maven")
    new = emptied(folder + ".new")
    shutil.copyfile(os.path.join(HERE, "kafka", "pom.xml"), os.path.join(new, "pom.xml"))
    command = [maven, "-B", MAVEN_PLUGIN, "-DoutputDirectory=" + os.path.join(new, "libs"),
               "-DincludeScope=runtime"]
    code, _, said = run_tool(command, new, {"JAVA_HOME": java_home(java), "MAVEN_OPTS": "-Xmx256m"},
                             "fetching Kafka", lock)
    check_tool(command, code, said, "Kafka's artifacts cannot be downloaded. This needs the network once, "
               "or a mirror in ~/.m2/settings.xml")
    check_sums(os.path.join(new, "libs"), os.path.join(HERE, "kafka", "sha256sums"))
    os.rename(new, folder)


def build_kafka(folder):
    import kafka_instance  # pylint: disable=import-outside-toplevel  # It needs this module.

    once(folder, "kafka", lambda lock: copy_jars(folder, lock), "fetching Apache Kafka (54 MB)")
    java = find_java()
    archive = kafka_instance.archive_path(folder, java)
    # Where the jars lie for good: the archive names them.
    once(archive, "kafka", lambda _: kafka_instance.train(archive, folder, java),
         "archiving Kafka's classes")
    return folder


def java_home(java):
    return os.path.dirname(os.path.dirname(os.path.realpath(java)))


def install_npm(folder, lock):
    """What package-lock.json names, each archive held against its sum there; no script of it runs."""
    find_node()
    npm = shutil.which("npm") or fail(
        "needs npm to fetch Azurite. ./dev setup installs it; by hand:\n  apt-get install npm")
    new = emptied(folder + ".new")
    for file in FOLDERS["azurite"]:
        shutil.copyfile(os.path.join(HERE, file), os.path.join(new, os.path.basename(file)))
    command = [npm, "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
    code, _, said = run_tool(command, new, what="fetching Azurite", lock=lock)
    check_tool(command, code, said, "npm's packages cannot be downloaded. This needs the network once, or a "
               "mirror:\n  npm config set registry https://<mirror>")
    os.rename(new, folder)


# ---- all of them


def once(path, lock_name, make, what):
    """Returns `path`, made by `make` under a lock if it is not there."""
    if os.path.exists(path):
        return path
    with locked(os.path.join(CACHE, lock_name + ".lock"),
                "waiting for another that builds " + lock_name) as lock:
        if not os.path.exists(path):
            say("%s, once" % what)
            started = time.monotonic()
            make(lock)
            say("done in %d s" % (time.monotonic() - started))
    return path


def path_of(name):
    """Where a program (a file or a folder) is kept, whether it is there or not."""
    if name == "kubernetes":
        return os.path.dirname(go_path("kubectl"))
    if name in FOLDERS:
        return folder_path(name)
    return debian_path(name) if name in DEBIAN else go_path(name)


def build(name):
    """Returns the path of a program (a file or a folder), got if need be."""
    if name == "kubernetes":
        return build_kubernetes()
    path = path_of(name)
    if name in DEBIAN:
        return once(path, DEBIAN[name][0], lambda lock: unpack(name, lock),
                    "fetching %s from Debian's mirror" % name)
    if name == "kafka":
        return build_kafka(path)
    if name == "azurite":
        return once(path, name, lambda lock: install_npm(path, lock),
                    "fetching Azurite (186 MB unpacked)")
    return once(path, module_of(name), lambda lock: build_go(name, lock), "building %s of %s: %s" % (
        name, os.path.basename(os.path.dirname(path)), COSTS.get(name, "a minute or two")))
