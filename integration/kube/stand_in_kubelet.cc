#include "integration/kube/stand_in_kubelet.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::testing {
namespace {

constexpr char kNode[] = "stand-in";

absl::Status Run(const std::string& command) {
  if (system(command.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("failed: ", command));
}

// A certificate that is its own root.
absl::Status MakeCertificate(const std::string& path, const std::string& name) {
  return Run(absl::StrCat(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=",
      name, " -addext subjectAltName=IP:127.0.0.1 -keyout ", path, ".key -out ", path,
      ".crt >/dev/null 2>&1"));
}

// Writes `status` into an object that is there.
absl::Status SetStatus(RealClient* client, const std::string& target,
                       const nlohmann::json& status) {
  CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json object, client->Json("GET", target));
  object["status"].update(status);
  // Controllers write it at the same time, and no field of these.
  object["metadata"].erase("resourceVersion");
  return client->Json("PUT", target + "/status", object.dump()).status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StandInKubelet>> StandInKubelet::Start(
    const Containers& containers) {
  CAPSTAN_ASSIGN_OR_RETURN(testenv::LoopbackPort port, testenv::LoopbackPort::Take());
  const std::string folder = absl::StrCat(::testing::TempDir(), "/stand_in_kubelet");
  CAPSTAN_RETURN_IF_ERROR(Run("mkdir -p " + folder));
  CAPSTAN_RETURN_IF_ERROR(MakeCertificate(folder + "/kubelet", "stand-in"));
  CAPSTAN_RETURN_IF_ERROR(MakeCertificate(folder + "/client", "kube-apiserver-kubelet-client"));
  std::vector<std::string> command = {
      "tools/testenv/bin/stand_in_kubelet",      absl::StrCat("-address=127.0.0.1:", port.number()),
      "-certificate=" + folder + "/kubelet.crt", "-key=" + folder + "/kubelet.key",
      "-client-ca=" + folder + "/client.crt",    "-logs=" + folder};
  for (const auto& [name, main] : containers) {
    command.push_back(absl::StrCat("-main=", name, "=", main));
  }
  auto kubelet = std::unique_ptr<StandInKubelet>(new StandInKubelet(folder, std::move(port)));
  CAPSTAN_ASSIGN_OR_RETURN(kubelet->process_,
                           testenv::ServerProcess::Start(command, folder + "/log",
                                                         {"PATH=/usr/local/bin:/usr/bin:/bin"}));
  CAPSTAN_RETURN_IF_ERROR(kubelet->process_->WaitReady(absl::Seconds(30)));
  return kubelet;
}

std::vector<std::string> StandInKubelet::api_server_flags() const {
  return {absl::StrCat("kube-apiserver=--kubelet-client-certificate=", folder_, "/client.crt"),
          absl::StrCat("kube-apiserver=--kubelet-client-key=", folder_, "/client.key"),
          absl::StrCat("kube-apiserver=--kubelet-certificate-authority=", folder_, "/kubelet.crt")};
}

absl::Status StandInKubelet::Register(RealClient* client) const {
  const nlohmann::json node = {
      {"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", kNode}}}};
  CAPSTAN_RETURN_IF_ERROR(client->Json("POST", "/api/v1/nodes", node.dump()).status());
  return SetStatus(client, absl::StrCat("/api/v1/nodes/", kNode),
                   {{"addresses", {{{"type", "InternalIP"}, {"address", "127.0.0.1"}}}},
                    {"daemonEndpoints", {{"kubeletEndpoint", {{"Port", port_.number()}}}}}});
}

absl::Status StandInKubelet::RunPod(RealClient* client, const std::string& ns,
                                    const std::string& name,
                                    const std::vector<std::string>& containers) const {
  // The Node renews no lease, so the Pod tolerates whatever is thought of it.
  nlohmann::json pod = {{"apiVersion", "v1"},
                        {"kind", "Pod"},
                        {"metadata", {{"name", name}}},
                        {"spec",
                         {{"nodeName", kNode},
                          {"tolerations", {{{"operator", "Exists"}}}},
                          {"containers", nlohmann::json::array()}}}};
  for (const std::string& container : containers) {
    pod["spec"]["containers"].push_back({{"name", container}, {"image", "none"}});
  }
  const std::string pods = absl::StrCat("/api/v1/namespaces/", ns, "/pods");
  CAPSTAN_RETURN_IF_ERROR(client->Json("POST", pods, pod.dump()).status());
  return SetStatus(client, absl::StrCat(pods, "/", name), {{"phase", "Running"}});
}

}  // namespace capstan::kube::testing
