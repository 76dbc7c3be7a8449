#include "libs/store/etcd_maintenance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/store/etcd_client.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

using KvCalls = etcdserverpb::KV::StubInterface::async_interface;
using MaintenanceCalls = etcdserverpb::Maintenance::StubInterface::async_interface;
using Clients = std::vector<std::shared_ptr<EtcdClient>>;

// Rewriting 8 GiB on a slow disk.
constexpr absl::Duration kPatience = absl::Minutes(10);

}  // namespace

EtcdMaintenance::EtcdMaintenance(const EtcdOptions& options, Strand* strand)
    : endpoints_(options.endpoints) {
  for (const std::string& endpoint : endpoints_) {
    EtcdOptions one = options;
    one.endpoints = {endpoint};
    one.attempt_timeout = kPatience;
    clients_.push_back(std::make_shared<EtcdClient>(std::move(one), strand));
  }
}

EtcdMaintenance::~EtcdMaintenance() {
  for (const auto& client : clients_) client->Close();
}

// Asks one member after the other, then any for the alarms.
class EtcdMaintenance::Inspection : public std::enable_shared_from_this<Inspection> {
 public:
  Inspection(Clients clients, std::vector<std::string> endpoints,
             Callback<std::vector<EtcdMember>> done)
      : clients_(std::move(clients)), endpoints_(std::move(endpoints)), done_(std::move(done)) {}

  void Next() {
    if (members_.size() == clients_.size()) return Alarms();
    const auto& client = clients_[members_.size()];
    client->Call<etcdserverpb::Maintenance>(
        &MaintenanceCalls::Status, {}, EtcdClient::Repeat::kAlways, client->CallDeadline(),
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::StatusResponse> status) {
          if (!status.ok()) {
            return self->done_(
                status::Annotate(status.status(), self->endpoints_[self->members_.size()]));
          }
          EtcdMember member;
          member.endpoint = self->endpoints_[self->members_.size()];
          member.id = status->header().member_id();
          member.version = status->version();
          member.leads = status->leader() == member.id;
          member.disk_bytes = status->dbsize();
          member.used_bytes = status->dbsizeinuse();
          member.quota_bytes = status->dbsizequota();
          self->members_.push_back(std::move(member));
          self->Next();
        });
  }

 private:
  void Alarms() {
    etcdserverpb::AlarmRequest request;
    request.set_action(etcdserverpb::AlarmRequest::GET);
    clients_[0]->Call<etcdserverpb::Maintenance>(
        &MaintenanceCalls::Alarm, request, EtcdClient::Repeat::kAlways, clients_[0]->CallDeadline(),
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::AlarmResponse> alarms) {
          if (!alarms.ok()) return self->done_(alarms.status());
          for (const etcdserverpb::AlarmMember& alarm : alarms->alarms()) {
            if (alarm.alarm() != etcdserverpb::NOSPACE) continue;
            for (EtcdMember& member : self->members_) {
              if (member.id == alarm.memberid()) member.no_space = true;
            }
          }
          self->done_(std::move(self->members_));
        });
  }

  const Clients clients_;
  const std::vector<std::string> endpoints_;
  Callback<std::vector<EtcdMember>> done_;
  std::vector<EtcdMember> members_;
};

class EtcdMaintenance::Reclaiming : public std::enable_shared_from_this<Reclaiming> {
 public:
  Reclaiming(Clients clients, std::vector<std::string> endpoints, DoneCallback done)
      : clients_(std::move(clients)), endpoints_(std::move(endpoints)), done_(std::move(done)) {}

  void Start(int64_t revision) {
    etcdserverpb::CompactionRequest request;
    request.set_revision(revision);
    // Only what was carried out everywhere can be given back.
    request.set_physical(true);
    clients_[0]->Call<etcdserverpb::KV>(
        &KvCalls::Compact, request, EtcdClient::Repeat::kAlways, clients_[0]->CallDeadline(),
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::CompactionResponse> compacted) {
          if (!compacted.ok() && status::Reason(compacted.status()) != kReasonCompacted) {
            return self->done_(compacted.status());
          }
          self->Inspect([self](const std::vector<EtcdMember>& members) { self->Order(members); });
        });
  }

 private:
  template <typename F>
  void Inspect(const F& then) {
    std::make_shared<Inspection>(
        clients_, endpoints_,
        [self = shared_from_this(), then](absl::StatusOr<std::vector<EtcdMember>> members) {
          if (!members.ok()) return self->done_(members.status());
          then(*members);
        })
        ->Next();
  }

  void Order(const std::vector<EtcdMember>& members) {
    for (size_t i = 0; i < members.size(); ++i) order_.push_back(i);
    std::stable_partition(order_.begin(), order_.end(),
                          [&](size_t i) { return !members[i].leads; });
    Defragment();
  }

  void Defragment() {
    if (order_.empty()) {
      return Inspect([self = shared_from_this()](const std::vector<EtcdMember>& members) {
        self->Lift(members);
      });
    }
    const auto& client = clients_[order_.front()];
    order_.erase(order_.begin());
    client->Call<etcdserverpb::Maintenance>(
        &MaintenanceCalls::Defragment, {}, EtcdClient::Repeat::kAlways, client->Now() + kPatience,
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::DefragmentResponse> done) {
          if (!done.ok()) return self->done_(done.status());
          self->Defragment();
        });
  }

  void Lift(const std::vector<EtcdMember>& members) {
    for (const EtcdMember& member : members) {
      if (member.quota_bytes > 0 && member.used_bytes > member.quota_bytes / 10 * 9) {
        return done_(NoSpaceError(absl::StrCat(member.endpoint, " uses ", member.used_bytes,
                                               " bytes of its quota of ", member.quota_bytes)));
      }
    }
    for (const EtcdMember& member : members) {
      if (member.no_space) alarmed_.push_back(member.id);
    }
    LiftNext();
  }

  void LiftNext() {
    if (alarmed_.empty()) return done_(absl::OkStatus());
    etcdserverpb::AlarmRequest request;
    request.set_action(etcdserverpb::AlarmRequest::DEACTIVATE);
    request.set_alarm(etcdserverpb::NOSPACE);
    request.set_memberid(alarmed_.back());
    alarmed_.pop_back();
    clients_[0]->Call<etcdserverpb::Maintenance>(
        &MaintenanceCalls::Alarm, request, EtcdClient::Repeat::kAlways, clients_[0]->CallDeadline(),
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::AlarmResponse> lifted) {
          if (!lifted.ok()) return self->done_(lifted.status());
          self->LiftNext();
        });
  }

  const Clients clients_;
  const std::vector<std::string> endpoints_;
  DoneCallback done_;
  std::vector<size_t> order_;
  std::vector<uint64_t> alarmed_;
};

void EtcdMaintenance::Inspect(Callback<std::vector<EtcdMember>> done) {
  std::make_shared<Inspection>(clients_, endpoints_, std::move(done))->Next();
}

void EtcdMaintenance::Reclaim(int64_t revision, DoneCallback done) {
  std::make_shared<Reclaiming>(clients_, endpoints_, std::move(done))->Start(revision);
}

}  // namespace capstan::store
