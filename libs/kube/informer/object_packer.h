#ifndef CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_PACKER_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_PACKER_H_

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/informer/kept_object.h"
#include "libs/kube/objects/codec.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {

template <typename T>
struct ObjectFilters {
  // What it refuses is not there, whatever the server says. Null: everything is.
  std::function<bool(const T&)> accepts;
  // Called on each object that is accepted before it is kept, e.g. to drop fields. Must keep
  // namespace, name, uid and resource version, and not give null. Null: objects stay as they are.
  std::function<std::shared_ptr<const T>(std::shared_ptr<const T>)> transform;
};

// The values of an object, of any number. A pure function of the object.
template <typename T>
using IndexFunction = std::function<std::vector<std::string>(const T&)>;

// How an informer keeps its objects.
template <typename T>
struct PackingOptions {
  ObjectFilters<T> filters;
  std::map<std::string, IndexFunction<T>> indexes;
  // Decode each object once and keep that alone. For who reads all objects time and again; what is
  // transformed is kept so in any case.
  bool keep_decoded = false;
};

// Makes kept objects of what comes: decodes, filters, indexes.
template <typename T>
class ObjectPacker {
 public:
  using Ref = std::shared_ptr<const KeptObject<T>>;
  struct Packed {
    // Null only if it is not accepted, and was not asked for then.
    Ref object;
    bool accepted = false;
  };
  // What becomes of an object that comes encoded.
  struct Use {
    // Somebody will soon ask for it decoded.
    bool wanted = false;
    // It is told of even if it is not accepted.
    bool refused_too = false;
  };

  // `codec` must outlive it and its objects.
  ObjectPacker(PackingOptions<T> options, const Codec<T>* codec)
      : options_(std::move(options)), codec_(codec) {}

  // As it comes, in the codec's encoding; errors are the codec's. For one thread.
  absl::StatusOr<Packed> Pack(absl::string_view text, Use use) {
    const absl::optional<ObjectNames> names = options_.keep_decoded || options_.filters.transform
                                                  ? absl::nullopt
                                                  : codec_->FindNames(text);
    if (!names.has_value()) {
      CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<const T> object, codec_->ParseObject(text));
      return Pack(std::move(object));
    }
    std::shared_ptr<const T> decoded;
    const T* object = &scratch_;
    if (use.wanted) {
      CAPSTAN_ASSIGN_OR_RETURN(decoded, codec_->ParseObject(text));
      object = decoded.get();
      recent_[next_recent_++ % recent_.size()] = decoded;
    } else {
      CAPSTAN_RETURN_IF_ERROR(codec_->ParseInto(text, &scratch_));
    }
    const bool accepted = Accepts(*object);
    if (!accepted && !use.refused_too) return Packed();
    return Packed{std::make_shared<const KeptObject<T>>(codec_, text, *names, decoded,
                                                        IndexValuesOf(*object)),
                  accepted};
  }

  // Of what is decoded already. For any thread.
  Packed Pack(std::shared_ptr<const T> object) const {
    const bool accepted = Accepts(*object);
    if (options_.filters.transform) object = options_.filters.transform(std::move(object));
    IndexValues values = IndexValuesOf(*object);
    return {std::make_shared<const KeptObject<T>>(std::move(object), std::move(values)), accepted};
  }

 private:
  // Objects that came last and were wanted: enough for who is told of them at once.
  static constexpr size_t kRecent = 64;

  bool Accepts(const T& object) const {
    return !options_.filters.accepts || options_.filters.accepts(object);
  }
  IndexValues IndexValuesOf(const T& object) const {
    IndexValues values;
    values.reserve(options_.indexes.size());
    for (const auto& [name, function] : options_.indexes) values.push_back(function(object));
    return values;
  }

  const PackingOptions<T> options_;
  const Codec<T>* const codec_;
  T scratch_;
  std::array<std::shared_ptr<const T>, kRecent> recent_;
  size_t next_recent_ = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_PACKER_H_
