#!/usr/bin/env python3
"""Runs fuzz targets, as `./dev fuzz` does, or keeps what they have found.

usage: fuzz.py [--seconds N] [--jobs N] [--due] [--keep | --report] --programs FOLDER
               --state FOLDER [--graph FILE --ledger FILE] [LABEL=CORPUS ...]

FOLDER of programs is Bazel's bin folder, built with --config=fuzz; CORPUS the folder with the
target's kept inputs, relative to the repository's root, where this is run. In the state folder each
target has a folder of its own:

  corpus/   the inputs that reach something new, from which the next run goes on
  crashes/  the inputs that ended a run
  log       what libFuzzer printed in the last run

A target is searched for N seconds of CPU, of all its threads together; one after the other, or
--jobs at a time. With --due a target is searched only for what it lacks of N seconds by the ledger,
if anything. A run says on stderr how it goes, and on stdout at the end one line a target and a
count of both kinds. It ends with 1 if a target failed. With --keep nothing is searched: those inputs of `corpus/` that reach code which the
kept ones do not are added to them, small ones first.

The ledger says for each target for how many CPU seconds it was searched without a finding, and on
which sources: those that GRAPH, the answer of `bazel query --output=xml deps(...)`, gives as its
own and its dependencies', by their hash. Other sources begin again from 0, and so does a target
that failed. --report searches nothing and prints that, least first.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

# Of one target. An input that needs more than that is itself a finding.
MEMORY_MB = 2048
SECONDS_PER_INPUT = 10
# A kept corpus is read by people and run with every test run.
MOST_KEPT = 60
MOST_KEPT_BYTES = 4096
PROGRESS_EVERY_S = 30
# Of CPU, for each target, before what it reads counts as searched.
GOAL_S = 600
# On a machine that is shared; only a target that waits instead of working needs the bound.
MOST_WALL_PER_CPU = 60
LOOK_EVERY_S = 0.2
HASHED = (".cc", ".h", ".proto")

STATUS = re.compile(r"^#(\d+)\s+(\S+)\s+cov: (\d+) ft: \d+ corp: (\d+)/")
ARTIFACT = re.compile(r"Test unit written to (\S+)")
SUMMARY = re.compile(r"SUMMARY: (.*)")


class Progress:
    """What libFuzzer's output has said so far."""

    def __init__(self):
        self.runs = 0
        self.coverage = 0
        self.first_inputs = None  # after reading the corpus
        self.inputs = 0
        self.artifact = ""
        self.summary = ""

    def take(self, line):
        match = STATUS.match(line)
        if match:
            self.runs = int(match.group(1))
            self.coverage = int(match.group(3))
            self.inputs = int(match.group(4))
            if match.group(2) == "INITED":
                self.first_inputs = self.inputs
        match = ARTIFACT.search(line)
        # Of a slow unit the fuzzer only tells; the run goes on.
        if match and "slow-unit-" not in match.group(1):
            self.artifact = match.group(1)
        match = SUMMARY.search(line)
        if match:
            self.summary = match.group(1)

    def new_inputs(self):
        return 0 if self.first_inputs is None else max(0, self.inputs - self.first_inputs)

    def text(self):
        return "%d runs, coverage %d, %d new inputs" % (
            self.runs, self.coverage, self.new_inputs())


class Target:

    def __init__(self, label, corpus, programs, state):
        self.label = label
        self.corpus = corpus
        path = label[2:].replace(":", "/")
        self.program = os.path.join(programs, path)
        self.state = os.path.join(state, path)
        self.grown = os.path.join(self.state, "corpus")
        self.crashes = os.path.join(self.state, "crashes")
        os.makedirs(self.grown, exist_ok=True)
        os.makedirs(self.crashes, exist_ok=True)


def parse_target(text, programs, state):
    label, separator, corpus = text.partition("=")
    if not separator or not label.startswith("//") or ":" not in label or not corpus:
        raise ValueError("a target is //folder:name=corpus folder, not %r" % text)
    return Target(label, corpus, programs, state)


def bounds():
    return ["-rss_limit_mb=%d" % MEMORY_MB, "-timeout=%d" % SECONDS_PER_INPUT]


