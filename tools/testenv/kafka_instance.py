"""Kafka on loopback: its settings, its command lines, and an archive of its classes that halves its start."""

import base64
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

import kafka_wire
import programs

# One broker that is also the controller: nothing is kept twice, and groups form at once.
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%(controller)d
listeners=PLAINTEXT://127.0.0.1:%(broker)d,CONTROLLER://127.0.0.1:%(controller)d
advertised.listeners=PLAINTEXT://127.0.0.1:%(broker)d
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%(data)s
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
"""
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
       "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
TRAINING_SECONDS = 120


def archive_path(home, java):
    """Of one JVM alone: another one would not take it."""
    said = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return os.path.join(home, "classes-%s.jsa" % hashlib.sha256(said.stdout).hexdigest()[:12])


class Broker:
    """One cluster's broker, which keeps what it has in `folder`/`name`."""

    def __init__(self, folder, name, home, java, ports):
        self.folder, self.name, self.home, self.java = folder, name, home, java
        self.broker_port, self.controller_port = ports
        self.settings = os.path.join(folder, name + ".properties")
        self.address = "127.0.0.1:%d" % self.broker_port

    def jvm(self, *flags):
        archive = archive_path(self.home, self.java)
        if os.path.exists(archive) and os.path.getsize(archive) > 0:
            flags = ("-XX:SharedArchiveFile=" + archive, *flags)
        # The JVM takes the star for all jars; no shell sees it.
        return [self.java, *JVM, *flags, "-cp", os.path.join(self.home, "libs", "*")]

    def begin_format(self):
        """Writes the settings and starts to format the storage."""
        with open(self.settings, "w", encoding="ascii") as file:
            file.write(PROPERTIES % {"broker": self.broker_port, "controller": self.controller_port,
                                     "data": os.path.join(self.folder, self.name)})
        # 16 bytes in base64 are its form of an id; one that begins with - would be an option.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "x")
        return subprocess.Popen(
            self.jvm("-Xmx64m") + ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", self.settings],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=programs.end_with_parent)

    def command(self, *flags):
        return self.jvm("-Xms128m", "-Xmx384m", "-Djava.io.tmpdir=" + self.folder, *flags) + [
            "kafka.Kafka", self.settings]


def end_format(processes):
    for one in processes:
        said = one.communicate()[0]
        if one.returncode != 0:
            programs.fail("Kafka's storage cannot be formatted:\n" + said[-2000:])


def train(archive, home, java):
    """Starts a broker once and keeps what the JVM made of its classes; an empty file if that fails."""
    new = archive + ".new"
    folder = tempfile.mkdtemp()
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    broker = Broker(folder, "training", home, java, [one.getsockname()[1] for one in sockets])
    for one in sockets:
        one.close()
    try:
        if os.path.exists(new):
            os.remove(new)
        if broker.begin_format().wait() == 0:
            process = subprocess.Popen(broker.command("-XX:ArchiveClassesAtExit=" + new), cwd=folder,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, preexec_fn=programs.end_with_parent)
            deadline = time.monotonic() + TRAINING_SECONDS
            while (process.poll() is None and time.monotonic() < deadline
                   and not kafka_wire.ready(broker.address)):
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(TRAINING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if not os.path.exists(new):
            programs.say("no archive of Kafka's classes; it starts more slowly without")
            with open(new, "wb"):
                pass
        os.rename(new, archive)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
