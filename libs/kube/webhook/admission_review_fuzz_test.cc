#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/webhook/admission_review.h"

// Any bytes: an error, or a request that can be answered and whose objects lie in the text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view body(reinterpret_cast<const char*>(data), size);
  const auto request = capstan::kube::ParseAdmissionReview(body);
  if (!request.ok()) return 0;
  using capstan::fuzzing::Require;
  Require(!request->uid.empty());
  for (const std::string* object : {&request->object, &request->old_object, &request->options}) {
    Require(object->empty() || (object->front() == '{' && object->back() == '}'));
    Require(body.find(*object) != absl::string_view::npos);
  }
  Require(!capstan::kube::WriteAdmissionReview(request->uid, {}).empty());
  return 0;
}
