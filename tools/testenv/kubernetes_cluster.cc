#include "tools/testenv/kubernetes_cluster.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "curl/curl.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::testenv {
namespace {

constexpr long kPatienceSeconds = 30;
constexpr size_t kErrorBytes = 500;

struct Answer {
  std::string body;
  bool first_bytes;
};

size_t Append(const char* bytes, size_t size, size_t count, void* to) {
  Answer& answer = *static_cast<Answer*>(to);
  answer.body.append(bytes, size * count);
  return answer.first_bytes ? 0 : size * count;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KubernetesCluster>> KubernetesCluster::Start(
    const Options& options) {
  std::vector<std::string> arguments;
  for (const std::string& flag : options.flags) {
    arguments.push_back(absl::StrCat("--flag=", flag));
  }
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<PlannedServer> server,
                           PlannedServer::Start({.server = "kubernetes",
                                                 .ports = 6,
                                                 .programs = {"kubernetes", "etcd"},
                                                 .arguments = std::move(arguments)}));
  return std::unique_ptr<KubernetesCluster>(new KubernetesCluster(std::move(server)));
}

absl::StatusOr<KubernetesCluster*> KubernetesCluster::Shared() {
  using Started = absl::StatusOr<std::unique_ptr<KubernetesCluster>>;
  static Started* const shared = new Started(Start({}));
  static const int registered = std::atexit([] {
    if (shared->ok()) shared->value().reset();
  });
  static_cast<void>(registered);
  CAPSTAN_RETURN_IF_ERROR(shared->status());
  return (*shared)->get();
}

const char* KubernetesCluster::Name(Part part) {
  switch (part) {
    case Part::kEtcd:
      return "etcd";
    case Part::kApiServer:
      return "kube-apiserver";
    case Part::kControllerManager:
      return "kube-controller-manager";
    case Part::kScheduler:
      return "kube-scheduler";
    case Part::kKwok:
      return "kwok";
  }
  return "";
}

absl::StatusOr<std::string> KubernetesCluster::Request(const std::string& url,
                                                       const std::string& body,
                                                       bool first_bytes) const {
  Answer answer{.body = "", .first_bytes = first_bytes};
  CURL* const curl = curl_easy_init();
  curl_slist* const headers = curl_slist_append(nullptr, "Content-Type: application/json");
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file().c_str());
  curl_easy_setopt(curl, CURLOPT_SSLCERT, certificate_file().c_str());
  curl_easy_setopt(curl, CURLOPT_SSLKEY, key_file().c_str());
  if (!body.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kPatienceSeconds);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  const CURLcode result = curl_easy_perform(curl);
  long code = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  const bool cut = first_bytes && result == CURLE_WRITE_ERROR;
  if (result != CURLE_OK && !cut) {
    return absl::UnavailableError(absl::StrCat(url, ": ", curl_easy_strerror(result)));
  }
  if (code / 100 != 2 || (first_bytes && answer.body.empty())) {
    return absl::UnavailableError(
        absl::StrCat(url, ": HTTP ", code, ": ", answer.body.substr(0, kErrorBytes)));
  }
  return std::move(answer.body);
}

absl::StatusOr<std::string> KubernetesCluster::CreateNamespace() {
  std::string name = absl::StrCat("test-", ++namespaces_);
  const nlohmann::json body = {
      {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}};
  CAPSTAN_RETURN_IF_ERROR(
      Request(url() + "/api/v1/namespaces", body.dump(), /*first_bytes=*/false).status());
  // A watch without a revision begins with what is there.
  CAPSTAN_RETURN_IF_ERROR(Request(absl::StrCat(url(), "/api/v1/namespaces/", name,
                                               "/serviceaccounts?watch=true&fieldSelector="
                                               "metadata.name%3Ddefault"),
                                  "", /*first_bytes=*/true)
                              .status());
  return name;
}

absl::StatusOr<int64_t> KubernetesCluster::CompactEtcd() {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string range, Request(etcd_url() + "/v3/kv/range",
                                                            R"({"key":"AA==","count_only":true})",
                                                            /*first_bytes=*/false));
  const nlohmann::json parsed = nlohmann::json::parse(range, nullptr, false);
  int64_t revision = 0;
  if (!parsed.is_object() || !parsed.contains("header") ||
      !absl::SimpleAtoi(parsed["header"].value("revision", ""), &revision)) {
    return absl::InternalError(absl::StrCat("etcd answered ", range));
  }
  const nlohmann::json body = {{"revision", absl::StrCat(revision)}, {"physical", true}};
  CAPSTAN_RETURN_IF_ERROR(
      Request(etcd_url() + "/v3/kv/compaction", body.dump(), /*first_bytes=*/false).status());
  return revision;
}

}  // namespace capstan::testenv
