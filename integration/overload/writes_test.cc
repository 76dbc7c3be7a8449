// Writes without pause at each service that has one: what is answered well is on disk. The scheduler's
// is a test of its own (overload_test.cc); cluster_manager has none, as nobody may call it but people
// who read.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/overload/call_storm.h"
#include "integration/overload/overload_fixture.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/rpc/x509.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/type/v1/placement_grant.pb.h"

namespace capstan::integration {
namespace {

using grpc::StatusCode;

// A Dataset is kept for good, and nothing bounds how many there are: those beyond are told that they
// are there already.
constexpr int64_t kMaxDatasets = 20'000;

TEST_F(OverloadTest, RenewalsWithoutPause) {
  credentials::v1::RenewSvidRequest request;
  request.set_certificate_request(
      rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value());
  const StormEnd end = Storm("new SVIDs", "credentials", DialAll("credentials"),
                             StormCall{.path = "/capstan.credentials.v1.IdentityService/RenewSvid",
                                       .request = [same = BufferOf(request.SerializeAsString())](
                                                      int64_t, size_t) { return same; }});
  ExpectEnds(end, {StatusCode::OK, StatusCode::RESOURCE_EXHAUSTED});
}

TEST_F(OverloadTest, DatasetsWithoutPause) {
  const StormEnd end =
      Storm("new Datasets", "data_loader", DialAll("data_loader"),
            StormCall{.path = "/capstan.dataloader.v1.DatasetService/CreateDataset",
                      .request = [](int64_t n, size_t) {
                        dataloader::v1::CreateDatasetRequest request;
                        request.set_parent("projects/default");
                        request.set_dataset_id(absl::StrCat("storm-", n % kMaxDatasets));
                        request.mutable_dataset()->set_source_uri("file:///nowhere/");
                        return BufferOf(request.SerializeAsString());
                      }});
  ExpectEnds(end, {StatusCode::OK, StatusCode::RESOURCE_EXHAUSTED}, {StatusCode::ALREADY_EXISTS});
}

// As a Node sends what its Tasks write, with the scheduler's grant for one. It is one of the
// platform's own parts, and leaves places for others all the same.
TEST_F(OverloadTest, RecordsWithoutPause) {
  type::v1::Placement placed;
  placed.set_trust_domain(authority_->trust_domain());
  placed.set_cluster("local");
  placed.set_node("storm");
  placed.set_job("projects/default/jobs/storm");
  placed.set_job_uid("6e0f7d3c-0000-4000-8000-000000000001");
  placed.set_generation(1);
  placed.set_group("w");
  placed.set_service_account("projects/default/serviceAccounts/default");
  const absl::Time now = clock_.Read().wall;
  *placed.mutable_sign_time() = ToProto(now);
  const rpc::Svid scheduler =
      authority_->Issue(absl::StrCat("spiffe://", authority_->trust_domain(), "/svc/scheduler"),
                        now - absl::Hours(1), now + absl::Hours(1));
  const StormEnd end =
      Storm("new records", "telemetry", DialAll("telemetry", IdentityOf("/node/local/storm")),
            StormCall{.path = "/capstan.telemetry.v1.StreamService/AppendRecords",
                      .request =
                          [](int64_t n, size_t) {
                            telemetry::v1::AppendRecordsRequest request;
                            request.set_stream("projects/default/jobs/storm/streams/log");
                            telemetry::v1::Record& record = *request.add_records();
                            // Records of one key that overtake each other would be dropped.
                            record.set_key(absl::StrCat("w/", n % kOutstanding));
                            record.set_producer("storm");
                            record.set_producer_sequence(n + 1);
                            record.set_kind("log");
                            record.set_payload(std::string(100, 'x'));
                            return BufferOf(request.SerializeAsString());
                          },
                      .grant = auth::TestGrant(scheduler, placed)});
  ExpectEnds(end, {StatusCode::OK, StatusCode::RESOURCE_EXHAUSTED});
}

}  // namespace
}  // namespace capstan::integration
