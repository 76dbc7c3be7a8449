#ifndef CAPSTAN_LIBS_SAFE_PATH_TESTING_TEMPORARY_FOLDER_H_
#define CAPSTAN_LIBS_SAFE_PATH_TESTING_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace capstan {

// A new folder of the test's own, right below /tmp: Bazel's own is too deep for the paths of
// sockets. Goes with this object, with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    // The path is empty, and every use of it fails, if it cannot be made.
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/capstan-test-XXXXXX";
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_SAFE_PATH_TESTING_TEMPORARY_FOLDER_H_
