#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_CHECK_NAME_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_CHECK_NAME_H_

#include <string>

#include "absl/status/status.h"
#include "libs/status/error.h"

namespace capstan::data_loader {

// INVALID_ARGUMENT with a violation of `field` unless `value` is a resource name of type Name.
template <typename Name>
absl::Status CheckName(const std::string& field, const std::string& value) {
  const absl::Status parsed = Name::Parse(value).status();
  if (parsed.ok()) return parsed;
  status::FieldErrors errors;
  errors.Add(field, parsed.message());
  return errors.ToStatus();
}

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_CHECK_NAME_H_
