"""Tests of edges: what the layout forbids is found, what it allows is not."""

import unittest

import edges


def violation(source, target, testonly=False):
    return edges.direct_violation(edges.Target(source, testonly), edges.Target(target))


class DirectTest(unittest.TestCase):

    def test_forbidden(self):
        for source, target in (
            ("//proto/capstan/type/v1:task_proto", "//libs/time:clock"),
            ("//libs/time:clock", "//services/scheduler/core:queue"),
            ("//libs/time:clock", "//tools/capstan:capstan"),
            ("//services/scheduler/core:queue", "//services/scheduler/ports:job_store"),
            ("//services/scheduler/core:queue", "//libs/strand:strand"),
            ("//services/scheduler/core:queue", "//libs/time:system_clock"),
            ("//services/scheduler/core:queue", "//third_party/grpc:grpc"),
            ("//services/scheduler/core:queue", "//proto/capstan/scheduler/v1:job_grpc"),
            ("//services/scheduler/core:queue", "//third_party/sqlite:sqlite"),
            ("//services/scheduler/ports:job_store", "//services/scheduler/adapters:sqlite_store"),
            ("//services/scheduler/adapters:store", "//services/scheduler/api:job_service"),
            ("//services/scheduler/api:job_service", "//services/scheduler:server"),
            ("//services/scheduler:server", "//services/credentials:server"),
            ("//services/scheduler:server", "//services/credentials/core:policy"),
            ("//services/scheduler:server", "//services/scheduler/testing:harness"),
            ("//services/scheduler:server", "//tools/capstan:capstan"),
            ("//tools/capstan:serve", "//services/scheduler/core:queue"),
            ("//tools/lint:x", "//services/scheduler:server"),
            ("//libs/time:clock", "//integration:x"),
        ):
            self.assertIsNotNone(violation(source, target), (source, target))

    def test_allowed(self):
        for source, target in (
            ("//proto/capstan/type/v1:task_proto", "//proto/google/rpc:status_proto"),
            ("//libs/strand:strand", "//libs/time:clock"),
            ("//services/scheduler/core:queue", "//proto/capstan/type/v1:task_proto"),
            ("//services/scheduler/core:queue", "//libs/status:error"),
            ("//services/scheduler/core:queue", "//libs/time:clock"),
            ("//services/scheduler/ports:job_store", "//services/scheduler/core:queue"),
            ("//services/scheduler/adapters/kube:nodes", "//services/scheduler/adapters:x"),
            ("//services/scheduler/api:job_service", "//services/scheduler/ports:commands"),
            ("//services/scheduler/api:job_service", "//services/scheduler:engine"),
            ("//services/node_agent/adapters:launcher", "//services/node_agent/shim:shim_lib"),
            ("//services/scheduler:server", "//services/scheduler/api:job_service"),
            ("//services/scheduler/testing:harness", "//services/scheduler:server"),
            ("//tools/capstan:serve", "//services/scheduler:server"),
            ("//integration:all_test", "//services/scheduler:server"),
        ):
            self.assertIsNone(violation(source, target), (source, target))

    def test_core_tests_may_use_more_libs_but_no_grpc(self):
        test = "//services/scheduler/core:queue_test"
        self.assertIsNone(violation(test, "//libs/time:simulated_clock", testonly=True))
        self.assertIsNotNone(violation(test, "//third_party/grpc:grpc", testonly=True))
        self.assertIsNotNone(violation(test, "//services/telemetry/core:x", testonly=True))


class GraphTest(unittest.TestCase):

    def test_grpc_behind_a_library_is_found(self):
        labels = ["//services/a/core:c", "//libs/status:error", "//third_party/grpc:grpc"]
        targets = {label: edges.Target(label) for label in labels}
        found = edges.violations(targets, {labels[0]: [labels[1]], labels[1]: [labels[2]]})
        self.assertEqual(len(found), 1)
        self.assertIn(" -> ".join(labels), found[0])


if __name__ == "__main__":
    unittest.main()
