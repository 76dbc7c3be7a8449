// A file of signed heads from whoever may have written it: without the key of a root that is
// trusted nothing is ever accepted.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/audit/signed_head.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "proto/capstan/credentials/v1/audit_head.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::credentials::v1::AuditHeadFile;
  using capstan::fuzzing::Require;
  capstan::fuzzing::FuzzInput input(data, size);
  AuditHeadFile file;
  std::vector<std::string> roots;
  if (input.Flag()) {
    for (size_t count = input.Below(3); count > 0; --count) {
      roots.emplace_back(input.Bytes(input.Below(60)));
    }
    const absl::string_view bytes = input.Rest();
    if (!file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return 0;
  } else {
    roots.emplace_back(input.Bytes(input.Below(60)));
    capstan::fuzzing::FillMessage({"scheduler", ""}, &input, &file);
  }
  Require(!capstan::audit::VerifyHeadFile(file, roots).ok());
  return 0;
}
