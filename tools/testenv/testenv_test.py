"""Tests of testenv: real servers side by side, down after a crash, and what it says when Go is missing."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import testenv

TOOL = os.path.join(testenv.HERE, "testenv.py")


class TestenvTest(unittest.TestCase):

    def setUp(self):
        self.home = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        binary = testenv.binary_path("etcd").replace(testenv.HOME, self.home, 1)
        os.makedirs(os.path.dirname(binary))
        # Bazel starts tests at the root of their runfiles.
        shutil.copy("tools/testenv/bin/etcd", binary)

    def tearDown(self):
        self.call("down")
        shutil.rmtree(self.home)

    def call(self, *arguments, path="/usr/bin:/bin"):
        return subprocess.run([sys.executable, "-B", TOOL, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={"HOME": self.home, "PATH": path})

    def up(self, *arguments):
        started = self.call("up", "etcd", *arguments)
        self.assertEqual(started.returncode, 0, started.stderr)
        return started.stdout.strip().split(",")

    def pids(self, name):
        return testenv.processes(os.path.join(self.home, ".cache/capstan/testenv/run", name))

    def test_servers_run_side_by_side_and_are_ready(self):
        one = self.up()
        three = self.up("--members", "3", "--name", "three")
        self.assertEqual((len(one), len(three)), (1, 3))
        for url in one + three:
            with urllib.request.urlopen(url + "/health") as health:
                self.assertIn(b"true", health.read())
        status = self.call("status").stdout
        self.assertIn("1 running  " + one[0], status)
        self.assertIn("3 running  " + ",".join(three), status)
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
        self.assertEqual([pid for pid in pids if testenv.start_time(pid)], [])
        self.assertEqual(self.call("status").stdout, "")
        self.assertIn("there is no", self.call("down", "etcd").stderr)

    def test_a_reused_pid_is_not_killed(self):
        self.up()
        folder = os.path.join(self.home, ".cache/capstan/testenv/run/etcd")
        with open(os.path.join(folder, "pids"), "a", encoding="ascii") as pids:
            pids.write("%d 12345 m9\n" % os.getpid())
        self.assertNotIn(os.getpid(), self.pids("etcd"))

    def test_kubernetes_says_its_version_and_lies_in_one_folder(self):
        folders = {os.path.dirname(testenv.binary_path(one)) for one in testenv.KUBERNETES}
        self.assertEqual(len(folders), 1)
        name = os.path.basename(folders.pop())
        self.assertRegex(name, r"^kubernetes-1\.\d+\.\d+-[0-9a-f]{12}$")
        flags = testenv.linker_flags("kube-apiserver", "1.36.3")
        for stamp in ("gitVersion=v1.36.3", "gitMajor=1 ", "gitMinor=36 "):
            self.assertIn("-X k8s.io/component-base/version." + stamp, flags)
        self.assertEqual(testenv.linker_flags("etcd", "3.6.8"), "-s -w")

    def test_kubernetes_has_no_single_program_to_copy(self):
        tried = self.call("build", "kubernetes", "--output", "somewhere")
        self.assertEqual(tried.returncode, 1)
        self.assertIn("kube-apiserver", tried.stderr)

    def test_kubernetes_has_one_of_each_part(self):
        tried = self.call("up", "kubernetes", "--members", "3")
        self.assertEqual(tried.returncode, 1)
        self.assertIn("--members", tried.stderr)

    def test_without_go_it_says_what_to_do(self):
        shutil.rmtree(os.path.dirname(testenv.binary_path("etcd").replace(testenv.HOME, self.home, 1)))
        code = "import testenv; testenv.GO_PLACES = (); testenv.build('etcd')"
        tried = subprocess.run([sys.executable, "-B", "-c", code], text=True, cwd=testenv.HERE,
                               stderr=subprocess.PIPE, env={"HOME": self.home, "PATH": "/nowhere"})
        self.assertEqual(tried.returncode, 1)
        self.assertIn("apt-get install golang-go", tried.stderr)

    def test_without_network_it_says_what_to_do(self):
        shutil.rmtree(os.path.dirname(testenv.binary_path("etcd").replace(testenv.HOME, self.home, 1)))
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
