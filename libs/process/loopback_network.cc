#include "libs/process/loopback_network.h"

#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace capstan::process {

std::string LoopbackNetwork() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  // `net:[4026531840]`.
  char name[64];
  const ssize_t length = readlink("/proc/self/ns/net", name, sizeof name);
  if (!std::getline(in, boot_id) || length <= 0) return "";
  return absl::StrCat(boot_id, "/", absl::string_view(name, static_cast<size_t>(length)));
}

}  // namespace capstan::process
