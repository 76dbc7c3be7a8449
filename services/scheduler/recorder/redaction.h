#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_REDACTION_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_REDACTION_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::scheduler {

// Takes out what people put into Jobs for their programs alone and the core only hands on:
// - each argument and each value of the environment becomes as many `x` as it has bytes, so that
//   records keep their sizes. Names of variables stay.
// - a request's hash is of such text too: it becomes a keyed hash of itself, equal for equal
//   requests.
// What the core decides does not depend on either, but for whether two hashes are equal: so a core
// that is given redacted inputs decides what redacting the decisions of the other one gives.
//
// A value; const calls from any threads.
class Redaction {
 public:
  // With a fresh key, which is nowhere kept.
  static Redaction Fresh();
  // For inputs that are redacted: leaves hashes as they are.
  static Redaction OfRedacted() { return Redaction(""); }

  std::string Hash(absl::string_view hash) const;
  static void Redact(capstan::scheduler::v1::JobSpec* spec);
  static void Redact(capstan::type::v1::SessionDown* message);
  // A stored record's value. One that cannot be read becomes empty.
  std::string Record(absl::string_view key, absl::string_view value) const;

 private:
  explicit Redaction(std::string key) : key_(std::move(key)) {}

  // Empty: hashes stay.
  std::string key_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_REDACTION_H_
