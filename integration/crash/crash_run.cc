#include "integration/crash/crash_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "integration/crash/client.h"
#include "integration/crash/faults.h"
#include "integration/crash/judge.h"
#include "integration/crash/leftover_files.h"
#include "libs/crash_point/crash_plan.h"
#include "libs/safe_path/folder_names.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;

constexpr char kProgram[] = "integration/crash/capstan_armed";
// Nothing that goes wrong in a run may hold its Job up for so long.
constexpr absl::Duration kBound = absl::Seconds(120);
constexpr absl::Duration kLookEvery = absl::Milliseconds(150);
constexpr absl::Duration kClearedWithin = absl::Seconds(30);
// All TTLs of leases that are renewed, and of those that are not (libs/store/etcd_store.cc).
constexpr absl::Duration kRenewedWithin = absl::Seconds(4);
constexpr absl::Duration kSessionTtl = absl::Minutes(1);
// Identities are renewed every ten seconds, and Jobs leave for the archive while the next one runs.
constexpr char kConfig[] =
    "fencing: {min_fence_after: 1s, replace_margin: 1s}\n"
    "credentials: {svid_ttl: 30s}\n"
    "ended_jobs: {in_scheduler: {keep_for: 4s}}\n";

std::string PlanFolder(const TestPlatform& platform) {
  return absl::StrCat(platform.folder(), "/", kCrashPlanFolder);
}

}  // namespace

CrashPlatform::CrashPlatform(absl::string_view config, absl::optional<StoreView> store)
    : platform_(std::make_unique<TestPlatform>(
          absl::StrCat(config, kConfig, "data_loader: {site_limit: ", kSiteLimit, "}\n"),
          kProgram)),
      store_(std::move(store)) {
  for (const char* name : {"", "/claimed", "/seen"}) {
    EXPECT_EQ(mkdir(absl::StrCat(PlanFolder(*platform_), name).c_str(), 0700), 0);
  }
}

CrashPlatform::~CrashPlatform() {
  JudgeJobs();
  JudgeStores();
  JudgeLeases();
  JudgeFiles();
  const bool down = platform_->Part("supervisor").has_value();
  platform_ = nullptr;
  // Who ends in order gives its leases back; who was killed before leaves them to run out.
  if (down && store_.has_value()) {
    JudgeEtcdLeasesOfNobody();
  }
}

void CrashPlatform::Run(const Scenario& scenario) {
  SCOPED_TRACE(scenario.Describe());
  const std::string id = absl::StrCat("run-", scenario.seed);
  jobs_.push_back(id);
  platform_->ForgetWitnesses();
  for (const std::string& name : FolderNames(PlanFolder(*platform_) + "/claimed")) {
    unlink(absl::StrCat(PlanFolder(*platform_), "/claimed/", name).c_str());
  }
  Faults faults(platform_.get(), PlanFolder(*platform_), &scenario, &id);
  faults.Drive(/*submitted=*/false);
  Client client(platform_.get(), scenario, id);
  std::atomic<bool> done{false};
  std::thread thread([&] {
    client.Run();
    done = true;
  });
  // Not left to the client alone: one that reads waits a minute for the platform to be there.
  absl::Notification over;
  std::thread bringing_up([&] {
    while (!over.WaitForNotificationWithTimeout(kLookEvery)) {
      if (platform_->Part("supervisor").has_value()) continue;
      platform_->Capstan({"dev", "up", "--detach", "--config", platform_->config_file()});
    }
  });
  const bool ended = platform_->Await(
      [&] {
        faults.Drive(client.submitted());
        return done.load();
      },
      kBound);
  if (!ended) {
    ADD_FAILURE() << id << " did not end";
    client.GiveUp();
  }
  faults.End();
  over.Notify();
  bringing_up.join();
  thread.join();
  counts_.drawn += static_cast<int>(scenario.faults.size());
  counts_.made += faults.made();
  counts_.made_at_points += faults.made_at_points();
  counts_.hosts_lost += faults.hosts_lost();
  counts_.hosts_frozen += faults.hosts_frozen();
  for (const Fault& fault : scenario.faults) {
    if (fault.kind == Fault::Kind::kPoint) ++counts_.drawn_at_points;
  }
  if (!platform_->Part("supervisor").has_value()) platform_->Up();

  EXPECT_TRUE(platform_->AwaitReady()) << platform_->Capstan({"dev", "status"}).out;
  const Job job = platform_->Get(id);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_EQ(job.state(), Job::STATE_SUCCEEDED) << job.DebugString();
  EXPECT_EQ(absl::StrJoin(log.Violations(), "\n"), "");
  EXPECT_EQ(log.last_generation(), job.generation());
  // No Task outlives its host.
  EXPECT_GT(job.generation(), faults.lost_generation());
  EXPECT_EQ(log.Count("end", job.generation()), scenario.ranks);
  EXPECT_TRUE(absl::StrContains(platform_->MustCapstan({"job", "output", id}),
                                absl::StrCat("checkpoint ", kSteps)));
  const int lines = JudgeLogs(*platform_, id, scenario.ranks, log);
  JudgeEvents(*platform_, id, scenario.ranks, log);
  JudgeAudit(*platform_, id);
  JudgeSubscriber(*platform_, id, lines, client.subscriber());
  EXPECT_TRUE(platform_->Await(
      [&] { return FolderNames(platform_->data_dir() + "/node_agent/tasks").empty(); },
      kClearedWithin))
      << "folders of ended Tasks stay";
  // Else the Site has no room for what the next one needs.
  JudgeNothingStored("data_loader", "pin");
  if (::testing::Test::HasFailure()) {
    ADD_FAILURE() << platform_->Capstan({"job", "explain", id}).out
                  << platform_->Capstan({"job", "events", id}).out;
  }
}

