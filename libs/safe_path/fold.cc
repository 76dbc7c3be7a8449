#include "libs/safe_path/fold.h"

#include <utf8proc.h>

#include <cstdlib>

namespace capstan {

std::string FoldPath(absl::string_view path) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(path.data()),
      static_cast<utf8proc_ssize_t>(path.size()), &folded,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT |
                                     UTF8PROC_CASEFOLD | UTF8PROC_IGNORE));
  // Only invalid UTF-8 fails, and such a path equals itself alone.
  if (length < 0) return std::string(path);
  std::string result(reinterpret_cast<const char*>(folded), static_cast<size_t>(length));
  std::free(folded);
  return result;
}

}  // namespace capstan
