"""What runs: instances, each a folder with its processes, so that `down` finds all after any crash.

An instance is ~/.cache/capstan/testenv/run/<name>/: what its servers keep and log, `instance.json` with
the plan of what was to be started, and `pids`, in which each process writes itself down before it
becomes the server. A process is named by its pid, its start time and the boot, so a pid that the kernel
has given to another since is nobody of ours.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import kafka_wire
from programs import CACHE, fail, locked

RUN = os.path.join(CACHE, "run")
LOCKS = os.path.join(RUN, ".locks")
# As LoopbackPort (loopback_port.h): below the kernel's own, and outside of the node agent's range.
FIRST_PORT, PORTS = 12000, 7000
POLL_SECONDS = 0.05
END_SECONDS = 10
# What this process has started: their ends are seen, and Python does not warn of those that outlive it.
STARTED = []


class NotReady(Exception):
    """Why a server will not come."""


# ---- ports


def take_ports(count):
    """Free ports of loopback, and sockets that, while open, keep them from whoever takes ports so."""
    taken, locks = [], []
    start = os.getpid() * 31 % PORTS
    for i in range(PORTS):
        if len(taken) == count:
            break
        port = FIRST_PORT + (start + i) % PORTS
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        probe = socket.socket()
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            lock.bind("\0capstan-testenv-port-%d" % port)
            probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        finally:
            probe.close()
        taken.append(port)
        locks.append(lock)
    if len(taken) < count:
        fail("no free port on loopback")
    return taken, locks


# ---- processes


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_time(pid):
    """When a process began, which with pid and boot names it for ever; None if it is not there."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def resident_bytes(pid):
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/%d/statm" % pid, encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def processes(folder):
    """The running processes of an instance, as {pid: (name, start time)}."""
    found = {}
    boot = boot_id()
    with contextlib.suppress(OSError):
        with open(os.path.join(folder, "pids"), encoding="ascii") as pids:
            for line in pids:
                fields = line.split()
                if (len(fields) == 4 and fields[2] == boot and fields[0].isdigit()
                        and start_time(int(fields[0])) == fields[1]):
                    found[int(fields[0])] = (fields[3], fields[1])
    return found


