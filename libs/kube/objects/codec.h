// Objects of one type on the wire.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_CODEC_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/encoding.h"

namespace capstan::kube {

template <typename T>
struct ListPage {
  std::vector<std::shared_ptr<const T>> items;
  std::string resource_version;
  // Empty for the last page.
  std::string continue_token;
  // How many more the server says there are; absent if it does not say.
  absl::optional<int64_t> remaining;
};

// Reads and writes T in one encoding. What T has no place for (fields of a newer API) survives
// being read and written. Errors are INVALID_ARGUMENT with reason OBJECT_MALFORMED, and repeat
// nothing of the text. Immutable, hence for any thread.
template <typename T>
class Codec {
 public:
  virtual ~Codec() = default;

  virtual Encoding encoding() const = 0;
  // As watch::Event::object has it: JSON, or a protobuf message without envelope.
  virtual absl::StatusOr<std::shared_ptr<const T>> ParseObject(absl::string_view object) const = 0;
  // The whole body of a response: protobuf with its envelope (`k8s\0` and runtime.Unknown).
  virtual absl::StatusOr<std::shared_ptr<const T>> ParseBody(absl::string_view body) const = 0;
  virtual absl::StatusOr<ListPage<T>> ParseList(absl::string_view body) const = 0;
  // The whole body of a request.
  virtual std::string Write(const T& object) const = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_CODEC_H_
