#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_ISSUANCE_STATE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_ISSUANCE_STATE_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

// Join tokens and the certificates that were issued. Both are bounded and leave by themselves: a
// token a minute after its end, a certificate's record an hour after its notAfter.
//
// Ends are wall-clock times, since they must mean the same after a restart of the machine, and are
// what certificates carry.
class IssuanceState {
 public:
  static constexpr size_t kMaxTokens = 10'000;
  static constexpr size_t kMaxIssued = 400'000;

  // How long the same token with the same key gets its identity again.
  explicit IssuanceState(absl::Duration repeat_window) : repeat_window_(repeat_window) {}

  void Load(const v1::JoinTokenRecord& record);
  void Load(const v1::IssuedRecord& record);

  absl::Status AddToken(const v1::JoinTokenRecord& record, Step* step);

  // Why a token was refused: for the audit log. Whoever tried it learns only that it is not valid.
  struct Refusal {
    // `joinTokens/<id>` if there is such a token.
    std::string resource;
    std::string message;
  };
  // The token's path if it may be redeemed now, and spends it for the key; else a Refusal.
  std::variant<std::string, Refusal> Redeem(const Join& join, absl::Time now, Step* step);
  // The path of a live token; nothing otherwise. Says nothing about whether it may be redeemed.
  absl::optional<std::string> PathOfToken(const std::string& id) const;

  // OK if one more certificate may be issued, under this serial.
  absl::Status CheckRoom(const std::string& serial) const;
  // Records a certificate that is about to be signed. CheckRoom must have been OK.
  // `node` is the SPIFFE id of the Node that a Task's is issued to; else empty.
  void AddIssued(const IssueOrder& order, absl::Time session_start, const std::string& node,
                 Step* step);
  // The Node that holds a live certificate of the Task; nothing if none does. A Task runs on one
  // Node in its generation, and its id names the generation.
  absl::optional<std::string> NodeOf(const std::string& task, absl::Time now) const;
  // When the line of renewals began that the certificate belongs to; nothing if it is not known.
  absl::optional<absl::Time> SessionStart(const std::string& serial) const;

  // Deletes at most 60 records whose time has come.
  void Prune(absl::Time now, Step* step);
  // When Prune has something to do; InfiniteFuture if never.
  absl::Time NextPrune() const;

  size_t tokens() const { return tokens_.size(); }
  size_t issued() const { return issued_.size(); }

 private:
  const absl::Duration repeat_window_;
  std::map<std::string, v1::JoinTokenRecord> tokens_;
  struct Issued {
    absl::Time session_start;
    // Of a Task's certificate.
    std::string task;
  };
  struct Holder {
    std::string node;
    // Of the certificate that lives longest.
    absl::Time not_after;
  };

  // By serial.
  std::map<std::string, Issued> issued_;
  // By the Task's SPIFFE id.
  std::map<std::string, Holder> holders_;
  // When what leaves: (time, id or serial).
  std::set<std::pair<absl::Time, std::string>> token_ends_;
  std::set<std::pair<absl::Time, std::string>> issued_ends_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_ISSUANCE_STATE_H_
