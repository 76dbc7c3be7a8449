#include "integration/simulation/subscriber_actor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::simulation {

namespace tv = ::capstan::telemetry::v1;

void SubscriberActor::OnStart() {
  Create();
  PlanSeek();
}

void SubscriberActor::OnCrash() {
  if (link_ != nullptr) link_->CloseReader();
  link_.reset();
}

// Again in each life: the one that is there is shown.
void SubscriberActor::Create() {
  network_->Call<tv::Subscription>(
      this, telemetry_, [this](const auto& reply) { telemetry_->Create(reply); },
      [this](const absl::StatusOr<tv::Subscription>& made) {
        if (made.ok()) return ComeBack(absl::Milliseconds(10), absl::Seconds(5));
        Later(absl::Seconds(2), [this] { Create(); });
      });
}

void SubscriberActor::ComeBack(absl::Duration soonest, absl::Duration latest) {
  Later(world().random().Between(soonest, latest), [this] { Subscribe(); });
}

void SubscriberActor::Subscribe() {
  if (!network_->Passes(name(), telemetry_->name())) {
    return ComeBack(absl::Seconds(1), absl::Seconds(5));
  }
  world().After(network_->Delay(name(), telemetry_->name()), [this, my_life = life()] {
    if (!up() || life() != my_life) return;
    if (!telemetry_->up() || telemetry_->stopped()) {
      return Run(my_life, [this] { ComeBack(absl::Seconds(1), absl::Seconds(5)); });
    }
    RecordLink::Reader reader;
    reader.received = [this](const tv::SubscribeResponse& response) { Received(response); };
    reader.ended = [this](const absl::Status& why) { Ended(why); };
    link_ = std::make_shared<RecordLink>(network_, telemetry_, this, my_life, std::move(reader));
    telemetry_->Subscribe(link_->MakeSink());
  });
}

void SubscriberActor::Received(const tv::SubscribeResponse& response) {
  if (response.records().empty()) return;
  const int64_t last = response.records().rbegin()->offset();
  world().Log(name(), absl::StrCat("gets ", response.records_size(), " up to ", last,
                                   ", generation ", response.reader_generation()));
  telemetry_->witness().Delivered(response);
  if (world().random().OneIn(3)) return;
  Later(world().random().Between(absl::Milliseconds(10), absl::Seconds(2)),
        [this, last, generation = response.reader_generation()] { Acknowledge(last, generation); });
}

void SubscriberActor::Acknowledge(int64_t offset, int64_t generation) {
  telemetry_->witness().AcknowledgeAsked(generation, offset);
  network_->Call<tv::AcknowledgeResponse>(
      this, telemetry_,
      [this, offset, generation](const auto& reply) {
        telemetry_->Acknowledge(offset, generation, reply);
      },
      [](const absl::StatusOr<tv::AcknowledgeResponse>&) {});
}

void SubscriberActor::Ended(const absl::Status& why) {
  const std::string reason = status::Reason(why);
  world().Log(name(),
              absl::StrCat("reads no more: ", absl::StatusCodeToString(why.code()), " ", reason));
  link_.reset();
  if (reason == "READER_REPLACED") return ComeBack(absl::Seconds(20), absl::Seconds(90));
  if (reason == "STREAM_DAMAGED" || reason == "CURSOR_BEYOND_END") {
    return world().Violate(absl::StrCat("a reader ends with ", reason));
  }
  if (reason == "CURSOR_EXPIRED") {
    const auto info = status::GetErrorInfo(why);
    int64_t next = 0;
    int64_t first = 0;
    if (!absl::SimpleAtoi(info->metadata.at("next_offset"), &next) ||
        !absl::SimpleAtoi(info->metadata.at("first_offset"), &first)) {
      return world().Violate("CURSOR_EXPIRED does not say what is lost");
    }
    world().Fault("expired cursor");
    telemetry_->witness().ToldLost(next, first);
    Seek(first);
  }
  ComeBack(absl::Milliseconds(500), absl::Seconds(5));
}

void SubscriberActor::Seek(int64_t next_offset) {
  world().Log(name(), absl::StrCat("seeks ", next_offset));
  telemetry_->witness().SeekAsked(next_offset);
  network_->Call<tv::Subscription>(
      this, telemetry_,
      [this, next_offset](const auto& reply) { telemetry_->Seek(next_offset, reply); },
      [](const absl::StatusOr<tv::Subscription>&) {});
}

void SubscriberActor::PlanSeek() {
  Later(world().random().Between(absl::Seconds(60), absl::Seconds(400)), [this] {
    if (world().now() >= back_until_) return;
    Seek(std::max<int64_t>(
        1, telemetry_->witness().delivered() - world().random().Between(int64_t{0}, int64_t{60})));
    PlanSeek();
  });
}

}  // namespace capstan::simulation
