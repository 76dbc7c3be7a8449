"""Tests of monitoring: what a rule names must be there, be tested and be documented."""

import json
import os
import shutil
import tempfile
import unittest

import monitoring

SOURCE = '''
constexpr char kRenewals[] = "renewals_total";
x(registry->AddGauge("leader", "1 while it leads.")),
y(registry->AddHistogram(
    "commit_duration_seconds", "How long.")),
z(registry->AddCounter(kRenewals, kHelp, {{"outcome", "renewed"}}))
'''
RULES = '''
      - alert: NoLeader
        expr: sum(capstan_scheduler_leader) == 0 and capstan_scheduler_commit_duration_seconds_bucket > 1
        annotations:
          runbook_url: docs/operations/alerts.md#noleader
'''
TESTS = '''tests:
  - name: NoLeader
    promql_expr_test:
      - {expr: 'x', eval_time: 2m, exp_samples: []}
      - expr: 'x'
        exp_samples: [{labels: '{a="b"}', value: 1}]
'''


class MonitoringTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.write("services/scheduler/engine.cc", SOURCE)
        self.write("infra/monitoring/alerts.yaml", RULES)
        self.write("infra/monitoring/alerts_test.yaml", TESTS)
        self.write("docs/operations/alerts.md", "# Alerts\n### NoLeader\nLook.\n")
        self.board("rate(capstan_scheduler_renewals_total[1m])")

    def tearDown(self):
        shutil.rmtree(self.root)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def board(self, expression):
        self.write("infra/monitoring/dashboards/one.json",
                   json.dumps({"panels": [{"targets": [{"expr": expression}]}]}))

    def problems(self):
        return "\n".join(monitoring.check(self.root))

    def test_what_is_right_passes(self):
        self.assertEqual(self.problems(), "")

    def test_metrics_that_are_not_there(self):
        self.board("capstan_scheduler_follower")
        self.assertIn("one.json: capstan_scheduler_follower is not exported", self.problems())
        self.write("services/scheduler/engine.cc", SOURCE.replace('"leader"', '"leads"'))
        self.assertIn("alerts.yaml: capstan_scheduler_leader is not exported", self.problems())

    def test_only_the_series_of_a_histogram_are_there(self):
        self.board("capstan_scheduler_commit_duration_seconds")
        self.assertIn("is not exported", self.problems())

    def test_metrics_made_by_tests_do_not_count(self):
        self.write("services/scheduler/engine_test.cc", 'AddGauge("tested", "")')
        self.board("capstan_scheduler_tested")
        self.assertIn("is not exported", self.problems())

    def test_alerts_without_tests(self):
        self.write("infra/monitoring/alerts_test.yaml", TESTS.replace("NoLeader", "Other"))
        self.assertIn("no test of NoLeader", self.problems())
        self.write("infra/monitoring/alerts_test.yaml", TESTS.replace("exp_samples: []", ""))
        self.assertIn("both to fire and to be quiet", self.problems())

    def test_alerts_without_a_word_on_what_to_do(self):
        self.write("docs/operations/alerts.md", "### Another\n")
        self.assertIn("no heading `### NoLeader`", self.problems())
        self.assertIn("there is no alert Another", self.problems())
        self.write("infra/monitoring/alerts.yaml", RULES.replace("#noleader", ""))
        self.assertIn("NoLeader has no runbook_url", self.problems())


if __name__ == "__main__":
    unittest.main()
