// What people and scripts give on the command line: amounts of quotas, rates, forms of output. What
// is accepted is within the bounds that the platform has, and means one thing.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "tools/capstan/cli/output_format.h"
#include "tools/capstan/cli/quota_text.h"

namespace {

using capstan::cli::OutputFormat;
using capstan::cli::OutputOptions;
using capstan::cli::QuotaField;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::ResourceQuota;

void CheckQuotas(FuzzInput* input) {
  const auto field = static_cast<QuotaField>(input->Below(3));
  const std::vector<std::string> amounts = absl::StrSplit(input->Rest(), '\n');
  Queue queue;
  const bool added = capstan::cli::AddQuotas(amounts, field, &queue).ok();
  for (const ResourceQuota& quota : queue.quotas()) {
    Require(!quota.resource().empty() && quota.guarantee() >= 0);
    Require(quota.borrowing_limit().amount() >= 0 && quota.lending_limit().amount() >= 0);
  }
  if (!added) return;
  Require(static_cast<size_t>(queue.quotas_size()) == amounts.size());
  // Each stands for a resource of its own: once more none is taken, in their place all are.
  Queue again = queue;
  Require(!capstan::cli::AddQuotas(amounts, field, &again).ok());
  again = queue;
  Require(capstan::cli::ReplaceQuotas(amounts, field, &again).ok());
  Require(again.SerializeAsString() == queue.SerializeAsString());
}

void CheckOutput(absl::string_view text) {
  OutputOptions options;
  const bool parsed = capstan::cli::ParseOutput(text, &options).ok();
  if (!parsed) {
    Require(options.format == OutputFormat::kTable && !options.columns.has_value());
    return;
  }
  Require(options.json_path.has_value() == (options.format == OutputFormat::kJsonPath));
  const bool columns = options.columns.has_value() || !options.columns_file.empty();
  Require(!columns || options.format == OutputFormat::kCustomColumns);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  switch (input.Below(3)) {
    case 0:
      CheckQuotas(&input);
      break;
    case 1: {
      const std::string text(input.Rest());
      const auto rate = capstan::cli::ParseRate(text);
      if (!rate.ok()) break;
      if (text == "none") {
        Require(rate->ByteSizeLong() == 0);
        break;
      }
      Require(rate->count() >= 1 && rate->burst() >= 0);
      Require(capstan::ToDuration(rate->period()) >= absl::ZeroDuration());
      Require(!capstan::cli::RateInWords(*rate).empty());
      break;
    }
    default:
      CheckOutput(input.Rest());
  }
  return 0;
}
