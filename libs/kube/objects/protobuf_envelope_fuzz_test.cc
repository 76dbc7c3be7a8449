// Any bytes: what is read is inside them and agrees with protobuf's own parser of runtime.Unknown,
// and what could be read is read again from what is written of it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/objects/proto/runtime.pb.h"
#include "libs/kube/objects/protobuf_codec.h"
#include "libs/kube/objects/protobuf_envelope.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {
namespace {

void Check(absl::string_view body) {
  const auto envelope = ParseProtobufEnvelope(body);
  if (envelope.ok()) {
    fuzzing::Require(envelope->raw.size() <= body.size());
    k8s::io::apimachinery::pkg::runtime::Unknown unknown;
    if (unknown.ParseFromString(std::string(body.substr(4)))) {
      fuzzing::Require(unknown.raw() == envelope->raw);
    }
    const auto list = ParseProtobufList(envelope->raw);
    if (list.ok()) {
      size_t bytes = 0;
      for (const absl::string_view item : list->items) bytes += item.size();
      fuzzing::Require(bytes <= envelope->raw.size());
    }
  }
  const ProtobufCodec<core_v1::Pod> codec(kPods.type());
  const auto pod = codec.ParseBody(body);
  if (pod.ok()) {
    const auto names = FindProtobufNames(envelope->raw);
    if (names.has_value()) {
      fuzzing::Require(names->ns == (*pod)->metadata().namespace_());
      fuzzing::Require(names->name == (*pod)->metadata().name());
      fuzzing::Require(names->uid == (*pod)->metadata().uid());
      fuzzing::Require(names->resource_version == (*pod)->metadata().resource_version());
    }
    const std::string written = codec.Write(**pod);
    const auto again = codec.ParseBody(written);
    fuzzing::Require(again.ok() && codec.Write(**again) == written);
  }
  const auto page = codec.ParseList(body);
  fuzzing::Require(!page.ok() || !pod.ok());
}

}  // namespace
}  // namespace capstan::kube

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::kube::Check(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
