#include "libs/safe_path/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"

namespace capstan {

absl::Status ReplaceFile(const std::string& path, absl::string_view bytes) {
  const std::string temporary = absl::StrCat(path, ".new");
  const UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "open", temporary);
  CAPSTAN_RETURN_IF_ERROR(WriteAll(fd.get(), bytes, temporary));
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename", path);
  return absl::OkStatus();
}

}  // namespace capstan
