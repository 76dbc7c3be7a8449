// Any output of a plugin: what is taken can be shown to a server, and has not expired.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/config/exec_output.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  const absl::string_view output(reinterpret_cast<const char*>(data), size);
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const auto fetched =
      capstan::kube::ParseExecOutput(output, "client.authentication.k8s.io/v1", now);
  if (!fetched.ok()) return 0;
  Require(fetched->expires > now);
  Require(!fetched->credential.bearer_token.empty() ||
          !fetched->credential.certificate_chain_pem.empty());
  Require(fetched->credential.certificate_chain_pem.empty() ==
          fetched->credential.private_key_pem.empty());
  Require(fetched->credential.bearer_token.find_first_of(" \r\n") == std::string::npos);
  return 0;
}
