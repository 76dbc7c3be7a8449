#!/usr/bin/env python3
"""Holds alert rules and dashboards against the code and the documents.

Every `capstan_…` metric that a rule or dashboard names is one that the code exports; every alert has a
test that it fires and one that it is quiet, and a heading in docs/operations/alerts.md.

usage: monitoring.py [root of the repository]
"""

import json
import os
import re
import sys

# Where each registry's metrics are made: folder, and the second word of their names.
REGISTRIES = [("services/credentials", "credentials"), ("services/data_loader", "data_loader"),
              ("services/executor", "executor"), ("services/node_agent", "node_agent"),
              ("services/scheduler", "scheduler"), ("services/telemetry", "telemetry"),
              ("services/cluster_manager", "cluster_manager"), ("libs/process", "process"),
              ("libs/store", "process"), ("libs/audit", "process"), ("libs/rpc", "process"),
              ("libs/trace", "process")]
ADDED = re.compile(r"Add(Counter|Gauge|Histogram)\(\s*(?:\"([a-z0-9_]+)\"|(k[A-Za-z]+))")
NAMED = re.compile(r"\bcapstan_[a-z0-9_]+")


def exported(root):
    """Names of all series that the code can make."""
    names = set()
    for folder, service in REGISTRIES:
        for parent, _, files in os.walk(os.path.join(root, folder)):
            for file in files:
                if not file.endswith((".cc", ".h")) or file.endswith("_test.cc"):
                    continue
                with open(os.path.join(parent, file), encoding="utf-8") as source:
                    text = source.read()
                for kind, name, constant in ADDED.findall(text):
                    if constant:
                        value = re.search(r"char %s\[\] =\s*\"([a-z0-9_]+)\"" % constant, text)
                        if not value:
                            continue
                        name = value.group(1)
                    full = "capstan_%s_%s" % (service, name)
                    ends = ("_bucket", "_sum", "_count") if kind == "Histogram" else ("",)
                    names.update(full + end for end in ends)
    return names


def expressions(dashboard):
    """Every query of a dashboard."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]


def alerts(rules):
    return re.findall(r"^\s+- alert: (\w+)$", rules, re.M)


def check(root):
    """What is wrong, a line each."""
    folder = os.path.join(root, "infra", "monitoring")
    with open(os.path.join(folder, "alerts.yaml"), encoding="utf-8") as file:
        rules = file.read()
    with open(os.path.join(folder, "alerts_test.yaml"), encoding="utf-8") as file:
        tests = file.read()
    with open(os.path.join(root, "docs", "operations", "alerts.md"), encoding="utf-8") as file:
        headings = set(re.findall(r"^### (\w+)$", file.read(), re.M))
    used = {"infra/monitoring/alerts.yaml": NAMED.findall(rules)}
    boards = os.path.join(folder, "dashboards")
    for name in sorted(os.listdir(boards)):
        with open(os.path.join(boards, name), encoding="utf-8") as file:
            board = json.load(file)
        used["infra/monitoring/dashboards/" + name] = [
            metric for expression in expressions(board) for metric in NAMED.findall(expression)]
    names = exported(root)
    for path, metrics in used.items():
        for metric in sorted(set(metrics) - names):
            yield "%s: %s is not exported by the code" % (path, metric)
    for alert in alerts(rules):
        test = re.search(r"- name: %s\n(.*?)(?=\n  - name:|\Z)" % alert, tests, re.S)
        if not test:
            yield "infra/monitoring/alerts_test.yaml: no test of %s" % alert
        elif "exp_samples: []" not in test.group(1) or "exp_samples: [{" not in test.group(1):
            yield ("infra/monitoring/alerts_test.yaml: %s is not shown both to fire and to be quiet"
                   % alert)
        if alert not in headings:
            yield "docs/operations/alerts.md: no heading `### %s`" % alert
        if "docs/operations/alerts.md#%s\n" % alert.lower() not in rules:
            yield "infra/monitoring/alerts.yaml: %s has no runbook_url of its own" % alert
    for heading in sorted(headings - set(alerts(rules))):
        yield "docs/operations/alerts.md: there is no alert %s" % heading


def main(argv):
    root = argv[0] if argv else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    problems = list(check(root))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
