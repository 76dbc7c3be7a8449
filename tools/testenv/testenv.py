#!/usr/bin/env python3
"""Real servers for tests and for trying things out: builds them, starts them, stops them.

usage: testenv.py up WHAT… [--name NAME] [--members 1|3] [--clusters N] [--server versitygw|minio] [--json]
       testenv.py down [WHAT|NAME]
       testenv.py status [--json]
       testenv.py build PROGRAM [--output FILE]
       testenv.py bucket URL CREDENTIALS NAME
       testenv.py container CONNECTION_STRING NAME
       testenv.py gcs-bucket URL PROJECT NAME
       testenv.py topic HOST:PORT NAME [--partitions N]

WHAT is etcd, kubernetes, kafka, s3, azure, gcs or prometheus. `up` gets what it needs, once a machine,
starts it on loopback and free ports, several side by side under names of their own, and returns once
it answers; `down` ends it, also after a crash of anything. README.md beside this has the versions,
the times and what --json prints. In Python since it must work before anything is built.
"""

import argparse
import json
import os
import shutil
import signal
import sys

# Under Bazel the modules beside this file are links too, which Python's own path would not show.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
import azure_request
import gcs_request
import http_request
import instances
import kafka_wire
import plans
import programs
import s3_request
from programs import fail, say


def up(server, name, options):
    """Gets the programs, before any lock of an instance is held, and starts it."""
    shape = plans.Wanted(None, (), None, options.members, options.clusters, options.server)
    make, needs, port_count = plans.SERVERS[server]
    paths = {program: programs.build(program) for program in needs(shape)}

    def make_plan(folder):
        ports, held = instances.take_ports(port_count(shape))
        return make(plans.Wanted(folder, ports, paths.__getitem__, options.members, options.clusters,
                                 options.server)), held

    return instances.up(name, make_plan)


def first_words(found):
    """What one most wants to know of an instance, on a line."""
    if "kubeconfig" in found["credentials"]:
        return found["credentials"]["kubeconfig"]
    return ",".join(found["endpoints"].values())


def run_up(options):
    if options.name and len(options.what) > 1:
        fail("--name goes with one server; found %s" % " ".join(options.what))
    if options.members not in (1, 3):
        fail("etcd has 1 or 3 members")
    if not 1 <= options.clusters <= 9:
        fail("--clusters: expected 1 to 9, found %d" % options.clusters)
    for flag, value, server in (("members", options.members != 1, "etcd"), ("server", options.server, "s3"),
                                ("clusters", options.clusters != 1, "kafka")):
        if value and server not in options.what:
            fail("--%s goes with %s; %s has one of each part" % (flag, server, " ".join(options.what)))
    for server in options.what:
        instances.check_name(options.name or server, server, plans.SERVERS)
    # So that a `kill` ends what was begun, as an error does. What SIGKILL leaves `down` finds.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("testenv: ended by SIGTERM"))
    found = [up(server, options.name or server, options) for server in options.what]
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for one in found:
            print(first_words(one))


def run_down(options):
    found = instances.matching(options.what)
    if options.what and not found:
        fail("there is no %s; there are: %s" % (options.what, ", ".join(instances.names())))
    for name in found:
        instances.down(name)


def run_status(options):
    found = [instances.describe(name) for name in instances.names()]
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for one in found:
        running = one["processes"]
        print("%-12s %-10s %d running  %5d MiB  %s" % (
            one["name"], one["server"] or "?", len(running),
            sum(process["rss_bytes"] for process in running) >> 20,
            first_words(one) if one["ready"] else "not whole; testenv down " + one["name"]))


def run_build(options):
    single = sorted([*programs.GO_PROGRAMS, *programs.DEBIAN])
    if options.output and options.program not in single:
        fail("build %s makes several files: --output goes with one of %s" % (
            options.program, ", ".join(single)))
    path = programs.build(options.program)
    if options.output:
        shutil.copy(path, options.output)
    else:
        print(path)


def run_prepare(options):
    """For planned_server.cc: writes <folder>/plan.json, of an instance in a test's folder, on its ports."""
    paths = dict(one.split("=", 1) for one in options.program)

    def program(name):
        path = paths.get(name) or programs.path_of(name)
        if not os.path.exists(path):
            fail("%s is not there; get it by\n  ./dev testenv build %s" % (path, name))
        return path

    flags = {}
    for one in options.flag:
        name, _, flag = one.partition("=")
        flags.setdefault(name, []).append(flag)
    wanted = plans.Wanted(options.folder, [int(one) for one in options.ports.split(",")], program,
                          options.members, options.clusters, options.server, flags)
    plan = plans.SERVERS[options.what][0](wanted)
    instances.write_private(wanted.at("plan.json"), json.dumps(plan))


