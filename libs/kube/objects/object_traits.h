// What code that keeps Kubernetes objects of any type knows of them.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_TRAITS_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_TRAITS_H_

namespace capstan::kube {

// A specialisation has static functions that return an absl::string_view into the object:
// Namespace(const T&), "" for what has none; Name; Uid; ResourceVersion.
template <typename T>
struct ObjectTraits;

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_TRAITS_H_
