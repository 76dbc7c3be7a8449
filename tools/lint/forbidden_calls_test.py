"""Tests of forbidden_calls: each rule finds its call, and nothing in comments or strings."""

import unittest

import forbidden_calls

BAD = {
    "real-time": ["auto t = absl::Now();", "std::chrono::steady_clock::now();", "time(nullptr);"],
    "thread": ["std::thread t(f);", "std::jthread t;", "std::async(f);"],
    "sleep": ["absl::SleepFor(d);", "std::this_thread::sleep_for(d);", "usleep(3);", "sleep(1);"],
    "random": ["rand();", "std::mt19937 g;", "absl::BitGen gen;"],
    "environment": ['getenv("X");', 'std::getenv("X");'],
    "regex": ["std::regex r;", "#include <regex>"],
    "throw": ["throw 1;"],
    "stdout": ["std::cout << 1;"],
    "json": ["#include <nlohmann/json.hpp>"],
    "static-object": [
        'const std::string kName = "x";',
        "static std::vector<int> cache;",
        "void F() {\n  static std::map<int, int> seen;\n}",
    ],
    "bare-unit": ["int64_t timeout_ms = 3;", "double age_seconds;", "void F(int wait_sec);"],
    "todo": ["// TODO: later", "// TODO(bob): later"],
    "disabled-test": ["// TEST(A, B) {", "TEST(A, DISABLED_B) {"],
}

GOOD = [
    "// absl::Now() is not called here",
    'Log("absl::Now() throw std::cout");',
    'auto s = R"(throw\nrand())";',
    "std::this_thread::get_id();",
    "unsigned n = std::thread::hardware_concurrency();",
    "absl::BitGenRef gen;",
    "operand();",
    "constexpr absl::string_view kName = \"x\";",
    "static const auto& names = *new std::vector<int>();",
    "const std::string& name = Name();",
    "const std::string Name();",
    "int64_t total_bytes = 3;",
    "absl::Duration timeout_ms;",
    "// TODO(#12): later",
    "int x = 1'000'000;  // it's fine",
    "void sleepy();",
    'getenv("TEST_TMPDIR");',
]


class RulesTest(unittest.TestCase):

    def test_each_rule_finds_its_calls(self):
        for rule, samples in BAD.items():
            for sample in samples:
                found = {name for _, name, _ in forbidden_calls.check_text("libs/a/a.cc", sample)}
                self.assertIn(rule, found, sample)

    def test_innocent_code_passes(self):
        for sample in GOOD:
            self.assertEqual(list(forbidden_calls.check_text("libs/a/a.cc", sample)), [], sample)

    def test_line_numbers_survive_comments(self):
        text = "/* one\ntwo */\n\nthrow 1;\n"
        found = [(line, name) for line, name, _ in forbidden_calls.check_text("a/a.cc", text)]
        self.assertEqual(found, [(4, "throw")])

    def test_json_may_be_in_adapters(self):
        include = "#include <nlohmann/json.hpp>"
        path = "services/telemetry/adapters/x.cc"
        self.assertEqual(list(forbidden_calls.check_text(path, include)), [])

    def test_core_purity(self):
        for include in ("<grpcpp/grpcpp.h>", "<mutex>", '"absl/synchronization/mutex.h"',
                        '"proto/capstan/scheduler/v1/job.grpc.pb.h"'):
            text = "#include " + include
            found = [name for _, name, _ in
                     forbidden_calls.check_text("services/scheduler/core/queue.h", text)]
            self.assertEqual(found, ["core-purity"], include)
            self.assertEqual(
                list(forbidden_calls.check_text("services/scheduler/engine.h", text)), [])

    def test_glob_only_of_data(self):
        for text, count in (('srcs = glob(["*.cc"]),', 1), ('data = glob(["testdata/**"]),', 0),
                            ('corpus = glob(["x_corpus/*"]),', 0)):
            self.assertEqual(len(list(forbidden_calls.check_text("libs/a/BUILD", text))), count)

    def test_string_view_in_headers_only(self):
        text = "std::string_view name;"
        self.assertEqual(len(list(forbidden_calls.check_text("libs/a/a.h", text))), 1)
        self.assertEqual(len(list(forbidden_calls.check_text("libs/a/a.cc", text))), 0)


class AllowTest(unittest.TestCase):

    def parse(self, text):
        return forbidden_calls.parse_allow(text, "2024-06-01")

    def test_file_and_folder(self):
        entries, errors = self.parse(
            '# why\nallow { rule: "sleep" path: "a/b.cc" reason: "x" "y" }\n'
            'allow {\n  rule: "throw"\n  path: "a/"\n  reason: "x"\n}\n')
        self.assertEqual(errors, [])
        self.assertEqual(entries[0].reason, "xy")
        self.assertTrue(entries[0].excuses("a/b.cc", "sleep"))
        self.assertFalse(entries[0].excuses("a/b.cc", "throw"))
        self.assertFalse(entries[0].excuses("a/b.cc2", "sleep"))
        self.assertTrue(entries[1].excuses("a/b/c.h", "throw"))

    def test_errors(self):
        for text in ('allow { rule: "sleep" path: "a" }',
                     'allow { rule: "nonsense" path: "a" reason: "b" }',
                     'allow { rule: "sleep" path: "a" reason: "b" expires: "2024-05-31" }',
                     'allow { rule: "sleep" path: "a" reason: "b" } stray'):
            self.assertEqual(len(self.parse(text)[1]), 1, text)


if __name__ == "__main__":
    unittest.main()
