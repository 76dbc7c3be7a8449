#include "integration/fleet/clients.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/clustermanager/v1/cluster.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/job_follow.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

using clustermanager::v1::ClusterService;
using credentials::v1::ProjectService;
using dataloader::v1::DatasetService;
using scheduler::v1::Job;
using scheduler::v1::JobService;
using scheduler::v1::QueueService;

constexpr char kProject[] = "projects/default";
constexpr absl::Duration kBudget = absl::Seconds(30);
// Between two rounds of one program: so that there are some thousand Jobs in the end, not more
// than two cores can look at.
constexpr absl::Duration kPause = absl::Milliseconds(20);
// A client that is not sure of an answer asks again.
constexpr int kRepeatsOneIn = 3;
constexpr int kPageSize = 200;

cli::Invocation InvocationFor(const TestPlatform& platform, const Clock* clock, Random* random) {
  cli::Invocation invocation;
  invocation.data_dir = platform.data_dir();
  invocation.time_out = kBudget;
  invocation.clock = clock;
  invocation.random = random;
  return invocation;
}

}  // namespace

// Of one thread.
class Clients::Program {
 public:
  Program(const TestPlatform& platform, const Clock* clock, uint64_t seed)
      : random(seed), terms{clock, &random, kBudget} {
    auto opened = cli::Platform::Open(InvocationFor(platform, clock, &random));
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (opened.ok()) cli = *std::move(opened);
  }

  // Null, with a failure, if there is none.
  template <typename Service>
  std::unique_ptr<typename Service::Stub> Stub(absl::string_view part) {
    const auto channel = cli->Channel(part);
    EXPECT_TRUE(channel.ok()) << channel.status();
    return channel.ok() ? Service::NewStub(*channel) : nullptr;
  }

  Random random;
  const cli::CallTerms terms;
  std::unique_ptr<cli::Platform> cli;
};

Clients::Clients(TestPlatform* platform) : platform_(platform) {
  const std::string bucket = platform->data_dir() + "/buckets";
  mkdir(bucket.c_str(), 0700);
  std::ofstream(bucket + "/object") << "content";
  const CommandResult submitted = platform->SubmitText(
      kTalker, absl::StrCat("job_id: ", kTalker,
                            "\nspec:\n  fence_after: 60s\n  task_groups:\n    - name: w\n"
                            "      replicas: 1\n      argv: [/bin/sh, -c, \"i=0; while :; do echo "
                            "$i; i=$((i+1)); sleep 0.05; done\"]\n"
                            "      resources: {cpu: 10m, memory: 32Mi}\n"));
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  for (const char* name : {"jobs-a", "jobs-b", "jobs-c"}) {
    Begin(name, [this](Program& program, int64_t round) { MakeJobs(program, round); });
  }
  for (const char* name : {"settings-a", "settings-b"}) {
    Begin(name, [this](Program& program, int64_t round) { MakeQueuesAndDatasets(program, round); });
  }
  Begin("lists", [this](Program& program, int64_t round) { ListAll(program, round); });
  Random seeds(1);
  watch_ = std::make_unique<cli::CommandLoop>(&clock_, &seeds);
  log_ = std::make_unique<cli::CommandLoop>(&clock_, &seeds);
  streams_.emplace_back([this] { WatchJobs(); });
  streams_.emplace_back([this] { FollowLog(); });
}

Clients::~Clients() {
  EndPrograms();
  EndStreams();
}

void Clients::Begin(const std::string& name, Round round) {
  {
    absl::MutexLock lock(&mutex_);
    rounds_[name] = 0;
  }
  const uint64_t seed = programs_.size() + 1;
  programs_.emplace_back([this, name, seed, round = std::move(round)] {
    Program program(*platform_, &clock_, seed);
    if (program.cli == nullptr) return;
    for (int64_t i = 0; !stop_.HasBeenNotified(); ++i) {
      round(program, static_cast<int64_t>(seed) * 1'000'000 + i);
      {
        absl::MutexLock lock(&mutex_);
        ++rounds_[name];
      }
      stop_.WaitForNotificationWithTimeout(kPause);
    }
  });
}

void Clients::EndPrograms() {
  if (!stop_.HasBeenNotified()) stop_.Notify();
  for (std::thread& program : programs_) program.join();
  programs_.clear();
}

void Clients::EndStreams() {
  for (cli::CommandLoop* loop : {watch_.get(), log_.get()}) {
    loop->strand()->Post([loop] { loop->Done(absl::OkStatus()); });
  }
  for (std::thread& stream : streams_) stream.join();
  streams_.clear();
}

int64_t Clients::Rounds() const {
  absl::MutexLock lock(&mutex_);
  int64_t least = -1;
  for (const auto& [name, rounds] : rounds_) {
    least = least < 0 ? rounds : std::min(least, rounds);
  }
  return least;
}

void Clients::Lost(absl::string_view what, const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  ++calls_;
  if (!why.ok()) lost_.push_back(absl::StrCat(what, ": ", why.ToString()));
}

