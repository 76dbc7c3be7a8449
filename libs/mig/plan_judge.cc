#include "libs/mig/plan_judge.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/mig/packing.h"

namespace capstan::mig {
namespace {

using Place = std::pair<size_t, int>;

class Judge {
 public:
  Judge(const StateTable& table, const RepartitionRequest& request)
      : table_(table), request_(request), profiles_(request.gangs.size()) {
    for (const Instance& instance : request.instances) {
      const Place place(instance.place.gpu, instance.place.position);
      holders_[place] = instance.holder;
      if (instance.holder >= 0) {
        profiles_[static_cast<size_t>(instance.holder)].push_back(ProfileAt(place.second));
      }
    }
  }

  std::string Of(const RepartitionPlan& plan) {
    for (size_t i = 0; i < plan.acts.size(); ++i) {
      const std::string wrong = Carry(plan.acts[i]);
      if (!wrong.empty()) return absl::StrCat("acts[", i, "]: ", wrong);
    }
    if (!cordoned_.empty()) return "a GPU stays cordoned";
    int64_t lost = 0;
    for (const int gang : stopped_) {
      const HoldingGang& of = request_.gangs[static_cast<size_t>(gang)];
      const absl::optional<int64_t>& cost = started_.count(gang) > 0 ? of.move_cost : of.evict_cost;
      if (!cost.has_value()) return absl::StrCat("gang ", gang, " must not go that way");
      lost += *cost;
    }
    if (lost != plan.work_lost) return "work_lost is not that of the gangs stopped";
    if (lost + made_or_destroyed_ * request_.act_cost != plan.cost) return "cost is not the acts'";
    if (plan.granted.size() != request_.wanted.size()) return "not one instance for each wanted";
    std::set<Place> granted;
    for (size_t i = 0; i < plan.granted.size(); ++i) {
      const Place place(plan.granted[i].gpu, plan.granted[i].position);
      const auto found = holders_.find(place);
      if (found == holders_.end()) return absl::StrCat("granted[", i, "] does not exist");
      if (found->second != kNobody) return absl::StrCat("granted[", i, "] is in use");
      if (ProfileAt(place.second) != request_.wanted[i]) {
        return absl::StrCat("granted[", i, "] is of another profile");
      }
      if (!granted.insert(place).second) return absl::StrCat("granted[", i, "] is granted twice");
    }
    return "";
  }

 private:
  int ProfileAt(int position) const {
    return table_.positions()[static_cast<size_t>(position)].profile;
  }

  bool Legal(size_t gpu) const {
    uint32_t instances = 0;
    for (const auto& [place, holder] : holders_) {
      if (place.first == gpu) instances |= uint32_t{1} << place.second;
    }
    return table_.Find(instances).has_value();
  }

  std::string Carry(const Act& act) {
    const Place place(act.place.gpu, act.place.position);
    const bool cordoned = cordoned_.count(place.first) > 0;
    switch (act.kind) {
      case Act::Kind::kCordon:
        return cordoned_.insert(place.first).second ? "" : "cordoned twice";
      case Act::Kind::kUncordon:
        return cordoned_.erase(place.first) > 0 ? "" : "was not cordoned";
      case Act::Kind::kDestroy:
        if (!cordoned) return "GPU not cordoned";
        if (holders_.count(place) == 0) return "no such instance";
        if (holders_[place] != kNobody) return "destroys an instance in use";
        holders_.erase(place);
        ++made_or_destroyed_;
        return "";
      case Act::Kind::kCreate:
        if (!cordoned) return "GPU not cordoned";
        if (!holders_.emplace(place, kNobody).second) return "stands there already";
        ++made_or_destroyed_;
        return Legal(place.first) ? "" : "can't stand there";
      case Act::Kind::kStop:
        if (!stopped_.insert(act.gang).second) return "stopped twice";
        for (auto& [at, holder] : holders_) {
          if (holder != act.gang) continue;
          if (cordoned_.count(at.first) == 0) return "GPU of the gang not cordoned";
          holder = kNobody;
        }
        return "";
      case Act::Kind::kStart:
        return Start(act);
    }
    return "unknown";
  }

  std::string Start(const Act& act) {
    if (stopped_.count(act.gang) == 0) return "was not stopped";
    if (!started_.insert(act.gang).second) return "started twice";
    std::vector<int> profiles;
    for (const Choice& choice : act.places) {
      const auto found = holders_.find(Place(choice.gpu, choice.position));
      if (found == holders_.end()) return "starts where no instance is";
      if (found->second != kNobody) return "starts on another's instance";
      found->second = act.gang;
      profiles.push_back(ProfileAt(choice.position));
    }
    return profiles == profiles_[static_cast<size_t>(act.gang)] ? "" : "not the whole gang";
  }

  const StateTable& table_;
  const RepartitionRequest& request_;
  std::vector<std::vector<int>> profiles_;
  std::map<Place, int> holders_;
  std::set<size_t> cordoned_;
  std::set<int> stopped_;
  std::set<int> started_;
  int64_t made_or_destroyed_ = 0;
};

}  // namespace

std::string WhatIsWrong(const StateTable& table, const RepartitionRequest& request,
                        const RepartitionPlan& plan) {
  return Judge(table, request).Of(plan);
}

}  // namespace capstan::mig
