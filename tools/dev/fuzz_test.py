"""Tests of fuzz: what a run reports, that a crash is named with its input, and what is kept."""

import argparse
import concurrent.futures
import contextlib
import io
import os
import shutil
import stat
import tempfile
import time
import unittest

import fuzz

LABEL = "//libs/x:parser_fuzz_test"

# Stands for a libFuzzer program: what it does is told by the state that the test writes.
SEARCHES = """#!/bin/sh
echo "#2	INITED cov: 5 ft: 6 corp: 2/9b exec/s: 0 rss: 40Mb" >&2
echo "#70	NEW    cov: 8 ft: 9 corp: 4/12b lim: 4 exec/s: 0 rss: 40Mb L: 3/3 MS: 1 ChangeBit-" >&2
echo "#900	DONE   cov: 8 ft: 9 corp: 4/12b lim: 8 exec/s: 450 rss: 41Mb" >&2
"""
CRASHES = """#!/bin/sh
echo "#2	INITED cov: 5 ft: 6 corp: 2/9b exec/s: 0 rss: 40Mb" >&2
for word in "$@"; do
  case "$word" in -artifact_prefix=*) prefix="${word#*=}" ;; esac
done
echo "Test unit written to ${prefix}slow-unit-00" >&2
echo "SUMMARY: AddressSanitizer: heap-buffer-overflow parser.cc:7 in Parse" >&2
echo "Test unit written to ${prefix}crash-11" >&2
exit 77
"""
# Works until it is told to end, as libFuzzer does.
WORKS = """#!/bin/sh
trap 'exit 0' USR1
echo "#2	INITED cov: 5 ft: 6 corp: 2/9b exec/s: 0 rss: 40Mb" >&2
while :; do :; done
"""
# What Bazel says of one target with one library.
GRAPH = """<?xml version="1.1" encoding="UTF-8" standalone="no"?>
<query version="2">
  <rule class="cc_test" name="//libs/x:parser_fuzz_test">
    <rule-input name="//libs/x:parser"/>
    <rule-input name="//libs/x:parser_fuzz_test.cc"/>
    <rule-input name="//libs/x:corpus/seed"/>
  </rule>
  <rule class="cc_library" name="//libs/x:parser">
    <rule-input name="//libs/x:parser.h"/>
    <rule-input name="@system//:include/zlib.h"/>
  </rule>
  <rule class="cc_library" name="//libs/y:other"><rule-input name="//libs/y:other.cc"/></rule>
  <source-file name="//libs/x:corpus/seed"/>
  <source-file name="//libs/x:parser.h"/>
  <source-file name="//libs/x:parser_fuzz_test.cc"/>
  <source-file name="//libs/y:other.cc"/>
  <source-file name="@system//:include/zlib.h"/>
</query>
"""
# The two last words are where to merge to and from.
MERGES = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
cp "$2"/* "$1"
"""


class FuzzTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.programs = os.path.join(folder.name, "programs")
        self.state = os.path.join(folder.name, "state")
        self.corpus = os.path.join(folder.name, "kept")
        os.makedirs(os.path.join(self.programs, "libs/x"))
        os.makedirs(self.corpus)
        self.put(self.corpus, "seed", b"seed")

    @staticmethod
    def put(folder, name, content):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)

    def program(self, text):
        path = os.path.join(self.programs, "libs/x/parser_fuzz_test")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, stat.S_IRWXU)

    def fuzz(self, *options, beside=()):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = fuzz.main(list(options) + ["--programs", self.programs, "--state", self.state,
                                              LABEL + "=" + self.corpus, *beside])
        return code, out.getvalue()

    def test_a_run_tells_what_it_reached(self):
        self.program(SEARCHES)
        code, out = self.fuzz("--seconds", "1")
        self.assertEqual(code, 0)
        self.assertIn(LABEL + ": 900 runs, coverage 8, 2 new inputs in ", out)
        self.assertTrue(out.endswith("1 passed, 0 failed\n"), out)

    def test_a_crash_names_its_input_and_how_to_see_it_again(self):
        self.program(CRASHES)
        code, out = self.fuzz("--seconds", "1")
        self.assertEqual(code, 1)
        artifact = os.path.join(self.state, "libs/x/parser_fuzz_test/crashes/crash-11")
        self.assertIn("heap-buffer-overflow parser.cc:7 in Parse", out)
        self.assertIn("again: bazel run --config=fuzz %s -- %s\n" % (LABEL, artifact), out)
        self.assertTrue(out.endswith("0 passed, 1 failed\n"), out)

    def test_a_program_that_cannot_run_fails(self):
        self.program("#!/bin/sh\nexit 3\n")
        code, out = self.fuzz("--seconds", "1")
        self.assertEqual(code, 1)
        self.assertIn("it ended with 3", out)

    def grown(self):
        folder = os.path.join(self.state, "libs/x/parser_fuzz_test/corpus")
        os.makedirs(folder)
        return folder

    def test_keep_adds_what_is_small_once(self):
        self.program(MERGES)
        grown = self.grown()
        self.put(grown, "aa", b"new")
        self.put(grown, "bb", b"x" * (fuzz.MOST_KEPT_BYTES + 1))
        code, out = self.fuzz("--keep")
        self.assertEqual(code, 0)
        self.assertIn(LABEL + ": 1 kept before, 1 added\n", out)
        kept = fuzz.kept_files(self.corpus)
        self.assertEqual(len(kept), 2)
        self.assertIn("seed", kept)

    def test_keep_stops_at_its_bound(self):
        self.program(MERGES)
        grown = self.grown()
        for number in range(fuzz.MOST_KEPT + 5):
            self.put(grown, "n%d" % number, b"%d" % number)
        code, out = self.fuzz("--keep")
        self.assertEqual(code, 0)
        self.assertEqual(len(fuzz.kept_files(self.corpus)), fuzz.MOST_KEPT)
        self.assertIn("6 without room", out)

    def test_a_target_is_searched_for_seconds_of_cpu(self):
        self.program(WORKS)
        code, out = self.fuzz("--seconds", "1")
        self.assertEqual(code, 0, out)
        self.assertIn(" s, 1 s of CPU\n", out)

    def sources(self):
        """Goes to a repository with the sources that GRAPH names; gives the ledger's options."""
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        before = os.getcwd()
        os.chdir(root.name)
        self.addCleanup(os.chdir, before)
        os.makedirs("libs/x")
        for name in ("parser.h", "parser_fuzz_test.cc"):
            self.put("libs/x", name, b"1")
        self.put(".", "graph.xml", GRAPH.encode())
        return ("--graph", "graph.xml", "--ledger", "ledger.json")

    def report(self, options):
        code, out = self.fuzz("--report", *options)
        self.assertEqual(code, 0)
        return out

    def test_the_ledger_adds_up_what_was_clean(self):
        options = self.sources()
        self.assertEqual(fuzz.Sources("graph.xml").of(LABEL),
                         ["libs/x/parser.h", "libs/x/parser_fuzz_test.cc"])
        self.assertIn("     0 s %s\n" % LABEL, self.report(options))
        self.program(WORKS)
        for expected in (1, 2):
            self.assertEqual(self.fuzz("--seconds", "1", *options)[0], 0)
            self.assertIn("     %d s %s\n" % (expected, LABEL), self.report(options))
        self.assertIn("0 of 1 targets with 600 s of CPU or more", self.report(options))

    def test_other_sources_begin_again(self):
        options = self.sources()
        ledger = fuzz.Ledger("ledger.json", fuzz.Sources("graph.xml"))
        ledger.add(LABEL, 700.9, True)
        self.assertIn("1 of 1 targets with", self.report(options))
        self.put("libs/x", "parser.h", b"2")
        self.assertIn("     0 s %s\n" % LABEL, self.report(options))
        ledger.add(LABEL, 5, True)
        self.assertIn("     5 s %s\n" % LABEL, self.report(options))

    def test_a_finding_begins_again(self):
        options = self.sources()
        fuzz.Ledger("ledger.json", fuzz.Sources("graph.xml")).add(LABEL, 700, True)
        self.program(CRASHES)
        self.assertEqual(self.fuzz("--seconds", "1", *options)[0], 1)
        self.assertIn("     0 s %s\n" % LABEL, self.report(options))

    def test_what_is_due_is_searched_for_what_it_lacks(self):
        options = self.sources()
        fuzz.Ledger("ledger.json", fuzz.Sources("graph.xml")).add(LABEL, 2, True)
        self.program(WORKS)
        code, out = self.fuzz("--due", "--seconds", "3", *options)
        self.assertEqual(code, 0, out)
        self.assertIn(" s, 1 s of CPU\n", out)
        self.assertIn("     3 s %s\n" % LABEL, self.report(options))
        self.assertEqual(self.fuzz("--due", "--seconds", "3", *options), (0, "0 passed, 0 failed\n"))

    def test_several_at_a_time_are_counted_apart(self):
        self.program(WORKS)
        shutil.copy(os.path.join(self.programs, "libs/x/parser_fuzz_test"),
                    os.path.join(self.programs, "libs/x/other_fuzz_test"))
        other = "//libs/x:other_fuzz_test"
        code, out = self.fuzz("--seconds", "1", "--jobs", "2",
                              beside=[other + "=" + self.corpus])
        self.assertEqual(code, 0, out)
        lines = out.splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines[:2]], [LABEL, other])
        for line in lines[:2]:
            self.assertTrue(line.endswith(" s, 1 s of CPU"), line)
        self.assertEqual(lines[2], "2 passed, 0 failed")

    def test_a_run_that_is_given_up_leaves_nothing_behind(self):
        options = self.sources()
        ledger = fuzz.Ledger("ledger.json", fuzz.Sources("graph.xml"))
        ledger.add(LABEL, 7, True)
        self.program(WORKS)
        target = fuzz.parse_target(LABEL + "=" + self.corpus, self.programs, self.state)
        how = argparse.Namespace(seconds=60, jobs=1, due=False, keep=False)
        processes = fuzz.Processes()
        with concurrent.futures.ThreadPoolExecutor(1) as pool, \
                contextlib.redirect_stderr(io.StringIO()):
            running = pool.submit(fuzz.search, [target], how, ledger, processes)
            while not processes.running and not running.done():
                time.sleep(0.01)
            processes.stop()
            [(line, passed)] = running.result()
        self.assertFalse(passed)
        self.assertIn("it ended with -9", line)
        self.assertFalse(processes.running)
        with self.assertRaises(InterruptedError):
            processes.start(["true"])
        self.assertIn("     7 s %s\n" % LABEL, self.report(options))

    def test_a_report_and_what_is_due_need_a_ledger(self):
        for option in ("--report", "--due"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                self.fuzz(option)

    def test_a_target_without_corpus_is_refused(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            fuzz.main(["--programs", "p", "--state", self.state, LABEL])


if __name__ == "__main__":
    unittest.main()
