// The bytes of a fuzz target as a row of choices. For fuzz targets alone.
#ifndef CAPSTAN_LIBS_FUZZING_FUZZ_INPUT_H_
#define CAPSTAN_LIBS_FUZZING_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::fuzzing {

// Aborts, which is a finding: what every fuzz target does when a property does not hold.
void Require(bool condition);

// Choices are taken from the front; when nothing is left all are 0, so that every input has an end.
// Equal bytes make equal choices. The bytes must outlive it.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte();
  bool Flag() { return (Byte() & 1) != 0; }
  // 0 to n - 1; 0 for n = 0. By one byte, so that larger ones than 255 do not come.
  size_t Below(size_t n);
  // Mostly small ones, among them negative ones; also the borders of what integers hold, and
  // anything at all.
  int64_t Number();
  // Up to `most` bytes.
  absl::string_view Bytes(size_t most);
  // One of `words` or, now and then, up to 16 bytes of the input's own as UTF-8.
  std::string Word(const std::vector<std::string>& words);
  // All that is left.
  absl::string_view Rest();

 private:
  absl::string_view rest_;
};

}  // namespace capstan::fuzzing

#endif  // CAPSTAN_LIBS_FUZZING_FUZZ_INPUT_H_
