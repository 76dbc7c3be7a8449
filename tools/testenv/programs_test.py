"""Tests of how programs are got: once, whole or not at all, and with a remedy for what is missing."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import programs

# Fake tools, by name. Each appends its command line to $HOME/calls.
JAVA = 'echo \'openjdk version "17.0.1"\' >&2'
NODE = "echo v20.1.0"
MAVEN = """
for word; do case $word in -DoutputDirectory=*) out=${word#*=};; esac; done
echo "Downloading from central"; [ "${SLOW:-0}" != 1000 ] || exec sleep 1000; sleep ${SLOW:-0}
mkdir -p "$out"; printf one >"$out/one.jar"; printf two >"$out/two.jar"
"""
NPM = "mkdir node_modules; touch node_modules/azurite"


class ProgramsTest(unittest.TestCase):

    def setUp(self):
        self.home = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.tools = os.path.join(self.home, "tools")
        self.here = os.path.join(self.home, "here")
        os.makedirs(self.tools)
        # Files that pin what the fake Maven brings, instead of the real ones.
        shutil.copytree(programs.HERE, self.here, symlinks=False,
                        ignore=shutil.ignore_patterns("bin", "homes", "*.cc", "*.h"))
        self.pin("one", "two")
        for name, script in (("java", JAVA), ("node", NODE), ("mvn", MAVEN), ("npm", NPM)):
            self.tool(name, script)

    def tearDown(self):
        shutil.rmtree(self.home)

    def tool(self, name, script):
        path = os.path.join(self.tools, name)
        with open(path, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\necho "%s $*" >>"$HOME/calls"\n%s\n' % (name, script))
        os.chmod(path, 0o755)

    def pin(self, *contents):
        path = os.path.join(self.here, "kafka", "sha256sums")
        os.chmod(os.path.dirname(path), 0o755)
        if os.path.exists(path):
            os.remove(path)
        with open(path, "w", encoding="ascii") as file:
            for one in contents:
                file.write("%s  %s.jar\n" % (hashlib.sha256(one.encode()).hexdigest(), one))

    def start(self, name, path="/usr/bin:/bin", **environment):
        # Only the tools of this test, so that the machine's own do not matter.
        return subprocess.Popen(
            [sys.executable, "-B", os.path.join(self.here, "testenv.py"), "build", name], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"HOME": self.home, "PATH": self.tools + ":" + path, **environment})

    def build(self, name, **environment):
        process = self.start(name, **environment)
        said = process.communicate()
        return process.returncode, said[0].strip(), said[1]

    def calls(self, name):
        try:
            with open(os.path.join(self.home, "calls"), encoding="ascii") as file:
                return [line for line in file if line.startswith(name + " ")]
        except OSError:
            return []

    def test_kafka_is_fetched_once_and_kept_by_version(self):
        code, path, said = self.build("kafka")
        self.assertEqual(code, 0, said)
        self.assertRegex(os.path.basename(path), r"^kafka-4\.3\.0-[0-9a-f]{12}$")
        self.assertEqual(sorted(os.listdir(os.path.join(path, "libs"))), ["one.jar", "two.jar"])
        self.assertEqual(self.build("kafka")[1], path)
        self.assertEqual(len(self.calls("mvn")), 1)

    def test_callers_at_once_fetch_once(self):
        first = [self.start("kafka", SLOW="1") for _ in range(3)]
        paths = {one.communicate()[0] for one in first}
        self.assertEqual([one.returncode for one in first], [0, 0, 0])
        self.assertEqual(len(paths), 1)
        self.assertEqual(len(self.calls("mvn")), 1)

    def test_a_killed_fetch_leaves_nothing_that_counts(self):
        killed = self.start("kafka", SLOW="1000")
        while not self.calls("mvn"):
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        code, path, said = self.build("kafka")
        self.assertEqual(code, 0, said)
        self.assertEqual(sorted(os.listdir(os.path.join(path, "libs"))), ["one.jar", "two.jar"])

    def test_another_file_than_the_pinned_one_is_refused(self):
        self.pin("one", "other")
        code, _, said = self.build("kafka")
        self.assertEqual(code, 1)
        self.assertIn("other.jar, two.jar are not the files", said)
        cache = os.path.join(self.home, ".cache/capstan/testenv")
        self.assertEqual([one for one in os.listdir(cache) if one.startswith("kafka-") and
                          not one.endswith(".new")], [])

    def test_azurite_is_installed_from_its_lock_without_scripts(self):
        code, path, said = self.build("azurite")
        self.assertEqual(code, 0, said)
        self.assertTrue(os.path.exists(os.path.join(path, "node_modules", "azurite")))
        self.assertIn("ci --ignore-scripts", self.calls("npm")[0])

    def test_every_package_of_azurite_is_pinned_by_its_hash(self):
        with open(os.path.join(programs.HERE, "azurite", "package-lock.json"), encoding="utf-8") as file:
            packages = json.load(file)["packages"]
        self.assertEqual([name for name in packages if name and "integrity" not in packages[name]], [])

    def test_what_is_missing_or_too_old_is_told_with_its_remedy(self):
        self.tool("java", "echo 'openjdk version \"11.0.2\"' >&2")
        self.tool("node", "echo v16.0.0")
        for name, remedy in (("kafka", "apt-get install openjdk-17-jre-headless"),
                             ("azurite", "apt-get install nodejs")):
            code, _, said = self.build(name)
            self.assertEqual(code, 1)
            self.assertIn(remedy, said)
            self.assertIn("./dev setup", said)
        self.assertEqual(self.calls("mvn") + self.calls("npm"), [])

    def test_without_network_it_says_what_to_do(self):
        self.tool("mvn", "echo 'Could not transfer artifact a:b:1'; exit 1")
        self.tool("npm", "echo 'npm error code ENOTFOUND'; exit 1")
        self.assertIn("settings.xml", self.build("kafka")[2])
        self.assertIn("npm config set registry", self.build("azurite")[2])

    def test_other_failures_show_what_the_tool_said(self):
        self.tool("mvn", "echo 'a strange error'; exit 1")
        code, _, said = self.build("kafka")
        self.assertEqual(code, 1)
        self.assertIn("a strange error", said)

    def test_every_program_has_a_place_of_its_version(self):
        paths = [programs.path_of(name) for name in programs.NAMES]
        self.assertEqual(len(set(paths)), len(paths))
        for name, version in (("versitygw", "1.8.0"), ("fake_gcs_server", "1.56.1"), ("azurite", "3.35.0"),
                              ("kubernetes", "1.36.3")):
            self.assertIn("/%s-%s-" % (name, version), programs.path_of(name))


if __name__ == "__main__":
    unittest.main()
