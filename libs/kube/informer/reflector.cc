#include "libs/kube/informer/reflector.h"

#include <algorithm>

namespace capstan::kube {
namespace {

// What a server may ask for at most.
constexpr absl::Duration kMaxRetryAfter = absl::Minutes(5);

}  // namespace

ReflectorStep Reflector::Start(BootTime now) {
  ReflectorStep step;
  if (phase_ == Phase::kStopped) GoOn(now, &step);
  return step;
}

ReflectorStep Reflector::Stop() {
  ReflectorStep step;
  if (phase_ != Phase::kStopped) step.effects.emplace_back(CancelRequest{attempt_});
  phase_ = Phase::kStopped;
  ++attempt_;
  return step;
}

ReflectorStep Reflector::OnPage(uint64_t attempt, absl::string_view resource_version,
                                absl::string_view continue_token, BootTime now) {
  ReflectorStep step;
  if (attempt != attempt_ || phase_ != Phase::kListing) return step;
  const bool first = first_page_;
  first_page_ = false;
  if (!continue_token.empty()) {
    step.objects = first ? Objects::kStageFirst : Objects::kStage;
    step.effects.emplace_back(
        ListPageRequest{++attempt_, options_.page_limit, std::string(continue_token)});
    return step;
  }
  step.objects = first ? Objects::kCommitFirst : Objects::kCommit;
  resource_version_ = std::string(resource_version);
  synced_ = true;
  whole_list_ = false;
  Watch(/*initial_events=*/false, now, &step);
  return step;
}

ReflectorStep Reflector::OnEvent(uint64_t attempt, absl::string_view resource_version,
                                 BootTime now) {
  ReflectorStep step;
  if (attempt != attempt_) return step;
  last_event_ = now;
  if (phase_ == Phase::kWatchListing) step.objects = Objects::kStageEvent;
  if (phase_ == Phase::kWatching) {
    step.objects = Objects::kApply;
    resource_version_ = std::string(resource_version);
  }
  return step;
}

ReflectorStep Reflector::OnBookmark(uint64_t attempt, absl::string_view resource_version,
                                    bool initial_events_end, BootTime) {
  ReflectorStep step;
  if (attempt != attempt_) return step;
  if (phase_ == Phase::kWatchListing && initial_events_end) {
    step.objects = Objects::kCommit;
    synced_ = true;
    phase_ = Phase::kWatching;
  }
  if (phase_ == Phase::kWatching) resource_version_ = std::string(resource_version);
  return step;
}

ReflectorStep Reflector::OnEnd(uint64_t attempt, RequestEnd end,
                               absl::optional<absl::Duration> retry_after, BootTime now) {
  ReflectorStep step;
  if (attempt != attempt_ || phase_ == Phase::kStopped || phase_ == Phase::kWaiting) return step;
  if (phase_ == Phase::kWatchListing && end == RequestEnd::kInvalid) {
    watch_list_refused_ = true;
    GoOn(now, &step);
    return step;
  }
  if (phase_ == Phase::kListing && end == RequestEnd::kExpired) whole_list_ = !first_page_;
  if (phase_ == Phase::kWatching) {
    // A resource version that the server does not understand is as useless as one it has forgotten.
    if (end == RequestEnd::kExpired || end == RequestEnd::kInvalid) resource_version_.clear();
    if (now - begun_ >= options_.healthy_after) {
      failures_ = 0;
      if (end == RequestEnd::kClean || end == RequestEnd::kExpired) {
        GoOn(now, &step);
        return step;
      }
    }
  }
  Retry(retry_after, now, &step);
  return step;
}

ReflectorStep Reflector::OnTimer(uint64_t attempt, BootTime now) {
  ReflectorStep step;
  if (attempt != attempt_ || phase_ == Phase::kStopped) return step;
  if (phase_ == Phase::kWaiting) {
    GoOn(now, &step);
    return step;
  }
  if (phase_ == Phase::kWatchListing && now - last_event_ < options_.grace) {
    step.effects.emplace_back(SleepUntil{attempt_, last_event_ + options_.grace});
    return step;
  }
  if (phase_ == Phase::kWatching && now < deadline_) {
    step.effects.emplace_back(SleepUntil{attempt_, deadline_});
    return step;
  }
  // The stream hangs.
  step.effects.emplace_back(CancelRequest{attempt_});
  if (phase_ == Phase::kWatchListing) watch_list_refused_ = true;
  GoOn(now, &step);
  return step;
}

void Reflector::Relist(bool whole, BootTime now, ReflectorStep* step) {
  phase_ = Phase::kListing;
  begun_ = now;
  first_page_ = true;
  step->effects.emplace_back(ListPageRequest{++attempt_, whole ? 0 : options_.page_limit, ""});
}

void Reflector::Watch(bool initial_events, BootTime now, ReflectorStep* step) {
  phase_ = initial_events ? Phase::kWatchListing : Phase::kWatching;
  begun_ = now;
  const absl::Duration timeout =
      random_->Between(options_.min_watch_timeout, options_.min_watch_timeout * 2);
  step->effects.emplace_back(WatchRequest{
      ++attempt_, initial_events ? std::string() : resource_version_, initial_events, timeout});
  last_event_ = now;
  deadline_ = now + timeout + options_.grace;
  step->effects.emplace_back(
      SleepUntil{attempt_, initial_events ? now + options_.grace : deadline_});
}

void Reflector::GoOn(BootTime now, ReflectorStep* step) {
  if (!resource_version_.empty()) return Watch(/*initial_events=*/false, now, step);
  if (watch_list_supported()) return Watch(/*initial_events=*/true, now, step);
  Relist(whole_list_, now, step);
}

void Reflector::Retry(absl::optional<absl::Duration> retry_after, BootTime now,
                      ReflectorStep* step) {
  absl::Duration ceiling = options_.initial_backoff;
  for (int i = 0; i < failures_ && ceiling < options_.max_backoff; ++i) ceiling *= 2;
  ceiling = std::min(ceiling, options_.max_backoff);
  ++failures_;
  absl::Duration delay = random_->Between(ceiling / 2, ceiling + absl::Nanoseconds(1));
  delay = std::max(delay, std::min(retry_after.value_or(absl::ZeroDuration()), kMaxRetryAfter));
  phase_ = Phase::kWaiting;
  step->effects.emplace_back(SleepUntil{++attempt_, now + delay});
}

}  // namespace capstan::kube
