#!/usr/bin/env python3
"""Finds calls that this repository keeps to a few files, and says which rule each one breaks.

usage: forbidden_calls.py [--allow FILE] [PATH...]

Without paths it reads every file that git knows or would add. allow.textproto lists the exceptions: a
rule, a path (a file, or a folder ending in /), a reason, and where it is meant to go away a date.
An entry that no longer excuses anything is an error, so the list only holds what is true.
"""

import argparse
import datetime
import fnmatch
import re
import subprocess
import sys

CODE = ("*.cc", "*.h")

# name, files, pattern, what to do instead. Patterns see code without comments and string contents,
# unless the name is in RAW.
RULES = [
    ("real-time", CODE,
     r"\babsl::Now\b|\bGetCurrentTimeNanos\b|_clock::now\b|\btime\((nullptr|NULL|0)\)"
     r"|\bgettimeofday\(|\bclock_gettime\(",
     "take the time from a Clock (libs/time)"),
    ("thread", CODE,
     r"\bstd::j?thread\b(?!::(id|hardware_concurrency))|\bstd::async\b|\bpthread_create\b",
     "run on a strand (libs/strand)"),
    ("sleep", CODE,
     r"\bSleepFor\(|\bsleep_(for|until)\b|\b(u|nano)?sleep\(|\bclock_nanosleep\(",
     "use a timer of the strand, or simulated time in tests"),
    ("random", CODE,
     r"\bs?rand\(|\brand_r\(|\bstd::(random_device|mt19937(_64)?|default_random_engine)\b"
     r"|\babsl::(Insecure)?BitGen\b",
     "take an absl::BitGenRef as an argument (libs/random)"),
    ("environment", CODE,
     # The TEST_ variables are Bazel's way of telling a test where it may write.
     r"\b(secure_)?getenv\((?!\"TEST_)|\b(un)?setenv\(|\bputenv\(|\bextern char\s*\*\*\s*environ\b",
     "read configuration in main and pass it on"),
    ("regex", CODE,
     r"\bstd::(basic_)?w?regex\b|#\s*include\s*<regex>",
     "std::regex recurses on its input; match by hand or with RE2"),
    ("throw", CODE,
     r"\bthrow\b",
     "return absl::Status"),
    ("stdout", CODE,
     r"\bstd::(cout|cerr|clog)\b",
     "log through libs/log; only programs for people print"),
    ("json", CODE,
     r"#\s*include\s*[<\"](nlohmann|simdjson|boost/json)",
     "parse JSON in an adapter, into a proto message"),
    ("static-object", CODE,
     r"^(?:(?:static|inline|const|thread_local)\s+)*(?:static|inline|const|thread_local)\s+"
     r"(?:std::(?:string|vector|(?:unordered_)?(?:multi)?(?:map|set)|deque|list|function|regex"
     r"|unique_ptr|shared_ptr)|absl::(?:flat|node)_hash_(?:map|set)|absl::btree_(?:map|set)"
     r"|absl::Mutex)\b(?:<[^;(){}]*>)?\s+(?:\w+\s*[;={]|k[A-Z]\w*\s*\()"
     r"|^\s+static\s+(?:const\s+)?(?:std::(?:string|vector|(?:unordered_)?(?:multi)?(?:map|set)"
     r"|function|unique_ptr|shared_ptr)|absl::(?:flat|node)_hash_(?:map|set))\b"
     r"(?:<[^;(){}]*>)?\s+\w+\s*[;={]",
     "a global with a constructor or destructor runs in no fixed order: use constexpr, an array, or "
     "a function-local `static const auto& x = *new T`"),
    ("string-view", ("*.h",),
     r"\bstd::string_view\b",
     "absl::string_view in headers: Debian's abseil does not convert between the two"),
    ("bare-unit", CODE + ("*.proto",),
     # Not cpu_millis: thousandths of a core are no time.
     r"\b(?:u?int(?:8|16|32|64)?(?:_t)?|long|unsigned|size_t|double|float)\s+(?!cpu_millis)"
     r"\w+_(?:ms|msecs?|millis|milliseconds|us|usecs?|micros|ns|nanos|secs?|seconds|mins|minutes)_?"
     r"\s*(?:[;=,){]|$)",
     "absl::Duration or absl::Time (google.protobuf.Duration or Timestamp in protos)"),
    ("todo", ("*",),
     r"\bTODO\b(?!\(#\d+\): )",
     "write TODO(#issue): what is to be done"),
    ("disabled-test", CODE,
     r"^\s*//\s*(TYPED_)?TEST(_F|_P|_SUITE)?\(|\bDISABLED_\w",
     "fix the test or delete it"),
    ("glob", ("BUILD",),
     r"\bglob\((?!\[\"[^\"]*(testdata|corpus)[^\"]*\"\])",
     "name the files; only testdata and corpus folders may be globbed"),
    ("native-cc-rule", ("BUILD",),
     r"^\s*cc_(library|test|binary)\(",
     "use the capstan_cc_… macros of //tools/build_defs:capstan.bzl"),
    ("core-purity", ("services/*/core/*.cc", "services/*/core/*.h", "libs/mig/*.cc", "libs/mig/*.h"),
     r"#\s*include\s*[<\"](grpc|mutex|thread|condition_variable|atomic|future|shared_mutex"
     r"|iostream|fstream|filesystem|chrono|unistd\.h|sys/|spdlog|sqlite3|curl/|librdkafka"
     r"|absl/synchronization|absl/time/clock\.h|absl/log|libs/log|libs/strand|libs/grpc)"
     r"|\.grpc\.pb\.h|\bClock\s*[*&]|\bStore\s*[*&]",
     "a core takes values and returns decisions: no gRPC, threads, clocks, I/O or logging"),
]

