#include "libs/kube/config/load_client_config.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/kube/config/credential_check.h"
#include "libs/kube/config/in_cluster.h"
#include "libs/kube/config/namespace_name.h"
#include "libs/kube/config/text_file.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

// More than anybody lists; each may have 1 MiB.
constexpr size_t kMaxFiles = 64;

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

std::vector<std::string> SplitList(absl::string_view list) {
  std::vector<std::string> paths;
  for (const absl::string_view path : absl::StrSplit(list, ':', absl::SkipEmpty())) {
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.emplace_back(path);
  }
  return paths;
}

void WarnIfShared(const std::string& path, mode_t mode, std::vector<std::string>* warnings) {
  if ((mode & (S_IRWXG | S_IRWXO)) == 0) return;
  warnings->push_back(absl::StrFormat(
      "%s has mode %04o, so others may use the credentials in it; `chmod 600` it.", path, mode));
}

absl::StatusOr<ClientConfig> Choose(const Kubeconfig& kubeconfig,
                                    const KubeconfigOverrides& overrides,
                                    std::vector<std::string> warnings) {
  CAPSTAN_ASSIGN_OR_RETURN(KubeconfigChoice choice, kubeconfig.Choose(overrides));
  ClientConfig& config = choice.config;
  if (!choice.ca_path.empty()) {
    absl::StatusOr<TextFile> file = ReadTextFile(choice.ca_path, /*regular_only=*/true);
    if (!file.ok()) return status::Annotate(file.status(), choice.ca_field);
    CAPSTAN_RETURN_IF_ERROR(status::Annotate(CheckCertificates(file->text),
                                             absl::StrCat(choice.ca_field, ": ", choice.ca_path)));
    config.ca_pem = std::move(file->text);
  }
  const auto* const given = std::get_if<GivenCredential>(&config.credential);
  struct stat key{};
  if (given != nullptr && !given->private_key_pem.path.empty() &&
      stat(given->private_key_pem.path.c_str(), &key) == 0) {
    WarnIfShared(given->private_key_pem.path, key.st_mode & 07777, &warnings);
  }
  config.warnings.insert(config.warnings.begin(), warnings.begin(), warnings.end());
  return config;
}

}  // namespace

absl::StatusOr<ClientConfig> LoadClientConfig(const Environment& environment,
                                              const LoadOptions& options) {
  std::vector<std::string> paths;
  const std::string list = environment.Variable("KUBECONFIG");
  const bool by_list = options.explicit_path.empty() && !list.empty();
  if (!options.explicit_path.empty()) {
    paths = {options.explicit_path};
  } else if (by_list) {
    paths = SplitList(list);
  } else if (!environment.home.empty()) {
    paths = {absl::StrCat(environment.home, "/.kube/config")};
  }
  if (paths.size() > kMaxFiles) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, "KUBE_BAD_CONFIG",
        absl::StrCat("KUBECONFIG names ", paths.size(), " files; at most ", kMaxFiles));
  }
  std::vector<std::string> warnings;
  std::vector<KubeconfigFile> files;
  for (std::string& path : paths) {
    path = Absolute(path);
    absl::StatusOr<TextFile> file = ReadTextFile(path, /*regular_only=*/false);
    if (file.ok()) {
      WarnIfShared(path, file->mode, &warnings);
      files.push_back({path, std::move(file->text)});
    } else if (!absl::IsNotFound(file.status()) || !options.explicit_path.empty()) {
      return file.status();
    } else if (by_list) {
      warnings.push_back(absl::StrCat("KUBECONFIG names ", path, ", which is not there."));
    }
  }
  CAPSTAN_ASSIGN_OR_RETURN(const Kubeconfig kubeconfig, Kubeconfig::Merge(files));
  const bool nothing = kubeconfig.ChoosesNothing(options.overrides);
  if (!nothing || !options.explicit_path.empty()) {
    return Choose(kubeconfig, options.overrides, std::move(warnings));
  }
  // A user of a kubeconfig is not mixed into a Pod's identity.
  if (IsInCluster(environment) && options.overrides.user.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(ClientConfig config, InClusterConfig(environment));
    if (!options.overrides.namespace_name.empty()) {
      if (!IsNamespaceName(options.overrides.namespace_name)) {
        status::FieldErrors errors;
        errors.Add("namespace", kNamespaceNameExpected);
        return errors.ToStatus();
      }
      config.namespace_name = options.overrides.namespace_name;
    }
    config.warnings = std::move(warnings);
    return config;
  }
  if (!files.empty()) return kubeconfig.Choose(options.overrides).status();
  return status::Error(
      absl::StatusCode::kNotFound, "KUBE_NO_CONFIG",
      absl::StrCat("no kubeconfig was found (looked for: ",
                   paths.empty() ? "nothing, there is no home folder" : absl::StrJoin(paths, ", "),
                   "), and this is no Pod; name a kubeconfig, or set KUBECONFIG"));
}

}  // namespace capstan::kube
