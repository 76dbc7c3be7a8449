"""A control plane on loopback: its certificates, its command lines, and how one sees that it is ready.

For the plan of `testenv.py up kubernetes`. etcd speaks plainly here, so whoever has an account on this
machine can read what the API server stores, and nothing is synced to the disk: for throwaway objects only.
"""

import base64
import os
import subprocess

# (name, subject, authority, extension). The subject's O is the group that RBAC knows.
CERTIFICATES = (
    ("apiserver", "/CN=kube-apiserver", "ca",
     "extendedKeyUsage=serverAuth\nsubjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,"
     "DNS:kubernetes.default.svc\n"),
    ("front-proxy-client", "/CN=front-proxy-client", "front-proxy-ca", "extendedKeyUsage=clientAuth\n"),
) + tuple((name, subject, "ca", "extendedKeyUsage=clientAuth\n") for name, subject in (
    ("admin", "/O=system:masters/CN=admin"), ("kwok", "/O=system:masters/CN=kwok"),
    ("controller-manager", "/CN=system:kube-controller-manager"),
    ("scheduler", "/CN=system:kube-scheduler")))

# Metadata alone: neither bodies nor tokens.
AUDIT_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
SCHEDULER = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s, qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
"""
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: testenv
clusters: [{name: testenv, cluster: {server: "https://127.0.0.1:%d", certificate-authority-data: %s}}]
users: [{name: %s, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: testenv, context: {cluster: testenv, user: %s}}]
"""


def write(path, content):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(content)


def encoded(path):
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


class ControlPlane:
    """One instance in `folder`, whose programs lie in `programs`; four ports."""

    def __init__(self, folder, programs, ports):
        self.folder, self.programs = folder, programs
        self.port, self.manager_port, self.scheduler_port, self.kwok_port = ports

    def url(self, port=None):
        return "https://127.0.0.1:%d" % (port or self.port)

    def at(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *arguments):
        # A umask, since openssl writes keys itself.
        subprocess.run(["openssl", *arguments], check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, umask=0o077)

    def prepare(self):
        """Writes certificates, kubeconfigs and settings."""
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        for name in ("ca", "front-proxy-ca"):
            self.openssl("req", "-x509", *curve, "-keyout", name + ".key", "-out", name + ".crt",
                         "-days", "365", "-subj", "/CN=" + name, "-addext",
                         "keyUsage=critical,keyCertSign,cRLSign")
        for name, subject, authority, extension in CERTIFICATES:
            write(self.at(name + ".ext"), extension)
            self.openssl("req", "-new", *curve, "-keyout", name + ".key", "-out", name + ".csr",
                         "-subj", subject)
            self.openssl("x509", "-req", "-in", name + ".csr", "-CA", authority + ".crt", "-CAkey",
                         authority + ".key", "-CAcreateserial", "-days", "365", "-extfile",
                         name + ".ext", "-out", name + ".crt")
        self.openssl("genrsa", "-out", "sa.key", "2048")
        self.openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        for name in ("admin", "kwok", "controller-manager", "scheduler"):
            write(self.at(name + ".kubeconfig"), KUBECONFIG % (
                self.port, encoded(self.at("ca.crt")), name, encoded(self.at(name + ".crt")),
                encoded(self.at(name + ".key")), name))
        write(self.at("audit.yaml"), AUDIT_POLICY)
        write(self.at("scheduler.yaml"), SCHEDULER % self.at("scheduler.kubeconfig"))

    def store_flags(self):
        """Of its etcd."""
        return ["--unsafe-no-fsync", "--quota-backend-bytes=8589934592"]

    def as_admin(self, path):
        """A check that the API server answers a GET of the administrator."""
        return {"http": self.url() + path, "ca": self.at("ca.crt"), "certificate": self.at("admin.crt"),
                "key": self.at("admin.key")}

    def server(self, etcd):
        """The API server on an etcd: its command line and its checks, by name."""
        return {"kube-apiserver": [
            os.path.join(self.programs, "kube-apiserver"),
            "--etcd-servers=" + etcd, "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", "--secure-port=%d" % self.port,
            # Loopback is no endpoint that it would publish.
            "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
            "--client-ca-file=" + self.at("ca.crt"), "--tls-cert-file=" + self.at("apiserver.crt"),
            "--tls-private-key-file=" + self.at("apiserver.key"), "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://127.0.0.1:%d" % self.port,
            "--service-account-key-file=" + self.at("sa.pub"),
            "--service-account-signing-key-file=" + self.at("sa.key"),
            "--requestheader-client-ca-file=" + self.at("front-proxy-ca.crt"),
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--proxy-client-cert-file=" + self.at("front-proxy-client.crt"),
            "--proxy-client-key-file=" + self.at("front-proxy-client.key"),
            "--audit-policy-file=" + self.at("audit.yaml"), "--audit-log-path=" + self.at("audit.log"),
            "--profiling=false"]}, {"kube-apiserver": [self.as_admin("/readyz")]}

    def clients(self):
        """What needs the API server: command lines and checks, by name."""
        manager, scheduler = self.at("controller-manager.kubeconfig"), self.at("scheduler.kubeconfig")
        stages = os.path.join(self.programs, "stages")
        return {
            "kube-controller-manager": [
                os.path.join(self.programs, "kube-controller-manager"), "--kubeconfig=" + manager,
                "--authentication-kubeconfig=" + manager, "--authorization-kubeconfig=" + manager,
                "--bind-address=127.0.0.1", "--secure-port=%d" % self.manager_port,
                "--leader-elect=false", "--use-service-account-credentials=true",
                "--service-account-private-key-file=" + self.at("sa.key"),
                "--root-ca-file=" + self.at("ca.crt"), "--kube-api-qps=500", "--kube-api-burst=1000"],
            "kube-scheduler": [
                os.path.join(self.programs, "kube-scheduler"), "--config=" + self.at("scheduler.yaml"),
                "--bind-address=127.0.0.1", "--secure-port=%d" % self.scheduler_port,
                "--authentication-kubeconfig=" + scheduler, "--authorization-kubeconfig=" + scheduler],
            "kwok": [
                os.path.join(self.programs, "kwok"), "--kubeconfig=" + self.at("kwok.kubeconfig"),
                "--manage-all-nodes=false",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                "--node-lease-duration-seconds=40", "--node-ip=127.0.0.1",
                "--server-address=127.0.0.1:%d" % self.kwok_port,
            ] + ["--config=" + os.path.join(stages, one) for one in sorted(os.listdir(stages))],
        }, {
            "kube-controller-manager": [
                {"http": self.url(self.manager_port) + "/healthz"},
                # Without it no Pod is admitted.
                self.as_admin("/api/v1/namespaces/default/serviceaccounts/default")],
            "kube-scheduler": [{"http": self.url(self.scheduler_port) + "/readyz"}],
            "kwok": [{"http": "http://127.0.0.1:%d/healthz" % self.kwok_port}],
        }
