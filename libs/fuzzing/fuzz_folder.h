// A folder for parsers that read files themselves. For fuzz targets alone.
#ifndef CAPSTAN_LIBS_FUZZING_FUZZ_FOLDER_H_
#define CAPSTAN_LIBS_FUZZING_FUZZ_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan::fuzzing {

// Made empty in memory where the machine has such a place, since a target fills it many thousand
// times; removed with all that is in it. Aborts if it cannot be used.
class FuzzFolder {
 public:
  FuzzFolder();
  ~FuzzFolder();
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file, in place of one that is there; folders on the way are made.
  void Write(absl::string_view name, absl::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace capstan::fuzzing

#endif  // CAPSTAN_LIBS_FUZZING_FUZZ_FOLDER_H_