void Clients::Made(absl::string_view kind, const std::string& name, const std::string& uid,
                   const std::string& uid_again) {
  absl::MutexLock lock(&mutex_);
  made_[std::string(kind)][name] = uid;
  if (uid_again != uid) {
    lost_.push_back(absl::StrCat(name, " was made twice: ", uid, " and ", uid_again));
  }
}

void Clients::MakeJobs(Program& program, int64_t round) {
  const auto stub = program.Stub<JobService>("scheduler");
  if (stub == nullptr) return;
  scheduler::v1::CreateJobRequest create;
  create.set_parent(kProject);
  create.set_job_id(absl::StrCat("load-", round));
  create.set_request_id(program.random.Uuid4());
  auto& group = *create.mutable_job()->mutable_spec()->add_task_groups();
  group.set_name("w");
  group.set_replicas(1);
  group.add_argv("/bin/true");
  // Nowhere is room for it: what is looked at is the Job, not what comes of it.
  group.mutable_resources()->set_cpu_millis(1'000'000);
  group.mutable_resources()->set_memory_bytes(1 << 20);
  const auto made = cli::Call(stub.get(), &JobService::Stub::CreateJob, create, program.terms);
  Lost("CreateJob", made.status());
  if (!made.ok()) return;
  std::string again = made->uid();
  if (program.random.OneIn(kRepeatsOneIn)) {
    const auto repeated =
        cli::Call(stub.get(), &JobService::Stub::CreateJob, create, program.terms);
    Lost("CreateJob, repeated", repeated.status());
    if (repeated.ok()) again = repeated->uid();
  }
  Made("Job", made->name(), made->uid(), again);
  scheduler::v1::GetJobRequest get;
  get.set_name(made->name());
  const auto got = cli::Call(stub.get(), &JobService::Stub::GetJob, get, program.terms);
  Lost("GetJob", got.status());
  if (got.ok()) Made("Job", got->name(), made->uid(), got->uid());
}

void Clients::MakeQueuesAndDatasets(Program& program, int64_t round) {
  const auto queues = program.Stub<QueueService>("scheduler");
  const auto datasets = program.Stub<DatasetService>("data_loader");
  if (queues == nullptr || datasets == nullptr) return;
  // Each Queue is looked at in every round, so there are few.
  if (round % 20 == 0) {
    scheduler::v1::CreateQueueRequest create;
    create.set_queue_id(absl::StrCat("load-", round));
    create.set_request_id(program.random.Uuid4());
    create.mutable_queue()->set_weight(1 + round % 7);
    const auto made =
        cli::Call(queues.get(), &QueueService::Stub::CreateQueue, create, program.terms);
    Lost("CreateQueue", made.status());
    const auto again =
        cli::Call(queues.get(), &QueueService::Stub::CreateQueue, create, program.terms);
    Lost("CreateQueue, repeated", again.status());
    if (made.ok() && again.ok()) Made("Queue", made->name(), made->uid(), again->uid());
  }
  dataloader::v1::CreateDatasetRequest create;
  create.set_parent(kProject);
  create.set_dataset_id(absl::StrCat("load-", round));
  create.set_request_id(program.random.Uuid4());
  create.mutable_dataset()->set_source_uri(
      absl::StrCat("file://", platform_->data_dir(), "/buckets/"));
  const auto made =
      cli::Call(datasets.get(), &DatasetService::Stub::CreateDataset, create, program.terms);
  Lost("CreateDataset", made.status());
  if (!made.ok()) return;
  dataloader::v1::GetDatasetRequest get;
  get.set_name(made->name());
  const auto got = cli::Call(datasets.get(), &DatasetService::Stub::GetDataset, get, program.terms);
  Lost("GetDataset", got.status());
  if (got.ok()) Made("Dataset", made->name(), made->uid(), got->uid());
}

void Clients::ListAll(Program& program, int64_t) {
  const auto jobs = program.Stub<JobService>("scheduler");
  const auto projects = program.Stub<ProjectService>("credentials");
  const auto clusters = program.Stub<ClusterService>("cluster_manager");
  if (jobs == nullptr || projects == nullptr || clusters == nullptr) return;
  scheduler::v1::ListJobsRequest page;
  page.set_parent(kProject);
  page.set_page_size(kPageSize);
  Lost("ListJobs", cli::ListAll(jobs.get(), &JobService::Stub::ListJobs, page,
                                &scheduler::v1::ListJobsResponse::mutable_jobs, program.terms)
                       .status());
  Lost("ListProjects", cli::Call(projects.get(), &ProjectService::Stub::ListProjects,
                                 credentials::v1::ListProjectsRequest(), program.terms)
                           .status());
  Lost("ListClusters", cli::Call(clusters.get(), &ClusterService::Stub::ListClusters,
                                 clustermanager::v1::ListClustersRequest(), program.terms)
                           .status());
}

