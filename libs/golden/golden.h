// What stored formats were when they were released. Each version of a format is a file
// `<package>/testdata/stored/<format>.v<N>.<ending>` that is never changed: today's code must read
// all of them, and write what the newest one says, byte for byte. docs/stored_formats.md lists them.
#ifndef CAPSTAN_LIBS_GOLDEN_GOLDEN_H_
#define CAPSTAN_LIBS_GOLDEN_GOLDEN_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::golden {

// For a failure to read what was released.
inline constexpr char kMustRead[] =
    "These bytes were released: they lie on somebody's disk, so that the code must go on reading "
    "them, also once it writes others (docs/stored_formats.md). ";

class Format {
 public:
  struct Version {
    // Path of the file, from the root.
    std::string path;
    // What a file, key or folder of the format holds. A file that ends in `.hex` has them as hex
    // digits, with blanks anywhere and comments from `#` to the end of a line.
    std::string bytes;
  };

  // All versions from `<package>/testdata/stored`, which must be in the test's `data`. Fails the
  // test if there is none, or one is missing in between.
  Format(std::string package, std::string name, std::string ending);

  // The oldest first.
  const std::vector<Version>& versions() const { return versions_; }

  // Fails, and says what to do, unless these are the newest version's bytes. What was written then
  // lies in the test's outputs, as the file of the next version would.
  void ExpectWritten(absl::string_view bytes) const;
  // Where no two writings are the same bytes: lays an example of what is written now into the
  // test's outputs, as the file of the next version would be, for when there must be one.
  void KeepExample(absl::string_view bytes) const;

 private:
  std::string NameOfNext() const;
  // As the files have them.
  std::string Encoded(absl::string_view bytes) const;

  const std::string package_;
  const std::string name_;
  const std::string ending_;
  std::vector<Version> versions_;
};

// Bytes as a `.hex` file has them.
std::string ToHexLines(absl::string_view bytes);

// All below a folder as text: a line `folder <mode> <path>` or `file <mode> <path>` each, sorted,
// and below a file its bytes in hex. What is neither is told as `other`.
std::string DumpFolder(const std::string& folder);
// Makes below `folder`, which must exist, what such a text says.
void RestoreFolder(absl::string_view dump, const std::string& folder);

}  // namespace capstan::golden

#endif  // CAPSTAN_LIBS_GOLDEN_GOLDEN_H_
