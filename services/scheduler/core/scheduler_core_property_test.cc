// Random sequences of events against a core: random_world.h.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/random_world.h"

namespace capstan::scheduler {
namespace {

TEST(SchedulerCorePropertyTest, KeepsItsPromisesUnderRandomEvents) {
  std::map<std::string, int> faults;
  int generations = 0;
  int preemptions = 0;
  int grouped = 0;
  int dependent = 0;
  int singletons = 0;
  int sliced = 0;
  int sectioned = 0;
  int arrays = 0;
  int updates = 0;
  int held = 0;
  int elastic = 0;
  int beyond_least = 0;
  int short_of_most = 0;
  int parts_there = 0;
  int parts_missing = 0;
  int resized = 0;
  int shrunk = 0;
  int nominated = 0;
  int orders_used = 0;
  int grown = 0;
  int evicted = 0;
  int with_instances = 0;
  int most_on_a_gpu = 0;
  int repartitioned = 0;
  int selective = 0;
  int queue_changes = 0;
  int64_t limited = 0;
  int64_t rated = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomWorld world(seed);
    world.Run();
    generations += world.generations();
    preemptions += world.preemptions();
    grouped += world.grouped();
    sliced += world.sliced();
    sectioned += world.sectioned();
    dependent += world.dependent();
    singletons += world.singletons();
    arrays += world.arrays();
    updates += world.updates();
    held += world.held();
    elastic += world.elastic();
    beyond_least += world.beyond_least();
    short_of_most += world.short_of_most();
    parts_there += world.parts_there();
    parts_missing += world.parts_missing();
    resized += world.resized();
    shrunk += world.shrunk();
    nominated += world.nominated();
    orders_used += world.orders_used();
    grown += world.grown();
    evicted += world.evicted();
    selective += world.selective();
    with_instances += world.with_instances();
    repartitioned += world.repartitioned();
    queue_changes += world.queue_changes();
    limited += world.queue_checks().limited();
    rated += world.queue_checks().rated();
    most_on_a_gpu = std::max(most_on_a_gpu, world.most_on_a_gpu());
    for (const auto& [fault, count] : world.faults()) faults[fault] += count;
    if (HasFailure()) return;
  }
  // The test has to have tested something.
  EXPECT_GT(generations, 150);
  EXPECT_GT(preemptions, 20);
  EXPECT_GT(grouped, 40);
  EXPECT_GT(sliced, 40);
  EXPECT_GT(sectioned, 40);
  EXPECT_GT(dependent, 100);
  EXPECT_GT(singletons, 50);
  EXPECT_GT(arrays, 50);
  EXPECT_GT(updates, 100);
  EXPECT_GT(held, 15);
  EXPECT_GT(selective, 50);
  EXPECT_GT(elastic, 50);
  EXPECT_GT(beyond_least, 20);
  EXPECT_GT(short_of_most, 20);
  EXPECT_GT(parts_there, 10);
  EXPECT_GT(parts_missing, 10);
  EXPECT_GT(resized, 10);
  EXPECT_GT(shrunk, 5);
  EXPECT_GT(nominated, 10);
  EXPECT_GT(orders_used, 5);
  EXPECT_GT(grown, 1);
  EXPECT_GT(evicted, 3);
  EXPECT_GT(repartitioned, 5);
  EXPECT_GT(queue_changes, 100);
  EXPECT_GT(limited, 10);
  EXPECT_GT(rated, 5);
  EXPECT_GT(with_instances, 60);
  EXPECT_GE(most_on_a_gpu, 2);
  EXPECT_GT(faults["crash"], 20);
  EXPECT_GT(faults["disconnect"], 20);
  EXPECT_GT(faults["silent node"], 20);
}

}  // namespace
}  // namespace capstan::scheduler
