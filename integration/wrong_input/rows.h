// Mistakes, one in each request: what a service must say to each.
#ifndef CAPSTAN_INTEGRATION_WRONG_INPUT_ROWS_H_
#define CAPSTAN_INTEGRATION_WRONG_INPUT_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace capstan::integration {

// One mistake.
struct Row {
  // What is wrong, in a word or two.
  std::string mistake;
  // Service and method without `capstan.` and version: `scheduler.JobService/CreateJob`.
  std::string method;
  // In text.
  std::string request;
  absl::StatusCode code;
  // The field that must be named; empty where the mistake is in none.
  std::string field;
  // What the message must say: what was found, or what was expected.
  std::string words;
};

// With which the Job `there` was created. As it, the Queues `upper` and, below that, `lower` are
// there.
inline constexpr char kRequestId[] = "3b241101-e2bb-4255-8caf-4136c566a962";

// A good Job in text, with more in its spec, or another group.
std::string GoodJob(const std::string& spec = "",
                    const std::string& group =
                        "name: 'w' replicas: 1 argv: '/bin/true' "
                        "resources { cpu_millis: 10 memory_bytes: 33554432 }");

// Of Jobs.
std::vector<Row> JobRows();
// Of everything else.
std::vector<Row> OtherRows();

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_WRONG_INPUT_ROWS_H_
