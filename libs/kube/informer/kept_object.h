#ifndef CAPSTAN_LIBS_KUBE_INFORMER_KEPT_OBJECT_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_KEPT_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/object_traits.h"

namespace capstan::kube {

// Of one object, a list for each index of its informer, in the order of the indexes' names.
using IndexValues = std::vector<std::vector<std::string>>;

// An object as an informer keeps it: encoded, and decoded as long as somebody has it. A decoded
// message of Kubernetes takes five times the memory of its encoding, and most objects of an
// informer are looked at rarely. Immutable but for what is decoded; thread-safe.
template <typename T>
class KeptObject {
 public:
  using Decoded = std::shared_ptr<const T>;

  // Decoded for good.
  KeptObject(Decoded object, IndexValues index_values)
      : object_(std::move(object)), index_values_(std::move(index_values)) {}

  // `text` is an object that `codec`, which must outlive this, decodes, and `names` are its own
  // views of it. `decoded` is what it decodes to, or null.
  KeptObject(const Codec<T>* codec, absl::string_view text, const ObjectNames& names,
             const Decoded& decoded, IndexValues index_values)
      : codec_(codec),
        text_(text),
        ns_(PlaceOf(names.ns, text)),
        name_(PlaceOf(names.name, text)),
        uid_(PlaceOf(names.uid, text)),
        resource_version_(PlaceOf(names.resource_version, text)),
        index_values_(std::move(index_values)),
        decoded_(decoded) {}

  KeptObject(const KeptObject&) = delete;
  KeptObject& operator=(const KeptObject&) = delete;

  absl::string_view ns() const {
    return object_ != nullptr ? ObjectTraits<T>::Namespace(*object_) : At(ns_);
  }
  absl::string_view name() const {
    return object_ != nullptr ? ObjectTraits<T>::Name(*object_) : At(name_);
  }
  absl::string_view uid() const {
    return object_ != nullptr ? ObjectTraits<T>::Uid(*object_) : At(uid_);
  }
  absl::string_view resource_version() const {
    return object_ != nullptr ? ObjectTraits<T>::ResourceVersion(*object_) : At(resource_version_);
  }
  const IndexValues& index_values() const { return index_values_; }

  // Never null. The same one as long as somebody has it.
  Decoded Decode() const {
    if (object_ != nullptr) return object_;
    absl::MutexLock lock(&mutex_);
    Decoded decoded = decoded_.lock();
    if (decoded == nullptr) {
      // It was decoded when it came.
      decoded = codec_->ParseObject(text_).value();
      decoded_ = decoded;
    }
    return decoded;
  }

 private:
  // In bytes of text_, which has at most as many as an event or a page: less than 4 GiB.
  struct Place {
    uint32_t at = 0;
    uint32_t size = 0;
  };
  static Place PlaceOf(absl::string_view part, absl::string_view text) {
    if (part.empty()) return {};
    return {static_cast<uint32_t>(part.data() - text.data()), static_cast<uint32_t>(part.size())};
  }
  absl::string_view At(Place place) const {
    return absl::string_view(text_).substr(place.at, place.size);
  }

  // Null: encoded.
  const Decoded object_;
  const Codec<T>* const codec_ = nullptr;
  const std::string text_;
  const Place ns_, name_, uid_, resource_version_;
  const IndexValues index_values_;
  mutable absl::Mutex mutex_;
  mutable std::weak_ptr<const T> decoded_ ABSL_GUARDED_BY(mutex_);
};

template <typename T>
struct ObjectTraits<KeptObject<T>> {
  static absl::string_view Namespace(const KeptObject<T>& kept) { return kept.ns(); }
  static absl::string_view Name(const KeptObject<T>& kept) { return kept.name(); }
  static absl::string_view Uid(const KeptObject<T>& kept) { return kept.uid(); }
  static absl::string_view ResourceVersion(const KeptObject<T>& kept) {
    return kept.resource_version();
  }
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_KEPT_OBJECT_H_
