#include "services/scheduler/recorder/flight_recorder.h"

#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "services/scheduler/recorder/decision_record.h"
#include "services/scheduler/recorder/event_record.h"
#include "services/scheduler/recorder/recording_file.h"
#include "services/scheduler/recorder/recording_folder.h"

namespace capstan::scheduler {
namespace {

// Blocks of about this size are written.
constexpr size_t kBlockBytes = 256 << 10;
// Of a step; beyond, the decision is there by its digest alone.
constexpr size_t kMaxDecisionBytes = 1 << 20;

std::string LastBlock(absl::string_view why) {
  recording::Block block;
  block.set_ended(std::string(why));
  return block.SerializeAsString();
}

}  // namespace

FlightRecorder::Metrics::Metrics(metrics::Registry* registry)
    : recording(registry->AddGauge("flight_recorder_recording",
                                   "1 while what this leader decides is recorded.")),
      bytes(registry->AddCounter("flight_recorder_bytes_total", "Bytes of recordings written.")),
      lost_steps(registry->AddCounter("flight_recorder_lost_steps_total",
                                      "Steps of the core that no recording has.")),
      ended_early(registry->AddCounter("flight_recorder_ended_early_total",
                                       "Recordings that ended before their term did.")) {}

FlightRecorder::Shared::Shared(Options options, Strand* writer, const log::Logger* logger,
                               metrics::Registry* registry)
    : options(std::move(options)), writer(writer), logger(logger), metrics(registry) {}

// One recording: what waits for it, and its file.
class FlightRecorder::Term : public std::enable_shared_from_this<Term> {
 public:
  explicit Term(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void Begin(recording::RecordingHeader header) {
    shared_->writer->Post([self = shared_from_this(), header = std::move(header)]() mutable {
      self->Open(std::move(header));
    });
  }

  void AddRecords(Redaction redaction, std::vector<store::KeyValue> records, bool last,
                  absl::AnyInvocable<void()> taken) {
    shared_->writer->Post([self = shared_from_this(), redaction = std::move(redaction),
                           records = std::move(records), last, taken = std::move(taken)]() mutable {
      self->WriteRecords(redaction, std::move(records), last);
      if (taken) taken();
    });
  }

  bool takes() const { return takes_.load(std::memory_order_relaxed); }

  // A serialised Block.
  void Add(absl::string_view bytes) {
    const Options& options = shared_->options;
    bool arm = false;
    bool at_once = false;
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_bytes_ + bytes.size() > options.max_waiting_bytes) {
        takes_.store(false, std::memory_order_relaxed);
      } else {
        if (waiting_.empty() || waiting_.back().size() + bytes.size() > kBlockBytes) {
          waiting_.emplace_back();
        }
        waiting_.back().append(bytes.data(), bytes.size());
        waiting_bytes_ += bytes.size();
        arm = !std::exchange(armed_, true);
        at_once = waiting_bytes_ >= kBlockBytes && !std::exchange(hurried_, true);
      }
    }
    if (!takes()) return GiveUp("more waited to be written than may");
    if (arm) {
      shared_->writer->RunAfter(options.write_after,
                                [self = shared_from_this()] { self->Write(); });
    }
    if (at_once) shared_->writer->Post([self = shared_from_this()] { self->Write(); });
  }

  // Nothing comes after, since the term is over.
  void End(absl::string_view why) {
    if (takes_.exchange(false)) Close(why);
  }
  // Nothing comes after, although the term goes on.
  void GiveUp(absl::string_view why) {
    takes_.store(false, std::memory_order_relaxed);
    Close(why);
    EndedEarly(why);
  }

 private:
  void Close(absl::string_view why) {
    shared_->writer->Post([self = shared_from_this(), why = std::string(why)] {
      self->Write();
      if (self->file_ != nullptr) self->Append(LastBlock(why));
      self->Drop();
    });
  }

  void EndedEarly(absl::string_view why) {
    shared_->metrics.ended_early.Increment();
    shared_->metrics.recording.Set(0);
    shared_->logger->Warning("this term is not recorded any further", {{"why", why}});
  }

  // What follows runs on the writer.
  void Open(recording::RecordingHeader header) {
    const Options& options = shared_->options;
    header.set_build_id(options.build_id.empty() ? OwnBuildId() : options.build_id);
    absl::StatusOr<std::string> path =
        MakeRoomForRecording(options.folder, options.max_bytes / 2,
                             absl::FromUnixNanos(header.wall_ns()), header.leader_epoch());
    if (!path.ok()) return Failed(path.status());
    auto file = RecordingWriter::Create(*path, header);
    if (!file.ok()) return Failed(file.status());
    file_ = *std::move(file);
  }

  void WriteRecords(const Redaction& redaction, std::vector<store::KeyValue> records, bool last) {
    if (file_ == nullptr) return;
    recording::Block block;
    size_t bytes = 0;
    for (store::KeyValue& kv : records) {
      std::string value = redaction.Record(kv.key, kv.value);
      kv.value.clear();
      bytes += kv.key.size() + value.size();
      recording::RecordRecord& record = *block.add_records();
      record.set_key(std::move(kv.key));
      record.set_value(std::move(value));
      if (bytes < kBlockBytes) continue;
      Append(block.SerializeAsString());
      if (file_ == nullptr) return;
      block.Clear();
      bytes = 0;
    }
    if (last) block.set_loaded(true);
    Append(block.SerializeAsString());
    if (!last) return;
    loaded_ = true;
    Write();
  }

