// Submit files as people and their scripts write them: what is accepted names its project and can
// be sent; errors say where in the file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/random/random.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "tools/capstan/cli/submit_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  capstan::Random random(1);
  const auto submission = capstan::cli::ParseSubmitFile(text, "train.yaml", "p", &random);
  if (!submission.ok()) return 0;
  const auto& request = submission->request;
  Require(absl::StartsWith(request.parent(), "projects/") &&
          capstan::resource::IsValidId(request.parent().substr(9)));
  Require(request.job_id().empty() || capstan::resource::IsValidId(request.job_id()));
  Require(capstan::resource::IsValidUuid4(request.request_id()));
  const std::string& bundle = request.job().spec().bundle();
  Require(bundle.empty() || absl::StartsWith(bundle, "sha256:"));
  capstan::scheduler::v1::CreateJobRequest sent;
  Require(sent.ParseFromString(request.SerializeAsString()));

  // What a server may find wrong is told in terms of the file.
  capstan::status::FieldErrors errors;
  errors.Add("job.spec.task_groups[0].replicas", "is wrong");
  errors.Add("job.spec.labels[a]", "is wrong");
  Require(!capstan::cli::LocateViolations(errors.ToStatus(), *submission).ok());
  return 0;
}
