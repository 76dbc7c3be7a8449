#include "libs/auth/open_calls.h"

#include <utility>

namespace capstan::auth {

std::shared_ptr<OpenCalls::Call> OpenCalls::Add(Caller caller, auth::Revoke revoke) {
  const auto entry = std::make_shared<Call>(std::move(caller), std::move(revoke));
  absl::MutexLock lock(&state_->mutex);
  const int64_t id = state_->next_id++;
  state_->calls[id] = entry;
  // Another handle to the same entry, which takes it out of the map when it goes.
  return std::shared_ptr<Call>(entry.get(), [state = state_, id, entry](Call*) {
    absl::MutexLock lock(&state->mutex);
    state->calls.erase(id);
  });
}

std::vector<std::shared_ptr<OpenCalls::Call>> OpenCalls::All() const {
  absl::MutexLock lock(&state_->mutex);
  std::vector<std::shared_ptr<Call>> all;
  all.reserve(state_->calls.size());
  for (const auto& [id, call] : state_->calls) {
    if (std::shared_ptr<Call> open = call.lock()) all.push_back(std::move(open));
  }
  return all;
}

void OpenCalls::Revoke(Call* call, const absl::Status& why, BootTime now) {
  call->revoked_at = now.ToNanoseconds();
  call->revoke(why);
}

}  // namespace capstan::auth
