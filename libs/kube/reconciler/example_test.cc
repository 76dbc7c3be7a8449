// The code of docs/kube.md, which document_test.sh holds to what is between the marks.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/informer_set.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/toy_api_server.h"
#include "libs/kube/reconciler/ownership.h"
#include "libs/kube/reconciler/reconciler.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

std::vector<OwnerReference> OwnersOf(const Toy& toy) {
  if (toy.owner.empty()) return {};
  return {{"example.org/v1", "Toy", toy.owner, "uid", true, false}};
}

// [doc]
// Sees to it that every Toy has a part of its colour.
class Parts {
 public:
  Parts(Informer<Toy>* toys, ToyApiServer* server) : toys_(toys), server_(server) {}

  absl::StatusOr<ReconcileResult> Reconcile(const ObjectKey& key) {
    const std::shared_ptr<const Toy> toy = toys_->Get(key.ns, key.name);
    // Its parts go with it: they have it as their owner.
    if (toy == nullptr || !toy->owner.empty()) return ReconcileResult{};
    const std::string name = absl::StrCat(key.name, "-part");
    const std::shared_ptr<const Toy> part = toys_->Get(key.ns, name);
    if (part != nullptr && part->color == toy->color) return ReconcileResult{};
    // The next call reads the part as it was written, though the watch may not have shown it.
    toys_->Expect(server_->Write(name, toy->color, /*owner=*/key.name));
    return ReconcileResult{};
  }

 private:
  Informer<Toy>* const toys_;
  ToyApiServer* const server_;
};
// [/doc]

TEST(ExampleTest, EveryToyGetsItsPart) {
  const SystemClock clock;
  ThreadStrand server_strand("server", &clock);
  ToyApiServer server(1, absl::Microseconds(100), &server_strand);
  server.Write("car", "red");
  const ToyCodec codec;
  ThreadStrand observers("observer", &clock);
  absl::Notification right;
  std::unique_ptr<Subscription<Toy>> subscription;
  {
    // [doc]
    ThreadStrand strand("kube", &clock);
    InformerSet informers({&server, &strand, /*seed=*/1, /*log=*/absl::nullopt, nullptr});
    InformerOptions<Toy> options;
    options.scope.type = ToyType();
    Informer<Toy>* const toys = *informers.Get(options, &codec);

    Parts parts(toys, &server);
    Reconciler reconciler({.name = "parts", .workers = 2},
                          [&](const ObjectKey& key) { return parts.Reconcile(key); },
                          {&strand, /*log=*/absl::nullopt, nullptr});
    reconciler.WatchOwn<Toy>(toys);
    reconciler.WatchOwned<Toy>(toys, OwnersOf, "example.org", "Toy");
    reconciler.Start();
    informers.Start();
    // [/doc]
    subscription = toys->AddHandler(
        &observers, {[&](const CacheChange<Toy>& change, bool) {
                       if (change.after != nullptr && change.after->name == "car-part" &&
                           change.after->color == "blue" && !right.HasBeenNotified()) {
                         right.Notify();
                       }
                     },
                     nullptr});
    server.Write("car", "blue");
    EXPECT_TRUE(right.WaitForNotificationWithTimeout(absl::Seconds(60)));
    // [doc]
    reconciler.Stop(/*drain=*/true);
    informers.Stop();
    // [/doc]
  }
  server_strand.Stop();
}

}  // namespace
}  // namespace capstan::kube
