#include "tools/capstan/cli/quota_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/resource/quantity.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/text_table.h"
#include "tools/capstan/cli/whole_number.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Queue;
using scheduler::v1::QueueUsage;
using scheduler::v1::QuotaLimit;
using scheduler::v1::RateLimit;
using scheduler::v1::ResourceQuota;

constexpr char kCpu[] = "cpu";
constexpr char kMemory[] = "memory";
constexpr char kUnlimited[] = "unlimited";

absl::Status Invalid(absl::string_view text, absl::string_view why) {
  return status::Error(
      absl::StatusCode::kInvalidArgument, "INVALID_QUOTA",
      absl::StrCat("`", text, "` ", why, "; expected a resource and an amount, e.g. memory=1Ti"));
}

absl::StatusOr<int64_t> ParseAmount(absl::string_view resource, absl::string_view amount) {
  return resource == kCpu ? resource::ParseMilliQuantity(amount) : resource::ParseQuantity(amount);
}

ResourceQuota* QuotaOf(const std::string& resource, Queue* queue) {
  for (ResourceQuota& quota : *queue->mutable_quotas()) {
    if (quota.resource() == resource) return &quota;
  }
  ResourceQuota* added = queue->add_quotas();
  added->set_resource(resource);
  return added;
}

bool IsSet(const ResourceQuota& quota, QuotaField field) {
  switch (field) {
    case QuotaField::kGuarantee:
      return quota.has_guarantee();
    case QuotaField::kBorrowingLimit:
      return quota.has_borrowing_limit();
    case QuotaField::kLendingLimit:
      return quota.has_lending_limit();
  }
  return false;
}

absl::Status AddQuota(const std::string& text, QuotaField field, Queue* queue) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) return Invalid(text, "is no amount");
  ResourceQuota* quota = QuotaOf(parts.first, queue);
  if (IsSet(*quota, field)) return Invalid(text, "comes after another for the same resource");
  QuotaLimit* limit = field == QuotaField::kGuarantee        ? nullptr
                      : field == QuotaField::kBorrowingLimit ? quota->mutable_borrowing_limit()
                                                             : quota->mutable_lending_limit();
  if (parts.second == kUnlimited) {
    if (limit == nullptr) return Invalid(text, "would guarantee more than there is");
    limit->set_unlimited(true);
    return absl::OkStatus();
  }
  const absl::StatusOr<int64_t> amount = ParseAmount(parts.first, parts.second);
  if (!amount.ok()) return Invalid(text, amount.status().message());
  if (limit == nullptr) {
    quota->set_guarantee(*amount);
  } else {
    limit->set_amount(*amount);
  }
  return absl::OkStatus();
}

std::string AmountInWords(const std::string& resource, int64_t amount) {
  if (resource == kCpu) return resource::FormatMillis(amount);
  if (resource == kMemory) return resource::FormatBytes(amount);
  return absl::StrCat(amount);
}

std::string AverageInWords(const QueueUsage& usage) {
  if (usage.resource() == kMemory) return HumanBytes(std::llround(usage.average()));
  const double unit = usage.resource() == kCpu ? 1000.0 : 1.0;
  return absl::StrFormat("%.2f", usage.average() / unit);
}

bool HasAverage(const QueueUsage& usage) { return usage.average() > 0; }

std::string PartInWords(double part) { return absl::StrFormat("%.1f%%", 100 * part); }

std::string LimitInWords(const std::string& resource, const QuotaLimit& limit) {
  if (limit.unlimited()) return kUnlimited;
  if (limit.limit_case() == QuotaLimit::kAmount) return AmountInWords(resource, limit.amount());
  return "as its parent";
}

}  // namespace

absl::Status AddQuotas(const std::vector<std::string>& amounts, QuotaField field, Queue* queue) {
  for (const std::string& text : amounts) {
    CAPSTAN_RETURN_IF_ERROR(AddQuota(text, field, queue));
  }
  return absl::OkStatus();
}

absl::Status ReplaceQuotas(const std::vector<std::string>& amounts, QuotaField field,
                           Queue* queue) {
  for (ResourceQuota& quota : *queue->mutable_quotas()) {
    const std::string named = absl::StrCat(quota.resource(), "=");
    const bool replaced = std::any_of(
        amounts.begin(), amounts.end(),
        [&named](const std::string& amount) { return absl::StartsWith(amount, named); });
    if (!replaced) continue;
    if (field == QuotaField::kGuarantee) quota.clear_guarantee();
    if (field == QuotaField::kBorrowingLimit) quota.clear_borrowing_limit();
    if (field == QuotaField::kLendingLimit) quota.clear_lending_limit();
  }
  return AddQuotas(amounts, field, queue);
}

std::string StopsInWords(const Queue& queue) {
  std::vector<std::string> stops;
  if (queue.cordon()) stops.push_back("cordoned");
  if (queue.hold()) stops.push_back("held");
  if (queue.drain()) stops.push_back("drained");
  return stops.empty() ? "-" : absl::StrJoin(stops, ",");
}

