#ifndef CAPSTAN_TOOLS_TESTENV_KUBERNETES_CLUSTER_H_
#define CAPSTAN_TOOLS_TESTENV_KUBERNETES_CLUSTER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/testenv/planned_server.h"

namespace capstan::testenv {

// A real control plane of Kubernetes of a test's own: etcd, API server, controller manager,
// scheduler and kwok, which plays the kubelets of Nodes with the annotation
// kwok.x-k8s.io/node=fake. Some 5 s to start, 600 MB. Its etcd syncs nothing to disk. Ends, with
// its data, when destroyed or when the test dies. For one thread, which must outlive it. A test
// that uses it has //tools/testenv:kubernetes_home and etcd_home as data, and is tagged manual
// and needs:kubernetes.
//
//   auto kubernetes = testenv::KubernetesCluster::Shared();
//   ASSERT_TRUE(kubernetes.ok()) << kubernetes.status();
//   auto space = (*kubernetes)->CreateNamespace();
//   client options: (*kubernetes)->url(), ca_file(), certificate_file(), key_file()
class KubernetesCluster {
 public:
  enum class Part { kEtcd, kApiServer, kControllerManager, kScheduler, kKwok };

  struct Options {
    // Added to a part's command line, as `<program>=<flag>`, e.g.
    // `kube-apiserver=--feature-gates=GenericWorkload=true`, `etcd=--quota-backend-bytes=…`.
    std::vector<std::string> flags{};
  };

  // NOT_FOUND or UNAVAILABLE, with what to do, if it does not start.
  static absl::StatusOr<std::unique_ptr<KubernetesCluster>> Start(const Options& options);
  // The one that the tests of a process share, started without options by the first call, on the
  // main thread, and ended at exit. Who kills a part of it restarts it.
  static absl::StatusOr<KubernetesCluster*> Shared();

  // `https://127.0.0.1:<port>`, which a restart keeps.
  std::string url() const { return server_->endpoint("kubernetes"); }
  // `http://127.0.0.1:<port>` of its etcd, which asks no one for a certificate.
  std::string etcd_url() const { return server_->endpoint("etcd"); }
  // Of an administrator (system:masters).
  std::string kubeconfig() const { return server_->credential("kubeconfig"); }
  std::string ca_file() const { return server_->credential("ca"); }
  std::string certificate_file() const { return server_->credential("certificate"); }
  std::string key_file() const { return server_->credential("key"); }
  // The program of the same version.
  std::string kubectl() const { return server_->value("kubectl"); }

  // Makes a namespace, waits until its ServiceAccount `default` is there, without which no Pod is
  // admitted, and returns its name: one a test.
  absl::StatusOr<std::string> CreateNamespace();
  // Compacts etcd at its revision of now, so that no watch resumes from before it (410 Gone where
  // the API server's own memory does not reach). Returns that revision.
  absl::StatusOr<int64_t> CompactEtcd();

  // SIGKILL, SIGSTOP and SIGCONT.
  void Kill(Part part) { server_->Kill(Name(part)); }
  void Stop(Part part) { server_->Stop(Name(part)); }
  void Continue(Part part) { server_->Continue(Name(part)); }
  bool IsRunning(Part part) const { return server_->IsRunning(Name(part)); }
  pid_t pid(Part part) const { return server_->pid(Name(part)); }
  // Starts a part that was killed, with what it had on disk, and waits until it answers.
  absl::Status Restart(Part part) { return server_->Restart(Name(part)); }

 private:
  explicit KubernetesCluster(std::unique_ptr<PlannedServer> server) : server_(std::move(server)) {}
  static const char* Name(Part part);
  // The body of a 2xx answer; `first_bytes` ends it with the first that come.
  absl::StatusOr<std::string> Request(const std::string& url, const std::string& body,
                                      bool first_bytes) const;

  const std::unique_ptr<PlannedServer> server_;
  int namespaces_ = 0;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_KUBERNETES_CLUSTER_H_
