// The scale of custom resources on the wire.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_SCALE_CODEC_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_SCALE_CODEC_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {

// autoscaling/v1 Scale as JSON, which every server has for custom resources. Unlike other codecs it
// drops what the message has no place for: of a Scale that is written, the server takes
// spec.replicas and metadata.resourceVersion alone.
class ScaleJsonCodec final : public Codec<autoscaling_v1::Scale> {
 public:
  using Ref = std::shared_ptr<const autoscaling_v1::Scale>;

  Encoding encoding() const override { return Encoding::kJson; }
  absl::StatusOr<Ref> ParseObject(absl::string_view object) const override;
  absl::StatusOr<Ref> ParseBody(absl::string_view body) const override { return ParseObject(body); }
  // An error: there are none.
  absl::StatusOr<EncodedList> SplitList(absl::string_view body) const override;
  std::string Write(const autoscaling_v1::Scale& object) const override;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_SCALE_CODEC_H_
