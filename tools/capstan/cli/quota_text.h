// Quotas as people write and read them.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_QUOTA_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_QUOTA_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

enum class QuotaField { kGuarantee, kBorrowingLimit, kLendingLimit };

// Puts amounts such as `cpu=64`, `memory=1Ti`, `nvidia.com/h100=8` or, for limits,
// `memory=unlimited` into the Queue's quotas. INVALID_ARGUMENT with reason INVALID_QUOTA if one is
// not of this form or names a resource twice.
absl::Status AddQuotas(const std::vector<std::string>& amounts, QuotaField field,
                       scheduler::v1::Queue* queue);

// As AddQuotas, in place of what the Queue's quotas say in this field of these resources.
absl::Status ReplaceQuotas(const std::vector<std::string>& amounts, QuotaField field,
                           scheduler::v1::Queue* queue);

// `cordoned,held,drained`: the Queue's own stops; `-` if there are none.
std::string StopsInWords(const scheduler::v1::Queue& queue);

// Everything about a Queue on a screen: for `queue get`.
std::string DescribeQueue(const scheduler::v1::Queue& queue, absl::Time now,
                          const Terminal& terminal);

// What is guaranteed, `cpu=64 memory=1Ti`; `-` if nothing.
std::string GuaranteesInWords(const scheduler::v1::Queue& queue);

// `10/1m`: ten in a minute, and at most ten at once after a pause; `10/1m/3`: at most three.
// `none`: no rate, which is an empty message. INVALID_ARGUMENT with reason INVALID_RATE if it is
// not so.
absl::StatusOr<scheduler::v1::RateLimit> ParseRate(const std::string& text);

// `at most 10 in 1m, 3 at once`.
std::string RateInWords(const scheduler::v1::RateLimit& rate);

// `3/24h`: at most three times in a day. `none`: no budget, which is an empty message.
// INVALID_ARGUMENT with reason INVALID_BUDGET if it is not so.
absl::StatusOr<scheduler::v1::DisruptionBudget> ParseBudget(const std::string& text);

// What it used on average, in cores, `cpu=12.50 memory=1.0 GiB`; `-` if no past use counts or there
// is none.
std::string AverageUseInWords(const scheduler::v1::Queue& queue);

// Its dominant share and the fair one, `12.5%/25.0%`; `-` if both are nothing.
std::string ShareInWords(const scheduler::v1::Queue& queue);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_QUOTA_TEXT_H_
