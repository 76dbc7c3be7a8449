#include "services/telemetry/server.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/client_addresses.h"
#include "libs/metrics/endpoint_server.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "proto/capstan/telemetry/v1/archive.grpc.pb.h"
#include "proto/capstan/telemetry/v1/scrape_target.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"

namespace capstan::telemetry {
namespace {

constexpr char kLog[] = "projects/p/jobs/j/streams/log";

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.folder = absl::StrCat(testing::TempDir(), "/",
                                  testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(config_.folder);
    config_.archive_file = absl::StrCat(config_.folder, "-archive.sqlite");
    std::filesystem::remove(config_.archive_file);
    config_.targets_file = config_.folder + "-targets";
    std::filesystem::remove(config_.targets_file);
    config_.loopback_network = "here";
    access_.CallAs(auth::SpiffeId::Node("d", "local", "a"));
    Start();
  }

  void Start() {
    server_.reset();
    ServerDeps deps;
    deps.strand = &strand_;
    deps.access = &access_;
    deps.logger = &logger_;
    deps.metrics = &metrics_;
    auto server = Server::Create(config_, deps);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::StreamService::NewStub(server_->InProcessChannelForTest());
    archive_ = v1::ArchiveService::NewStub(server_->InProcessChannelForTest());
    targets_ = v1::ScrapeTargetService::NewStub(server_->InProcessChannelForTest());
  }

  static v1::Record Line(const std::string& text, int64_t sequence, int rank = 0) {
    v1::Record record;
    record.set_kind("log");
    record.set_payload(text);
    record.set_producer("shim");
    record.set_key(absl::StrCat("rank-", rank));
    record.set_producer_sequence(sequence);
    (*record.mutable_attributes())["rank"] = absl::StrCat(rank);
    return record;
  }

  grpc::Status Append(const std::vector<v1::Record>& records, const std::string& stream = kLog) {
    grpc::ClientContext context;
    v1::AppendRecordsRequest request;
    request.set_stream(stream);
    for (const v1::Record& record : records) *request.add_records() = record;
    return stub_->AppendRecords(&context, request, &appended_);
  }

  static std::string EventsOf(int job) {
    return absl::StrCat("projects/p/jobs/e", job, "/streams/events");
  }
  static void AddAppend(v1::AppendToStreamsRequest* request, const std::string& stream,
                        const std::vector<v1::Record>& records) {
    v1::AppendRecordsRequest* append = request->add_appends();
    append->set_stream(stream);
    for (const v1::Record& record : records) *append->add_records() = record;
  }
  grpc::Status AppendToStreams(const v1::AppendToStreamsRequest& request) {
    grpc::ClientContext context;
    return stub_->AppendToStreams(&context, request, &results_);
  }
  // Of the last call.
  absl::Status ErrorOf(int append) const {
    return rpc::FromStatusProto(results_.results(append).error());
  }

  static v1::ReadRecordsRequest Request(int64_t start = 0, int64_t tail = 0, bool follow = false) {
    v1::ReadRecordsRequest request;
    request.set_stream(kLog);
    request.set_start_offset(start);
    request.set_tail(tail);
    request.set_follow(follow);
    return request;
  }

