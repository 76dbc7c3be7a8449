#include "services/node_agent/api/peer_content_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/content/content_reader.h"
#include "libs/content/manifest.h"
#include "libs/resource/name.h"
#include "libs/rpc/server_stream.h"
#include "libs/status/error.h"

namespace capstan::node_agent {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr int64_t kChunkBytes = 512 << 10;
// Below what a stream takes: it never refuses a message.
constexpr size_t kReadAhead = 3 << 20;

absl::Status AskAnother(absl::string_view reason, absl::string_view message) {
  return status::Error(absl::StatusCode::kUnavailable, reason, message);
}

// One of the reads that the budget allows; given back by the destructor.
class UploadPlace {
 public:
  static std::shared_ptr<UploadPlace> Take(const std::shared_ptr<UploadState>& state) {
    {
      absl::MutexLock lock(&state->mutex);
      if (!state->budget.Begin()) return nullptr;
    }
    if (state->uploads.has_value()) state->uploads->Add(1);
    return std::make_shared<UploadPlace>(state);
  }
  explicit UploadPlace(std::shared_ptr<UploadState> state) : state_(std::move(state)) {}
  ~UploadPlace() {
    if (state_->uploads.has_value()) state_->uploads->Add(-1);
    absl::MutexLock lock(&state_->mutex);
    state_->budget.End();
  }
  UploadPlace(const UploadPlace&) = delete;
  UploadPlace& operator=(const UploadPlace&) = delete;

 private:
  const std::shared_ptr<UploadState> state_;
};

// Sends content as far as it is there, one chunk a turn of the strand, so that uploads share it
// fairly, and never more than a bound ahead of its reader. Keeps itself alive until the call is
// over or everything is sent.
class Upload : public std::enable_shared_from_this<Upload> {
 public:
  using Writer = std::shared_ptr<rpc::ServerStreamWriter<pb::ReadContentResponse>>;

  Upload(std::shared_ptr<UploadState> state, std::shared_ptr<UploadPlace> place, Strand* disk,
         Writer writer, const pb::ReadContentRequest& request)
      : state_(std::move(state)),
        place_(std::move(place)),
        disk_(disk),
        writer_(std::move(writer)),
        content_(request.content()),
        offset_(request.offset()),
        length_(request.length()),
        heard_(disk->clock().Read().boot),
        grew_(heard_) {}

  void Step() {
    if (state_->leaving) {
      return writer_->Finish(AskAnother("PEER_LEAVES", "the agent of this Node ends"));
    }
    if (writer_->queued_bytes() > kReadAhead) {
      return writer_->NotifyDrained(disk_, [self = shared_from_this()] { self->Step(); });
    }
    const absl::optional<HeldCopies::Copy> copy = state_->copies->Find(content_.manifest_digest());
    if (!copy.has_value()) return writer_->Finish(status::NotFound(content_.resource()));
    if (offset_ > copy->total_bytes || length_ > copy->total_bytes - offset_) {
      return writer_->Finish(status::Error(
          absl::StatusCode::kOutOfRange, "RANGE_BEYOND_CONTENT",
          absl::StrCat(length_, " bytes from ", offset_, " on are not in ", copy->total_bytes)));
    }
    if (length_ == 0) length_ = copy->total_bytes - offset_;
    if (length_ == 0) return writer_->Finish(absl::OkStatus());
    if (copy->have_bytes < offset_) {
      return writer_->Finish(AskAnother(
          "PEER_BEHIND", absl::StrCat("only ", copy->have_bytes, " bytes of it are here")));
    }
    const int64_t bytes = std::min({kChunkBytes, copy->have_bytes - offset_, length_});
    if (bytes == 0) return Await();
    if (reader_ == nullptr) {
      absl::StatusOr<content::ContentReader> opened = state_->copies->Open(*copy);
      if (!opened.ok()) return writer_->Finish(AskAnother("PEER_BEHIND", "it has just left"));
      reader_ = std::make_unique<content::ContentReader>(*std::move(opened));
    }
    const BootTime now = disk_->clock().Read().boot;
    absl::Duration wait;
    {
      absl::MutexLock lock(&state_->mutex);
      wait = state_->budget.Take(bytes, now);
    }
    if (wait <= absl::ZeroDuration()) return Send(bytes);
    disk_->RunAfter(wait, [self = shared_from_this(), bytes] { self->Send(bytes); });
  }

