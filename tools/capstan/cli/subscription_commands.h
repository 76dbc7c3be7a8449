// What the `subscription` commands do.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_SUBSCRIPTION_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_SUBSCRIPTION_COMMANDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// `digits` or `digits/events` → `projects/p/jobs/digits/streams/…`, the log by default; whole names
// stay.
std::string StreamName(const std::string& project, const std::string& text);

// `42 2026-01-01T00:00:00Z job_event RUNNING …`: one record in one line, without its end.
std::string RecordLine(const telemetry::v1::Record& record);

struct CreateSubscriptionOptions {
  std::string id;
  std::string stream;
  // `oldest` or `newest`.
  std::string from = "oldest";
};
absl::Status CreateSubscription(const CreateSubscriptionOptions& options, Invocation& invocation);
absl::Status ListSubscriptions(Invocation& invocation);
absl::Status GetSubscription(const std::string& name, Invocation& invocation);
absl::Status DeleteSubscription(const std::string& name, Invocation& invocation);

struct ReadSubscriptionOptions {
  std::string subscription;
  bool follow = false;
  // Show what is next, and leave the cursor where it is.
  bool no_commit = false;
};
// Prints what is behind the cursor, and acknowledges what it has printed.
absl::Status ReadSubscription(const ReadSubscriptionOptions& options, Invocation& invocation);

absl::Status CommitSubscription(const std::string& name, int64_t offset, Invocation& invocation);

struct SeekSubscriptionOptions {
  std::string subscription;
  // Offset to be read next; 0 stands for the two below.
  int64_t to = 0;
  bool oldest = false;
  bool newest = false;
};
absl::Status SeekSubscription(const SeekSubscriptionOptions& options, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_SUBSCRIPTION_COMMANDS_H_
