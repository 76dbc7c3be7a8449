#include "services/scheduler/core/job_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/session/lower_side.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;

std::string BytesOf(const JobEntry& job) {
  return absl::StrCat(session::SerializeDeterministic(job.spec), "|",
                      session::SerializeDeterministic(job.state), "|",
                      job.gang.has_value() ? session::SerializeDeterministic(job.gang->head) : "");
}

// What a later version of the records may have in them.
void AddUnknown(google::protobuf::Message* message, Random* random) {
  message->GetReflection()->MutableUnknownFields(message)->AddVarint(1000, random->Below(100));
}

JobEntry AnyJob(int number, Random* random) {
  JobEntry job;
  job.spec.set_schema_version(1);
  job.spec.set_uid(random->OneIn(2) ? random->Uuid4() : absl::StrCat("uid-", number));
  job.spec.set_name(absl::StrCat("projects/p/jobs/j", number));
  job.spec.set_submit_sequence(number);
  if (random->OneIn(2)) job.spec.set_submitter(absl::StrCat("person-", random->Below(3)));
  if (random->OneIn(2)) *job.spec.mutable_create_time() = ToProto(absl::FromUnixSeconds(number));
  if (random->OneIn(4)) job.spec.set_traceparent(random->Uuid4());
  if (random->OneIn(4)) {
    job.spec.mutable_element()->set_array("projects/p/jobs/a");
    job.spec.mutable_element()->set_index(number);
    job.spec.set_array_uid("array");
  }
  if (random->OneIn(4)) AddUnknown(&job.spec, random);
  if (!random->OneIn(8)) {
    const int shape = static_cast<int>(random->Below(bench_fleet::kShapes));
    const int queue = static_cast<int>(random->Below(3));
    *job.spec.mutable_spec() = random->OneIn(2) ? bench_fleet::SpecOf(shape, queue)
                                                : bench_fleet::LargeSpecOf(shape, queue, random);
    if (random->OneIn(2)) job.spec.mutable_spec()->set_priority(static_cast<int>(number % 7) - 3);
    if (random->OneIn(4)) job.spec.mutable_spec()->set_singleton("one");
    if (random->OneIn(4)) AddUnknown(job.spec.mutable_spec(), random);
  }
  job.state.set_version(random->Between(0, 1000));
  job.state.set_state(static_cast<Job::State>(random->Below(Job::State_ARRAYSIZE)));
  if (!random->OneIn(4)) job.state.set_reason(random->OneIn(2) ? "WAITING" : "RESERVED");
  if (random->OneIn(2)) job.state.set_message(std::string("a\0b", 3));
  if (random->OneIn(4)) *job.state.mutable_estimated_start_time() = ToProto(absl::UnixEpoch());
  if (random->OneIn(4)) job.state.add_making_room()->set_job_uid("other");
  if (random->OneIn(4)) job.state.add_avoided_nodes()->set_node("n");
  if (random->OneIn(4)) job.state.mutable_elements()->set_ended("x");
  if (random->OneIn(4)) AddUnknown(&job.state, random);
  if (random->OneIn(4)) {
    job.gang.emplace();
    job.gang->head.set_generation(number);
    if (random->OneIn(2)) job.gang->head.set_phase(rec::GangHeadRecord::PHASE_ENDED);
  }
  return job;
}

void ExpectGlance(const JobGlance& glance, const JobEntry& job) {
  EXPECT_EQ(glance.uid, job.uid());
  EXPECT_EQ(glance.name, job.spec.name());
  EXPECT_EQ(glance.queue, job.spec.spec().queue());
  EXPECT_EQ(glance.reason, job.state.reason());
  EXPECT_EQ(glance.submit_sequence, job.spec.submit_sequence());
  EXPECT_EQ(glance.priority, job.spec.spec().priority());
  EXPECT_EQ(glance.state, job.state.state());
  EXPECT_EQ(glance.is_element, job.spec.has_element());
  EXPECT_EQ(glance.is_array, job.state.has_elements());
  EXPECT_EQ(glance.has_singleton, !job.spec.spec().singleton().empty());
  EXPECT_EQ(glance.has_estimate, job.state.has_estimated_start_time());
  EXPECT_EQ(glance.makes_room, job.state.making_room_size() > 0);
  EXPECT_EQ(glance.is_confined,
            !job.state.data_cluster().empty() || job.state.avoided_nodes_size() > 0);
  EXPECT_EQ(glance.is_held, job.state.hold());
  EXPECT_EQ(glance.live, job.live());
  EXPECT_EQ(glance.final(), job.final());
}

