#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_AUDIT_CHAIN_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_AUDIT_CHAIN_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/time/time.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

inline constexpr char kAuditChain[] = "credentials";

// What is to be recorded; the chain adds time, sequence and hash.
struct AuditEntry {
  // SPIFFE id of who acted, kAnonymous or kSupervisor.
  std::string principal;
  std::string act;
  std::string resource;
  // Canonical code of the outcome, 0 for success.
  int outcome_code = 0;
  // One sentence, without secrets.
  std::string message;
  // Times the same refusal was repeated within the window that this record closes.
  int64_t repeats = 0;
};

// The hash chain of credentials' acts and refusals (event.v1.AuditRecord), kept in the store: each
// record is put by the transaction of the act that it records, so neither exists without the other.
//
// Repeated refusals must not fill the disk: the first of a kind is recorded at once, its repeats
// within the next `fold_window` are counted and recorded as one when the window closes. At most
// `kMaxWindows` kinds are told apart; above that, refusals fold by act alone.
class AuditChain {
 public:
  static constexpr size_t kMaxWindows = 256;

  explicit AuditChain(absl::Duration fold_window) : fold_window_(fold_window) {}

  void Load(const v1::AuditHeadRecord& head) { head_ = head; }

  // Appends a record to the step.
  void Append(const AuditEntry& entry, const Now& now, Step* step);
  // Appends a refusal, or only counts it.
  void AppendRefusal(const AuditEntry& entry, const Now& now, Step* step);
  // Closes the windows that are over, at most 32 at a time; all of them if `flush`.
  void CloseWindows(const Now& now, bool flush, Step* step);
  // When the next window is over; InfiniteFuture if none is open.
  BootTime NextDeadline() const;

  int64_t sequence() const { return head_.sequence(); }

  // The open windows: what is counted and not yet in a record.
  using Kind = std::tuple<std::string, std::string, std::string, int>;
  struct Window {
    BootTime end;
    int64_t repeats = 0;
  };
  using Windows = std::map<Kind, Window>;
  const Windows& windows() const { return windows_; }
  void SetWindows(Windows windows) { windows_ = std::move(windows); }

 private:
  const absl::Duration fold_window_;
  v1::AuditHeadRecord head_;
  Windows windows_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_AUDIT_CHAIN_H_
