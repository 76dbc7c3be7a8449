#include "services/scheduler/core/making_room.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/gang_state.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using Need = rec::JobStateRecord::Need;
using Victim = ExplainJobResponse::Victim;

constexpr int kMostVictimsNamed = 20;

Victim::Need KindOf(Need::Kind kind) {
  switch (kind) {
    case Need::KIND_ROOM:
      return Victim::NEED_ROOM;
    case Need::KIND_QUEUES:
      return Victim::NEED_QUEUES;
    case Need::KIND_PLACE:
      return Victim::NEED_PLACE;
    default:
      return Victim::NEED_UNSPECIFIED;
  }
}

}  // namespace

Need NeedRecordOf(const round::Need& need) {
  Need record;
  switch (need.kind) {
    case round::Need::Kind::kRoom:
      record.set_kind(Need::KIND_ROOM);
      // Less than a gang has.
      record.set_tasks(static_cast<int32_t>(need.tasks));
      break;
    case round::Need::Kind::kQueues:
      record.set_kind(Need::KIND_QUEUES);
      break;
    case round::Need::Kind::kPlace:
      record.set_kind(Need::KIND_PLACE);
      break;
  }
  return record;
}

Need StrongerOf(const Need& a, const Need& b) {
  if (a.kind() != Need::KIND_ROOM) return b.kind() == Need::KIND_UNSPECIFIED ? a : b;
  return b.kind() == Need::KIND_ROOM && b.tasks() < a.tasks() ? b : a;
}

std::string NeedInWords(const Need& need, const JobEntry& beneficiary) {
  switch (need.kind()) {
    case Need::KIND_ROOM: {
      const int least = MinTaskCount(beneficiary.spec.spec());
      if (least == 1) return "otherwise it would have no room";
      const std::string some = need.tasks() == 0 ? "none" : absl::StrCat("at most ", need.tasks());
      return absl::StrCat("otherwise ", some, " of its ", least, " Tasks would have room");
    }
    case Need::KIND_QUEUES:
      return "otherwise its Queues would not let it start";
    case Need::KIND_PLACE:
      return "otherwise no place was found for it";
    default:
      return "";
  }
}

void ExplainVictims(const Model& model, const JobEntry& job, ExplainJobResponse* response) {
  response->set_victim_count(job.state.making_room_size());
  std::map<std::string, const rec::JobStateRecord::Victim*> own;  // by name
  for (const auto& record : job.state.making_room()) {
    const JobEntry* const victim = model.FindJob(record.job_uid());
    if (victim == nullptr || ProjectOf(victim->spec.name()) != ProjectOf(job.spec.name())) continue;
    own[victim->spec.name()] = &record;
  }
  for (const auto& [name, record] : own) {
    if (response->victims_size() == kMostVictimsNamed) break;
    Victim& victim = *response->add_victims();
    victim.set_job(name);
    std::string words;
    if (record->has_move()) {
      victim.set_act(Victim::ACT_MOVES);
      words = "is moved";
    } else if (record->shrinks()) {
      victim.set_act(Victim::ACT_SHRINKS);
      words = "gives up Tasks";
    } else {
      victim.set_act(Victim::ACT_ENDS);
      words = "ends";
    }
    victim.set_need(KindOf(record->need().kind()));
    victim.set_tasks(record->need().tasks());
    const std::string why = NeedInWords(record->need(), job);
    victim.set_message(why.empty() ? words : absl::StrCat(words, "; ", why));
  }
}

}  // namespace capstan::scheduler
