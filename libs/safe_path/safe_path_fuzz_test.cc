#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "libs/safe_path/fold.h"
#include "libs/safe_path/safe_path.h"

// Whatever is accepted must have no way out of its root; folding takes any bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const absl::string_view path(reinterpret_cast<const char*>(bytes), size);
  capstan::FoldPath(path);
  if (!capstan::CheckRelativePath(path).ok()) return 0;
  if (path.front() == '/' || path.find("/../") != absl::string_view::npos) {
    std::abort();
  }
  return 0;
}
