#ifndef CAPSTAN_INTEGRATION_SECRETS_WRONG_FIELDS_H_
#define CAPSTAN_INTEGRATION_SECRETS_WRONG_FIELDS_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "integration/access/method_catalog.h"

namespace capstan::integration {

// A request with `text` in every field that takes a text, also those of messages in it and of maps,
// as of someone who has pasted the wrong thing.
std::unique_ptr<google::protobuf::Message> RequestFullOf(const Method& method,
                                                         absl::string_view text);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_WRONG_FIELDS_H_
