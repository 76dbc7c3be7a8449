// Bodies of requests and responses, in the two encodings of the API.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_API_BODY_H_
#define CAPSTAN_LIBS_KUBE_TESTING_API_BODY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/object_converter.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/json.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube::testing {

inline constexpr char kJsonType[] = "application/json";
inline constexpr char kProtobufType[] = "application/vnd.kubernetes.protobuf";

// The first of the Accept header that is served; protobuf only if `protobuf` is true. Absent: none
// is.
absl::optional<Encoding> Negotiate(absl::string_view accept, bool protobuf);

// Objects, lists (a kind that ends in List, with items) and Status. What the converter, which may
// be null, does not know is written as JSON, and `encoding` then says so.
std::string WriteBody(const Json& body, const ObjectConverter* converter, Encoding* encoding);
// One event of a watch, framed.
std::string WriteEvent(absl::string_view type, const Json& object, Encoding encoding,
                       const ObjectConverter* converter);

// By Content-Type; none is JSON. 400 for what cannot be read, 415 for other types. YAML is read if
// it is JSON. An empty body is null.
ApiOr<Json> ReadBody(const HttpRequest& request, const ObjectConverter* converter);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_API_BODY_H_
