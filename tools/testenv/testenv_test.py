"""Tests of testenv: real servers side by side, down after a crash, and what it says when Go is missing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import instances
import programs

TOOL = os.path.join(programs.HERE, "testenv.py")


class TestenvTest(unittest.TestCase):

    def setUp(self):
        self.home = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        binary = self.at_home(programs.path_of("etcd"))
        os.makedirs(os.path.dirname(binary))
        # Bazel starts tests at the root of their runfiles.
        shutil.copy("tools/testenv/bin/etcd", binary)

    def tearDown(self):
        self.call("down")
        shutil.rmtree(self.home)

    def at_home(self, path):
        return path.replace(programs.HOME, self.home, 1)

    def call(self, *arguments, path="/usr/bin:/bin"):
        return subprocess.run([sys.executable, "-B", TOOL, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={"HOME": self.home, "PATH": path})

    def up(self, *arguments):
        started = self.call("up", "etcd", *arguments)
        self.assertEqual(started.returncode, 0, started.stderr)
        return started.stdout.strip().split(",")

    def pids(self, name):
        return instances.processes(os.path.join(self.home, ".cache/capstan/testenv/run", name))

    def test_servers_run_side_by_side_and_are_ready(self):
        one = self.up()
        three = self.up("--members", "3", "--name", "three")
        self.assertEqual((len(one), len(three)), (1, 3))
        for url in one + three:
            with urllib.request.urlopen(url + "/health") as health:
                self.assertIn(b"true", health.read())
        status = self.call("status").stdout
        self.assertRegex(status, r"(?m)^etcd +etcd +1 running +\d+ MiB  %s$" % one[0])
        self.assertRegex(status, r"(?m)^three +etcd +3 running +\d+ MiB  %s$" % ",".join(three))
        again = self.call("up", "etcd")
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("is up", again.stderr)

    def test_down_ends_what_a_crash_left(self):
        self.up("--members", "3")
        pids = sorted(self.pids("etcd"))
        self.assertEqual(len(pids), 3)
        os.kill(pids[0], signal.SIGKILL)
        os.kill(pids[1], signal.SIGSTOP)
        self.assertEqual(self.call("down", "etcd").returncode, 0)
        self.assertEqual([pid for pid in pids if instances.start_time(pid)], [])
        self.assertEqual(self.call("status").stdout, "")
        self.assertIn("there is no", self.call("down", "etcd").stderr)

    def test_json_says_what_a_client_and_a_killer_need(self):
        (found,) = json.loads(self.call("up", "etcd", "--json").stdout)
        self.assertEqual((found["name"], found["server"], found["version"], found["ready"]),
                         ("etcd", "etcd", "3.6.8", True))
        self.assertEqual(list(found["endpoints"]), ["m0"])
        (process,) = found["processes"]
        self.assertEqual(instances.start_time(process["pid"]), process["start_time"])
        self.assertGreater(process["rss_bytes"], 1 << 20)
        self.assertTrue(os.path.exists(process["log"]))
        self.assertEqual([one["name"] for one in json.loads(self.call("status", "--json").stdout)], ["etcd"])

    def test_down_of_a_server_ends_all_that_run_it(self):
        self.up("--name", "one")
        self.up("--name", "two")
        self.assertEqual(self.call("down", "etcd").returncode, 0)
        self.assertEqual(self.call("status").stdout, "")

    def test_a_name_of_another_server_is_refused(self):
        tried = self.call("up", "etcd", "--name", "kafka")
        self.assertEqual(tried.returncode, 1)
        self.assertIn("is a server", tried.stderr)

    def test_kubernetes_says_its_version_and_lies_in_one_folder(self):
        folders = {os.path.dirname(programs.path_of(one)) for one in programs.KUBERNETES}
        self.assertEqual(len(folders), 1)
        name = os.path.basename(folders.pop())
        self.assertRegex(name, r"^kubernetes-1\.\d+\.\d+-[0-9a-f]{12}$")
        flags = programs.linker_flags("kube-apiserver", "1.36.3")
        for stamp in ("gitVersion=v1.36.3", "gitMajor=1 ", "gitMinor=36 "):
            self.assertIn("-X k8s.io/component-base/version." + stamp, flags)
        self.assertEqual(programs.linker_flags("etcd", "3.6.8"), "-s -w")

    def test_kubernetes_has_no_single_program_to_copy(self):
        tried = self.call("build", "kubernetes", "--output", "somewhere")
        self.assertEqual(tried.returncode, 1)
        self.assertIn("kube-apiserver", tried.stderr)

    def test_kubernetes_has_one_of_each_part(self):
        tried = self.call("up", "kubernetes", "--members", "3")
        self.assertEqual(tried.returncode, 1)
        self.assertIn("--members", tried.stderr)

    def test_prepare_says_how_to_get_what_is_missing(self):
        tried = self.call("prepare", "gcs", "--folder", self.home, "--ports", "1")
        self.assertEqual(tried.returncode, 1)
        self.assertIn("./dev testenv build fake_gcs_server", tried.stderr)

    def test_without_go_it_says_what_to_do(self):
        shutil.rmtree(os.path.dirname(self.at_home(programs.path_of("etcd"))))
        code = "import programs; programs.GO_PLACES = (); programs.build('etcd')"
        tried = subprocess.run([sys.executable, "-B", "-c", code], text=True, cwd=programs.HERE,
                               stderr=subprocess.PIPE, env={"HOME": self.home, "PATH": "/nowhere"})
        self.assertEqual(tried.returncode, 1)
        self.assertIn("apt-get install golang-go", tried.stderr)

    def test_without_network_it_says_what_to_do(self):
        shutil.rmtree(os.path.dirname(self.at_home(programs.path_of("etcd"))))
        go = os.path.join(self.home, "go")
        with open(go, "w", encoding="ascii") as script:
            script.write("#!/bin/sh\n[ $1 = version ] && echo go version go1.26.0 && exit\n"
                         "echo 'Get https://proxy: dial tcp: lookup proxy: no such host' >&2; exit 1\n")
        os.chmod(go, 0o755)
        tried = self.call("build", "etcd", path=self.home + ":/usr/bin:/bin")
        self.assertEqual(tried.returncode, 1)
        self.assertIn("GOPROXY", tried.stderr)


if __name__ == "__main__":
    unittest.main()
