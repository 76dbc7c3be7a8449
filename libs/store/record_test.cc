#include "libs/store/record.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::store {
namespace {

// Stands for a message: two bytes are good, the first is the schema version.
struct Versioned {
  bool ParseFromArray(const void* bytes, int size) {
    if (size != 2) return false;
    version = *static_cast<const char*>(bytes) - '0';
    return true;
  }
  int schema_version() const { return version; }
  int version = 0;
};
struct Unversioned {
  bool ParseFromArray(const void*, int size) { return size == 2; }
};

KeyValue Stored(std::string value) {
  KeyValue kv;
  kv.key = "/capstan/test/v1/k";
  kv.value = std::move(value);
  return kv;
}

TEST(RecordTest, ReadsWhatIsWholeAndKnown) {
  Versioned record;
  EXPECT_EQ(ParseRecord(Stored("1x"), 2, &record), absl::OkStatus());
  EXPECT_EQ(ParseRecord(Stored("2x"), 2, &record), absl::OkStatus());
  EXPECT_EQ(record.version, 2);
  Unversioned plain;
  EXPECT_EQ(ParseRecord(Stored("9x"), 2, &plain), absl::OkStatus());
}

TEST(RecordTest, RefusesDamageAndNewerSchemasByKey) {
  Versioned record;
  const absl::Status corrupt = ParseRecord(Stored("1"), 2, &record);
  EXPECT_EQ(corrupt.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status::Reason(corrupt), "RECORD_CORRUPT");
  EXPECT_TRUE(absl::StrContains(corrupt.message(), "/capstan/test/v1/k"));
  const absl::Status newer = ParseRecord(Stored("3x"), 2, &record);
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(newer), "RECORD_TOO_NEW");
  EXPECT_EQ(status::GetErrorInfo(newer)->metadata.at("key"), "/capstan/test/v1/k");
}

}  // namespace
}  // namespace capstan::store
