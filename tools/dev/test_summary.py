#!/usr/bin/env python3
"""Counts what a `bazel test` run really did, from its build event file.

usage: test_summary.py EVENTS.json [--exit-code N] [--manual QUERY.xml] [--time-over]

--time-over: the run was ended by its caller since its time was over. What it had not come to by then
is not run, instead of failed; what had failed before still has.

Prints every failed target, every target that was not run with the reason, and at the end one line
`N passed, N failed`. A target counts as passed only if it ran (or its cached result was taken) and
at least one of its test cases was not skipped. Anything that failed to build counts as failed.
"""

import argparse
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


class Summary:
    """What became of each target."""

    def __init__(self):
        self.passed = []
        self.failed = {}  # label -> reason
        self.not_run = {}  # label -> reason
        self.skipped_cases = {}  # label -> (skipped, all)


def read_events(path):
    events = []
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                try:
                    events.append(json.loads(line))
                except ValueError:
                    # A run that was cut off leaves half a line; what came before it still counts.
                    break
    except OSError:
        pass
    return events


def count_cases(path):
    """(skipped, all) test cases of a JUnit file, or (0, 0) if there is none to read."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return 0, 0
    skipped = total = 0
    for case in root.iter("testcase"):
        total += 1
        if case.get("result") == "skipped" or case.find("skipped") is not None:
            skipped += 1
    return skipped, total


# How Bazel marks what it left undone after SIGINT, and ends then.
INTERRUPTED = "USER_INTERRUPTED"
INTERRUPTED_EXIT_CODE = 8


def summarize(events, exit_code=0, cases=count_cases, time_over=False):
    configured_tests = set()
    completed = {}  # label -> success
    statuses = {}  # label -> overall status
    aborted = {}  # label -> (reason, description)
    xml_files = {}
    for event in events:
        event_id = event.get("id", {})
        if "targetConfigured" in event_id and "configured" in event:
            if event["configured"].get("testSize", "UNKNOWN") != "UNKNOWN":
                configured_tests.add(event_id["targetConfigured"]["label"])
        elif "targetCompleted" in event_id:
            target_id = event_id["targetCompleted"]
            label = target_id["label"]
            if "aspect" in target_id:
                # The target itself may be fine: a failed aspect is its own line.
                label += " (%s)" % target_id["aspect"].rpartition("%")[2]
            if "completed" in event:
                completed[label] = event["completed"].get("success", False)
            elif "aborted" in event:
                reason = event["aborted"].get("reason", "UNKNOWN")
                aborted[label] = (reason, event["aborted"].get("description", ""))
        elif "testSummary" in event_id and "testSummary" in event:
            label = event_id["testSummary"]["label"]
            statuses[label] = event["testSummary"].get("overallStatus", "NO_STATUS")
        elif "testResult" in event_id and "testResult" in event:
            for output in event["testResult"].get("testActionOutput", []):
                if output.get("name") == "test.xml" and "uri" in output:
                    path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                    xml_files.setdefault(event_id["testResult"]["label"], set()).add(path)
        elif "testSummary" in event_id and "aborted" in event:
            aborted[event_id["testSummary"]["label"]] = (event["aborted"].get("reason", ""), "")
        elif "aborted" in event:
            for key in ("unconfiguredLabel", "configuredLabel", "pattern"):
                if key in event_id:
                    label = event_id[key].get("label") or " ".join(event_id[key].get("pattern", []))
                    reason = event["aborted"].get("reason", "UNKNOWN")
                    aborted.setdefault(label, (reason, event["aborted"].get("description", "")))

    result = Summary()
    for label in sorted(configured_tests | set(statuses)):
        status = statuses.get(label)
        if status == "PASSED":
            skipped = total = 0
            for path in xml_files.get(label, ()):
                one_skipped, one_total = cases(path)
                skipped += one_skipped
                total += one_total
            if total and skipped == total:
                result.not_run[label] = "every test case skipped itself"
                continue
            result.passed.append(label)
            if skipped:
                result.skipped_cases[label] = (skipped, total)
        elif status is None and aborted.get(label, ("",))[0] == "SKIPPED":
            result.not_run[label] = aborted[label][1] or "not compatible with this configuration"
        elif status is None and time_over and aborted.get(label, ("",))[0] == INTERRUPTED:
            result.not_run[label] = "the time was over"
        elif completed.get(label) is False or (status is None and label not in completed):
            result.failed[label] = "does not build"
        elif status in (None, "NO_STATUS"):
            result.failed[label] = "built, but was not run"
        else:
            result.failed[label] = status.lower().replace("_", " ")
    known = configured_tests | set(statuses)
    for label, success in sorted(completed.items()):
        if not success and label not in known:
            result.failed[label] = "does not build"
    for label, (reason, description) in sorted(aborted.items()):
        if label in known or label in result.failed:
            continue
        if reason == "SKIPPED":
            result.not_run[label] = description or "not compatible with this configuration"
        elif not (time_over and reason == INTERRUPTED):
            result.failed[label] = (description or reason).splitlines()[0]
    ended_well = exit_code == 0 or (time_over and exit_code == INTERRUPTED_EXIT_CODE)
    if not ended_well and not result.failed:
        result.failed["bazel"] = "ended with exit code %d" % exit_code
    return result


def manual_tests(path):
    """Test targets tagged manual, from `bazel query --output=xml`, with their needs:… tags."""
    found = {}
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return found
    for rule in root.iter("rule"):
        tags = [
            string.get("value")
            for tag_list in rule.findall("list[@name='tags']")
            for string in tag_list.findall("string")
        ]
        needs = [tag for tag in tags if tag.startswith("needs:")]
        found[rule.get("name")] = "tagged manual" + (", " + " ".join(needs) if needs else "")
    return found


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("events")
    parser.add_argument("--exit-code", type=int, default=0)
    parser.add_argument("--manual")
    parser.add_argument("--time-over", action="store_true")
    options = parser.parse_args(argv)
    result = summarize(
        read_events(options.events), options.exit_code, time_over=options.time_over
    )
    not_run = dict(result.not_run)
    if options.manual:
        for label, reason in manual_tests(options.manual).items():
            if label not in result.passed and label not in result.failed:
                not_run[label] = reason
    for label, (skipped, total) in sorted(result.skipped_cases.items()):
        print("skipped in part: %s (%d of %d test cases)" % (label, skipped, total))
    for label, reason in sorted(not_run.items()):
        print("not run: %s (%s)" % (label, reason))
    for label, reason in sorted(result.failed.items()):
        print("FAILED: %s (%s)" % (label, reason))
    print("%d passed, %d failed" % (len(result.passed), len(result.failed)))
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
