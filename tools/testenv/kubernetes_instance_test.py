"""Tests of what a control plane's instance writes and asks its programs for, without starting them."""

import os
import shutil
import subprocess
import tempfile
import unittest

import kubernetes_instance


class ControlPlaneTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.plane = kubernetes_instance.ControlPlane(self.folder, "/programs", range(1, 5))
        self.plane.prepare()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def test_only_the_owner_reads_keys_and_kubeconfigs(self):
        secret = [one for one in os.listdir(self.folder) if one.endswith((".key", ".kubeconfig"))]
        self.assertGreaterEqual(len(secret), 12)
        for one in secret:
            self.assertEqual(os.stat(os.path.join(self.folder, one)).st_mode & 0o077, 0, one)

    def test_certificates_are_of_the_instances_own_authority(self):
        for name, _, authority, _ in kubernetes_instance.CERTIFICATES:
            checked = subprocess.run(["openssl", "verify", "-CAfile", authority + ".crt", name + ".crt"],
                                     cwd=self.folder, stdout=subprocess.PIPE, check=False)
            self.assertEqual(checked.returncode, 0, name)

    def test_the_api_server_listens_on_loopback_with_rbac_and_an_audit_of_metadata(self):
        commands, checks = self.plane.server("http://127.0.0.1:9")
        command = commands["kube-apiserver"]
        self.assertIn("--etcd-servers=http://127.0.0.1:9", command)
        self.assertEqual(checks["kube-apiserver"][0]["http"], "https://127.0.0.1:1/readyz")
        for flag in ("--bind-address=127.0.0.1", "--authorization-mode=Node,RBAC"):
            self.assertIn(flag, command)
        with open(self.plane.at("audit.yaml"), encoding="ascii") as policy:
            self.assertIn("level: Metadata", policy.read())


if __name__ == "__main__":
    unittest.main()
