#include "libs/store/service_records.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/store/backup.pb.h"

namespace capstan::store {
namespace {

// A message with a schema, and one without.
ServiceRecords Thing() {
  ServiceRecords thing;
  thing.service = "thing";
  thing.kinds = {{"head", &backup::v1::BackupHeader::default_instance()},
                 {"records/", &backup::v1::BackupRecord::default_instance()},
                 {"text/", nullptr}};
  return thing;
}

std::string ReasonOf(const std::string& key, const std::string& value) {
  return status::Reason(CheckStoredRecord(Thing(), key, value));
}

TEST(ServiceRecordsTest, EveryRecordParsesAsWhatItsKeySays) {
  backup::v1::BackupRecord record;
  record.set_key("k");
  EXPECT_EQ(ReasonOf("/capstan/thing/v1/records/a", record.SerializeAsString()), "");
  EXPECT_EQ(ReasonOf("/capstan/thing/v1/records/a", "\x0f"), "RECORD_CORRUPT");
  EXPECT_EQ(ReasonOf("/capstan/thing/v1/text/a", "\x0f"), "");
}

TEST(ServiceRecordsTest, KeysThatNobodyKnowsAreFound) {
  for (const char* key :
       {"/capstan/thing/v1/records/", "/capstan/thing/v1/records", "/capstan/thing/v1/header",
        "/capstan/thing/v1/other/a", "/capstan/thing/v2/head", "/capstan/other/v1/head", ""}) {
    EXPECT_EQ(ReasonOf(key, ""), "RECORD_CORRUPT") << key;
  }
}

TEST(ServiceRecordsTest, ARecordOfANewerSchemaIsNotTakenForOneOfOurs) {
  backup::v1::BackupHeader header;
  header.set_schema(1);
  EXPECT_EQ(ReasonOf("/capstan/thing/v1/head", header.SerializeAsString()), "");
  header.set_schema(2);
  EXPECT_EQ(ReasonOf("/capstan/thing/v1/head", header.SerializeAsString()), "RECORD_TOO_NEW");
}

}  // namespace
}  // namespace capstan::store
