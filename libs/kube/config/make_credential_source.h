#ifndef CAPSTAN_LIBS_KUBE_CONFIG_MAKE_CREDENTIAL_SOURCE_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_MAKE_CREDENTIAL_SOURCE_H_

#include <memory>

#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// The source that `config.credential` describes. Nothing is read or run before it is asked. The
// clock must outlive it.
std::unique_ptr<CredentialSource> MakeCredentialSource(const ClientConfig& config,
                                                       const Environment& environment,
                                                       const Clock* clock);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_MAKE_CREDENTIAL_SOURCE_H_
