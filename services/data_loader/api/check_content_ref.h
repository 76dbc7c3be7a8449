#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_CHECK_CONTENT_REF_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_CHECK_CONTENT_REF_H_

#include "absl/status/status.h"
#include "libs/content/manifest.h"
#include "libs/status/error.h"
#include "proto/capstan/dataloader/v1/content.pb.h"

namespace capstan::data_loader {

// Adds what is wrong with `content` of a request.
inline void CheckContentRef(const capstan::dataloader::v1::ContentRef& content,
                            status::FieldErrors* errors) {
  if (content.resource().empty()) errors->Add("content.resource", "is empty");
  if (content.holder().empty()) errors->Add("content.holder", "is empty");
  const absl::Status digest = content::DigestHex(content.manifest_digest()).status();
  if (!digest.ok()) errors->Add("content.manifest_digest", digest.message());
}

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_CHECK_CONTENT_REF_H_