std::set<std::string> CrashPlatform::Seen() const {
  const std::vector<std::string> names = FolderNames(PlanFolder(*platform_) + "/seen");
  return std::set<std::string>(names.begin(), names.end());
}

void CrashPlatform::JudgeJobs() {
  if (!platform_->Part("supervisor").has_value()) return;
  for (const std::string& id : jobs_) {
    EXPECT_EQ(platform_->Get(id).state(), Job::STATE_SUCCEEDED) << id;
    JudgeAudit(*platform_, id);
  }
  JudgeArchive(*platform_, jobs_);
  JudgeChains(*platform_, jobs_);
  JudgeIdentities(*platform_);
  // Every record of every store can be read and fits the others; it exits with 1 otherwise.
  EXPECT_TRUE(absl::StrContains(platform_->MustCapstan({"admin", "check"}), "scheduler: sound"));
}

std::unique_ptr<store::SqliteConnection> CrashPlatform::OpenStore(const std::string& part) const {
  auto db = store::SqliteConnection::Open(
      absl::StrCat(platform_->data_dir(), "/", part, "/store.sqlite"), false, false);
  EXPECT_TRUE(db.ok()) << db.status();
  return db.ok() ? *std::move(db) : nullptr;
}

std::vector<std::string> CrashPlatform::Keys(const std::string& part, const std::string& kind) {
  const std::string prefix = absl::StrCat("/capstan/", part, "/v1/", kind, "/");
  // Executor and agent have files of their own wherever the services keep theirs.
  if (store_.has_value() && part != "executor" && part != "node_agent") return store_->keys(prefix);
  std::vector<std::string> found;
  const auto db = OpenStore(part);
  if (db == nullptr) return found;
  const std::string end = store::PrefixEnd(prefix);
  store::SqliteStatement row = db->Query("SELECT key FROM current WHERE key >= ? AND key < ?");
  row.BindBlob(prefix).BindBlob(end);
  while (row.Next()) found.push_back(row.Blob(0));
  return found;
}

void CrashPlatform::JudgeNothingStored(const std::string& part, const std::string& kind) {
  std::vector<std::string> left;
  platform_->Await(
      [&] {
        left = Keys(part, kind);
        return left.empty();
      },
      kClearedWithin);
  EXPECT_EQ(absl::StrJoin(left, "\n"), "") << "left in the store of " << part;
}

void CrashPlatform::JudgeStores() {
  for (const auto& [part, kind] :
       std::vector<std::pair<std::string, std::string>>{{"executor", "desired"},
                                                        {"executor", "observed"},
                                                        {"executor", "uids"},
                                                        {"node_agent", "tasks"},
                                                        {"node_agent", "cursors"},
                                                        {"node_agent", "orders"},
                                                        {"scheduler", "pin_releases"},
                                                        {"data_loader", "pin"}}) {
    JudgeNothingStored(part, kind);
  }
}

void CrashPlatform::JudgeFiles() {
  std::vector<std::string> left;
  platform_->Await(
      [&] {
        left = LeftoverFiles(platform_->data_dir());
        return left.empty();
      },
      kClearedWithin);
  EXPECT_EQ(absl::StrJoin(left, "\n"), "") << "left in the data folder";
}

void CrashPlatform::JudgeLeases() {
  if (store_.has_value()) {
    return JudgeEtcdLeases();
  }
  for (const char* part : {"credentials", "scheduler", "data_loader", "cluster_manager"}) {
    std::vector<int64_t> left;
    platform_->Await(
        [&] {
          left.clear();
          const auto db = OpenStore(part);
          if (db == nullptr) return true;
          store::SqliteStatement row = db->Query(
              "SELECT id FROM leases WHERE id NOT IN (SELECT lease FROM current WHERE lease != 0)");
          while (row.Next()) left.push_back(row.Int(0));
          EXPECT_TRUE(row.status().ok()) << row.status();
          return left.empty();
        },
        kClearedWithin);
    EXPECT_EQ(absl::StrJoin(left, ", "), "") << "leases of nobody in the store of " << part;
  }
}

void CrashPlatform::JudgeEtcdLeases() {
  // One that has no keys names a session of a store, and nobody renews it: it runs out by itself.
  std::map<int64_t, absl::Duration> before;
  for (const EtcdLease& lease : store_->leases()) before[lease.id] = lease.left;
  platform_->Await([] { return false; }, kRenewedWithin);
  for (const EtcdLease& lease : store_->leases()) {
    if (lease.keys > 0) continue;
    EXPECT_LE(lease.left, kSessionTtl) << "lease " << lease.id << " of nobody in etcd";
    const auto known = before.find(lease.id);
    if (known == before.end()) continue;
    EXPECT_LT(lease.left, known->second) << "lease " << lease.id << " of nobody is renewed in etcd";
  }
}

void CrashPlatform::JudgeEtcdLeasesOfNobody() {
  std::vector<std::string> left;
  const SystemClock clock;
  // What keeps a former session of a store from writing goes with the lease of that session.
  const BootTime deadline = clock.Read().boot + kSessionTtl + kClearedWithin;
  do {
    left.clear();
    for (const EtcdLease& lease : store_->leases()) {
      if (lease.keys > 0) left.push_back(absl::StrCat(lease.id));
    }
  } while (!left.empty() && clock.Read().boot < deadline);
  EXPECT_EQ(absl::StrJoin(left, ", "), "") << "leases with keys in etcd, and nobody runs";
}

}  // namespace capstan::integration
