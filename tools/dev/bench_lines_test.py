"""Tests of bench_lines: medians over repetitions, aggregates left out, errors not hidden."""

import unittest

import bench_lines


def run(name, time, **more):
    return dict({"name": name, "run_name": name, "run_type": "iteration", "real_time": time,
                 "time_unit": "ns"}, **more)


class LinesTest(unittest.TestCase):

    def test_median_and_spread_over_repetitions(self):
        got = list(bench_lines.lines("store", {"benchmarks": [
            run("BM_Get/8", 3.0), run("BM_Get/8", 1.0), run("BM_Get/8", 2.0),
            {"name": "BM_Get/8_mean", "run_name": "BM_Get/8", "run_type": "aggregate",
             "real_time": 99.0, "time_unit": "ns"}]}))
        self.assertEqual(len(got), 1)
        self.assertEqual(got[0]["name"], "store.BM_Get.8")
        self.assertEqual(got[0]["value"], 2.0)
        self.assertEqual(got[0]["spread"], [1.0, 3.0])
        self.assertEqual(got[0]["runs"], 3)

    def test_rates_are_lines_of_their_own(self):
        got = list(bench_lines.lines("store", {"benchmarks": [
            run("BM_Put", 5.0, items_per_second=7.0)]}))
        self.assertEqual([line["better"] for line in got], ["lower", "higher"])

    def test_failed_benchmark_is_an_error(self):
        with self.assertRaises(ValueError):
            list(bench_lines.lines("store", {"benchmarks": [
                run("BM_Put", 0.0, error_occurred=True, error_message="disk")]}))


if __name__ == "__main__":
    unittest.main()