def cpu_seconds_of(pid):
    """Of a process that runs, all its threads together; 0 if it has ended."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            # The name may hold anything, also `) `.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_after(pid, seconds, ended):
    """Tells libFuzzer to end, after the input in hand, once it has used so much CPU."""
    while not ended.wait(LOOK_EVERY_S):
        if cpu_seconds_of(pid) >= seconds:
            os.kill(pid, signal.SIGUSR1)
            return


class Processes:
    """Those that run, to be ended together. Once they were, none is started any more."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False

    def start(self, command):
        with self.lock:
            if self.stopped:
                raise InterruptedError("stopped")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       encoding="utf-8", errors="replace",
                                       # Ctrl-C is for whoever started it, to end it by.
                                       process_group=0)
            self.running.add(process)
            return process

    def reap(self, process):
        """One that has ended; its exit code and the CPU seconds that it used."""
        with self.lock:
            self.running.discard(process)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        return process.returncode, usage.ru_utime + usage.ru_stime

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                os.kill(process.pid, signal.SIGKILL)


def run(target, seconds, processes):
    """Searches for so many of CPU; returns the target's line, whether it passed, and CPU seconds."""
    progress = Progress()
    command = [target.program, "-max_total_time=%d" % (seconds * MOST_WALL_PER_CPU),
               "-artifact_prefix=%s/" % target.crashes] + bounds() + [target.grown, target.corpus]
    began = told = time.monotonic()
    with open(os.path.join(target.state, "log"), "w", encoding="utf-8") as log:
        process = processes.start(command)
        ended = threading.Event()
        watcher = threading.Thread(target=end_after, args=(process.pid, seconds, ended))
        watcher.start()
        for line in process.stderr:
            log.write(line)
            progress.take(line)
            now = time.monotonic()
            if now - told >= PROGRESS_EVERY_S:
                told = now
                print("fuzz: %s %d of %d s of CPU: %s" % (
                    target.label, cpu_seconds_of(process.pid), seconds, progress.text()),
                    file=sys.stderr, flush=True)
        # It keeps its number until nobody sends it a signal any more.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ended.set()
        watcher.join()
        code, used = processes.reap(process)
    text = "%s in %d s, %d s of CPU" % (progress.text(), time.monotonic() - began, used)
    if code == 0:
        return "%s: %s" % (target.label, text), True, used
    why = progress.summary or "it ended with %d" % code
    if progress.artifact:
        why += "; the input is %s; again: bazel run --config=fuzz %s -- %s" % (
            progress.artifact, target.label, progress.artifact)
    else:
        why += "; see %s" % os.path.join(target.state, "log")
    return "%s: FAILED after %s: %s" % (target.label, text, why), False, used


def kept_files(folder):
    return sorted(name for name in os.listdir(folder)
                  if os.path.isfile(os.path.join(folder, name)))


def keep(target):
    """Adds to the kept corpus; returns the target's line, and whether it passed."""
    with tempfile.TemporaryDirectory() as work:
        # libFuzzer goes by size, so that the small ones are asked first; what is too large for the
        # repository is not asked.
        small = os.path.join(work, "small")
        merged = os.path.join(work, "merged")
        os.makedirs(small)
        for name in os.listdir(target.grown):
            path = os.path.join(target.grown, name)
            if os.path.getsize(path) <= MOST_KEPT_BYTES:
                shutil.copyfile(path, os.path.join(small, name))
        os.makedirs(merged)
        before = kept_files(target.corpus)
        for name in before:
            shutil.copyfile(os.path.join(target.corpus, name), os.path.join(merged, name))
        # By edges alone: how often each is passed makes many inputs that look alike.
        result = subprocess.run(
            [target.program, "-merge=1", "-use_counters=0",
             "-artifact_prefix=%s/" % target.crashes] + bounds() + [merged, small],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            encoding="utf-8", errors="replace", check=False)
        if result.returncode != 0:
            return "%s: FAILED: %s" % (target.label, result.stderr[-500:]), False
        found = [os.path.join(merged, name) for name in kept_files(merged) if name not in before]
        found.sort(key=lambda path: (os.path.getsize(path), path))
        room = max(0, MOST_KEPT - len(before))
        for path in found[:room]:
            with open(path, "rb") as file:
                name = "found_" + hashlib.sha256(file.read()).hexdigest()[:12]
            shutil.copyfile(path, os.path.join(target.corpus, name))
        left_out = len(found) - min(room, len(found))
        return "%s: %d kept before, %d added%s" % (
            target.label, len(before), min(room, len(found)),
            ", %d without room" % left_out if left_out else ""), True


