"""Brings every server up together, uses each, kills the tool in the middle, and takes all down."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import azure_request
import instances
import kafka_wire
import programs
import s3_request

TOOL = os.path.join(programs.HERE, "testenv.py")
# Beside what the user has up.
SUFFIX = "-servers-test"
SERVERS = {"etcd": [], "kafka": ["--clusters", "2"], "s3": [], "azure": [], "gcs": [], "prometheus": []}


def call(*arguments):
    return subprocess.run([sys.executable, "-B", TOOL, *arguments], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)


def fetch(url, method="GET", body=None, **headers):
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        return answer.read()


class ServersTest(unittest.TestCase):

    def tearDown(self):
        for server in SERVERS:
            call("down", server + SUFFIX)

    def up(self, server):
        started = time.monotonic()
        done = call("up", server, "--name", server + SUFFIX, "--json", *SERVERS[server])
        self.assertEqual(done.returncode, 0, done.stderr)
        (found,) = json.loads(done.stdout)
        self.assertTrue(found["ready"], found)
        print("%s ready after %.1f s, %d MiB" % (
            server, time.monotonic() - started, sum(one["rss_bytes"] for one in found["processes"]) >> 20))
        return found

    def test_all_are_up_together_answer_and_go(self):
        found = {server: self.up(server) for server in SERVERS}
        self.assertIn(b"true", fetch(found["etcd"]["endpoints"]["m0"] + "/health"))
        self.use_kafka(list(found["kafka"]["endpoints"].values()))
        self.use_s3(found["s3"])
        self.use_gcs(found["gcs"]["endpoints"]["gcs"])
        self.use_azure(found["azure"])
        prometheus = found["prometheus"]["endpoints"]["prometheus"]
        self.assertIn(b"success", fetch(prometheus + "/api/v1/query?query=1"))
        pids = [one["pid"] for server in found.values() for one in server["processes"]]
        self.assertEqual(len(pids), 7)
        # A crash of one server, and one that is stopped.
        os.kill(pids[0], signal.SIGKILL)
        os.kill(pids[1], signal.SIGSTOP)
        for server in SERVERS:
            self.assertEqual(call("down", server + SUFFIX).returncode, 0)
        self.assertEqual([pid for pid in pids if instances.start_time(pid)], [])
        self.assertEqual([server for server in found.values() if os.path.exists(server["folder"])], [])

    def test_what_a_killed_up_began_is_ended(self):
        folder = os.path.join(instances.RUN, "kafka" + SUFFIX)
        killed = subprocess.Popen([sys.executable, "-B", TOOL, "up", "kafka", "--name", "kafka" + SUFFIX])
        deadline = time.monotonic() + 60
        while not instances.processes(folder):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        pids = list(instances.processes(folder))
        self.assertEqual(len(pids), 1)
        self.assertEqual(call("down", "kafka" + SUFFIX).returncode, 0)
        self.assertEqual([pid for pid in pids if instances.start_time(pid)], [])

    def use_kafka(self, clusters):
        kcat = programs.build("kcat")
        libraries = os.path.join(os.path.dirname(os.path.dirname(kcat)), "lib", "x86_64-linux-gnu")
        for number, cluster in enumerate(clusters):
            kafka_wire.create_topic(cluster, "events", 2)
            sent = "one of %d\ntwo of %d\n" % (number, number)
            for arguments, said in ((["-P", "-X", "enable.idempotence=true", "-z", "lz4"], sent),
                                    (["-C", "-e"], None)):
                done = subprocess.run([kcat, "-b", cluster, "-t", "events", "-q", *arguments], input=said,
                                      text=True, stdout=subprocess.PIPE, timeout=60, check=True,
                                      env={"LD_LIBRARY_PATH": libraries})
            self.assertEqual(sorted(done.stdout.splitlines()), sorted(sent.splitlines()))

    def use_s3(self, found):
        url, credentials = found["endpoints"]["s3"], found["credentials"]["aws"]
        self.assertEqual(call("bucket", url, credentials, "bucket").returncode, 0)
        s3_request.request("PUT", url + "/bucket/object", credentials, b"content")
        self.assertEqual(s3_request.request("GET", url + "/bucket/object", credentials), b"content")
        with self.assertRaises(urllib.error.HTTPError):  # without a name
            fetch(url + "/bucket/object")

    def use_gcs(self, url):
        self.assertEqual(call("gcs-bucket", url, "testenv", "bucket").returncode, 0)
        fetch(url + "/upload/storage/v1/b/bucket/o?uploadType=media&name=object", "POST", b"content")
        self.assertEqual(fetch(url + "/storage/v1/b/bucket/o/object?alt=media"), b"content")

    def use_azure(self, found):
        file = found["credentials"]["connection_string"]
        with open(file, encoding="ascii") as text:
            settings = azure_request.settings_of(text.read())
        self.assertEqual(settings["BlobEndpoint"], found["endpoints"]["blob"])
        self.assertEqual(call("container", file, "container").returncode, 0)
        azure_request.request("PUT", "/container/blob", file, b"content")
        self.assertEqual(azure_request.request("GET", "/container/blob", file), b"content")


if __name__ == "__main__":
    unittest.main()
