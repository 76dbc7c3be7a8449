#include "libs/kube/config/make_credential_source.h"

#include <variant>

#include "libs/kube/config/exec_credential.h"
#include "libs/kube/config/file_credential.h"
#include "libs/kube/config/plugin_process.h"
#include "libs/kube/config/static_credential.h"

namespace capstan::kube {

std::unique_ptr<CredentialSource> MakeCredentialSource(const ClientConfig& config,
                                                       const Environment& environment,
                                                       const Clock* clock) {
  if (std::holds_alternative<ExecPlugin>(config.credential)) {
    return MakeExecCredential(config, environment, PluginLimits(), clock);
  }
  Credential credential;
  if (const auto* const given = std::get_if<GivenCredential>(&config.credential)) {
    if (given->in_files()) return MakeFileCredential(*given, clock);
    credential.bearer_token = given->token.text;
    credential.certificate_chain_pem = given->certificate_chain_pem.text;
    credential.private_key_pem = given->private_key_pem.text;
  }
  return std::make_unique<StaticCredential>(credential);
}

}  // namespace capstan::kube