def run_wait(options):
    """For planned_server.cc: waits until a stage of a plan answers, or one of the processes ends."""
    with open(options.plan, encoding="utf-8") as file:
        plan = json.load(file)
    if options.process:
        plan["processes"] = [one for one in plan["processes"] if one["name"] == options.process]
    pids = dict(one.split("=", 1) for one in options.pid)

    def ended():
        return next((name for name in pids if instances.start_time(int(pids[name])) is None), None)

    try:
        for stage in [options.stage] if options.stage is not None else instances.stages(plan):
            instances.wait(plan, stage, ended)
    except instances.NotReady as reason:
        fail(str(reason))


def made(what, name, make, *arguments):
    try:
        make(*arguments, name)
    except (http_request.Refused, OSError) as error:
        fail("%s %s: %s" % (what, name, error))


def run_bucket(options):
    made("bucket", options.name, s3_request.make_bucket, options.url, options.credentials)


def run_container(options):
    made("container", options.name, azure_request.make_container, options.connection_string)


def run_gcs_bucket(options):
    made("bucket", options.name, gcs_request.make_bucket, options.url, options.project)


def run_topic(options):
    try:
        kafka_wire.create_topic(options.address, options.name, options.partitions,
                                dict(one.split("=", 1) for one in options.set))
    except (kafka_wire.Refused, OSError) as error:
        fail("topic %s" % error)


def shaped(command):
    command.add_argument("--members", type=int, default=1, help="of etcd: 1 or 3")
    command.add_argument("--clusters", type=int, default=1, help="of Kafka, of one broker each")
    command.add_argument("--server", choices=("versitygw", "minio"), help="of s3")


def main(argv):
    parser = argparse.ArgumentParser(prog="testenv", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("up", help="start servers; prints where each answers")
    command.add_argument("what", nargs="+", choices=sorted(plans.SERVERS), metavar="WHAT",
                         help=", ".join(plans.SERVERS))
    command.add_argument("--name", help="to have several; by default the server's name")
    command.add_argument("--json", action="store_true", help="print all that a client needs, as JSON")
    shaped(command)
    command.set_defaults(run=run_up)
    command = commands.add_parser("down", help="stop servers and delete what they kept")
    command.add_argument("what", nargs="?", help="a name, or a server: all that run it; by default all")
    command.set_defaults(run=run_down)
    command = commands.add_parser("status", help="what is up, where, and how large it is")
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=run_status)
    command = commands.add_parser("build", help="get a program, unless that was done before; prints its path")
    command.add_argument("program", choices=programs.NAMES)
    command.add_argument("--output", help="copy it here instead of printing its path")
    command.set_defaults(run=run_build)
    for made_by, about, arguments, run in (
            ("bucket", "make a bucket of s3", ("url", "credentials"), run_bucket),
            ("container", "make a container of azure", ("connection_string",), run_container),
            ("gcs-bucket", "make a bucket of gcs", ("url", "project"), run_gcs_bucket)):
        command = commands.add_parser(made_by, help=about)
        for argument in (*arguments, "name"):
            command.add_argument(argument)
        command.set_defaults(run=run)
    command = commands.add_parser("topic", help="make a topic")
    command.add_argument("address")
    command.add_argument("name")
    command.add_argument("--partitions", type=int, default=1)
    command.add_argument("--set", action="append", default=[], help="a setting of the topic, key=value")
    command.set_defaults(run=run_topic)
    command = commands.add_parser("prepare")
    command.add_argument("what", choices=sorted(plans.SERVERS))
    command.add_argument("--folder", required=True)
    command.add_argument("--ports", required=True)
    command.add_argument("--program", action="append", default=[], help="where one lies, name=path")
    command.add_argument("--flag", action="append", default=[], help="for a process, name=flag")
    shaped(command)
    command.set_defaults(run=run_prepare)
    command = commands.add_parser("wait")
    command.add_argument("plan")
    command.add_argument("--stage", type=int)
    command.add_argument("--process")
    command.add_argument("--pid", action="append", default=[], help="of a process that must live, name=pid")
    command.set_defaults(run=run_wait)
    options = parser.parse_args(argv)
    try:
        options.run(options)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
