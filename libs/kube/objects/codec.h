// Objects of one type on the wire.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_CODEC_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/encoding.h"
#include "libs/status/status_macros.h"

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

// A list whose items are not decoded. Views into what was parsed.
struct EncodedList {
  std::vector<absl::string_view> items;
  std::string resource_version;
  std::string continue_token;
  absl::optional<int64_t> remaining;
};

// What an object is known by; empty where it has none. Views into what was parsed.
struct ObjectNames {
  absl::string_view ns;
  absl::string_view name;
  absl::string_view uid;
  absl::string_view resource_version;
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
  // A whole body of a list; its items are as ParseObject takes them.
  virtual absl::StatusOr<EncodedList> SplitList(absl::string_view body) const = 0;
  absl::StatusOr<ListPage<T>> ParseList(absl::string_view body) const {
    CAPSTAN_ASSIGN_OR_RETURN(EncodedList list, SplitList(body));
    ListPage<T> page;
    page.resource_version = std::move(list.resource_version);
    page.continue_token = std::move(list.continue_token);
    page.remaining = list.remaining;
    page.items.reserve(list.items.size());
    for (const absl::string_view item : list.items) {
      CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<const T> parsed, ParseObject(item));
      page.items.push_back(std::move(parsed));
    }
    return page;
  }
  // The names of an object that ParseObject takes, without decoding it. Absent where an object takes
  // no less memory encoded than decoded, so that it is better kept decoded.
  virtual absl::optional<ObjectNames> FindNames(absl::string_view) const { return absl::nullopt; }
  // As ParseObject, into an object of which nothing stays but its memory, to be used again.
  virtual absl::Status ParseInto(absl::string_view text, T* object) const {
    CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const T> parsed, ParseObject(text));
    *object = *parsed;
    return absl::OkStatus();
  }
  // The whole body of a request.
  virtual std::string Write(const T& object) const = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_CODEC_H_
