#include "libs/kube/config/kubeconfig.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "libs/kube/config/credential_check.h"
#include "libs/kube/config/document_fields.h"
#include "libs/kube/config/document_json.h"
#include "libs/kube/config/kubeconfig_user.h"
#include "libs/kube/config/namespace_name.h"
#include "libs/kube/config/server_url.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using config::Document;

constexpr char kBadConfig[] = "KUBE_BAD_CONFIG";
// Where a cluster says what its plugins are told (client-go's extension name).
constexpr char kExecExtension[] = "client.authentication.k8s.io/exec";

void ReadCluster(const DocumentFields& cluster, KubeconfigChoice* choice) {
  ClientConfig& config = choice->config;
  config.server = cluster.Text("server");
  if (config.server.empty()) {
    cluster.Wrong("server", "is missing; it is the API server's URL, `https://host:port`");
  } else if (!ParseServerUrl(config.server).has_value()) {
    cluster.Wrong("server",
                  "expected `https://host[:port][/path]`, or `http://…`, without user, query and "
                  "fragment");
  }
  config.tls_server_name = cluster.Text("tls-server-name");
  config.insecure_skip_tls_verify = cluster.Flag("insecure-skip-tls-verify");
  config.disable_compression = cluster.Flag("disable-compression");
  config.proxy_url = cluster.Text("proxy-url");
  if (!config.proxy_url.empty() && !IsProxyUrl(config.proxy_url)) {
    cluster.Wrong("proxy-url",
                  "expected `http://`, `https://` or `socks5://`, a host and perhaps a port");
  }
  config.ca_pem = cluster.Bytes("certificate-authority-data");
  choice->ca_path = ResolvePath(cluster.file(), cluster.Text("certificate-authority"));
  choice->ca_field = cluster.Path("certificate-authority");
  if (!config.ca_pem.empty() && !choice->ca_path.empty()) {
    cluster.Wrong("certificate-authority",
                  "is given together with certificate-authority-data; leave one out");
  }
  if (!config.ca_pem.empty()) {
    const absl::Status sound = CheckCertificates(config.ca_pem);
    if (!sound.ok()) cluster.Wrong("certificate-authority-data", sound.message());
  }
  if (config.insecure_skip_tls_verify && (!config.ca_pem.empty() || !choice->ca_path.empty())) {
    cluster.Wrong("insecure-skip-tls-verify",
                  "contradicts the certificate-authority that is given; leave one out");
  }
}

std::string ExecExtension(const DocumentFields& cluster) {
  for (const DocumentFields& extension : cluster.Mappings("extensions")) {
    if (extension.Text("name") != kExecExtension) continue;
    const Document* const value = extension.Find("extension");
    return value == nullptr ? "" : ToJson(*value);
  }
  return "";
}

}  // namespace

absl::StatusOr<Kubeconfig> Kubeconfig::Merge(const std::vector<KubeconfigFile>& files) {
  Kubeconfig merged;
  Findings findings;
  for (const KubeconfigFile& file : files) {
    merged.files_.push_back(file.path);
    const absl::optional<Document> document = ParseText(file.text, file.path, &findings);
    if (!document.has_value()) continue;
    const DocumentFields root(&*document, file.path, "", &findings);
    const std::string version = root.Text("apiVersion");
    if (!version.empty() && version != "v1") root.Wrong("apiVersion", "expected v1");
    const std::string kind = root.Text("kind");
    if (!kind.empty() && kind != "Config") root.Wrong("kind", "expected Config");
    const std::string current = root.Text("current-context");
    if (merged.current_context_.empty()) merged.current_context_ = current;
    const auto read = [&](absl::string_view list, absl::string_view member,
                          std::vector<Entry>* entries) {
      std::set<std::string> taken;
      for (const Entry& entry : *entries) taken.insert(entry.name);
      std::set<std::string> here;
      for (const DocumentFields& element : root.Mappings(list)) {
        const std::string name = element.Text("name");
        if (!here.insert(name).second) {
          element.Wrong("name", "is the name of another one above, too");
        }
        if (!taken.insert(name).second) continue;
        const Document* const value = element.Find(member);
        entries->push_back(
            {name, file.path, element.Path(member), value == nullptr ? Document() : *value});
      }
    };
    read("contexts", "context", &merged.contexts_);
    read("clusters", "cluster", &merged.clusters_);
    read("users", "user", &merged.users_);
  }
  if (!findings.ok()) return findings.ToStatus(kBadConfig);
  return merged;
}

std::vector<std::string> Kubeconfig::contexts() const {
  std::vector<std::string> names;
  for (const Entry& entry : contexts_) names.push_back(entry.name);
  return names;
}

