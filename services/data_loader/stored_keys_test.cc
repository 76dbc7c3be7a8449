#include "libs/store/testing/stored_keys.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "libs/time/simulated_clock.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/stored_records.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kVersion[] = "projects/p/datasets/d/versions/aaaaaaaaaaaaaaaa";

// A core and every record that it has stored.
class StoredKeysTest : public ::testing::Test {
 protected:
  static LoaderConfig Config() {
    return {.site = "sites/s", .clusters = {"local"}, .site_limit_bytes = 0};
  }

  void Keep(const Step& step) {
    for (const store::Put& put : step.puts) disk_[put.key] = put.value;
  }
  template <typename T>
  void Keep(const DecisionOr<T>& decision) {
    ASSERT_TRUE(decision.ok()) << decision.status();
    Keep(decision->step);
  }

  void PinVersion(const std::string& holder, const std::string& node) {
    pb::PinVersionRequest pin;
    pin.set_version(kVersion);
    pin.set_holder(holder);
    Keep(core_.PinVersion(pin, node, "unused", clock_.Read()));
  }

  SimulatedClock clock_;
  LoaderCore core_{Config()};
  std::map<std::string, std::string> disk_;
};

TEST_F(StoredKeysTest, AreWhereReleasedVersionsHaveThem) {
  pb::CreateDatasetRequest dataset;
  dataset.set_parent("projects/p");
  dataset.set_dataset_id("d");
  dataset.set_request_id("0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b");
  dataset.mutable_dataset()->set_source_uri("file:///bucket/d/");
  Keep(core_.CreateDataset(dataset, "u", clock_.Read()));
  pb::EnsureDataLoadRequest ensure;
  ensure.set_dataset("projects/p/datasets/d");
  ensure.set_cluster("local");
  Keep(core_.EnsureLoad(ensure, "l1", clock_.Read()));
  Keep(core_.LoadPlanned("projects/p/dataLoads/l1", 10));
  Keep(core_.LoadPublished("projects/p/dataLoads/l1", "sha256:" + std::string(64, 'a'), 10, 1, 10,
                           clock_.Read()));
  Keep(
      core_.BundleStored("projects/p", "sha256:" + std::string(64, 'b'), 5, 1, clock_.Read()).step);
  pb::OpenOutputRequest output;
  output.set_name("projects/p/jobs/j/output");
  output.set_job_uid("0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b");
  output.set_generation(1);
  Keep(core_.OpenOutput(output));
  PinVersion("uid/1", "local/n1");
  PinVersion("uid/2", "");
  Keep(core_.ReleasePins("uid/3", "", clock_.Read()));

  std::vector<std::string> keys;
  for (const auto& [key, value] : disk_) keys.push_back(key);
  // The lease of who acts at the Site (server.cc).
  keys.push_back(absl::StrCat(kKeyPrefix, "owner/s"));
  store::ExpectStoredKeys(golden::Format("services/data_loader", "keys", "txt"), StoredRecords(),
                          keys);

  // What lies at those keys is understood.
  LoaderCore later(Config());
  for (const auto& [key, value] : disk_) {
    store::KeyValue kv;
    kv.key = key;
    kv.value = value;
    ASSERT_TRUE(later.Load(kv).ok()) << key;
  }
  const auto version = later.FindVersion(kVersion);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->holders.count("local/n1"), 1u);
  EXPECT_EQ(version->holders.count(""), 1u);
  EXPECT_EQ(later
                .PinVersion(
                    [] {
                      pb::PinVersionRequest pin;
                      pin.set_version(kVersion);
                      pin.set_holder("uid/3");
                      return pin;
                    }(),
                    "local/n1", "unused", clock_.Read())
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition)
      << "its holder was released";
}

}  // namespace
}  // namespace capstan::data_loader
