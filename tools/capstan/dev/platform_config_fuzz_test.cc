// A platform's configuration as a person wrote it: what is accepted is kept in the data folder and
// read again the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"
#include "tools/capstan/dev/platform_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::cli::v1::PlatformConfig;
  using capstan::fuzzing::Require;
  const capstan::fuzzing::FuzzFolder folder;
  folder.Write("new.yaml", absl::string_view(reinterpret_cast<const char*>(data), size));
  const std::string file = absl::StrCat(folder.path(), "/new.yaml");
  const absl::StatusOr<PlatformConfig> config = capstan::dev::ReadNewPlatformConfig(file);
  if (!config.ok()) return 0;
  Require(config->schedulers() >= 0 && config->data_loaders() >= 0);
  Require(capstan::dev::InstallPlatformConfig(file, folder.path()).ok());
  const absl::StatusOr<PlatformConfig> kept = capstan::dev::ReadPlatformConfig(folder.path());
  Require(kept.ok() && google::protobuf::util::MessageDifferencer::Equals(*kept, *config));
  return 0;
}
