#include "libs/fuzzing/fuzz_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "libs/fuzzing/fuzz_input.h"

namespace capstan::fuzzing {
namespace {

std::string Base() {
  if (access("/dev/shm", W_OK) == 0) return "/dev/shm";
  const char* given = std::getenv("TEST_TMPDIR");
  return given == nullptr ? "/tmp" : given;
}

}  // namespace

FuzzFolder::FuzzFolder() : path_(absl::StrCat(Base(), "/capstan_fuzz_XXXXXX")) {
  Require(mkdtemp(path_.data()) != nullptr);
}

FuzzFolder::~FuzzFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void FuzzFolder::Write(absl::string_view name, absl::string_view bytes) const {
  const std::filesystem::path path = std::filesystem::path(path_) / std::string(name);
  std::error_code ignored;
  if (path.parent_path() != path_) std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  Require(!file.fail());
}

}  // namespace capstan::fuzzing