const Kubeconfig::Entry* Kubeconfig::Find(const std::vector<Entry>& entries,
                                          absl::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::Status Kubeconfig::NotFound(absl::string_view kind, absl::string_view name,
                                  absl::string_view named_by,
                                  const std::vector<Entry>& entries) const {
  constexpr size_t kShown = 10;
  std::vector<std::string> known;
  for (const Entry& entry : entries) {
    if (known.size() == kShown) {
      known.push_back(absl::StrCat("and ", entries.size() - kShown, " more"));
      break;
    }
    known.push_back(absl::CHexEscape(entry.name));
  }
  const std::string shown = absl::CHexEscape(name);
  return status::Error(
      absl::StatusCode::kNotFound, "KUBE_NOT_IN_CONFIG",
      absl::StrCat("the ", kind, " `", shown, "` that ", named_by, " names is not in ",
                   files_.empty() ? "any kubeconfig" : absl::StrJoin(files_, ", "),
                   "; there is: ", known.empty() ? "none" : absl::StrJoin(known, ", ")),
      {{"kind", std::string(kind)}, {"name", shown}});
}

absl::StatusOr<KubeconfigChoice> Kubeconfig::Choose(const KubeconfigOverrides& overrides) const {
  if (ChoosesNothing(overrides)) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "KUBE_NO_CONTEXT",
                         absl::StrCat("no context is chosen by ", absl::StrJoin(files_, ", "),
                                      "; name one, or set `current-context`"));
  }
  Findings findings;
  KubeconfigChoice choice;
  ClientConfig& config = choice.config;
  std::string cluster_name = overrides.cluster;
  std::string user_name = overrides.user;
  std::string cluster_named_by = "the caller";
  std::string user_named_by = "the caller";
  const std::string& context_name =
      overrides.context.empty() ? current_context_ : overrides.context;
  if (!context_name.empty()) {
    const Entry* const entry = Find(contexts_, context_name);
    if (entry == nullptr) {
      return NotFound("context", context_name,
                      overrides.context.empty() ? "`current-context`" : "the caller", contexts_);
    }
    const DocumentFields context(&entry->value, entry->file, entry->field, &findings);
    const std::string named_by = absl::StrCat("the context `", absl::CHexEscape(context_name), "`");
    config.origin = absl::StrCat("context ", absl::CHexEscape(context_name), " of ", entry->file);
    const std::string cluster = context.Text("cluster");
    const std::string user = context.Text("user");
    const std::string name_space = context.Text("namespace");
    if (cluster_name.empty()) {
      cluster_name = cluster;
      cluster_named_by = named_by;
      if (cluster.empty()) context.Wrong("cluster", "is missing; it names one of `clusters`");
    }
    if (user_name.empty()) {
      user_name = user;
      user_named_by = named_by;
    }
    if (!name_space.empty()) {
      config.namespace_name = name_space;
      if (!IsNamespaceName(name_space)) context.Wrong("namespace", kNamespaceNameExpected);
    }
  }
  if (!overrides.namespace_name.empty()) {
    config.namespace_name = overrides.namespace_name;
    if (!IsNamespaceName(overrides.namespace_name)) {
      status::FieldErrors errors;
      errors.Add("namespace", kNamespaceNameExpected);
      return errors.ToStatus();
    }
  }
  if (!findings.ok()) return findings.ToStatus(kBadConfig);

  const Entry* const cluster_entry = Find(clusters_, cluster_name);
  if (cluster_entry == nullptr) {
    return NotFound("cluster", cluster_name, cluster_named_by, clusters_);
  }
  if (config.origin.empty()) {
    config.origin =
        absl::StrCat("cluster ", absl::CHexEscape(cluster_name), " of ", cluster_entry->file);
  }
  const DocumentFields cluster(&cluster_entry->value, cluster_entry->file, cluster_entry->field,
                               &findings);
  ReadCluster(cluster, &choice);
  if (!user_name.empty()) {
    const Entry* const user_entry = Find(users_, user_name);
    if (user_entry == nullptr) return NotFound("user", user_name, user_named_by, users_);
    ReadUser(DocumentFields(&user_entry->value, user_entry->file, user_entry->field, &findings),
             &config);
    auto* const plugin = std::get_if<ExecPlugin>(&config.credential);
    if (plugin != nullptr && plugin->provide_cluster) {
      plugin->cluster_config_json = ExecExtension(cluster);
    }
  }
  const absl::optional<ServerUrl> url = ParseServerUrl(config.server);
  if (url.has_value() && !url->tls && !std::holds_alternative<NoCredential>(config.credential)) {
    cluster.Wrong("server",
                  "is `http://`, by which the user's credential would be sent in the clear; use "
                  "`https://`, or a context without a user");
  }
  if (!findings.ok()) return findings.ToStatus(kBadConfig);
  return choice;
}

}  // namespace capstan::kube
