#include "tools/capstan/cli/list_all.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using scheduler::v1::ListJobsRequest;
using scheduler::v1::ListJobsResponse;

// Lists Jobs 1 to 5, two a page, until it fails.
struct PagedStub {
  grpc::Status ListJobs(grpc::ClientContext*, const ListJobsRequest& request,
                        ListJobsResponse* response) {
    requests.push_back(request);
    if (static_cast<int>(requests.size()) > fails_after) {
      return {grpc::StatusCode::PERMISSION_DENIED, "no longer"};
    }
    int next = 1;
    if (!request.page_token().empty()) {
      EXPECT_TRUE(absl::SimpleAtoi(request.page_token(), &next));
    }
    for (int i = 0; i < 2 && next <= 5; ++i, ++next) {
      response->add_jobs()->set_name(absl::StrCat("j", next));
    }
    if (next <= 5) response->set_next_page_token(absl::StrCat(next));
    return grpc::Status::OK;
  }

  int fails_after = 100;
  std::vector<ListJobsRequest> requests;
};

class ListAllTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<Job>> List() {
    ListJobsRequest request;
    request.set_parent("projects/p");
    request.set_page_size(2);
    return ListAll(&stub_, &PagedStub::ListJobs, request, &ListJobsResponse::mutable_jobs,
                   {&clock_, &random_, absl::Seconds(5)});
  }

  SimulatedClock clock_;
  Random random_{1};
  PagedStub stub_;
};

TEST_F(ListAllTest, JoinsThePagesAndAsksForEachWithTheSameArguments) {
  const auto jobs = List();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ((*jobs)[i].name(), absl::StrCat("j", i + 1));
  ASSERT_EQ(stub_.requests.size(), 3u);
  EXPECT_EQ(stub_.requests[0].page_token(), "");
  EXPECT_EQ(stub_.requests[1].page_token(), "3");
  EXPECT_EQ(stub_.requests[2].page_token(), "5");
  for (const ListJobsRequest& request : stub_.requests) {
    EXPECT_EQ(request.parent(), "projects/p");
    EXPECT_EQ(request.page_size(), 2);
  }
}

TEST_F(ListAllTest, FailsWithAPage) {
  stub_.fails_after = 1;
  EXPECT_EQ(List().status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(stub_.requests.size(), 2u);
}

}  // namespace
}  // namespace capstan::cli
