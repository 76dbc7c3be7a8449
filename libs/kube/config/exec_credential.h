#ifndef CAPSTAN_LIBS_KUBE_CONFIG_EXEC_CREDENTIAL_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_EXEC_CREDENTIAL_H_

#include <memory>

#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"
#include "libs/kube/config/plugin_process.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Credentials from a plugin (`config.credential`, which must be an ExecPlugin), which is run
// - with the variables of `environment`, its own, and KUBERNETES_EXEC_INFO; looked up in the PATH
// of
//   `environment` if its command has no slash;
// - when a Get finds no credential, one that ends within a minute (or a fifth of its life), or one
//   that was rejected; that Get and all others wait for it. One run at a time, on a thread of its
//   own, within `limits`;
// - after a failure not again for 1 s, 2 s, … 1 min; meanwhile what has not expired yet is given,
//   else the error. The same if what a plugin gives is rejected again and again.
// Errors are those of RunPlugin and ParseExecOutput; NOT_FOUND, reason KUBE_PLUGIN_MISSING, with
// the plugin's install hint, if there is no such command.
//
// Thread-safe; the clock must outlive it. Destroying it kills a plugin that runs; those who wait
// are called before it returns.
std::unique_ptr<CredentialSource> MakeExecCredential(const ClientConfig& config,
                                                     const Environment& environment,
                                                     const PluginLimits& limits,
                                                     const Clock* clock);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_EXEC_CREDENTIAL_H_
