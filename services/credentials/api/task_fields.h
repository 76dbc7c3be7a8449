#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_TASK_FIELDS_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_TASK_FIELDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/auth/spiffe_id.h"
#include "libs/status/error.h"

namespace capstan::credentials {

// How requests name a Task.
struct TaskFields {
  std::string job;
  std::string service_account;
  std::string job_uid;
  int64_t generation = 0;
  std::string group;
  int32_t index = 0;
};

template <typename Request>
TaskFields TaskFieldsOf(const Request& request) {
  return {request.job(),        request.service_account(), request.job_uid(),
          request.generation(), request.group(),           request.index()};
}

// Adds everything that is wrong with the fields.
void CheckTask(const TaskFields& fields, status::FieldErrors* errors);

// The Task's id; the fields must have been found right.
auth::SpiffeId TaskIdOf(absl::string_view trust_domain, const TaskFields& fields);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_TASK_FIELDS_H_
