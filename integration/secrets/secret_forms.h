#ifndef CAPSTAN_INTEGRATION_SECRETS_SECRET_FORMS_H_
#define CAPSTAN_INTEGRATION_SECRETS_SECRET_FORMS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::integration {

// A form in which bytes are written.
struct WrittenForm {
  const char* form;
  std::string text;
};

// The forms of a piece out of the middle of something longer: of base64 the characters that what is
// around the piece does not change, for each of the three alignments. Some may be equal.
std::vector<WrittenForm> FormsOf(absl::string_view piece);

// Without white space and without `\n`, `\r` and `\t` as two characters.
std::string WithoutBreaks(absl::string_view text);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_SECRET_FORMS_H_