std::string DescribeQueue(const Queue& queue, absl::Time now, const Terminal& terminal) {
  std::string out;
  const auto add = [&out](absl::string_view name, const std::string& value) {
    absl::StrAppend(&out, name, WithoutControls(value), "\n");
  };
  add("Name:      ", queue.name());
  add("Uid:       ", queue.uid());
  add("Parent:    ", queue.parent().empty() ? "none" : queue.parent());
  add("Weight:    ", absl::StrCat(queue.weight()));
  add("Projects:  ", queue.projects().empty() ? "all" : absl::StrJoin(queue.projects(), ", "));
  if (StopsInWords(queue) != "-") add("Stops:     ", StopsInWords(queue));
  if (queue.has_min_runtime()) {
    add("Protects:  ", absl::StrCat("Jobs that have run for less than ",
                                    HumanDuration(ToDuration(queue.min_runtime()))));
  }
  if (queue.has_disruption_budget()) {
    add("Protects:  ",
        absl::StrCat("Jobs that were disrupted ", queue.disruption_budget().count(), " times in ",
                     HumanDuration(ToDuration(queue.disruption_budget().period()))));
  }
  if (queue.allow_non_preemptible()) add("Takes:     ", "Jobs that are never ended for others");
  if (queue.has_submit_rate()) add("Takes:     ", RateInWords(queue.submit_rate()));
  if (queue.has_start_rate()) add("Starts:    ", RateInWords(queue.start_rate()));
  if (queue.has_usage_half_life()) {
    const absl::Duration half_life = ToDuration(queue.usage_half_life());
    add("Half-life: ", half_life == absl::ZeroDuration() ? "none, past use does not count"
                                                         : HumanDuration(half_life));
  }
  add("Age:       ", HumanAge(ToTime(queue.create_time()), now));
  if (!queue.usage().empty()) {
    add("Share:     ", absl::StrCat(PartInWords(queue.dominant_share()), " of the fleet, fair ",
                                    PartInWords(queue.fair_dominant_share())));
    const bool averages = std::any_of(queue.usage().begin(), queue.usage().end(), HasAverage);
    TextTable usage(
        averages ? std::vector<std::string>{"RESOURCE", "IN USE", "FAIR SHARE", "AVERAGE USE"}
                 : std::vector<std::string>{"RESOURCE", "IN USE", "FAIR SHARE"});
    for (const QueueUsage& one : queue.usage()) {
      std::vector<TextTable::Cell> row = {one.resource(),
                                          AmountInWords(one.resource(), one.in_use()),
                                          AmountInWords(one.resource(), one.fair_share())};
      if (averages) row.push_back(HasAverage(one) ? AverageInWords(one) : "-");
      usage.AddRow(std::move(row));
    }
    absl::StrAppend(&out, "\n", usage.Render(terminal));
  }
  if (queue.quotas().empty()) return out;
  TextTable table({"RESOURCE", "GUARANTEE", "MAY BORROW", "LENDS"});
  for (const ResourceQuota& quota : queue.quotas()) {
    const std::string& resource = quota.resource();
    table.AddRow(
        {resource,
         quota.has_guarantee() ? AmountInWords(resource, quota.guarantee()) : "as those below it",
         LimitInWords(resource, quota.borrowing_limit()),
         LimitInWords(resource, quota.lending_limit())});
  }
  return absl::StrCat(out, "\n", table.Render(terminal));
}

std::string GuaranteesInWords(const Queue& queue) {
  std::vector<std::string> words;
  for (const ResourceQuota& quota : queue.quotas()) {
    if (!quota.has_guarantee()) continue;
    words.push_back(
        absl::StrCat(quota.resource(), "=", AmountInWords(quota.resource(), quota.guarantee())));
  }
  return words.empty() ? "-" : absl::StrJoin(words, " ");
}

absl::StatusOr<RateLimit> ParseRate(const std::string& text) {
  RateLimit rate;
  if (text == "none") return rate;
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  const bool bounded = parts.size() == 3;
  const bool complete = parts.size() == 2 || bounded;
  const int64_t count = ParseWholeNumber(parts[0]).value_or(0);
  const int64_t burst = bounded ? ParseWholeNumber(parts[2]).value_or(0) : 0;
  const auto period = complete ? resource::ParseDuration(parts[1])
                               : absl::StatusOr<absl::Duration>(absl::InvalidArgumentError(""));
  if (!period.ok() || count < 1 || (bounded && burst < 1)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_RATE",
                         absl::StrCat("`", text,
                                      "` is no rate; expected a count and a time, e.g. 10/1m, with "
                                      "how many at once, e.g. 10/1m/3, or none"));
  }
  rate.set_count(count);
  *rate.mutable_period() = ToProto(*period);
  rate.set_burst(burst);
  return rate;
}

absl::StatusOr<scheduler::v1::DisruptionBudget> ParseBudget(const std::string& text) {
  scheduler::v1::DisruptionBudget budget;
  if (text == "none") return budget;
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  const int64_t count = ParseWholeNumber(parts[0]).value_or(0);
  const auto period = parts.size() == 2
                          ? resource::ParseDuration(parts[1])
                          : absl::StatusOr<absl::Duration>(absl::InvalidArgumentError(""));
  if (!period.ok() || count < 1 || count > std::numeric_limits<int32_t>::max()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_BUDGET",
                         absl::StrCat("`", text,
                                      "` is no budget; expected a count and a time, e.g. 3/24h, or "
                                      "none"));
  }
  budget.set_count(static_cast<int32_t>(count));
  *budget.mutable_period() = ToProto(*period);
  return budget;
}

std::string RateInWords(const RateLimit& rate) {
  std::string words =
      absl::StrCat("at most ", rate.count(), " in ", HumanShortDuration(ToDuration(rate.period())));
  if (rate.burst() != 0) absl::StrAppend(&words, ", ", rate.burst(), " at once");
  return words;
}

std::string AverageUseInWords(const Queue& queue) {
  std::vector<std::string> words;
  for (const QueueUsage& usage : queue.usage()) {
    if (!HasAverage(usage)) continue;
    words.push_back(absl::StrCat(usage.resource(), "=", AverageInWords(usage)));
  }
  return words.empty() ? "-" : absl::StrJoin(words, " ");
}

std::string ShareInWords(const Queue& queue) {
  if (queue.usage().empty()) return "-";
  return absl::StrCat(PartInWords(queue.dominant_share()), "/",
                      PartInWords(queue.fair_dominant_share()));
}

}  // namespace capstan::cli
