#include "libs/resource/id.h"

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::resource {
namespace {

constexpr size_t kMaxIdLength = 63;

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool IsValidId(absl::string_view id) {
  if (id.empty() || id.size() > kMaxIdLength || !IsLower(id.front()) || id.back() == '-') {
    return false;
  }
  for (const char c : id) {
    if (!IsLower(c) && !IsDigit(c) && c != '-') return false;
  }
  return true;
}

bool IsValidUuid4(absl::string_view uuid) {
  if (uuid.size() != 36) return false;
  for (size_t i = 0; i < uuid.size(); ++i) {
    const char c = uuid[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
    } else if (!IsDigit(c) && !(c >= 'a' && c <= 'f')) {
      return false;
    }
  }
  const char variant = uuid[19];
  return uuid[14] == '4' && (variant == '8' || variant == '9' || variant == 'a' || variant == 'b');
}

absl::Status ValidateRequestId(absl::string_view request_id) {
  status::FieldErrors errors;
  if (!request_id.empty() && !IsValidUuid4(request_id)) {
    errors.Add("request_id", "is not a UUID of version 4 in lower case");
  }
  return errors.ToStatus();
}

}  // namespace capstan::resource
