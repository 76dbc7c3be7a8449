// Every method of every Capstan service with its access rule, from the descriptors.
#ifndef CAPSTAN_INTEGRATION_ACCESS_METHOD_CATALOG_H_
#define CAPSTAN_INTEGRATION_ACCESS_METHOD_CATALOG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/capstan/type/v1/access.pb.h"

namespace capstan::integration {

struct Method {
  // `/package.Service/Method`.
  std::string path;
  // `package.Service`.
  std::string service;
  const google::protobuf::MethodDescriptor* descriptor = nullptr;
  type::v1::AccessRule rule;

  bool Admits(type::v1::AccessRule::Caller caller) const;
};

// Sorted by path.
std::vector<Method> AllMethods();

// An empty request of the method, or one with `resource` in the field that the rule names.
std::unique_ptr<google::protobuf::Message> RequestOf(const Method& method,
                                                     absl::string_view resource = "");

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_ACCESS_METHOD_CATALOG_H_
