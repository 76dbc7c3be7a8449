#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_ENCODING_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_ENCODING_H_

namespace capstan::kube {

// How objects are written. Custom resources have JSON alone.
enum class Encoding { kJson, kProtobuf };

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_ENCODING_H_
