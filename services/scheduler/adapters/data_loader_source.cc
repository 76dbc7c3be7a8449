#include "services/scheduler/adapters/data_loader_source.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/call.h"
#include "libs/rpc/client_stream.h"
#include "libs/status/error.h"
#include "services/scheduler/adapters/load_events.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::dataloader::v1;
using Stub = pb::DataLoadService::Stub;
using Async = pb::DataLoadService::StubInterface::async_interface;

constexpr absl::Duration kDeadline = absl::Seconds(10);

}  // namespace

// One Dataset of one Job, until it is ready or failed. Keeps itself alive through its callbacks; a
// stopped one does nothing more.
class DataLoaderSource::Load : public std::enable_shared_from_this<Load> {
 public:
  Load(std::shared_ptr<Stub> stub, Strand* strand, Random* random, EnsureData wanted, Report report)
      : stub_(std::move(stub)),
        strand_(strand),
        wanted_(std::move(wanted)),
        report_(std::move(report)),
        retry_(strand, random, [this] { Ask(); }) {}

  void Start() { retry_.Start(); }

  void Stop() {
    stopped_ = true;
    retry_.Stop();
    if (reader_ != nullptr) std::exchange(reader_, nullptr)->Cancel();
  }

 private:
  void Ask() {
    rpc::CallUnary(stub_.get(), &Async::EnsureDataLoad,
                   RequestFor(wanted_, std::exchange(first_, false)),
                   rpc::CallOptions{.deadline = kDeadline}, strand_,
                   [self = shared_from_this()](absl::StatusOr<pb::DataLoad> load) {
                     if (!self->stopped_) self->Asked(load);
                   });
  }

  void Asked(const absl::StatusOr<pb::DataLoad>& load) {
    if (!load.ok()) {
      if (MayPass(load.status())) return retry_.Lost();
      return End(FailureOf(wanted_, load.status()));
    }
    retry_.Succeeded();
    if (!Show(*load)) Follow(load->name());
  }

  void Follow(const std::string& name) {
    pb::GetDataLoadRequest request;
    request.set_name(name);
    rpc::SessionCallbacks<pb::DataLoad> callbacks;
    callbacks.on_message = [self = shared_from_this()](const pb::DataLoad& load) {
      if (!self->stopped_) self->Show(load);
    };
    callbacks.on_closed = [self = shared_from_this()](const absl::Status&) {
      // Not final yet: ask anew.
      if (!self->stopped_) self->retry_.Lost();
    };
    reader_ = rpc::OpenStream(stub_.get(), &Async::WatchDataLoad, std::move(request), strand_,
                              std::move(callbacks));
  }

  // True if this was the end.
  bool Show(const pb::DataLoad& load) {
    const bool is_final = IsFinal(load);
    if (is_final) Stop();
    report_(EventOf(wanted_, load));
    return is_final;
  }

  void End(Event event) {
    Stop();
    report_(std::move(event));
  }

  const std::shared_ptr<Stub> stub_;
  Strand* const strand_;
  const EnsureData wanted_;
  Report report_;
  rpc::Reconnect retry_;
  std::shared_ptr<rpc::StreamReader<pb::GetDataLoadRequest, pb::DataLoad>> reader_;
  bool first_ = true;
  bool stopped_ = false;
};

class DataLoaderSource::Release : public std::enable_shared_from_this<Release> {
 public:
  Release(std::shared_ptr<Stub> stub, Strand* strand, Random* random, std::string holder,
          absl::AnyInvocable<void()> done)
      : stub_(std::move(stub)),
        strand_(strand),
        holder_(std::move(holder)),
        done_(std::move(done)),
        retry_(strand, random, [this] { Ask(); }) {}

  void Start() { retry_.Start(); }

  void Stop() {
    stopped_ = true;
    retry_.Stop();
  }

 private:
  void Ask() {
    pb::ReleasePinsRequest request;
    request.set_holder(holder_);
    rpc::CallUnary(stub_.get(), &Async::ReleasePins, std::move(request),
                   rpc::CallOptions{.deadline = kDeadline}, strand_,
                   [self = shared_from_this()](absl::StatusOr<pb::ReleasePinsResponse> response) {
                     if (self->stopped_) return;
                     // There is nothing to be done about a refusal but to ask again.
                     if (!response.ok()) return self->retry_.Lost();
                     self->Stop();
                     self->done_();
                   });
  }

  const std::shared_ptr<Stub> stub_;
  Strand* const strand_;
  const std::string holder_;
  absl::AnyInvocable<void()> done_;
  rpc::Reconnect retry_;
  bool stopped_ = false;
};

DataLoaderSource::DataLoaderSource(const std::shared_ptr<grpc::Channel>& channel, Strand* strand,
                                   Random random, const log::Logger* logger)
    : stub_(pb::DataLoadService::NewStub(channel)),
      strand_(strand),
      random_(random),
      logger_(logger) {}

DataLoaderSource::~DataLoaderSource() { StopAll(); }

void DataLoaderSource::Ensure(const EnsureData& wanted, Report report) {
  const Key key{wanted.job_uid, wanted.dataset_position};
  auto old = loads_.find(key);
  if (old != loads_.end()) old->second->Stop();
  logger_->Debug("data wanted", {{"dataset", wanted.dataset}, {"cluster", wanted.cluster}});
  auto shared_report = std::make_shared<Report>(std::move(report));
  auto load = std::make_shared<Load>(stub_, strand_, &random_, wanted,
                                     [this, key, shared_report](Event event) {
                                       // The entry goes first: the report may ask for the same data
                                       // again.
                                       if (!std::holds_alternative<DataProgressed>(event))
                                         loads_.erase(key);
                                       (*shared_report)(std::move(event));
                                     });
  loads_[key] = load;
  load->Start();
}

void DataLoaderSource::Stop(const std::string& job_uid) {
  for (auto it = loads_.lower_bound({job_uid, 0});
       it != loads_.end() && it->first.first == job_uid;) {
    it->second->Stop();
    it = loads_.erase(it);
  }
}

void DataLoaderSource::ReleasePins(const std::string& job_uid, int64_t generation,
                                   absl::AnyInvocable<void()> released) {
  auto holder = std::make_shared<std::weak_ptr<Release>>();
  auto release =
      std::make_shared<Release>(stub_, strand_, &random_, absl::StrCat(job_uid, "/", generation),
                                [this, holder, released = std::move(released)]() mutable {
                                  releases_.erase(holder->lock());
                                  released();
                                });
  *holder = release;
  releases_.insert(release);
  release->Start();
}

void DataLoaderSource::StopAll() {
  for (auto& [key, load] : loads_) load->Stop();
  loads_.clear();
  for (const auto& release : releases_) release->Stop();
  releases_.clear();
}

}  // namespace capstan::scheduler
