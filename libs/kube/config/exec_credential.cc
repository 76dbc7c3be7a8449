#include "libs/kube/config/exec_credential.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/kube/config/credential_cache.h"
#include "libs/kube/config/exec_output.h"
#include "libs/kube/config/fetching_credential.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

absl::Status Missing(const ExecPlugin& plugin) {
  return status::Error(
      absl::StatusCode::kNotFound, "KUBE_PLUGIN_MISSING",
      absl::StrCat("the credential plugin `", absl::CHexEscape(plugin.command),
                   "` that the kubeconfig names is not there, or may not be run",
                   plugin.install_hint.empty() ? "; install it" : ". ", plugin.install_hint));
}

}  // namespace

std::unique_ptr<CredentialSource> MakeExecCredential(const ClientConfig& config,
                                                     const Environment& environment,
                                                     const PluginLimits& limits,
                                                     const Clock* clock) {
  const auto& plugin = std::get<ExecPlugin>(config.credential);
  PluginCommand command;
  command.name = plugin.command;
  command.args = plugin.args;
  command.environment = environment.variables;
  for (const auto& [name, value] : plugin.env) command.environment[name] = value;
  command.environment["KUBERNETES_EXEC_INFO"] = ExecRequest(plugin, config);
  CredentialCache::Options options;
  options.margin = absl::Minutes(1);
  return std::make_unique<FetchingCredential>(
      "kube-plugin", options,
      [command, plugin, limits, path = environment.Variable("PATH"),
       clock](int stop_fd) mutable -> absl::StatusOr<FetchedCredential> {
        // Each time: it may have been installed meanwhile.
        command.program = FindProgram(command.name, path);
        if (command.program.empty()) return Missing(plugin);
        CAPSTAN_ASSIGN_OR_RETURN(const std::string output,
                                 RunPlugin(command, limits, stop_fd, *clock));
        absl::StatusOr<FetchedCredential> fetched =
            ParseExecOutput(output, plugin.api_version, clock->Read().wall);
        if (!fetched.ok()) {
          return status::Annotate(
              fetched.status(),
              absl::StrCat("the credential plugin `", absl::CHexEscape(plugin.command), "`"));
        }
        return fetched;
      },
      clock);
}

}  // namespace capstan::kube