void Clients::WatchJobs() {
  Random random(17);
  const auto platform = cli::Platform::Open(InvocationFor(*platform_, &clock_, &random));
  if (!platform.ok()) return Lost("WatchJobs", platform.status());
  Lost("WatchJobs", watch_->Run([&] {
    const absl::Status begun = cli::FollowJobs(
        watch_.get(), platform->get(), kProject,
        [this](const Job& job) {
          absl::MutexLock lock(&mutex_);
          seen_.insert(job.name());
        },
        [](const std::string&) {}, [this](const absl::Status& over) { watch_->Done(over); });
    if (!begun.ok()) watch_->Done(begun);
  }));
}

void Clients::FollowLog() {
  Random random(18);
  const auto platform = cli::Platform::Open(InvocationFor(*platform_, &clock_, &random));
  if (!platform.ok()) return Lost("ReadRecords", platform.status());
  cli::StreamQuery query;
  query.stream = absl::StrCat(kProject, "/jobs/", kTalker, "/streams/log");
  query.follow = true;
  Lost("ReadRecords", log_->Run([&] {
    const absl::Status begun = cli::ReadStream(
        log_.get(), platform->get(), query,
        [this](const telemetry::v1::Record& record) {
          absl::MutexLock lock(&mutex_);
          lines_.push_back(record.kind() == "log" ? record.payload() : record.kind());
          return true;
        },
        [] {}, [this](const absl::Status& over) { log_->Done(over); });
    if (!begun.ok()) log_->Done(begun);
  }));
}

template <typename Resource>
void Clients::CheckMade(absl::string_view kind,
                        const absl::StatusOr<std::vector<Resource>>& found) {
  ASSERT_TRUE(found.ok()) << found.status();
  std::map<std::string, std::string> uids;
  for (const Resource& resource : *found) {
    EXPECT_TRUE(uids.emplace(resource.name(), resource.uid()).second)
        << resource.name() << " is there twice";
  }
  absl::MutexLock lock(&mutex_);
  const auto& made = made_[std::string(kind)];
  EXPECT_FALSE(made.empty()) << kind;
  for (const auto& [name, uid] : made) {
    const auto it = uids.find(name);
    EXPECT_EQ(it == uids.end() ? "nothing" : it->second, uid) << name;
  }
  EXPECT_EQ(std::count_if(uids.begin(), uids.end(),
                          [](const auto& one) { return absl::StrContains(one.first, "/load-"); }),
            static_cast<int64_t>(made.size()))
      << kind << ": one was made of which nobody was told";
}

void Clients::CheckAllMade(Program& program) {
  const auto jobs = program.Stub<JobService>("scheduler");
  const auto queues = program.Stub<QueueService>("scheduler");
  const auto datasets = program.Stub<DatasetService>("data_loader");
  ASSERT_TRUE(jobs != nullptr && queues != nullptr && datasets != nullptr);
  scheduler::v1::ListJobsRequest of_jobs;
  of_jobs.set_parent(kProject);
  of_jobs.set_page_size(kPageSize);
  CheckMade("Job", cli::ListAll(jobs.get(), &JobService::Stub::ListJobs, of_jobs,
                                &scheduler::v1::ListJobsResponse::mutable_jobs, program.terms));
  CheckMade("Queue",
            cli::ListAll(queues.get(), &QueueService::Stub::ListQueues,
                         scheduler::v1::ListQueuesRequest(),
                         &scheduler::v1::ListQueuesResponse::mutable_queues, program.terms));
  dataloader::v1::ListDatasetsRequest of_datasets;
  of_datasets.set_parent(kProject);
  CheckMade("Dataset",
            cli::ListAll(datasets.get(), &DatasetService::Stub::ListDatasets, of_datasets,
                         &dataloader::v1::ListDatasetsResponse::mutable_datasets, program.terms));
}

void Clients::CheckStreams() {
  const auto all_seen = [this] {
    absl::MutexLock lock(&mutex_);
    const auto& made = made_["Job"];
    return std::all_of(made.begin(), made.end(),
                       [this](const auto& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                         return seen_.count(job.first) > 0;
                       });
  };
  EXPECT_TRUE(platform_->Await(all_seen)) << "the watch has not told of every Job";
  const auto lines = [this] {
    absl::MutexLock lock(&mutex_);
    return lines_.size();
  };
  const size_t before = lines();
  EXPECT_TRUE(platform_->Await([&] { return lines() > before; })) << "the log comes no more";
}

void Clients::FinishAndCheck() {
  EndPrograms();
  {
    Program program(*platform_, &clock_, 99);
    ASSERT_NE(program.cli, nullptr);
    CheckAllMade(program);
  }
  CheckStreams();
  EndStreams();
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(absl::StrJoin(lost_, "\n"), "");
  for (size_t i = 0; i < lines_.size(); ++i) {
    ASSERT_EQ(lines_[i], absl::StrCat(i)) << "the log has a gap, or a line twice";
  }
  std::printf("%lld calls: %zu Jobs, %zu Queues and %zu Datasets made; %zu lines followed\n",
              static_cast<long long>(calls_), made_["Job"].size(), made_["Queue"].size(),
              made_["Dataset"].size(), lines_.size());
}

}  // namespace capstan::integration