  // Steps come after all records.
  void Write() {
    if (!loaded_ && file_ != nullptr) return;
    std::vector<std::string> blocks;
    {
      absl::MutexLock lock(&mutex_);
      blocks = std::exchange(waiting_, {});
      waiting_bytes_ = 0;
      armed_ = false;
      hurried_ = false;
    }
    for (const std::string& block : blocks) {
      if (file_ == nullptr) return;
      Append(block);
    }
  }

  void Append(absl::string_view block) {
    const int64_t before = file_->bytes();
    const absl::Status written = file_->Append(block);
    if (!written.ok()) return Failed(written);
    shared_->metrics.bytes.Increment(static_cast<double>(file_->bytes() - before));
    if (file_->bytes() < shared_->options.max_bytes / 2 || !takes_.exchange(false)) return;
    constexpr absl::string_view kWhy = "it reached its bound (flight_recorder.max_bytes)";
    file_->Append(LastBlock(kWhy)).IgnoreError();
    EndedEarly(kWhy);
    Drop();
  }

  void Failed(const absl::Status& why) {
    if (takes_.exchange(false)) EndedEarly(std::string(why.message()));
    Drop();
  }

  void Drop() {
    file_.reset();
    absl::MutexLock lock(&mutex_);
    waiting_.clear();
    waiting_bytes_ = 0;
  }

  const std::shared_ptr<Shared> shared_;
  std::atomic<bool> takes_{true};
  absl::Mutex mutex_;
  std::vector<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurried_ ABSL_GUARDED_BY(mutex_) = false;
  // Null before it is open and once nothing is written any more.
  std::unique_ptr<RecordingWriter> file_;
  bool loaded_ = false;
};

FlightRecorder::FlightRecorder(Options options, Strand* writer, const log::Logger* logger,
                               metrics::Registry* metrics)
    : shared_(std::make_shared<Shared>(std::move(options), writer, logger, metrics)) {}

FlightRecorder::~FlightRecorder() { End("the scheduler stopped"); }

void FlightRecorder::Begin(const CoreConfig& config, const Origin& origin, Now now) {
  End("another term began");
  redaction_ = Redaction::Fresh();
  last_ = now;
  recording::RecordingHeader header;
  header.set_format(kRecordingFormat);
  *header.mutable_config() = RecordConfig(config);
  header.set_leader_epoch(origin.leader_epoch);
  header.set_store_incarnation(origin.store_incarnation);
  header.set_revision(origin.revision);
  header.set_wall_ns(absl::ToUnixNanos(now.wall));
  header.set_boot_ns(now.boot.ToNanoseconds());
  term_ = std::make_shared<Term>(shared_);
  shared_->metrics.recording.Set(1);
  term_->Begin(std::move(header));
}

void FlightRecorder::AddRecords(std::vector<store::KeyValue> records, bool last,
                                absl::AnyInvocable<void()> taken) {
  if (takes()) term_->AddRecords(redaction_, std::move(records), last, std::move(taken));
}

bool FlightRecorder::takes() const { return term_ != nullptr && term_->takes(); }

void FlightRecorder::GiveUp(absl::string_view why) {
  if (takes()) term_->GiveUp(why);
}

void FlightRecorder::Record(const Event& event, Now now, const Step& step, bool round) {
  if (!takes()) {
    shared_->metrics.lost_steps.Increment();
    return;
  }
  if (block_.steps_size() == 0) block_.add_steps();
  recording::StepRecord& record = *block_.mutable_steps(0);
  record.set_wall_delta_ns(absl::ToUnixNanos(now.wall) - absl::ToUnixNanos(last_.wall));
  record.set_boot_delta_ns(now.boot.ToNanoseconds() - last_.boot.ToNanoseconds());
  last_ = now;
  RecordEvent(event, redaction_, record.mutable_event());
  RecordDecision(step, redaction_, &decision_);
  SerializeDecision(decision_, record.mutable_decision());
  record.set_digest(DigestOf(record.decision()));
  if (record.decision().size() > kMaxDecisionBytes) record.clear_decision();
  record.set_round(round);
  bytes_.clear();
  block_.AppendToString(&bytes_);
  if (bytes_.size() > kMaxBlockBytes) {
    shared_->metrics.lost_steps.Increment();
    return term_->GiveUp(absl::StrCat("an event of ", bytes_.size(), " bytes is too large"));
  }
  term_->Add(bytes_);
  if (!term_->takes()) shared_->metrics.lost_steps.Increment();
}

void FlightRecorder::End(absl::string_view why) {
  if (term_ == nullptr) return;
  term_->End(why);
  term_.reset();
  shared_->metrics.recording.Set(0);
}

void FlightRecorder::Flush(absl::Duration at_most) {
  auto done = std::make_shared<absl::Notification>();
  // Whatever was recorded before was posted before, but for what a timer is to write.
  shared_->writer->Post([done] { done->Notify(); });
  done->WaitForNotificationWithTimeout(at_most);
}

}  // namespace capstan::scheduler