def start(folder, process):
    """Starts a process of a plan, in a session of its own, and returns it.

    The child writes itself down before it runs the program, and shares our lock of the instance until
    then: there is no time at which a crash of ours leaves it unknown to `down`.
    """
    record = os.open(os.path.join(folder, "pids"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    boot = boot_id()

    def note():
        os.write(record, ("%d %s %s %s\n" % (os.getpid(), start_time(os.getpid()), boot,
                                             process["name"])).encode())

    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": folder,
                   **process["environment"]}
    try:
        with open(os.path.join(folder, process["name"] + ".log"), "ab") as log:
            STARTED.append(subprocess.Popen(
                process["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                env=environment, start_new_session=True, preexec_fn=note))
        return STARTED[-1]
    finally:
        os.close(record)


# ---- readiness


def answers(check):
    """Whether a check of a plan holds: see plans.py for what there is."""
    if "kafka" in check:
        return kafka_wire.ready(check["kafka"])
    context = None
    if "certificate" in check:
        context = ssl.create_default_context(cafile=check["ca"])
        context.load_cert_chain(check["certificate"], check["key"])
    elif check["http"].startswith("https:"):
        # Some sign their own; nothing secret is said to them.
        context = ssl._create_unverified_context()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                         urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(check["http"], timeout=5) as got:
            return got.status == 200
    except urllib.error.HTTPError as error:
        return error.code in check.get("also", ())
    except (urllib.error.URLError, OSError, ValueError):
        return False


def wait(plan, stage, ended):
    """Waits until a stage answers. Raises NotReady when `ended` names a process, or in the end."""
    checks = [check for one in plan["processes"] if one["stage"] == stage for check in one["ready"]]
    deadline = time.monotonic() + plan["ready_seconds"]
    for check in checks:
        while not answers(check):
            dead = ended()
            if dead:
                raise NotReady("%s ended" % dead)
            if time.monotonic() > deadline:
                raise NotReady("%s does not answer after %d s" % (
                    check.get("http") or check.get("kafka"), plan["ready_seconds"]))
            time.sleep(POLL_SECONDS)


def stages(plan):
    return sorted({one["stage"] for one in plan["processes"]})


# ---- instances


def write_private(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def lock_of(name):
    return locked(os.path.join(LOCKS, name), "waiting for another that starts or ends " + name)


def log_end(folder, name):
    with contextlib.suppress(OSError):
        with open(os.path.join(folder, name + ".log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]
    return ""


def up(name, make_plan):
    """Starts an instance and describes it. `make_plan(folder)` prepares the folder and returns the plan
    and the sockets that keep its ports."""
    folder = os.path.join(RUN, name)
    with lock_of(name):
        if processes(folder):
            fail("%s is up; testenv down %s" % (name, name))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder, mode=0o700)
        try:
            plan, ports = make_plan(folder)
            record = {"name": name, "ready": False, "plan": plan}
            write_private(os.path.join(folder, "instance.json"), json.dumps(record))
            for stage in stages(plan):
                started = {one["name"]: start(folder, one) for one in plan["processes"]
                           if one["stage"] == stage}
                wait(plan, stage, lambda: next(
                    (one for one in started if started[one].poll() is not None), None))
            record["ready"] = True
            write_private(os.path.join(folder, "instance.json.new"), json.dumps(record))
            os.rename(os.path.join(folder, "instance.json.new"), os.path.join(folder, "instance.json"))
            for one in ports:
                one.close()
        except NotReady as reason:
            end(name)
            ended = str(reason).split()[0]
            fail("%s did not start: %s; its logs are %s/*.log\n%s" % (
                name, reason, folder, log_end(folder, ended)))
        except BaseException:
            end(name)
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return describe(name)


def end(name):
    """Ends the processes of an instance, not in good order since all is deleted, and waits for it."""
    folder = os.path.join(RUN, name)
    deadline = time.monotonic() + END_SECONDS
    while True:
        running = processes(folder)
        if not running:
            return
        for pid, (_, began) in running.items():
            with contextlib.suppress(ProcessLookupError):
                # Held by a descriptor, its pid cannot become another's between the look and the signal.
                held = os.pidfd_open(pid)
                try:
                    if start_time(pid) == began:
                        signal.pidfd_send_signal(held, signal.SIGKILL)
                finally:
                    os.close(held)
        if time.monotonic() > deadline:
            fail("%s does not end: %s" % (name, sorted(running)))
        time.sleep(0.01)


def down(name):
    with lock_of(name):
        end(name)
        shutil.rmtree(os.path.join(RUN, name), ignore_errors=True)


def names():
    if not os.path.isdir(RUN):
        return []
    return sorted(name for name in os.listdir(RUN)
                  if not name.startswith(".") and os.path.isdir(os.path.join(RUN, name)))


def recorded(name):
    """What `up` wrote of an instance; {} before it came to that."""
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(RUN, name, "instance.json"), encoding="utf-8") as file:
            return json.load(file)
    return {}


def describe(name):
    """An instance as --json prints it: README.md has the fields."""
    folder = os.path.join(RUN, name)
    record = recorded(name)
    plan = record.get("plan", {})
    running = processes(folder)
    return {
        "name": name, "server": plan.get("server"), "version": plan.get("version"), "folder": folder,
        "ready": record.get("ready", False) and len(running) == len(plan.get("processes", ())),
        "endpoints": plan.get("endpoints", {}), "credentials": plan.get("credentials", {}),
        "processes": [{"name": running[pid][0], "pid": pid, "start_time": running[pid][1],
                       "rss_bytes": resident_bytes(pid),
                       "log": os.path.join(folder, running[pid][0] + ".log")} for pid in sorted(running)]}


def matching(what):
    """The names of the instances that are called so or run that server; all of them without one."""
    if what is None:
        return names()
    return [name for name in names()
            if name == what or recorded(name).get("plan", {}).get("server") == what]


def check_name(name, server, servers):
    """A name is a folder's, and `down <server>` must not mean something else."""
    if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
        fail("a name has at most 32 small letters, digits and -")
    if name in servers and name != server:
        fail("%s is a server, and cannot be the name of another's instance" % name)
