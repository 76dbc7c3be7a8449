// Mistakes, one in each request: what a service must say to each.
#ifndef CAPSTAN_INTEGRATION_WRONG_INPUT_ROWS_H_
#define CAPSTAN_INTEGRATION_WRONG_INPUT_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

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
  // What must be said of that field, or by the message where there is none: how to mend it. Never
  // empty, but where nothing is wrong.
  std::string words;
};

// With which the Job `there` was created, and all of MadeBefore that takes a request id. As the
// Job, the Queues `upper` and, below that, `lower` are there.
inline constexpr char kRequestId[] = "3b241101-e2bb-4255-8caf-4136c566a962";
// Of the role binding: to credentials a request id is of all its methods.
inline constexpr char kOtherRequestId[] = "8d6c2f0a-5b1e-4c1d-9e0a-2f1f0c9d7b11";

// A good Job in text, with more in its spec, or another group.
std::string GoodJob(const std::string& spec = "",
                    const std::string& group =
                        "name: 'w' replicas: 1 argv: '/bin/true' "
                        "resources { cpu_millis: 10 memory_bytes: 33554432 }");

// No mistakes: what is there beside that, one of each kind, each named `made`.
std::vector<Row> MadeBefore(absl::Time now);
// No mistakes either: each kind of write that a person can make, with all that a request may hold
// where it is kept, each named `odd`. The Job has the text as a label and as a variable.
std::vector<Row> GoodRows(absl::Time now, const std::string& text);
// Of Jobs.
std::vector<Row> JobRows();
// Of everything else.
std::vector<Row> OtherRows(absl::Time now);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_WRONG_INPUT_ROWS_H_
