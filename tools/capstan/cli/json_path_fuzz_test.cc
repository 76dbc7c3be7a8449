// Templates, paths and columns come from people and scripts: none may crash, hang or grow without
// bound, whatever the document.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/custom_columns.h"
#include "tools/capstan/cli/document.h"
#include "tools/capstan/cli/json_path.h"

namespace {

capstan::cli::Document Sample() {
  capstan::scheduler::v1::Job job;
  job.set_name("projects/p/jobs/j");
  job.set_state(capstan::scheduler::v1::Job::STATE_FAILED);
  job.set_generation(3);
  job.mutable_create_time()->set_seconds(1'700'000'000);
  for (int rank = 0; rank < 3; ++rank) job.add_tasks()->set_rank(rank);
  (*job.mutable_spec()->mutable_labels())["a.b"] = "c";
  const capstan::scheduler::v1::Job second = job;
  return capstan::cli::ToDocument("jobs", {&job, &second});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace capstan::cli;  // NOLINT(google-build-using-namespace)
  static const Document* const document = new Document(Sample());
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto path = JsonPath::Parse(text);
  if (path.ok()) path->Find(*document).status().IgnoreError();
  const auto pattern = JsonPathTemplate::Parse(text);
  if (pattern.ok()) {
    const auto once = pattern->Expand(*document, /*for_terminal=*/false);
    const auto again = pattern->Expand(*document, /*for_terminal=*/false);
    if (once.ok() != again.ok() || (once.ok() && *once != *again)) std::abort();
  }
  const auto columns = CustomColumns::Parse(text);
  if (columns.ok()) {
    const auto row = columns->Row(*document);
    if (row.ok() && row->size() != columns->headers().size()) std::abort();
  }
  CustomColumns::ParseFile(text).status().IgnoreError();
  return 0;
}
