// A reader of a subscription that goes on behind its cursor.
#ifndef CAPSTAN_INTEGRATION_CRASH_SUBSCRIBER_H_
#define CAPSTAN_INTEGRATION_CRASH_SUBSCRIBER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "integration/platform/command.h"

namespace capstan::integration {

// Reads the records that are there and acknowledges them, again and again. It must get each at
// least once, in order, an offset must always have the same record, and what was acknowledged must
// never come again. Failures are GoogleTest's.
class Subscriber {
 public:
  using Run = std::function<CommandResult(const std::vector<std::string>&)>;

  Subscriber(std::string subscription, Run run)
      : subscription_(std::move(subscription)), run_(std::move(run)) {}

  // False if that was not answered to its end.
  bool Read();
  // What it has read that was a line of this beginning.
  int Lines(const std::string& begin) const;
  // Highest offset that it has read.
  int64_t last() const { return last_; }

 private:
  const std::string subscription_;
  const Run run_;
  std::map<int64_t, std::string> records_;
  int64_t last_ = 0;
  // Acknowledged for sure.
  int64_t acknowledged_ = 0;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_SUBSCRIBER_H_
