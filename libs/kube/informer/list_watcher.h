#ifndef CAPSTAN_LIBS_KUBE_INFORMER_LIST_WATCHER_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_LIST_WATCHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/informer/kept_object.h"
#include "libs/kube/informer/list_watch_loop.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/object_packer.h"
#include "libs/kube/informer/object_scope.h"
#include "libs/kube/informer/reflector.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/watch/decoder.h"
#include "libs/status/status_macros.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// What a ListWatcher shows. Called on its strand, one call at a time.
template <typename T>
class ObjectSink {
 public:
  using Ref = std::shared_ptr<const KeptObject<T>>;

  virtual ~ObjectSink() = default;

  // What the next OnReplace brings is no older than now.
  virtual void OnListBegun() = 0;
  virtual void OnWatchBegun() = 0;
  // All that there are.
  virtual void OnReplace(std::vector<Ref> objects) = 0;
  virtual void OnPut(Ref object) = 0;
  // `last` is its last state: the server's last word (`deleted`), or one that is not accepted.
  virtual void OnRemove(Ref last, bool deleted) = 0;
  virtual void OnFailure(const absl::Status& status) = 0;
  // Whether what comes next will be asked for decoded.
  virtual bool WantsDecoded() = 0;
};

// Follows the objects of a scope: decodes, filters and stages them, on the strand and under no lock
// of its sink's. While a list is under way its objects are held beside those of the sink. An object
// that cannot be decoded fails its page or event.
//
// All that is passed by pointer must outlive it. Start and Stop as of ListWatchLoop.
template <typename T>
class ListWatcher final : private ObjectIntake {
 public:
  using Ref = std::shared_ptr<const KeptObject<T>>;

  ListWatcher(ObjectScope scope, const ListWatchOptions& options, ObjectPacker<T>* packer,
              const Codec<T>* codec, Transport* transport, Strand* strand, uint64_t seed,
              ObjectSink<T>* sink)
      : packer_(packer),
        codec_(codec),
        sink_(sink),
        loop_(std::move(scope), codec->encoding(), options, transport, strand, seed, this) {}

  void Start() { loop_.Start(); }
  void Stop() { loop_.Stop(); }

 private:
  struct Taken {
    Ref object;
    bool gone = false;
    bool deleted = false;
  };

  absl::StatusOr<PageEnd> TakePage(absl::string_view body) override {
    taken_.clear();
    CAPSTAN_ASSIGN_OR_RETURN(EncodedList list, codec_->SplitList(body));
    taken_.reserve(list.items.size());
    for (const absl::string_view item : list.items) {
      CAPSTAN_ASSIGN_OR_RETURN(auto packed, packer_->Pack(item, {}));
      if (packed.accepted) taken_.push_back({std::move(packed.object)});
    }
    return PageEnd{std::move(list.resource_version), std::move(list.continue_token)};
  }

  absl::StatusOr<std::string> TakeEvent(watch::EventType type, absl::string_view text) override {
    taken_.clear();
    CAPSTAN_ASSIGN_OR_RETURN(
        auto packed, packer_->Pack(text, {.wanted = sink_->WantsDecoded(), .refused_too = true}));
    std::string resource_version(packed.object->resource_version());
    const bool deleted = type == watch::EventType::kDeleted;
    taken_.push_back({std::move(packed.object), deleted || !packed.accepted, deleted});
    return resource_version;
  }

  void Settle(Objects objects) override {
    switch (objects) {
      case Objects::kIgnore:
        break;
      case Objects::kStageFirst:
      case Objects::kCommitFirst:
        staged_.clear();
        Stage();
        break;
      case Objects::kStage:
      case Objects::kStageEvent:
      case Objects::kCommit:
        Stage();
        break;
      case Objects::kApply:
        for (Taken& taken : taken_) {
          if (taken.gone) {
            sink_->OnRemove(std::move(taken.object), taken.deleted);
          } else {
            sink_->OnPut(std::move(taken.object));
          }
        }
        break;
    }
    taken_.clear();
    if (objects == Objects::kCommit || objects == Objects::kCommitFirst) Commit();
  }

  void Stage() {
    for (Taken& taken : taken_) {
      ObjectKey key = KeyOf(*taken.object);
      if (taken.gone) {
        staged_.erase(key);
      } else {
        staged_[std::move(key)] = std::move(taken.object);
      }
    }
  }

  void Commit() {
    std::vector<Ref> objects;
    objects.reserve(staged_.size());
    for (auto& [key, object] : staged_) objects.push_back(std::move(object));
    // Its table may be as large as the cache's.
    staged_ = {};
    sink_->OnReplace(std::move(objects));
  }

  void OnListBegun() override {
    staged_ = {};
    sink_->OnListBegun();
  }
  void OnWatchBegun() override { sink_->OnWatchBegun(); }
  void OnFailure(const absl::Status& status) override { sink_->OnFailure(status); }

  ObjectPacker<T>* const packer_;
  const Codec<T>* const codec_;
  ObjectSink<T>* const sink_;
  std::vector<Taken> taken_;
  absl::flat_hash_map<ObjectKey, Ref> staged_;
  // Last: stops before what its calls use goes.
  ListWatchLoop loop_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_LIST_WATCHER_H_
