// Any two files: what is chosen is whole, and neither errors nor descriptions hold what is secret.
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  namespace kube = capstan::kube;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find("\n---\n");
  const bool two = cut != absl::string_view::npos;
  std::vector<kube::KubeconfigFile> files = {{"/a/config", std::string(text.substr(0, cut))}};
  if (two) files.push_back({"/b/config", std::string(text.substr(cut + 5))});
  const auto merged = kube::Kubeconfig::Merge(files);
  if (!merged.ok()) return 0;
  std::vector<std::string> contexts = merged->contexts();
  contexts.emplace_back();
  for (const std::string& context : contexts) {
    kube::KubeconfigOverrides overrides;
    overrides.context = context;
    const auto choice = merged->Choose(overrides);
    if (!choice.ok()) continue;
    const kube::ClientConfig& config = choice->config;
    Require(!config.server.empty() && !config.namespace_name.empty());
    Require(config.ca_pem.empty() || choice->ca_path.empty());
    if (const auto* given = std::get_if<kube::GivenCredential>(&config.credential)) {
      Require(given->certificate_chain_pem.empty() == given->private_key_pem.empty());
      Require(!given->token.empty() || !given->private_key_pem.empty());
    }
    // At least this long, so that it is not part of a word of the description's own.
    if (const auto* given = std::get_if<kube::GivenCredential>(&config.credential);
        given != nullptr && absl::StartsWith(given->token.text, "SECRET")) {
      Require(!absl::StrContains(kube::ToString(config.credential), given->token.text));
    }
  }
  return 0;
}