  // Everything until the stream ends.
  std::vector<std::string> ReadAll(const v1::ReadRecordsRequest& request) {
    grpc::ClientContext context;
    auto reader = stub_->ReadRecords(&context, request);
    v1::ReadRecordsResponse response;
    std::vector<std::string> lines;
    bool caught_up = false;
    int64_t last = 0;
    while (reader->Read(&response)) {
      caught_up |= response.caught_up();
      for (const v1::Record& record : response.records()) {
        EXPECT_GT(record.offset(), last);
        last = record.offset();
        lines.push_back(record.kind() == "gap" ? "GAP" : record.payload());
      }
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(caught_up);
    return lines;
  }

  SystemClock clock_;
  ThreadStrand strand_{"telemetry", &clock_};
  log::TestingSink sink_;
  log::Logger logger_{"telemetry", &clock_, &sink_};
  metrics::Registry metrics_{"telemetry"};
  auth::FakeAccess access_;
  ServerConfig config_;
  std::unique_ptr<Server> server_;
  grpc::Status Report(const std::string& address) {
    grpc::ClientContext context;
    v1::ReportScrapeTargetRequest request;
    request.set_metrics_address(address);
    request.set_loopback_network("here");
    return targets_->ReportScrapeTarget(&context, request, &reported_);
  }

  std::unique_ptr<v1::StreamService::Stub> stub_;
  std::unique_ptr<v1::ArchiveService::Stub> archive_;
  std::unique_ptr<v1::ScrapeTargetService::Stub> targets_;
  v1::ReportScrapeTargetResponse reported_;
  v1::AppendRecordsResponse appended_;
  v1::AppendToStreamsResponse results_;
};

TEST_F(ServerTest, KeepsRecordsOnceOverARestart) {
  ASSERT_TRUE(Append({Line("a", 1), Line("b", 2), Line("b", 2)}).ok());
  EXPECT_EQ(appended_.last_offset(), 2);
  EXPECT_EQ(appended_.duplicates(), 1);
  ASSERT_TRUE(Append({Line("b", 2), Line("c", 3), Line("other rank", 1, 1)}).ok());
  EXPECT_EQ(appended_.last_offset(), 4);
  EXPECT_EQ(appended_.duplicates(), 1);
  // Another caller's records are its own, whatever producer it names.
  access_.CallAs(auth::SpiffeId::Node("d", "local", "b"));
  ASSERT_TRUE(Append({Line("from b", 1)}).ok());
  EXPECT_EQ(appended_.duplicates(), 0);
  access_.CallAs(auth::SpiffeId::Node("d", "local", "a"));
  Start();
  ASSERT_TRUE(Append({Line("c", 3), Line("d", 4)}).ok());
  EXPECT_EQ(appended_.duplicates(), 1);
  EXPECT_EQ(ReadAll(Request()),
            (std::vector<std::string>{"a", "b", "c", "other rank", "from b", "d"}));
}

TEST_F(ServerTest, ReadsFromAnOffsetATailAndByAttributes) {
  std::vector<v1::Record> records;
  for (int i = 1; i <= 10; ++i) records.push_back(Line(absl::StrCat(i), i, i % 2));
  ASSERT_TRUE(Append(records).ok());
  EXPECT_EQ(ReadAll(Request(8)), (std::vector<std::string>{"8", "9", "10"}));
  EXPECT_EQ(ReadAll(Request(0, 2)), (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(ReadAll(Request(0, 100)).size(), 10u);
  v1::ReadRecordsRequest odd = Request();
  (*odd.mutable_attributes())["rank"] = "1";
  EXPECT_EQ(ReadAll(odd), (std::vector<std::string>{"1", "3", "5", "7", "9"}));
  v1::ReadRecordsRequest empty;
  empty.set_stream("projects/p/jobs/none/streams/log");
  EXPECT_TRUE(ReadAll(empty).empty());
}

TEST_F(ServerTest, RefusesWhatIsWrong) {
  EXPECT_EQ(Append({Line("a", 0)}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Append({Line("a", 1)}, "projects/../streams/log").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  // What happened to a Job is not for a Node to say.
  EXPECT_EQ(Append({Line("a", 1)}, "projects/p/jobs/j/streams/events").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Append({Line("a", 1)}, "streams/audit").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  access_.Refuse(absl::PermissionDeniedError("no"));
  EXPECT_EQ(Append({Line("a", 1)}).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext context;
  v1::ReadRecordsResponse response;
  auto reader = stub_->ReadRecords(&context, Request());
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServerTest, AppendsToManyStreamsInOneCall) {
  access_.CallAs(auth::SpiffeId::Service("d", "scheduler"));
  v1::AppendToStreamsRequest request;
  constexpr int kStreams = 200;
  for (int i = 0; i < kStreams; ++i) {
    AddAppend(&request, EventsOf(i),
              {Line(absl::StrCat("a", i), 1), Line(absl::StrCat("b", i), 2)});
  }
  ASSERT_TRUE(AppendToStreams(request).ok());
  ASSERT_EQ(results_.results_size(), kStreams);
  for (const auto& result : results_.results()) {
    EXPECT_EQ(result.appended().last_offset(), 2);
    EXPECT_EQ(result.appended().duplicates(), 0);
  }
  // Also after a restart it is known what was there, by whichever call it came.
  Start();
  ASSERT_TRUE(Append({Line("c", 3)}, EventsOf(1)).ok());
  *request.mutable_appends(0)->add_records() = Line("c", 3);
  ASSERT_TRUE(AppendToStreams(request).ok());
  ASSERT_EQ(results_.results_size(), kStreams);
  for (int i = 0; i < kStreams; ++i) {
    EXPECT_EQ(results_.results(i).appended().last_offset(), i < 2 ? 3 : 2);
    EXPECT_EQ(results_.results(i).appended().duplicates(), 2);
  }
  for (int i = 0; i < kStreams; ++i) {
    v1::ReadRecordsRequest read = Request();
    read.set_stream(EventsOf(i));
    std::vector<std::string> expected = {absl::StrCat("a", i), absl::StrCat("b", i)};
    if (i < 2) expected.emplace_back("c");
    EXPECT_EQ(ReadAll(read), expected);
  }
}

TEST_F(ServerTest, AnAppendThatIsRefusedStopsNoOther) {
  // A Node does not get this far, but for this test: it may append to logs alone.
  v1::AppendToStreamsRequest request;
  AddAppend(&request, kLog, {Line("a", 1)});
  AddAppend(&request, EventsOf(1), {Line("a", 1)});
  AddAppend(&request, "projects/p/jobs/k/streams/log", {Line("a", 1), Line("b", 0)});
  AddAppend(&request, "nonsense", {Line("a", 1)});
  AddAppend(&request, "projects/p/jobs/l/streams/log", {Line("a", 1)});
  ASSERT_TRUE(AppendToStreams(request).ok());
  ASSERT_EQ(results_.results_size(), 5);
  EXPECT_EQ(results_.results(0).appended().last_offset(), 1);
  EXPECT_EQ(ErrorOf(1).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrorOf(2).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status::GetFieldViolations(ErrorOf(2)).at(0).field, "records[1].producer_sequence");
  EXPECT_EQ(status::GetFieldViolations(ErrorOf(3)).at(0).field, "stream");
  EXPECT_EQ(results_.results(4).appended().last_offset(), 1);
  EXPECT_EQ(ReadAll(Request()), std::vector<std::string>{"a"});
  // The same for a Stream that is there.
  access_.CallAs(auth::SpiffeId::Service("d", "scheduler"));
  ASSERT_TRUE(Append({Line("a", 1)}, EventsOf(1)).ok());
  access_.CallAs(auth::SpiffeId::Node("d", "local", "a"));
  const absl::Status absent = ErrorOf(1);
  ASSERT_TRUE(AppendToStreams(request).ok());
  EXPECT_EQ(ErrorOf(1), absent);
  EXPECT_EQ(results_.results(0).appended().duplicates(), 1);
}

TEST_F(ServerTest, ACallToManyStreamsBeyondItsBoundsAppendsNothing) {
  const auto refused = [this](const v1::AppendToStreamsRequest& request) {
    EXPECT_EQ(AppendToStreams(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(ReadAll(Request()).empty());
  };
  v1::AppendToStreamsRequest twice;
  AddAppend(&twice, kLog, {Line("a", 1)});
  AddAppend(&twice, kLog, {Line("b", 2)});
  refused(twice);
  v1::AppendToStreamsRequest many;
  AddAppend(&many, kLog, {Line("a", 1)});
  for (int i = 0; i < 256; ++i) AddAppend(&many, EventsOf(i), {Line("a", 1)});
  refused(many);
  v1::AppendToStreamsRequest large;
  AddAppend(&large, kLog, {Line(std::string(600 << 10, 'x'), 1)});
  AddAppend(&large, "projects/p/jobs/k/streams/log", {Line(std::string(600 << 10, 'x'), 1)});
  refused(large);
  EXPECT_TRUE(AppendToStreams({}).ok());
  EXPECT_EQ(results_.results_size(), 0);
  access_.Refuse(absl::PermissionDeniedError("no"));
  EXPECT_EQ(AppendToStreams(twice).error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServerTest, AFollowerGetsWhatComesAlsoFromAStreamThatIsNotThereYet) {
  grpc::ClientContext context;
  auto reader = stub_->ReadRecords(&context, Request(0, 0, /*follow=*/true));
  v1::ReadRecordsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_TRUE(response.caught_up());
  EXPECT_EQ(response.records_size(), 0);
  std::vector<std::string> got;
  for (int i = 1; i <= 20; ++i) {
    ASSERT_TRUE(Append({Line(absl::StrCat(i), i)}).ok());
    while (static_cast<int>(got.size()) < i) {
      ASSERT_TRUE(reader->Read(&response));
      EXPECT_FALSE(response.caught_up());
      for (const v1::Record& record : response.records()) got.push_back(record.payload());
    }
    EXPECT_EQ(got.back(), absl::StrCat(i));
  }
  // The server ends followers when it stops.
  server_->Drain(absl::Seconds(10));
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTest, ASlowReaderLosesNothingAndStopsNoOne) {
  grpc::ClientContext context;
  auto slow = stub_->ReadRecords(&context, Request(0, 0, /*follow=*/true));
  // Far more than a stream's queue takes.
  const std::string text(100 << 10, 'x');
  constexpr int kLines = 200;
  for (int i = 1; i <= kLines; ++i) {
    ASSERT_TRUE(Append({Line(absl::StrCat(i, ":", text), i)}).ok());
  }
  EXPECT_EQ(ReadAll(Request()).size(), static_cast<size_t>(kLines));
  int next = 1;
  v1::ReadRecordsResponse response;
  while (next <= kLines && slow->Read(&response)) {
    for (const v1::Record& record : response.records()) {
      ASSERT_EQ(record.payload().substr(0, record.payload().find(':')), absl::StrCat(next++));
    }
  }
  EXPECT_EQ(next, kLines + 1);
  context.TryCancel();
  slow->Finish();
}

TEST_F(ServerTest, EachOfManyReadersHoldsLittle) {
  std::vector<v1::Record> lines;
  for (int i = 1; i <= 3000; ++i) lines.push_back(Line(std::string(200, 'x'), i));
  ASSERT_TRUE(Append(lines).ok());
  // Bytes of the largest response, of 600,000 in all.
  const auto most = [this] {
    grpc::ClientContext context;
    auto reader = stub_->ReadRecords(&context, Request());
    size_t bytes = 0;
    for (v1::ReadRecordsResponse response; reader->Read(&response);) {
      bytes = std::max(bytes, response.ByteSizeLong());
    }
    EXPECT_TRUE(reader->Finish().ok());
    return bytes;
  };
  EXPECT_GT(most(), size_t{200} << 10);
  struct Follower {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::ReadRecordsResponse>> reader;
  };
  std::vector<std::unique_ptr<Follower>> followers;
  for (int i = 0; i < 255; ++i) {
    Follower& follower = *followers.emplace_back(std::make_unique<Follower>());
    follower.reader = stub_->ReadRecords(&follower.context, Request(0, 0, /*follow=*/true));
    // It is there, and reads no further.
    v1::ReadRecordsResponse response;
    EXPECT_TRUE(follower.reader->Read(&response));
  }
  // One of 256 shares of 2 MiB, the record that passes it, and what each takes beside its payload.
  EXPECT_LT(most(), size_t{24} << 10);
  for (const auto& follower : followers) {
    follower->context.TryCancel();
    follower->reader->Finish();
  }
}

TEST_F(ServerTest, RetentionLeavesAGapRecordAtTheFront) {
  config_.keep_bytes = 40 << 20;
  const std::string text(900 << 10, 'x');
  for (int i = 1; i <= 80; ++i) ASSERT_TRUE(Append({Line(text, i)}).ok());
  Start();
  // The sweep at the start runs beside us: it is done when the oldest segment is gone.
  const std::string oldest =
      absl::StrCat(config_.folder, "/", kLog, "/", std::string(19, '0'), "1.seg");
  const absl::Time deadline = clock_.Read().wall + absl::Seconds(60);
  while (std::filesystem::exists(oldest) && clock_.Read().wall < deadline)
    std::this_thread::yield();
  grpc::ClientContext context;
  auto reader = stub_->ReadRecords(&context, Request());
  v1::ReadRecordsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_GT(response.records_size(), 0);
  EXPECT_EQ(response.records(0).kind(), "gap");
  event::v1::GapRecord gap;
  ASSERT_TRUE(gap.ParseFromString(response.records(0).payload()));
  EXPECT_EQ(gap.reason(), "RETENTION");
  EXPECT_EQ(gap.dropped_records(), response.records(0).offset());
  int64_t records = response.records_size();
  while (reader->Read(&response)) records += response.records_size();
  EXPECT_EQ(records - 1 + gap.dropped_records(), 80);
  EXPECT_TRUE(reader->Finish().ok());
  // Old sequences are still known, though their records are gone.
  ASSERT_TRUE(Append({Line(text, 1)}).ok());
  EXPECT_EQ(appended_.duplicates(), 1);
}

TEST_F(ServerTest, TheFolderHasOneOwner) {
  ServerDeps deps;
  deps.strand = &strand_;
  deps.access = &access_;
  deps.logger = &logger_;
  deps.metrics = &metrics_;
  EXPECT_EQ(Server::Create(config_, deps).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ServerTest, TheArchiveTakesEndedJobsAndGivesThemInPages) {
  v1::ArchiveJobsRequest put;
  for (int i = 0; i < 25; ++i) {
    scheduler::v1::Job& job = *put.add_jobs();
    job.set_name(absl::StrCat("projects/p/jobs/j", i));
    job.set_uid(absl::StrCat("uid-", i));
    job.set_state(i % 2 == 0 ? scheduler::v1::Job::STATE_FAILED
                             : scheduler::v1::Job::STATE_SUCCEEDED);
    const int64_t now = absl::ToUnixSeconds(clock_.Read().wall);
    job.mutable_create_time()->set_seconds(now - 100 - i);
    job.mutable_end_time()->set_seconds(now - 50);
  }
  const auto archive = [&] {
    grpc::ClientContext context;
    v1::ArchiveJobsResponse response;
    return archive_->ArchiveJobs(&context, put, &response);
  };
  ASSERT_TRUE(archive().ok());
  ASSERT_TRUE(archive().ok()) << "again, as a scheduler that was not answered does";
  Start();

  v1::ListArchivedJobsRequest list;
  list.set_parent("projects/p");
  list.set_filter("state=FAILED");
  list.set_page_size(5);
  std::vector<std::string> uids;
  do {
    grpc::ClientContext context;
    v1::ListArchivedJobsResponse page;
    ASSERT_TRUE(archive_->ListArchivedJobs(&context, list, &page).ok());
    EXPECT_LE(page.jobs_size(), 5);
    for (const v1::ArchivedJob& job : page.jobs()) uids.push_back(job.job().uid());
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  ASSERT_EQ(uids.size(), 13u);
  for (size_t i = 0; i < uids.size(); ++i) EXPECT_EQ(uids[i], absl::StrCat("uid-", 2 * i));

  {
    grpc::ClientContext context;
    v1::GetArchivedJobRequest get;
    get.set_name("projects/p/jobs/j7");
    v1::ArchivedJob found;
    ASSERT_TRUE(archive_->GetArchivedJob(&context, get, &found).ok());
    EXPECT_EQ(found.job().uid(), "uid-7");
  }
  // A token of another request, and a Job that has not ended.
  {
    grpc::ClientContext context;
    v1::ListArchivedJobsResponse page;
    list.set_page_token("AAAA");
    EXPECT_EQ(archive_->ListArchivedJobs(&context, list, &page).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  put.mutable_jobs(0)->set_state(scheduler::v1::Job::STATE_RUNNING);
  EXPECT_EQ(archive().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, ListsWhatReportedForPrometheusOverARestart) {
  EXPECT_EQ(server_->TargetsPage()("127.0.0.1").body, "[]");
  ASSERT_TRUE(Report("127.0.0.1:9106").ok());
  EXPECT_EQ(reported_.repeat_after().seconds(), 30);
  EXPECT_EQ(Report("nonsense").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  for (const bool restarted : {false, true}) {
    if (restarted) Start();
    const metrics::Page page = server_->TargetsPage()("127.0.0.1");
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.content_type, "application/json");
    EXPECT_EQ(page.body,
              R"([{"labels":{"__meta_capstan_cluster":"local","__meta_capstan_node":"a",)"
              R"("__meta_capstan_service":"node_agent"},"targets":["127.0.0.1:9106"]}])");
  }
}

TEST_F(ServerTest, OtherMachinesReadTheTargetsOnlyIfTheyAreNamed) {
  EXPECT_EQ(server_->TargetsPage()("10.1.2.3").status, 403);
  EXPECT_EQ(server_->TargetsPage()("").status, 403);
  config_.target_readers = *metrics::ClientAddresses::Parse({"10.0.0.0/8"});
  Start();
  EXPECT_EQ(server_->TargetsPage()("10.1.2.3").status, 200);
  EXPECT_EQ(server_->TargetsPage()("11.1.2.3").status, 403);
}

}  // namespace
}  // namespace capstan::telemetry