void ExpectSame(const JobTable& table, const std::map<std::string, JobEntry>& jobs) {
  ASSERT_EQ(table.size(), jobs.size());
  auto at = table.begin();
  for (const auto& [uid, job] : jobs) {
    ASSERT_TRUE(at != table.end());
    ExpectGlance(at.glance(), job);
    EXPECT_EQ(at->first, uid);
    EXPECT_EQ(BytesOf(at->second), BytesOf(job));
    EXPECT_EQ(IdentityUid(at.identity()), uid);
    ++at;
  }
  EXPECT_TRUE(at == table.end());
}

// That those that wait for room are known in the order in which they are placed.
void ExpectOrder(const JobTable& table, const std::map<std::string, JobEntry>& jobs) {
  std::vector<JobGlance> waiting;
  for (const auto& [uid, job] : jobs) {
    const JobGlance glance = JobGlance::Of(job);
    if (glance.waits_for_room() && !glance.live) waiting.push_back(glance);
  }
  EXPECT_EQ(table.CountWaiting(), waiting.size());
  for (const auto& [uid, job] : jobs) {
    const JobGlance glance = JobGlance::Of(job);
    EXPECT_EQ(table.CountAhead(glance, table.WaitingWithGang()),
              static_cast<size_t>(
                  std::count_if(waiting.begin(), waiting.end(),
                                [&](const JobGlance& one) { return one.GoesBefore(glance); })));
  }
  const auto is_kept = [](const JobGlance& job) { return job.makes_room || job.has_estimate; };
  std::sort(waiting.begin(), waiting.end(), [&](const JobGlance& a, const JobGlance& b) {
    return is_kept(a) != is_kept(b) ? is_kept(a) : a.GoesBefore(b);
  });
  std::vector<std::string> expected;
  for (const JobGlance& job : waiting) expected.emplace_back(job.uid);
  std::vector<std::string> seen;
  table.ForEachWaiting([&](absl::string_view uid) {
    seen.emplace_back(uid);
    return true;
  });
  EXPECT_EQ(seen, expected);
  if (expected.size() < 2) return;
  expected.resize(expected.size() / 2);
  seen.clear();
  table.ForEachWaiting([&](absl::string_view uid) {
    seen.emplace_back(uid);
    return seen.size() < expected.size();
  });
  EXPECT_EQ(seen, expected);
}

// A table does as a map of records does, whatever is packed meanwhile, and so does one that shares
// its pool.
TEST(JobTableTest, DoesAsAMapOfRecords) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::map<std::string, JobEntry> jobs;
    std::map<std::string, std::string> names;
    const auto pool = std::make_shared<RecordPool>();
    JobTable table(pool);
    JobTable reader(pool);
    for (int step = 0; step < 300; ++step) {
      const auto any =
          jobs.empty() ? jobs.end() : std::next(jobs.begin(), random.Below(jobs.size()));
      if (any == jobs.end() || random.OneIn(3)) {
        const JobEntry job = AnyJob(step, &random);
        jobs[job.uid()] = job;
        names[job.spec.name()] = job.uid();
        const JobEntry& added = table.Add(job);
        EXPECT_EQ(BytesOf(added), BytesOf(job));
      } else if (random.OneIn(8)) {
        names.erase(any->second.spec.name());
        // The uid that it is given may be its own.
        table.Erase(table.at(any->first).uid());
        reader.Erase(any->first);
        jobs.erase(any);
      } else if (random.OneIn(8)) {
        // Its spec is another: it is another's place in the order that it takes.
        for (JobEntry* job : {&any->second, table.Find(any->first)}) {
          job->spec.mutable_spec()->set_priority(step % 5);
        }
        table.Repack(table.Find(any->first));
        EXPECT_EQ(table.at(any->first).identity, table.find(any->first).identity());
      } else if (random.OneIn(2)) {
        for (JobEntry* job : {&any->second, table.Find(any->first)}) {
          job->state.set_hold(step % 2 == 0);
          job->state.set_version(step);
          job->state.set_message(absl::StrCat("step ", step));
        }
      } else if (random.OneIn(2)) {
        const JobEntry& job = any->second;
        const auto state = table.StateOf(any->first);
        reader.Put(table.SpecOf(any->first), state, job.gang);
        EXPECT_EQ(BytesOf(reader.at(any->first)), BytesOf(job));
        reader.SetRevision(any->first, step);
        EXPECT_EQ(reader.revision(any->first), step);
      } else {
        table.Rest();
        EXPECT_EQ(table.restless(), 0u);
        ExpectOrder(table, jobs);
      }
      if (step % 10 == 0) ExpectSame(table, jobs);
    }
    table.Rest();
    ExpectSame(table, jobs);
    ExpectOrder(table, jobs);
    const JobTable copy = table.Copy();
    JobTable adopted(pool->Fork());
    for (const auto& [uid, job] : jobs) adopted.Adopt(table, uid);
    for (const JobTable* other : {&copy, static_cast<const JobTable*>(&adopted)}) {
      ExpectSame(*other, jobs);
      ExpectOrder(*other, jobs);
    }
    for (const auto& [name, uid] : names) EXPECT_EQ(table.FindByName(name)->uid(), uid);
    EXPECT_EQ(table.FindByName("projects/p/jobs/other"), nullptr);
    EXPECT_EQ(table.Find("other"), nullptr);
    EXPECT_FALSE(table.Glance("other").has_value());
    size_t seen = 0;
    table.ForEachGlance([&](const JobGlance& glance) {
      ++seen;
      ExpectGlance(glance, jobs.at(std::string(glance.uid)));
    });
    EXPECT_EQ(seen, jobs.size());
  }
}

