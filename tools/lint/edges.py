#!/usr/bin/env python3
"""Checks which target may depend on which, from `bazel query --output=xml 'kind(rule, //...)'`.

usage: edges.py QUERY.xml

    proto < libs < core < ports < {adapters, api, controller} < engine and server < main

A service never depends on another service: they meet in proto/. A core reaches no gRPC, thread, log
or database, not even through others.
"""

import collections
import sys
import xml.etree.ElementTree as ElementTree

# What a core may use beside messages: values and pure functions of them. An addition here is a
# decision.
CORE_LIBS = {
    "address", "auth:spiffe_id", "content:eviction", "content:manifest", "crc32c", "digest",
    # What a GPU is called, in words.
    "gpu:gpu_model",
    # What Kubernetes takes for a label or a taint: rules of words.
    "label", "mig", "random", "resource", "safe_path", "session", "status",
    # Points in time, not the system's clocks; requests and results, not a store that is open.
    "time:clock", "time:proto_time", "store:record", "store:store",
    # Where a trace is and what a span was: values, not who records them.
    "trace:context", "trace:span",
}
CORE_THIRD_PARTY = {"abseil", "protobuf", "xxhash", "zstd"}
# What a core must not reach through others either.
IMPURE_LIBS = {"lifecycle", "log", "metrics", "rpc", "strand"}
IMPURE_THIRD_PARTY = {"boost", "curl", "grpc", "prometheus_cpp", "spdlog", "sqlite"}

MIDDLE = ("adapters", "api", "controller")
PARTS = ("core", "ports") + MIDDLE + ("testing",)

# The one program that holds every service, by their servers only.
ALL_IN_ONE = "tools/capstan"


class Target:
    """Where a label lies in the layout."""

    def __init__(self, label, testonly=False):
        self.label = label
        self.testonly = testonly
        self.package, _, self.name = label[2:].partition(":")
        folders = self.package.split("/")
        self.top = folders[0]
        self.topic = folders[1] if len(folders) > 1 else ""
        self.part = ""
        if self.top == "services":
            self.part = folders[2] if len(folders) > 2 else "server"

    @property
    def is_grpc(self):
        if self.top == "third_party":
            return self.topic == "grpc"
        return self.top == "proto" and "_grpc" in self.name

    @property
    def is_impure(self):
        if self.top == "third_party":
            return self.topic in IMPURE_THIRD_PARTY
        if self.top == "libs":
            return self.topic in IMPURE_LIBS
        return self.is_grpc


def direct_violation(source, target):
    """Why `source` may not name `target` among its deps, or None."""
    if target.top == "tools" and target.package.startswith("tools/build_defs"):
        return None
    if target.top == "integration" and source.top != "integration":
        return "nothing depends on integration/"
    if source.top == "proto":
        if target.top not in ("proto", "third_party"):
            return "proto/ holds contracts only"
    elif source.top == "third_party":
        if target.top != "third_party":
            return "third_party/ depends on nothing of ours"
    elif source.top == "libs":
        if target.top not in ("proto", "libs", "third_party"):
            return "libs/ never depends on " + target.top + "/"
    elif source.top == "services":
        return service_violation(source, target)
    elif source.top == "tools" and target.top == "services":
        if source.package == ALL_IN_ONE or source.package.startswith(ALL_IN_ONE + "/"):
            # The shim is a process of its own: `capstan shim`.
            if target.part not in ("server", "testing", "shim"):
                return "the all-in-one program sees servers, not what is inside them"
        elif not source.testonly:
            return "tools never depend on a service's code"
    elif source.top == "examples" and target.top == "services":
        return "examples use the public interfaces"
    return None


def service_violation(source, target):
    if target.top == "services" and target.topic != source.topic:
        return "a service never depends on another service: they meet in proto/"
    if target.top in ("tools", "examples", "infra"):
        if target.top == "tools" and source.testonly:
            return None
        return "a service never depends on %s/" % target.top
    if target.top not in ("services", "libs", "proto", "third_party"):
        return None
    if source.part == "core":
        if target.is_grpc:
            return "a core never sees gRPC"
        if target.top == "services" and target.part != "core":
            return "a core depends on nothing of its service but core"
        if source.testonly:
            return None
        if target.top == "libs" and not CORE_LIBS & {
                target.topic, "%s:%s" % (target.topic, target.name)}:
            return "a core uses only libs/{%s}" % ",".join(sorted(CORE_LIBS))
        if target.top == "third_party" and target.topic not in CORE_THIRD_PARTY:
            return "a core uses only third_party/{%s}" % ",".join(sorted(CORE_THIRD_PARTY))
        return None
    if target.top != "services":
        return None
    if target.part == "testing" and source.part != "testing" and not source.testonly:
        return "testing/ is for tests"
    if source.part == "ports" and target.part not in ("core", "ports"):
        return "ports depend on core only"
    if source.part in MIDDLE:
        forbidden = {"server", *MIDDLE} - {source.part}
        if not source.testonly:
            forbidden.add("testing")
        # docs/adr/0006: a handler posts to its own engine, and reads what is beside it.
        if source.part == "api" and target.part == "server" and target.name != "server":
            return None
        # A part that is not in the table, such as node_agent/shim, is a program beside the service.
        if target.part in forbidden:
            return "%s may depend on core and ports, not on %s" % (
                source.part, "engine or server" if target.part == "server" else target.part)
    return None


def read_graph(path):
    """Returns {label: Target} of our rules and {label: [labels]} of what each depends on."""
    targets = {}
    edges = collections.defaultdict(list)
    for rule in ElementTree.parse(path).getroot().iter("rule"):
        label = rule.get("name")
        testonly = rule.find("boolean[@name='testonly'][@value='true']") is not None
        testonly = testonly or rule.get("class").endswith("_test")
        targets[label] = Target(label, testonly)
        for rule_input in rule.findall("rule-input"):
            if rule_input.get("name").startswith("//"):
                edges[label].append(rule_input.get("name"))
    return targets, edges


def path_to_impure(label, targets, edges):
    """The shortest chain of labels from `label` to what a core must not reach, or None."""
    parents = {label: None}
    queue = collections.deque([label])
    while queue:
        current = queue.popleft()
        if current != label and (targets.get(current) or Target(current)).is_impure:
            chain = []
            while current:
                chain.append(current)
                current = parents[current]
            return chain[::-1]
        for following in edges.get(current, ()):
            if following not in parents:
                parents[following] = current
                queue.append(following)
    return None


def violations(targets, edges):
    found = []
    for label, source in sorted(targets.items()):
        for name in edges.get(label, ()):
            # Only rules: a source file of another package is that package's business.
            target = targets.get(name)
            if target is None:
                continue
            why = direct_violation(source, target)
            if why:
                found.append("%s -> %s: %s" % (label, name, why))
        if source.part == "core" and not source.testonly:
            chain = path_to_impure(label, targets, edges)
            if chain and len(chain) > 2:
                found.append("%s: a core reaches what it must not: %s" % (
                    label, " -> ".join(chain)))
    return found


def main(argv):
    targets, edges = read_graph(argv[0])
    if not targets:
        print("no targets: the query found nothing")
        return 1
    found = violations(targets, edges)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
