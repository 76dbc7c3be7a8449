#ifndef CAPSTAN_SERVICES_SCHEDULER_API_WATCH_STREAM_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_WATCH_STREAM_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "libs/rpc/server_stream.h"
#include "libs/status/error.h"
#include "services/scheduler/api/api_deps.h"
#include "services/scheduler/api/watch_backlog.h"

namespace capstan::scheduler {

// One Watch stream: the latest state per object, first all, then SYNCED, then what changes. Changes
// of one object merge while the peer reads slowly, so nothing ever waits for it. Few keys are kept of
// what was not sent (watch_backlog.h): what comes first is looked for bit by bit, as the peer reads,
// and so is, once more, what changed where that was too much to keep.
// A resume token is given whenever the peer has everything up to a revision; with it, in the same
// store incarnation and no older than this process's first reading, only what changed since is
// sent. On the strand, in short turns: whoever else has work there, renewals of leases above all,
// comes in between however many streams have something to send.
template <typename Key, typename Response>
class WatchStream : public CommittedView::Listener,
                    public std::enable_shared_from_this<WatchStream<Key, Response>> {
 public:
  using Writer = std::shared_ptr<rpc::ServerStreamWriter<Response>>;

  // `arguments` are those of the request, to which tokens are bound.
  WatchStream(const ApiDeps& deps, int64_t incarnation, std::string arguments, Writer writer)
      : deps_(deps),
        incarnation_(incarnation),
        arguments_(std::move(arguments)),
        writer_(std::move(writer)) {}

  void Start(const std::string& resume_token) {
    const absl::StatusOr<std::string> position =
        deps_.tokens->Open(resume_token, arguments_, "resume_token");
    if (!position.ok()) return writer_->Finish(position.status());
    deps_.view->AddListener(this);
    writer_->NotifyClosed(deps_.strand, [self = this->shared_from_this()] {
      self->deps_.view->RemoveListener(self.get());
      self->backlog_.reset();
    });
    backlog_.emplace(Since(*position), deps_.view->revision());
    TakeTurn();
  }

  void JobsChanged(const std::set<std::string>&) override {}
  void NodesChanged(const std::set<NodeId>&) override {}
  void Closing() override { writer_->Finish(absl::UnavailableError("The server is stopping.")); }

 protected:
  // Adds the keys of what matches now of the next objects, at most so many, in an order that stays.
  // False once that was all. What comes to be is behind them, or is told of by Changed.
  virtual bool Advance(int most, std::vector<Key>* keys) = 0;
  // Advance begins with the first object again.
  virtual void Rewind() = 0;
  // How many objects Advance goes by.
  virtual size_t Count() const = 0;
  // Whether Advance is past the object.
  virtual bool IsPast(const Key& key) const = 0;
  virtual bool Matches(const Key& key) const = 0;
  virtual int64_t Revision(const Key& key) const = 0;
  virtual void Fill(const Key& key, Response* response) const = 0;

  void Changed(const std::set<Key>& keys) {
    if (!backlog_.has_value()) return;
    const size_t objects = Count();
    for (const Key& key : keys) {
      if (backlog_->IsLooking() && !IsPast(key)) continue;
      if (Matches(key) && backlog_->Changed(key, objects)) Rewind();
    }
    TakeTurn();
  }

  const ApiDeps& deps() const { return deps_; }

 private:
  // Beyond this the stream waits for its peer; an object is rendered only when it is sent. About one
  // turn's: more would feed a fast peer no faster, and as a message takes several times its bytes,
  // thousands of peers who read nothing (rpc::Admission) would take the memory that there is.
  static constexpr size_t kAhead = 4 * 1024;
  // Messages in one turn.
  static constexpr int kTurn = 4;
  // Objects that are looked at in one turn.
  static constexpr int kLook = 256;

  // What the peer has already, by its token; -1 if it has nothing.
  int64_t Since(const std::string& position) const {
    const std::vector<std::string> parts = absl::StrSplit(position, '/');
    int64_t incarnation = 0;
    int64_t revision = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &incarnation) ||
        !absl::SimpleAtoi(parts[1], &revision) || incarnation != incarnation_ ||
        revision < deps_.view->first_revision() || revision > deps_.view->revision()) {
      return -1;
    }
    return revision;
  }

  // Once, whatever changes until it comes.
  void TakeTurn() {
    if (waiting_) return;
    waiting_ = true;
    deps_.strand->Post([self = this->shared_from_this()] { self->Pump(); });
  }

  void Pump() {
    waiting_ = false;
    int sent = 0;
    bool looked = false;
    while (backlog_.has_value() && !(backlog_->IsDone() && synced_)) {
      if (sent == kTurn) return TakeTurn();
      if (writer_->queued_bytes() > kAhead) {
        waiting_ = true;
        writer_->NotifyDrained(deps_.strand, [self = this->shared_from_this()] { self->Pump(); });
        return;
      }
      if (backlog_->MustLook()) {
        if (looked) return TakeTurn();
        looked = true;
        std::vector<Key> keys;
        const bool more = Advance(kLook, &keys);
        for (Key& key : keys) backlog_->Found(key, Revision(key));
        if (!more && backlog_->EndLook()) Rewind();
        continue;
      }
      Response response;
      if (backlog_->HasNext()) {
        const Key key = backlog_->Next(deps_.view->revision());
        if (!Matches(key)) continue;
        Fill(key, &response);
      } else {
        response.set_synced(true);
        synced_ = true;
      }
      if (backlog_->IsDone() && synced_) {
        token_ =
            deps_.tokens->Seal(absl::StrCat(incarnation_, "/", deps_.view->revision()), arguments_);
      }
      response.set_resume_token(token_);
      ++sent;
      const absl::Status written = writer_->Write(std::move(response));
      if (!written.ok()) {
        writer_->Finish(absl::IsResourceExhausted(written)
                            ? status::Error(absl::StatusCode::kAborted, "WATCHER_TOO_SLOW",
                                            "the watcher reads too slowly; resume by its token")
                            : written);
        return;
      }
    }
  }

  const ApiDeps deps_;
  const int64_t incarnation_;
  const std::string arguments_;
  const Writer writer_;
  // Until the stream is over.
  absl::optional<WatchBacklog<Key>> backlog_;
  bool synced_ = false;
  // For its turn, or for the peer.
  bool waiting_ = false;
  std::string token_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_WATCH_STREAM_H_
