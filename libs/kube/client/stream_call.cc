#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/client/client_core.h"
#include "libs/kube/client/server_error.h"

namespace capstan::kube {
namespace {

class StreamCall;

// Between the transport's thread, which fills it, and the strand, which empties it. A mutex, since
// a task for each piece would let them pile up on the strand without a bound.
class StreamBuffer final : public ResponseHandler {
 public:
  StreamBuffer(Strand::Remote remote, std::weak_ptr<StreamCall> owner, size_t max_bytes)
      : remote_(std::move(remote)), owner_(std::move(owner)), max_bytes_(max_bytes) {}

  struct Content {
    absl::optional<HttpHead> head;
    std::string bytes;
    absl::optional<absl::Status> end;
    // The transport waits to be resumed.
    bool stalled = false;
  };
  Content Take() {
    absl::MutexLock lock(&mutex_);
    posted_ = false;
    Content content = std::move(content_);
    content_ = Content();
    return content;
  }

  void OnHead(HttpHead head) override {
    absl::MutexLock lock(&mutex_);
    is_error_ = head.status >= 300;
    content_.head = std::move(head);
    Notify();
  }
  bool OnBytes(absl::string_view bytes) override {
    absl::MutexLock lock(&mutex_);
    if (is_error_) {
      error_bytes_ += bytes.size();
      if (error_bytes_ > kMaxErrorBytes) return true;
    }
    content_.bytes.append(bytes.data(), bytes.size());
    Notify();
    content_.stalled = !is_error_ && content_.bytes.size() >= max_bytes_;
    return !content_.stalled;
  }
  void OnEnd(absl::Status status) override {
    absl::MutexLock lock(&mutex_);
    content_.end = std::move(status);
    Notify();
  }

 private:
  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Strand::Remote remote_;
  const std::weak_ptr<StreamCall> owner_;
  const size_t max_bytes_;
  absl::Mutex mutex_;
  Content content_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_error_ ABSL_GUARDED_BY(mutex_) = false;
  size_t error_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

class StreamCall final : public OpenCall, public std::enable_shared_from_this<StreamCall> {
 public:
  StreamCall(std::shared_ptr<Client::Core> core, ApiRequest request, StreamReader* reader)
      : core_(std::move(core)), request_(std::move(request)), reader_(reader) {
    core_->open.insert(this);
  }
  ~StreamCall() override { Cancel(); }

  void Begin() {
    buffer_ = std::make_unique<StreamBuffer>(core_->strand->remote(), weak_from_this(),
                                             core_->options.max_stream_buffer);
    call_ = core_->transport->Start(
        core_->MakeHttp(request_, request_.timeout.value_or(absl::InfiniteDuration())),
        buffer_.get());
  }

  void Cancel() override {
    if (core_ == nullptr) return;
    core_->open.erase(this);
    call_.reset();
    core_ = nullptr;
  }

  void Resume() {
    if (core_ == nullptr || !paused_) return;
    paused_ = false;
    // Nothing is done inline.
    core_->strand->Post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Drain();
    });
  }

  void Drain() {
    if (core_ == nullptr || paused_) return;
    const std::shared_ptr<StreamCall> self = shared_from_this();
    // A reader that paused with the last bytes is told of the end when it resumes.
    if (!end_.has_value()) TakeContent();
    if (core_ != nullptr && !paused_ && end_.has_value()) End();
  }

 private:
  void TakeContent() {
    const std::shared_ptr<Client::Core> core = core_;
    StreamBuffer::Content content = buffer_->Take();
    end_ = std::move(content.end);
    if (content.head.has_value()) {
      head_ = std::move(*content.head);
      core->Warn(request_, head_.headers);
    }
    if (head_.status >= 300) {
      error_body_ += content.bytes;
    } else if (core_ != nullptr && !content.bytes.empty()) {
      paused_ = !reader_->OnBytes(content.bytes);
    }
    if (core_ != nullptr && content.stalled) call_->Resume();
  }

  void End() {
    absl::Status status = *end_;
    if (head_.status >= 300) status = ServerError(head_.status, head_.headers, error_body_);
    status = OfCall(request_, status);
    StreamReader* const reader = reader_;
    Cancel();
    reader->OnEnd(std::move(status));
  }

  // Null once the stream is over.
  std::shared_ptr<Client::Core> core_;
  const ApiRequest request_;
  StreamReader* const reader_;
  HttpHead head_;
  std::string error_body_;
  bool paused_ = false;
  absl::optional<absl::Status> end_;
  // Outlives `call_`, which calls it.
  std::unique_ptr<StreamBuffer> buffer_;
  std::unique_ptr<Call> call_;
};

void StreamBuffer::Notify() {
  if (posted_) return;
  posted_ = true;
  remote_.Post([owner = owner_] {
    if (const auto call = owner.lock()) call->Drain();
  });
}

class StreamHandle final : public PendingStream {
 public:
  explicit StreamHandle(std::shared_ptr<StreamCall> call) : call_(std::move(call)) {}
  ~StreamHandle() override { call_->Cancel(); }
  void Resume() override { call_->Resume(); }

 private:
  const std::shared_ptr<StreamCall> call_;
};

}  // namespace

std::unique_ptr<PendingStream> StartStream(std::shared_ptr<Client::Core> core, ApiRequest request,
                                           StreamReader* reader) {
  auto call = std::make_shared<StreamCall>(std::move(core), std::move(request), reader);
  call->Begin();
  return std::make_unique<StreamHandle>(std::move(call));
}

}  // namespace capstan::kube
