"""Tests of what runs: a crash of the tool at any time loses nothing, nobody else's process is ended."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import instances
import plans
import programs

# Serves HTTP on a port, 503 until DELAY seconds are over.
SERVER = """
import http.server, sys, time
start, delay = time.monotonic(), float(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if time.monotonic() - start >= delay else 503)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
# `up` of processes, as a process of its own that a test can kill.
UP = """
import json, sys
sys.path.insert(0, sys.argv[1])
import instances, plans
instances.RUN, instances.LOCKS = sys.argv[2], sys.argv[2] + "/.locks"
instances.up(sys.argv[3], lambda folder: (plans.plan("fake", "1", json.loads(sys.argv[4]), {}), []))
"""


class InstancesTest(unittest.TestCase):

    def setUp(self):
        self.run_folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.kept = instances.RUN, instances.LOCKS
        instances.RUN, instances.LOCKS = self.run_folder, os.path.join(self.run_folder, ".locks")

    def tearDown(self):
        for name in instances.names():
            instances.down(name)
        instances.RUN, instances.LOCKS = self.kept
        shutil.rmtree(self.run_folder)

    def server(self, name, delay=0.0, stage=0):
        (port,), held = instances.take_ports(1)
        self.addCleanup(held[0].close)
        return plans.process(name, [sys.executable, "-c", SERVER, str(port), str(delay)],
                             [{"http": "http://127.0.0.1:%d/" % port}], stage=stage)

    def up(self, name, processes, seconds=30):
        plan = plans.plan("fake", "1", processes, {}, ready_seconds=seconds)
        return instances.up(name, lambda _: (plan, []))

    def up_elsewhere(self, name, processes):
        return subprocess.Popen([sys.executable, "-B", "-c", UP, programs.HERE, self.run_folder, name,
                                 json.dumps(processes)], stderr=subprocess.PIPE, text=True)

    def await_processes(self, name, count):
        deadline = time.monotonic() + 30
        while len(instances.processes(os.path.join(self.run_folder, name))) < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return instances.processes(os.path.join(self.run_folder, name))

    def test_up_returns_when_all_answer_and_stages_follow_each_other(self):
        first, second = self.server("first", 0.3), self.server("second", stage=1)
        found = self.up("one", [first, second])
        self.assertTrue(found["ready"])
        self.assertEqual({one["name"] for one in found["processes"]}, {"first", "second"})
        for one in (first, second):
            with urllib.request.urlopen(one["ready"][0]["http"]) as answer:
                self.assertEqual(answer.status, 200)
        begun = {one["name"]: int(one["start_time"]) for one in found["processes"]}
        # In ticks of 10 ms.
        self.assertGreaterEqual(begun["second"] - begun["first"], 25)

    def test_what_a_killed_up_left_is_found_and_ended(self):
        killed = self.up_elsewhere("one", [self.server("never", 1000)])
        running = self.await_processes("one", 1)
        killed.kill()
        killed.communicate()
        self.assertEqual(self.await_processes("one", 1), running)
        self.assertFalse(instances.describe("one")["ready"])
        instances.down("one")
        self.assertEqual([pid for pid in running if instances.start_time(pid)], [])
        self.assertEqual(instances.names(), [])

    def test_an_up_killed_at_any_moment_leaves_nothing_that_down_does_not_find(self):
        for delay in range(0, 300, 30):
            processes = [self.server("p%d" % i, 1000) for i in range(3)]
            killed = self.up_elsewhere("one", processes)
            time.sleep(delay / 1000)
            killed.kill()
            killed.communicate()
            instances.down("one")
            ports = [one["command"][3] for one in processes]
            left = [pid for pid in os.listdir("/proc") if pid.isdigit() and self.runs(pid, ports)]
            self.assertEqual(left, [], "killed after %d ms" % delay)

    def runs(self, pid, ports):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            return False
        return SERVER in words and any(port in words for port in ports)

    def test_down_waits_for_an_up_and_ends_what_it_started(self):
        starting = self.up_elsewhere("one", [self.server("slow", 0.5)])
        running = self.await_processes("one", 1)
        instances.down("one")
        starting.communicate()
        self.assertEqual(starting.returncode, 0)
        self.assertEqual([pid for pid in running if instances.start_time(pid)], [])

    def test_a_server_that_ends_is_told_with_its_log(self):
        process = plans.process("bad", ["/bin/sh", "-c", "echo no such flag; exit 1"],
                                [{"http": "http://127.0.0.1:1/"}])
        with self.assertRaises(SystemExit) as raised:
            self.up("one", [self.server("good"), process])
        self.assertIn("bad ended", str(raised.exception))
        self.assertIn("no such flag", str(raised.exception))
        self.assertEqual(instances.processes(os.path.join(self.run_folder, "one")), {})

    def test_a_server_that_never_answers_is_given_up(self):
        with self.assertRaises(SystemExit) as raised:
            self.up("one", [self.server("slow", 1000)], seconds=0.3)
        self.assertIn("does not answer", str(raised.exception))

    def test_a_second_up_of_a_name_is_refused(self):
        self.up("one", [self.server("server")])
        with self.assertRaises(SystemExit):
            self.up("one", [self.server("server")])
        self.assertEqual(len(self.await_processes("one", 1)), 1)

    def test_pids_of_others_are_not_ended(self):
        self.up("one", [self.server("server")])
        mine, began, boot = os.getpid(), instances.start_time(os.getpid()), instances.boot_id()
        with open(os.path.join(self.run_folder, "one", "pids"), "a", encoding="ascii") as pids:
            pids.write("%d 12345 %s reused\n" % (mine, boot))  # another start time
            pids.write("%d %s another-boot rebooted\n" % (mine, began))
            pids.write("nonsense\n%d" % mine)
        self.assertNotIn(mine, instances.processes(os.path.join(self.run_folder, "one")))
        instances.down("one")  # would end this test

    def test_down_ends_stopped_processes(self):
        (process,) = self.up("one", [self.server("server")])["processes"]
        os.kill(process["pid"], signal.SIGSTOP)
        instances.down("one")
        self.assertIsNone(instances.start_time(process["pid"]))

    def test_secrets_are_the_owners_alone(self):
        process = self.server("server")
        process["environment"] = {"SECRET": "s"}
        self.up("one", [process])
        folder = os.path.join(self.run_folder, "one")
        self.assertEqual(os.stat(folder).st_mode & 0o077, 0)
        self.assertEqual(os.stat(os.path.join(folder, "instance.json")).st_mode & 0o077, 0)

    def test_ports_taken_are_not_given_to_another(self):
        first, held = instances.take_ports(5)
        second, others = instances.take_ports(5)
        self.assertEqual(len(set(first + second)), 10)
        for one in held + others:
            one.close()


if __name__ == "__main__":
    unittest.main()