 private:
  void Send(int64_t bytes) {
    absl::StatusOr<std::string> chunk = reader_->Read(offset_, static_cast<size_t>(bytes));
    if (!chunk.ok()) {
      // It has left the cache, or the disk has lost it: others have it.
      return writer_->Finish(AskAnother("PEER_BEHIND", chunk.status().message()));
    }
    offset_ += bytes;
    length_ -= bytes;
    heard_ = grew_ = disk_->clock().Read().boot;
    if (state_->sent_bytes.has_value()) state_->sent_bytes->Increment(static_cast<double>(bytes));
    pb::ReadContentResponse response;
    response.set_chunk(*std::move(chunk));
    // Over, or not allowed any more.
    if (!writer_->Write(std::move(response)).ok()) return;
    if (length_ == 0) return writer_->Finish(absl::OkStatus());
    disk_->Post([self = shared_from_this()] { self->Step(); });
  }

  // Nothing is there yet.
  void Await() {
    const BootTime now = disk_->clock().Read().boot;
    if (now - grew_ >= state_->options.starved_after) {
      return writer_->Finish(AskAnother("PEER_STARVED", "nothing comes to this Node"));
    }
    if (now - heard_ >= state_->options.heartbeat) {
      heard_ = now;
      if (!writer_->Write(pb::ReadContentResponse()).ok()) return;
    }
    disk_->RunAfter(state_->options.look_every, [self = shared_from_this()] { self->Step(); });
  }

  const std::shared_ptr<UploadState> state_;
  const std::shared_ptr<UploadPlace> place_;
  Strand* const disk_;
  const Writer writer_;
  const pb::ContentRef content_;
  int64_t offset_;
  // What is still to be sent; 0 at first if that is all that follows.
  int64_t length_;
  std::unique_ptr<content::ContentReader> reader_;
  // When something was last said to the reader, and when bytes were there for it.
  BootTime heard_;
  BootTime grew_;
};

absl::Status CheckRequest(const pb::ReadContentRequest& request) {
  status::FieldErrors errors;
  const absl::Status digest = content::DigestHex(request.content().manifest_digest()).status();
  if (!digest.ok()) errors.Add("content.manifest_digest", digest.message());
  if (request.offset() < 0) errors.Add("offset", "is negative");
  if (request.length() < 0) errors.Add("length", "is negative");
  return errors.ToStatus();
}

}  // namespace

PeerContentService::PeerContentService(auth::Access* access, const HeldCopies* copies,
                                       ReaderCheck* check, const PeerContentOptions& options,
                                       std::vector<Strand*> disks, metrics::Registry* registry)
    : access_(access),
      check_(check),
      disks_(std::move(disks)),
      state_(std::make_shared<UploadState>(options, copies)) {
  if (registry == nullptr) return;
  state_->sent_bytes =
      registry->AddCounter("peer_sent_bytes_total", "Content given to other Nodes");
  state_->uploads = registry->AddGauge("peer_uploads", "Reads of other Nodes under way");
  refused_ = registry->AddCounter(
      "peer_refused_total", "Reads of other Nodes that were refused since as many read as may");
}

int PeerContentService::uploads() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->budget.uploads();
}

grpc::ServerWriteReactor<pb::ReadContentResponse>* PeerContentService::ReadPeerContent(
    grpc::CallbackServerContext* context, const pb::ReadContentRequest* request) {
  return rpc::HandleServerStream<pb::ReadContentResponse>(
      context, access_, "/capstan.dataloader.v1.PeerContentService/ReadPeerContent", request,
      CheckRequest, [this](const Upload::Writer& writer, const pb::ReadContentRequest& request) {
        const std::string& resource = request.content().resource();
        const auth::Caller& caller = writer->caller();
        if (!caller.IsNode() || caller.id->cluster != state_->options.cluster ||
            !state_->copies->Find(request.content().manifest_digest()).has_value()) {
          return writer->Finish(status::NotFound(resource));
        }
        const std::string reader =
            resource::NodeName{caller.id->cluster, caller.id->node}.ToString();
        Strand* const disk = disks_[next_disk_++ % disks_.size()];
        check_->Check(
            reader, request.content(),
            [state = state_, refused = refused_, disk = disk->remote(), strand = disk, writer,
             request](const absl::Status& may) mutable {
              if (absl::IsNotFound(may)) return writer->Finish(may);
              if (!may.ok()) {
                return writer->Finish(AskAnother(
                    "PEER_UNSURE",
                    absl::StrCat("data_loader does not say who may read: ", may.message())));
              }
              auto place = UploadPlace::Take(state);
              if (place == nullptr) {
                if (refused.has_value()) refused->Increment();
                return writer->Finish(status::WithRetryDelay(
                    status::Error(absl::StatusCode::kResourceExhausted, "PEER_BUSY",
                                  absl::StrCat(state->options.max_uploads, " Nodes read already")),
                    absl::Seconds(1)));
              }
              disk.Post([state, place = std::move(place), strand, writer, request]() mutable {
                std::make_shared<Upload>(state, std::move(place), strand, writer, request)->Step();
              });
            });
      });
}

}  // namespace capstan::node_agent