# Rules that look at comments too.
RAW = {"todo", "disabled-test"}

# Where a rule cannot apply by its nature; everything else is an entry of the allow-list.
EXEMPT = {
    # A test of what is shared between threads needs some.
    "thread": ("*_test.cc",),
    # A program of one file has no order to get wrong.
    "static-object": ("*_test.cc",),
    "json": ("services/*/adapters/*", "*_test.cc", "*/testing/*"),
    "native-cc-rule": ("third_party/*",),
    "todo": ("tools/lint/*",),
    "glob": ("third_party/*",),
}


def strip_code(text):
    """Blanks out comments and the contents of literals; keeps every line and column in place."""
    pattern = re.compile(
        r'R"(?P<delimiter>[^(\s]*)\((?:.|\n)*?\)(?P=delimiter)"'
        r"|//[^\n]*"
        r"|/\*(?:.|\n)*?\*/"
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'")

    def blank(match):
        found = match.group(0)
        # What an include or getenv names is what the rules ask about.
        before = text[max(0, match.start() - 40):match.start()]
        if found[0] == '"' and re.search(r"(#\s*include\s*|getenv\()$", before):
            return found
        return re.sub(r"[^\n]", " ", found)

    return pattern.sub(blank, text)


def matches(path, patterns):
    name = path.rpartition("/")[2]
    return any(fnmatch.fnmatch(path if "/" in pattern else name, pattern) for pattern in patterns)


def check_text(path, text):
    """Yields (line number, rule, advice) for each finding."""
    code = strip_code(text) if matches(path, CODE) else text
    for name, files, pattern, advice in RULES:
        if not matches(path, files) or matches(path, EXEMPT.get(name, ())):
            continue
        source = text if name in RAW else code
        for match in re.finditer(pattern, source, re.MULTILINE):
            # A pattern may begin with white space that reaches back over line ends.
            start = match.start() + len(match.group(0)) - len(match.group(0).lstrip())
            yield source.count("\n", 0, start) + 1, name, advice


class Allow:
    """One entry of the allow-list."""

    def __init__(self, fields, line):
        self.rule = fields.get("rule", "")
        self.path = fields.get("path", "")
        self.reason = fields.get("reason", "")
        self.expires = fields.get("expires", "")
        self.line = line
        self.used = False

    def excuses(self, path, rule):
        if rule != self.rule:
            return False
        return path.startswith(self.path) if self.path.endswith("/") else path == self.path


def parse_allow(text, today):
    """Returns (entries, errors) of an allow-list."""
    entries = []
    errors = []
    plain = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    known = {rule[0] for rule in RULES}
    last = 0
    for match in re.finditer(r"allow\s*\{([^}]*)\}", plain):
        line = plain.count("\n", 0, match.start()) + 1
        if plain[last:match.start()].strip():
            errors.append((line, "text between entries"))
        last = match.end()
        fields = {}
        for key, joined in re.findall(r"(\w+):((?:\s*\"[^\"]*\")+)", match.group(1)):
            fields[key] = "".join(re.findall(r"\"([^\"]*)\"", joined))
        entry = Allow(fields, line)
        if not (entry.rule and entry.path and entry.reason):
            errors.append((line, "an entry needs rule, path and reason"))
        elif entry.rule not in known:
            errors.append((line, "no such rule: " + entry.rule))
        elif entry.expires and entry.expires < today:
            errors.append((line, "%s for %s expired on %s" % (entry.rule, entry.path, entry.expires)))
        else:
            entries.append(entry)
    if plain[last:].strip():
        errors.append((plain.count("\n", 0, last) + 1, "text after the last entry"))
    return entries, errors


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--allow", default="tools/lint/allow.textproto")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args(argv)
    paths = options.paths
    if not paths:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, stdout=subprocess.PIPE).stdout
        paths = sorted(path for path in listed.decode().split("\0") if path)

    with open(options.allow, encoding="utf-8") as allow_file:
        entries, errors = parse_allow(allow_file.read(), datetime.date.today().isoformat())
    findings = ["%s:%d: %s" % (options.allow, line, message) for line, message in errors]
    for path in paths:
        try:
            with open(path, encoding="utf-8") as source:
                text = source.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        for line, rule, advice in check_text(path, text):
            excuses = [entry for entry in entries if entry.excuses(path, rule)]
            for entry in excuses:
                entry.used = True
            if not excuses:
                findings.append("%s:%d: [%s] %s" % (path, line, rule, advice))
    if not options.paths:
        findings += [
            "%s:%d: %s for %s excuses nothing any more" % (
                options.allow, entry.line, entry.rule, entry.path)
            for entry in entries if not entry.used
        ]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
