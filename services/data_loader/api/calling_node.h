#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_CALLING_NODE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_CALLING_NODE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/auth/principal.h"

namespace capstan::data_loader {

// `<cluster>/<node>` of a caller that is a Node, by its certificate; empty for others.
inline std::string NodeOf(const auth::Caller& caller) {
  return caller.IsNode() ? absl::StrCat(caller.id->cluster, "/", caller.id->node) : "";
}

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_CALLING_NODE_H_
