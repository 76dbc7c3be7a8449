#include "tools/capstan/cli/node_text.h"

#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/mig/profiles.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::cli {

std::string AcceleratorsText(const scheduler::v1::Node& node) {
  const auto& allocated = node.allocated().accelerators();
  std::vector<std::string> parts;
  for (const auto& [name, count] : std::map<std::string, int64_t>(
           node.allocatable().accelerators().begin(), node.allocatable().accelerators().end())) {
    parts.push_back(absl::StrCat(name, "="));
    if (mig::IsSliceResource(name)) {
      const auto used = allocated.find(name);
      absl::StrAppend(&parts.back(), used == allocated.end() ? 0 : used->second, "/");
    }
    absl::StrAppend(&parts.back(), count);
  }
  return absl::StrJoin(parts, ",");
}

std::string TaintsText(const scheduler::v1::Node& node) {
  return absl::StrJoin(node.taints(), ",", [](std::string* out, const type::v1::Taint& taint) {
    absl::StrAppend(out, taint.key());
    if (!taint.value().empty()) absl::StrAppend(out, "=", taint.value());
  });
}

std::string MigGpuText(const scheduler::v1::NodeMigGpu& gpu) {
  std::string text = absl::StrCat(gpu.gpu().index(), ": ", gpu.gpu().model());
  for (const type::v1::MigInstance& instance : gpu.instances()) {
    absl::StrAppend(&text, ", ", instance.profile(), " at ", instance.start());
  }
  return gpu.instances().empty() ? absl::StrCat(text, ", nothing of it in use") : text;
}

}  // namespace capstan::cli
