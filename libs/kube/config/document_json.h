#ifndef CAPSTAN_LIBS_KUBE_CONFIG_DOCUMENT_JSON_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_DOCUMENT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "libs/config/document.h"

namespace capstan::kube {

// `text`, which must be UTF-8, as a JSON string with its quotes.
std::string JsonQuote(absl::string_view text);

// The document as JSON, in the order of the file. A plain scalar that JSON knows as a number or a
// boolean is one; every other scalar is a string.
std::string ToJson(const config::Document& document);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_DOCUMENT_JSON_H_
