#include "integration/kube/exercise_reconcilers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/kube/numbered_object.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/server_error.h"

namespace capstan::kube::testing {
namespace {

// Of one call that makes an item.
constexpr char kCall[] = "call";

core_v1::ConfigMap OwnedBy(const DynamicObject& widget, const std::string& name,
                           const Labels& labels) {
  auto map = NewObject<core_v1::ConfigMap>(widget.ns(), name, labels);
  auto* const owner = map.mutable_metadata()->add_owner_references();
  owner->set_api_version("test.capstan.dev/v1");
  owner->set_kind("Widget");
  owner->set_name(widget.name());
  owner->set_uid(widget.uid());
  owner->set_controller(true);
  return map;
}

}  // namespace

std::vector<OwnerReference> OwnersOf(const core_v1::ConfigMap& map) {
  std::vector<OwnerReference> owners;
  for (const auto& owner : map.metadata().owner_references()) {
    owners.push_back({owner.api_version(), owner.kind(), owner.name(), owner.uid(),
                      owner.controller(), owner.block_owner_deletion()});
  }
  return owners;
}

std::vector<std::string> ItemOf(const core_v1::ConfigMap& map) {
  const auto& labels = map.metadata().labels();
  const auto found = labels.find(kItemOf);
  return found == labels.end() ? std::vector<std::string>()
                               : std::vector<std::string>{found->second};
}

int CopiesOf(const DynamicObject& widget) {
  return widget.ToJson().value("/spec/copies"_json_pointer, 0);
}

int ItemsOf(const DynamicObject& widget) {
  return widget.ToJson().value("/spec/items"_json_pointer, 0);
}

std::string CopyName(const std::string& widget, int i) { return absl::StrCat(widget, "-copy-", i); }

Copies::Copies(BlockingResource<core_v1::ConfigMap> resource, Informer<DynamicObject>* widgets,
               Informer<core_v1::ConfigMap>* maps, std::string seed)
    : resource_(std::move(resource)), widgets_(widgets), maps_(maps), seed_(std::move(seed)) {}

absl::StatusOr<ReconcileResult> Copies::Reconcile(const ObjectKey& key) {
  const auto widget = widgets_->Get(key.ns, key.name);
  if (widget == nullptr) return ReconcileResult{};
  const int wanted = CopiesOf(*widget);
  for (int i = 0; i < kMostCopies; ++i) {
    const std::string name = CopyName(key.name, i);
    const auto map = maps_->Get(key.ns, name);
    absl::Status status;
    if (map == nullptr && i < wanted) status = Make(*widget, name);
    if (map != nullptr && i >= wanted) status = Drop(*map);
    if (!status.ok()) return status;
  }
  return ReconcileResult{};
}

absl::Status Copies::Make(const DynamicObject& widget, const std::string& name) {
  const auto made = resource_.Create(OwnedBy(widget, name, {{"seed", seed_}}));
  Count(name, made.status(), absl::IsAlreadyExists(made.status()));
  if (made.ok()) maps_->Expect(*made);
  if (!absl::IsAlreadyExists(made.status())) return made.status();
  // From a call whose answer was lost; the watch has yet to show it.
  const auto there = resource_.Get(widget.ns(), name);
  if (!there.ok()) return there.status();
  maps_->Expect(*there);
  Count(name, absl::OkStatus(), false);
  return absl::OkStatus();
}

absl::Status Copies::Drop(const core_v1::ConfigMap& map) {
  DeleteOptions options;
  options.uid = map.metadata().uid();
  const ObjectKey key = KeyOf(map);
  const auto gone = resource_.Delete(key.ns, key.name, options);
  // The client makes this call again by itself, and may then find that it had been done.
  if (gone.ok()) maps_->ExpectGone(key, options.uid);
  Count(key.name, gone.status(), false);
  return absl::IsNotFound(gone.status()) ? absl::OkStatus() : gone.status();
}

void Copies::Count(const std::string& name, const absl::Status& status, bool twice) {
  const absl::MutexLock lock(&mutex_);
  EXPECT_TRUE(!twice || unsure_.contains(name))
      << name << ": " << status << "; " << maps_->stats().own_writes << " own writes";
  if (status.ok() || HttpStatusOf(status) == 404) {
    unsure_.erase(name);
  } else {
    unsure_.insert(name);
  }
}

Items::Items(BlockingResource<core_v1::ConfigMap> resource, Informer<DynamicObject>* widgets,
             Informer<core_v1::ConfigMap>* maps, std::string seed)
    : resource_(std::move(resource)), widgets_(widgets), maps_(maps), seed_(std::move(seed)) {}

absl::StatusOr<ReconcileResult> Items::Reconcile(const ObjectKey& key) {
  const auto widget = widgets_->Get(key.ns, key.name);
  if (widget == nullptr) return ReconcileResult{};
  const size_t wanted = ItemsOf(*widget);
  // An item that was made is in the index from then on, or this would make another.
  while (maps_->ByIndex(kItemOf, key.name).size() < wanted) {
    auto map = OwnedBy(*widget, "", {{kItemOf, key.name}, {"seed", seed_}});
    map.mutable_metadata()->clear_name();
    map.mutable_metadata()->set_generate_name(absl::StrCat(key.name, "-item-"));
    const std::string call = absl::StrCat(++next_call_);
    (*map.mutable_metadata()->mutable_annotations())[kCall] = call;
    const auto made = resource_.Create(map);
    if (!made.ok()) return made.status();
    maps_->Expect(*made);
    const absl::MutexLock lock(&mutex_);
    answered_.insert(call);
  }
  return ReconcileResult{};
}

std::string Items::Wrong(const std::vector<const core_v1::ConfigMap*>& items, int wanted) const {
  const absl::MutexLock lock(&mutex_);
  std::set<std::string> calls;
  int answered = 0;
  for (const core_v1::ConfigMap* item : items) {
    const std::string call = item->metadata().annotations().at(kCall);
    if (!calls.insert(call).second) return absl::StrCat("call ", call, " made two items");
    answered += answered_.contains(call) ? 1 : 0;
  }
  if (answered > wanted) return absl::StrCat(answered, " were made of ", wanted);
  if (static_cast<int>(items.size()) < wanted) return absl::StrCat(items.size(), " of ", wanted);
  return "";
}

}  // namespace capstan::kube::testing
