#include "integration/crash/subscriber.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace capstan::integration {

bool Subscriber::Read() {
  const CommandResult read = run_({"subscription", "read", subscription_});
  int64_t before = 0;
  for (const absl::string_view line : absl::StrSplit(read.out, '\n', absl::SkipEmpty())) {
    // `<offset> <time> <kind> <text>`
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t offset = 0;
    if (!absl::SimpleAtoi(parts.first, &offset)) {
      ADD_FAILURE() << subscription_ << " was given no record: " << line;
      return false;
    }
    if (before == 0) {
      EXPECT_GT(offset, acknowledged_) << subscription_ << ": what was acknowledged came again";
      EXPECT_LE(offset, last_ + 1) << subscription_ << ": records were passed over";
    } else {
      EXPECT_EQ(offset, before + 1) << subscription_ << ": out of order";
    }
    before = offset;
    last_ = std::max(last_, offset);
    const auto [known, fresh] = records_.try_emplace(offset, parts.second);
    EXPECT_TRUE(fresh || known->second == parts.second)
        << subscription_ << " at " << offset << ": " << parts.second << ", before "
        << known->second;
  }
  if (read.exit_code != 0) return false;
  acknowledged_ = last_;
  return true;
}

int Subscriber::Lines(const std::string& begin) const {
  const std::string wanted = absl::StrCat(" log ", begin);
  return static_cast<int>(std::count_if(records_.begin(), records_.end(), [&](const auto& record) {
    return absl::StrContains(record.second, wanted);
  }));
}

}  // namespace capstan::integration
