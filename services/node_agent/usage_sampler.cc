#include "services/node_agent/usage_sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/telemetry/v1/usage.pb.h"
#include "services/node_agent/task_record.h"

namespace capstan::node_agent {

using capstan::telemetry::v1::Record;
using capstan::telemetry::v1::TaskUsage;
using session::TaskId;

namespace {

// Of one call: well below 1 MiB.
constexpr size_t kMostRecords = 1000;
// A rate over less says more about the clock's grain than about the Task.
constexpr absl::Duration kLeastInterval = absl::Milliseconds(100);

// False for a group that is just going away.
bool KnowsAnything(const cgroup::Usage& usage) {
  return usage.cpu_time.has_value() || usage.memory_bytes.has_value() ||
         usage.processes.has_value();
}

}  // namespace

UsageSampler::UsageSampler(Options options, Strand* strand, Strand* files, LogSink* sink,
                           Reader read, metrics::Registry* registry)
    : options_(std::move(options)),
      strand_(strand),
      files_(files),
      sink_(sink),
      read_(std::move(read)),
      next_(BootTime::InfiniteFuture()) {
  if (registry == nullptr) return;
  sent_ = registry->AddCounter("usage_samples_total", "Samples of what Tasks use, by outcome",
                               {{"outcome", "sent"}});
  dropped_ = registry->AddCounter("usage_samples_total", "Samples of what Tasks use, by outcome",
                                  {{"outcome", "dropped"}});
}

UsageSampler::~UsageSampler() { Clear(); }

void UsageSampler::LookAtDevices(Strand* driver, DeviceLook look) {
  driver_ = driver;
  device_look_ = std::move(look);
}

void UsageSampler::Watch(const ShipLogs& order) {
  const bool known_group = !order.cgroup.v2().empty() || !order.cgroup.v1_freezer().empty();
  if (!read_ || !known_group || tasks_.count(order.id) > 0) return;
  tasks_[order.id].order = order;
  Schedule(absl::ZeroDuration());
}

void UsageSampler::Drop(const TaskId& id) { tasks_.erase(id); }

void UsageSampler::Clear() {
  tasks_.clear();
  if (timer_ != 0) strand_->Cancel(timer_);
  timer_ = 0;
  next_ = BootTime::InfiniteFuture();
}

// An earlier time stands.
void UsageSampler::Schedule(absl::Duration delay) {
  const BootTime at = strand_->clock().Read().boot + delay;
  if (timer_ != 0 && next_ <= at) return;
  if (timer_ != 0) strand_->Cancel(timer_);
  next_ = at;
  timer_ = strand_->RunAfter(delay, [this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    timer_ = 0;
    Sample();
  });
}

void UsageSampler::Sample() {
  if (tasks_.empty() || looking_) return;
  looking_ = true;
  Groups groups;
  for (const auto& [id, task] : tasks_) groups[id] = task.order.cgroup;
  StartDeviceLook(groups);
  files_->Post([this, alive = std::weak_ptr<char>(alive_), strand = strand_, read = read_,
                groups = std::move(groups)] {
    Looks looks;
    for (const auto& [id, group] : groups) {
      Look& look = looks[id];
      look.usage = read(group);
      look.at = strand->clock().Read().boot;
    }
    strand->Post([this, alive, looks = std::move(looks)] {
      if (alive.expired()) return;
      looking_ = false;
      OnLooks(looks);
    });
  });
}

void UsageSampler::StartDeviceLook(const Groups& groups) {
  // One at a time: the driver may hang.
  if (!device_look_ || std::exchange(looking_at_devices_, true)) return;
  driver_->Post(
      [this, alive = std::weak_ptr<char>(alive_), strand = strand_, look = device_look_, groups] {
        Devices devices = look(groups);
        strand->Post([this, alive, devices = std::move(devices)]() mutable {
          if (alive.expired()) return;
          looking_at_devices_ = false;
          devices_ = std::move(devices);
          devices_at_ = strand_->clock().Read().boot;
        });
      });
}

void UsageSampler::AddDevices(const TaskId& id, TaskUsage* usage) const {
  const auto it = devices_.find(id);
  if (it == devices_.end()) return;
  if (strand_->clock().Read().boot - devices_at_ > 2 * options_.every) return;
  for (const gpu::TaskDevice& device : it->second) {
    auto& shown = *usage->add_accelerators();
    shown.set_device(device.uuid);
    if (device.busy_percent) shown.set_busy_percent(*device.busy_percent);
    if (device.memory_bytes) shown.set_memory_bytes(*device.memory_bytes);
  }
}

void UsageSampler::OnLooks(const Looks& looks) {
  std::map<std::string, std::vector<Record>> by_job;
  for (const auto& [id, look] : looks) {
    const auto it = tasks_.find(id);
    if (it == tasks_.end()) continue;
    ++it->second.looks;
    if (!KnowsAnything(look.usage)) continue;
    by_job[it->second.order.job].push_back(MakeSample(it->second, look));
    it->second.last = look;
  }
  for (auto& [job, records] : by_job) Send(job, std::move(records));
  if (tasks_.empty()) return;
  const bool young = std::any_of(tasks_.begin(), tasks_.end(),
                                 [](const auto& task) { return task.second.looks < 2; });
  Schedule(young ? options_.soon : options_.every);
}

void UsageSampler::Send(const std::string& job, std::vector<Record> records) {
  const auto count = static_cast<double>(records.size());
  if (!sending_.insert(job).second || records.size() > kMostRecords) {
    if (dropped_.has_value()) dropped_->Increment(count);
    return;
  }
  sink_->Append(absl::StrCat(job, "/streams/usage"), std::move(records),
                [this, alive = std::weak_ptr<char>(alive_), job, count](const absl::Status& done) {
                  if (alive.expired()) return;
                  sending_.erase(job);
                  auto& counter = done.ok() ? sent_ : dropped_;
                  if (counter.has_value()) counter->Increment(count);
                });
}

Record UsageSampler::MakeSample(const Watched& task, const Look& look) const {
  const cgroup::Usage& now = look.usage;
  TaskUsage usage;
  const absl::Duration interval =
      task.last.has_value() ? look.at - task.last->at : absl::ZeroDuration();
  if (interval >= kLeastInterval) {
    *usage.mutable_interval() = ToProto(interval);
    if (now.cpu_time.has_value() && task.last->usage.cpu_time.has_value()) {
      const absl::Duration used = *now.cpu_time - *task.last->usage.cpu_time;
      usage.set_cpu_millis(std::llround(std::max(absl::FDivDuration(used, interval), 0.0) * 1000));
    }
  }
  if (now.cpu_time) *usage.mutable_cpu_time() = ToProto(*now.cpu_time);
  if (now.memory_bytes) usage.set_memory_bytes(*now.memory_bytes);
  if (now.memory_peak_bytes) usage.set_memory_peak_bytes(*now.memory_peak_bytes);
  if (now.processes) usage.set_processes(*now.processes);
  if (now.io_read_bytes) usage.set_io_read_bytes(*now.io_read_bytes);
  if (now.io_write_bytes) usage.set_io_write_bytes(*now.io_write_bytes);
  AddDevices(task.order.id, &usage);
  Record record = MakeTaskRecord(task.order.id, task.order.rank, options_.producer, "usage",
                                 look.at.ToNanoseconds() / 1'000'000);
  record.set_payload(usage.SerializeAsString());
  *record.mutable_event_time() = ToProto(strand_->clock().Read().wall);
  return record;
}

}  // namespace capstan::node_agent
