#!/usr/bin/env python3
"""Turns Google Benchmark's JSON (stdin) into one line per benchmark, as `./dev bench` prints them.

usage: bench_lines.py AREA
"""

import json
import statistics
import sys


def lines(area, report):
    runs = {}  # name -> list of runs, in order of appearance
    for run in report.get("benchmarks", []):
        if run.get("run_type", "iteration") == "iteration":
            runs.setdefault(run.get("run_name", run["name"]), []).append(run)
    context = report.get("context", {})
    conditions = "%s cores at %s MHz, %s" % (
        context.get("num_cpus", "?"), context.get("mhz_per_cpu", "?"),
        context.get("library_build_type", "?") + " benchmark library")
    for name, repeated in runs.items():
        failed = [run for run in repeated if run.get("error_occurred")]
        if failed:
            raise ValueError("%s: %s" % (name, failed[0].get("error_message", "failed")))
        stem = "%s.%s" % (area, name.replace("/", "."))
        times = [run["real_time"] for run in repeated]
        yield entry(stem, times, repeated[0]["time_unit"], "lower", conditions)
        for counter in ("items_per_second", "bytes_per_second"):
            if counter in repeated[0]:
                values = [run[counter] for run in repeated]
                yield entry("%s.%s" % (stem, counter), values, "1/s", "higher", conditions)


def entry(name, values, unit, better, conditions):
    return {
        "name": name,
        "value": statistics.median(values),
        "unit": unit,
        "better": better,
        "spread": [min(values), max(values)],
        "runs": len(values),
        "conditions": conditions,
    }


if __name__ == "__main__":
    for line in lines(sys.argv[1], json.load(sys.stdin)):
        print(json.dumps(line))
