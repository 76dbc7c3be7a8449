#ifndef CAPSTAN_LIBS_KUBE_CONFIG_TEXT_FILE_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_TEXT_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace capstan::kube {

struct TextFile {
  std::string text;
  // Permission bits.
  mode_t mode = 0;
};

// At most 1 MiB. With `regular_only` anything but a regular file is refused, so that it never
// blocks for a writer; without, pipes are read to their end, as shells make them for `<(…)`.
absl::StatusOr<TextFile> ReadTextFile(const std::string& path, bool regular_only);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_TEXT_FILE_H_