TEST(JobTableTest, ANameIsThatOfTheLastOne) {
  JobTable table;
  JobEntry job;
  job.spec.set_name("projects/p/jobs/j");
  for (const char* uid : {"old", "new"}) {
    job.spec.set_uid(uid);
    table.Add(job);
  }
  EXPECT_EQ(table.FindByName("projects/p/jobs/j")->uid(), "new");
  table.Erase("old");
  EXPECT_EQ(table.FindByName("projects/p/jobs/j")->uid(), "new");
  table.Erase("new");
  EXPECT_EQ(table.FindByName("projects/p/jobs/j"), nullptr);
}

TEST(JobTableTest, WhatIsGivenStaysUntilRest) {
  Random random(1);
  JobTable table;
  std::vector<std::pair<const JobEntry*, std::string>> given;
  for (int i = 0; i < 500; ++i) table.Add(AnyJob(i, &random));
  table.Rest();
  for (const auto& [uid, job] : table) {
    const JobEntry* const found = std::as_const(table).Find(uid);
    given.emplace_back(found, BytesOf(job));
    EXPECT_EQ(table.Find(uid), found);
  }
  for (const auto& [job, bytes] : given) EXPECT_EQ(BytesOf(*job), bytes);
}

// Records that name no uid, or another than their key does, come back as they were.
TEST(JobTableTest, KeepsTheUidOfTheRecord) {
  for (const char* named : {"", "other", "key"}) {
    RecordPool pool;
    rec::JobSpecRecord record;
    record.set_uid(named);
    const PackedSpec packed = pool.Pack("key", record);
    EXPECT_EQ(IdentityUid(packed.identity), "key");
    rec::JobSpecRecord unpacked;
    pool.Unpack(packed, &unpacked);
    EXPECT_EQ(unpacked.SerializeAsString(), record.SerializeAsString());
  }
}

TEST(RecordPoolTest, HoldsOnceWhatIsTheSame) {
  RecordPool pool;
  rec::JobSpecRecord a;
  *a.mutable_spec() = bench_fleet::SpecOf(1, 2);
  a.set_name("projects/p/jobs/a");
  rec::JobSpecRecord b = a;
  b.set_name("projects/p/jobs/b");
  const PackedSpec first = pool.Pack("a", a);
  const PackedSpec second = pool.Pack("b", b);
  EXPECT_TRUE(first.spec == second.spec);
  EXPECT_FALSE(first.identity == second.identity);
  EXPECT_TRUE(pool.Pack("a", a).identity == first.identity);
  EXPECT_TRUE(first.ask == second.ask);
  // What has to do with placing makes another of it, and nothing else.
  (*b.mutable_spec()->mutable_task_groups(0)->mutable_env())["KEY"] = "value";
  EXPECT_TRUE(pool.Pack("b", b).ask == first.ask);
  b.set_submitter("somebody else");
  EXPECT_FALSE(pool.Pack("b", b).ask == first.ask);
  b = a;
  b.mutable_spec()->mutable_task_groups(0)->mutable_resources()->set_cpu_millis(1);
  EXPECT_FALSE(pool.Pack("b", b).ask == first.ask);
  rec::JobStateRecord state;
  state.set_reason("INSUFFICIENT_RESOURCES");
  state.set_version(1);
  const PackedState one = pool.Pack(state);
  state.set_version(2);
  EXPECT_TRUE(pool.Pack(state).words == one.words);
  EXPECT_FALSE(pool.Pack(state).rest == one.rest);
}

TEST(SharedBytesTest, AreGoneWithTheLastHandle) {
  BytePool pool;
  EXPECT_EQ(SharedBytes().bytes(), "");
  SharedBytes a = pool.Intern("a");
  {
    const SharedBytes again = pool.Intern("a");
    const SharedBytes copy = again;
    const SharedBytes empty = pool.Intern("");
    EXPECT_TRUE(copy == a);
    EXPECT_EQ(pool.size(), 2u);
  }
  EXPECT_EQ(pool.size(), 1u);
  SharedBytes moved = std::move(a);
  EXPECT_EQ(moved.bytes(), "a");
  moved = pool.Intern("b");
  EXPECT_EQ(pool.size(), 1u);
  moved = SharedBytes();
  EXPECT_EQ(pool.size(), 0u);
}

}  // namespace
}  // namespace capstan::scheduler