class Sources:
    """What each target is made of, as Bazel's query says."""

    def __init__(self, graph):
        self.inputs = {}
        self.files = set()
        for element in xml.etree.ElementTree.parse(graph).getroot():
            name = element.get("name")
            if element.tag == "rule":
                self.inputs[name] = [one.get("name") for one in element.findall("rule-input")]
            elif element.tag == "source-file" and name.endswith(HASHED):
                self.files.add(name)

    def of(self, label):
        """Files of the repository, sorted."""
        seen = set()
        waiting = [label]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            waiting.extend(self.inputs.get(name, []))
        return sorted(name[2:].replace(":", "/") for name in seen & self.files
                      if name.startswith("//"))

    def hash(self, label):
        files = self.of(label)
        if not files:
            raise ValueError("no sources of %s in the graph" % label)
        total = hashlib.sha256()
        for path in files:
            with open(path, "rb") as file:
                content = hashlib.sha256(file.read()).hexdigest()
            total.update(("%s %s\n" % (path, content)).encode())
        return total.hexdigest()[:16]


class Ledger:
    """For how long each target was searched without a finding, on which sources. Thread-safe."""

    def __init__(self, path, sources):
        self.lock = threading.Lock()
        self.path = path
        self.sources = sources
        self.targets = self.read()

    def read(self):
        if not os.path.exists(self.path):
            return {}
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)["targets"]

    def clean_seconds(self, label):
        entry = self.targets.get(label)
        if entry is None or entry["sources"] != self.sources.hash(label):
            return 0
        return entry["clean_cpu_seconds"]

    def add(self, label, seconds, passed):
        with self.lock:
            # Read again: another run may have written since.
            self.targets = self.read()
            clean = self.clean_seconds(label) + int(seconds) if passed else 0
            self.targets[label] = {"sources": self.sources.hash(label), "clean_cpu_seconds": clean}
            text = json.dumps({"targets": self.targets}, indent=1, sort_keys=True) + "\n"
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(self.path + ".new", self.path)

    def report(self, labels):
        lines = sorted((self.clean_seconds(label), label) for label in labels)
        text = ["%6d s %s" % line for line in lines]
        reached = sum(1 for seconds, _ in lines if seconds >= GOAL_S)
        text.append("%d of %d targets with %d s of CPU or more, on these sources, without a finding"
                    % (reached, len(lines), GOAL_S))
        return text


def search(targets, options, ledger, processes):
    """Of each target its line and whether it passed, in order."""
    numbers = iter(range(1, len(targets) + 1))

    def one(target):
        print("fuzz: %s (%d of %d)" % (target.label, next(numbers), len(targets)),
              file=sys.stderr, flush=True)
        if options.keep:
            return keep(target)
        seconds = options.seconds
        if options.due:
            seconds -= ledger.clean_seconds(target.label)
        line, passed, used = run(target, seconds, processes)
        # What was given up says nothing.
        if ledger is not None and not processes.stopped:
            ledger.add(target.label, used, passed)
        return line, passed

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        try:
            return list(pool.map(one, targets))
        except BaseException:
            processes.stop()
            pool.shutdown(cancel_futures=True)
            raise


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=GOAL_S)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--due", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--graph")
    parser.add_argument("--ledger")
    parser.add_argument("--programs", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("targets", nargs="+")
    options = parser.parse_args(arguments)
    if options.seconds < 1:
        parser.error("--seconds must be at least 1")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    if bool(options.graph) != bool(options.ledger):
        parser.error("--graph and --ledger go together")
    if (options.report or options.due) and not options.ledger:
        parser.error("--report and --due need --graph and --ledger")
    if options.keep and options.due:
        parser.error("--keep searches nothing, so nothing is --due")
    ledger = Ledger(options.ledger, Sources(options.graph)) if options.ledger else None
    try:
        targets = [parse_target(text, options.programs, options.state)
                   for text in options.targets]
    except ValueError as error:
        parser.error(str(error))
    if options.report:
        print("\n".join(ledger.report([target.label for target in targets])))
        return 0
    if options.due:
        targets = [target for target in targets
                   if ledger.clean_seconds(target.label) < options.seconds]
    # However it is ended, what it has started ends first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ends = search(targets, options, ledger, Processes())
    failed = sum(1 for _, passed in ends if not passed)
    for line, _ in ends:
        print(line)
    print("%d passed, %d failed" % (len(ends) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("fuzz: given up; what was not searched to its end does not count", file=sys.stderr)
        sys.exit(130)
