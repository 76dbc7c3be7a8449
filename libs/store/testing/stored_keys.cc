#include "libs/store/testing/stored_keys.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace capstan::store {
namespace {

// Null if the service has no such kind.
const ServiceRecords::Kind* KindOf(const ServiceRecords& service, absl::string_view key) {
  const std::string root = absl::StrCat("/capstan/", service.service, "/v", service.schema, "/");
  const ServiceRecords::Kind* found = nullptr;
  for (const ServiceRecords::Kind& kind : service.kinds) {
    const std::string prefix = root + kind.prefix;
    const bool of_many = absl::EndsWith(prefix, "/");
    if (of_many ? absl::StartsWith(key, prefix) : key == prefix) found = &kind;
  }
  return found;
}

std::string LineOf(const ServiceRecords& service, absl::string_view key) {
  const ServiceRecords::Kind* kind = KindOf(service, key);
  if (kind == nullptr) return absl::StrCat(key, " ?");
  return absl::StrCat(
      key, " ", kind->prototype == nullptr ? "-" : std::string(kind->prototype->GetTypeName()));
}

}  // namespace

void ExpectStoredKeys(const golden::Format& format, const ServiceRecords& service,
                      const std::vector<std::string>& keys) {
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    for (const absl::string_view line : absl::StrSplit(version.bytes, '\n', absl::SkipEmpty())) {
      const absl::string_view key = line.substr(0, line.rfind(' '));
      EXPECT_EQ(LineOf(service, key), line) << golden::kMustRead;
      EXPECT_TRUE(CheckStoredRecord(service, key, "").ok()) << line << golden::kMustRead;
    }
  }
  std::set<std::string> lines;
  std::set<const ServiceRecords::Kind*> written;
  for (const std::string& key : keys) {
    lines.insert(LineOf(service, key));
    written.insert(KindOf(service, key));
  }
  for (const ServiceRecords::Kind& kind : service.kinds) {
    EXPECT_EQ(written.count(&kind), 1u)
        << "the test knows no key of `" << kind.prefix << "`: write one with it";
  }
  format.ExpectWritten(absl::StrCat(absl::StrJoin(lines, "\n"), "\n"));
}

}  // namespace capstan::store
