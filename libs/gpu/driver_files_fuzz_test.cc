// What the kernel says of device files decides which a Task may open: a number is within the kernel's
// bounds, and is the one that stands with the name.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/gpu/driver_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  capstan::fuzzing::FuzzInput input(data, size);
  const int number = static_cast<int>(input.Below(4096));
  const std::string text(input.Rest());
  for (const char* name : {"nvidia", "nvidia-uvm", "nvidia-caps"}) {
    const auto major = capstan::gpu::CharacterMajor(text, name);
    if (!major.has_value()) continue;
    Require(*major >= 0 && *major < 4096);
    Require(absl::StrContains(text, absl::StrCat(*major, " ", name)));
  }
  const std::string devices = absl::StrCat("Character devices:\n", number, " ours\n", text);
  Require(capstan::gpu::CharacterMajor(devices, "ours") == number);
  const auto minor = capstan::gpu::CapabilityMinor(text);
  if (minor.has_value()) Require(*minor >= 0 && absl::StrContains(text, absl::StrCat(*minor)));
  Require(capstan::gpu::CapabilityMinor(absl::StrCat("DeviceFileMinor: ", number, "\n", text)) ==
          number);
  return 0;
}
