"""Tests of test_summary: what may count as passed, and that nothing failed is ever lost."""

import unittest

import test_summary


def configured(label, size="SMALL"):
    return {"id": {"targetConfigured": {"label": label}}, "configured": {"testSize": size}}


def library(label):
    return {"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": "cc"}}


def completed(label, success, aspect=None):
    target_id = {"label": label}
    if aspect:
        target_id["aspect"] = aspect
    # Bazel leaves `success` out when it is false.
    return {"id": {"targetCompleted": target_id}, "completed": {"success": True} if success else {}}


def summary(label, status):
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


def result(label):
    return {
        "id": {"testResult": {"label": label}},
        "testResult": {"testActionOutput": [{"name": "test.xml", "uri": "file:///x%20y.xml"}]},
    }


class SummarizeTest(unittest.TestCase):

    def test_passed_test_counts_once(self):
        got = test_summary.summarize(
            [configured("//a:t"), completed("//a:t", True), summary("//a:t", "PASSED")])
        self.assertEqual(got.passed, ["//a:t"])
        self.assertEqual(got.failed, {})

    def test_failed_and_flaky_and_timed_out_fail(self):
        for status in ("FAILED", "FLAKY", "TIMEOUT", "INCOMPLETE", "REMOTE_FAILURE"):
            got = test_summary.summarize(
                [configured("//a:t"), completed("//a:t", True), summary("//a:t", status)])
            self.assertEqual(got.passed, [])
            self.assertEqual(list(got.failed), ["//a:t"])

    def test_test_that_does_not_build_fails(self):
        got = test_summary.summarize(
            [configured("//a:t"), completed("//a:t", False), summary("//a:t", "NO_STATUS")], 1)
        self.assertEqual(got.failed, {"//a:t": "does not build"})

    def test_library_that_does_not_build_fails(self):
        got = test_summary.summarize([library("//a:l"), completed("//a:l", False)], 1)
        self.assertEqual(got.failed, {"//a:l": "does not build"})

    def test_library_that_builds_is_no_test(self):
        got = test_summary.summarize([library("//a:l"), completed("//a:l", True)])
        self.assertEqual((got.passed, got.failed), ([], {}))

    def test_failed_aspect_does_not_hide_behind_its_target(self):
        got = test_summary.summarize(
            [completed("//a:l", True), completed("//a:l", False, "//x.bzl%tidy")], 1)
        self.assertEqual(got.failed, {"//a:l (tidy)": "does not build"})

    def test_built_but_not_run_fails(self):
        got = test_summary.summarize([configured("//a:t"), completed("//a:t", True)])
        self.assertEqual(got.failed, {"//a:t": "built, but was not run"})

    def test_package_that_does_not_load_fails(self):
        got = test_summary.summarize(
            [{"id": {"unconfiguredLabel": {"label": "//b:x"}},
              "aborted": {"reason": "LOADING_FAILURE", "description": "no such package"}}], 1)
        self.assertEqual(got.failed, {"//b:x": "no such package"})

    def test_exit_code_without_events_fails(self):
        self.assertEqual(list(test_summary.summarize([], 7).failed), ["bazel"])

    def test_incompatible_target_is_not_run(self):
        got = test_summary.summarize(
            [configured("//a:t"),
             {"id": {"targetCompleted": {"label": "//a:t"}}, "aborted": {"reason": "SKIPPED"}}])
        self.assertEqual(got.passed, [])
        self.assertEqual(list(got.not_run), ["//a:t"])

    def test_test_whose_cases_all_skip_is_not_passed(self):
        events = [configured("//a:t"), completed("//a:t", True), result("//a:t"),
                  summary("//a:t", "PASSED")]
        got = test_summary.summarize(events, cases=lambda path: (2, 2))
        self.assertEqual(got.passed, [])
        self.assertEqual(list(got.not_run), ["//a:t"])
        got = test_summary.summarize(events, cases=lambda path: (1, 2))
        self.assertEqual(got.passed, ["//a:t"])
        self.assertEqual(got.skipped_cases, {"//a:t": (1, 2)})

    def test_what_time_cut_off_is_not_run_only_if_the_caller_says_so(self):
        interrupted = {"aborted": {"reason": "USER_INTERRUPTED"}}
        events = [
            configured("//a:done"), completed("//a:done", True), summary("//a:done", "PASSED"),
            configured("//a:unbuilt"),
            {"id": {"targetCompleted": {"label": "//a:unbuilt"}}, **interrupted},
            configured("//a:built"), completed("//a:built", True),
            {"id": {"testSummary": {"label": "//a:built"}}, **interrupted},
            {"id": {"targetCompleted": {"label": "//a:library"}}, **interrupted},
        ]
        got = test_summary.summarize(events, 8, time_over=True)
        self.assertEqual(got.passed, ["//a:done"])
        self.assertEqual(got.failed, {})
        self.assertEqual(sorted(got.not_run), ["//a:built", "//a:unbuilt"])
        got = test_summary.summarize(events, 8)
        self.assertEqual(sorted(got.failed), ["//a:built", "//a:library", "//a:unbuilt"])

    def test_what_failed_before_the_time_was_over_still_failed(self):
        events = [configured("//a:t"), completed("//a:t", True), summary("//a:t", "FAILED"),
                  configured("//a:u"), completed("//a:u", False)]
        got = test_summary.summarize(events, 8, time_over=True)
        self.assertEqual(sorted(got.failed), ["//a:t", "//a:u"])
        # Bazel ended by itself, and badly.
        self.assertEqual(list(test_summary.summarize([], 1, time_over=True).failed), ["bazel"])


if __name__ == "__main__":
    unittest.main()
