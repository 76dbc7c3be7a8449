#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_FAKE_KEY_KEEPER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_FAKE_KEY_KEEPER_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "services/credentials/ports/key_keeper.h"

namespace capstan::credentials {

// Keeps data keys in memory and gives out tickets for them. For one thread.
class FakeKeyKeeper final : public KeyKeeper {
 public:
  std::string key_id() const override { return "fake"; }

  absl::StatusOr<std::string> Wrap(absl::string_view data_key, absl::string_view context) override {
    std::string ticket = absl::StrCat("ticket-", ++tickets_);
    kept_[ticket] = {std::string(data_key), std::string(context)};
    return ticket;
  }

  absl::StatusOr<std::string> Unwrap(absl::string_view wrapped,
                                     absl::string_view context) override {
    const auto it = kept_.find(std::string(wrapped));
    if (it == kept_.end() || it->second.second != context) {
      return status::Error(absl::StatusCode::kDataLoss, "KEY_NOT_OPENED",
                           "The data key was not wrapped by this key keeper.");
    }
    return it->second.first;
  }

 private:
  int tickets_ = 0;
  // Ticket to data key and context.
  std::map<std::string, std::pair<std::string, std::string>> kept_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_FAKE_KEY_KEEPER_H_
