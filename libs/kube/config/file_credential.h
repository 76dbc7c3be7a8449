#ifndef CAPSTAN_LIBS_KUBE_CONFIG_FILE_CREDENTIAL_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_FILE_CREDENTIAL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Reads the files, at most 1 MiB each. White space around a token is dropped. An error, with the
// file's path and nothing of its content, if a file cannot be read, a token is none, or a
// certificate is not whole or not that of the key.
absl::StatusOr<Credential> ReadCredential(const GivenCredential& given);

// A credential in files that others replace: a service account's token, certificates that are
// renewed. They are read again when a Get finds them read 10 s ago or more, and after Rejected;
// that Get waits for it. What cannot be used, since it is half written or the certificate is there
// without its key yet, is not taken: the old one is given until the files are whole. Until there is
// a first one a read that failed is followed by the next after 1 s, 2 s, … 10 s. Thread-safe; the
// clock must outlive it.
std::unique_ptr<CredentialSource> MakeFileCredential(GivenCredential given, const Clock* clock);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_FILE_CREDENTIAL_H_
