#ifndef CAPSTAN_INTEGRATION_SECRETS_WRONG_FIELDS_H_
#define CAPSTAN_INTEGRATION_SECRETS_WRONG_FIELDS_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "integration/access/method_catalog.h"

namespace capstan::integration {

// Puts `text` into every field of the message that takes a text, also of those in it and of maps.
void FillTexts(google::protobuf::Message* message, absl::string_view text);
// A request filled so, as of someone who has pasted the wrong thing.
std::unique_ptr<google::protobuf::Message> RequestFullOf(const Method& method,
                                                         absl::string_view text);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_WRONG_FIELDS_H_
