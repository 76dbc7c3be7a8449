#ifndef CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_KEY_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_KEY_H_

#include <compare>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/objects/object_traits.h"

namespace capstan::kube {

// Of an object among those of one resource.
struct ObjectKey {
  // "" for what has none.
  std::string ns;
  std::string name;

  // `namespace/name`, or `name`.
  std::string ToString() const { return ns.empty() ? name : absl::StrCat(ns, "/", name); }

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ObjectKey& key) {
    return H::combine(std::move(h), key.ns, key.name);
  }
};

template <typename T>
ObjectKey KeyOf(const T& object) {
  return {std::string(ObjectTraits<T>::Namespace(object)),
          std::string(ObjectTraits<T>::Name(object))};
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_KEY_H_
