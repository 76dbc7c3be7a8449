#include "libs/resource/page.h"

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "libs/status/error.h"
#include "openssl/crypto.h"
#include "openssl/evp.h"
#include "openssl/hmac.h"

namespace capstan::resource {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;
constexpr size_t kMaxTokenLength = 4096;
// Half of an HMAC-SHA256, the least that RFC 2104 §5 asks for.
constexpr size_t kMacBytes = 16;
// First byte of a token; another layout gets another number.
constexpr char kVersion = 1;

absl::Status BadToken(absl::string_view field, absl::string_view why) {
  status::FieldErrors errors;
  errors.Add(field, absl::StrCat(why, "; begin again without a token"));
  return errors.ToStatus();
}

}  // namespace

absl::StatusOr<int> EffectivePageSize(int32_t requested) {
  if (requested < 0) {
    status::FieldErrors errors;
    errors.Add("page_size", absl::StrCat("is ", requested, ", must not be negative"));
    return errors.ToStatus();
  }
  if (requested == 0) return kDefaultPageSize;
  return requested < kMaxPageSize ? requested : kMaxPageSize;
}

std::string PageArguments(const google::protobuf::Message& request) {
  std::unique_ptr<google::protobuf::Message> stable(request.New());
  stable->CopyFrom(request);
  for (const char* name : {"page_size", "page_token", "resume_token"}) {
    const auto* field = stable->GetDescriptor()->FindFieldByName(name);
    if (field != nullptr) stable->GetReflection()->ClearField(stable.get(), field);
  }
  std::string out = request.GetDescriptor()->full_name();
  out.push_back('\0');
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    stable->SerializeToCodedStream(&coded);
  }
  return out;
}

PageTokens::PageTokens(absl::string_view key) : key_(key) {}

std::string PageTokens::Mac(absl::string_view position, absl::string_view arguments) const {
  // The length keeps (position, arguments) from being cut elsewhere.
  const std::string input = absl::StrCat("page:", position.size(), ":", position, arguments);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
       reinterpret_cast<const unsigned char*>(input.data()), input.size(), mac, &length);
  return std::string(reinterpret_cast<const char*>(mac), kMacBytes);
}

std::string PageTokens::Seal(absl::string_view position, absl::string_view arguments) const {
  return absl::WebSafeBase64Escape(
      absl::StrCat(std::string(1, kVersion), Mac(position, arguments), position));
}

absl::StatusOr<std::string> PageTokens::Open(absl::string_view token, absl::string_view arguments,
                                             absl::string_view field) const {
  if (token.empty()) return "";
  std::string raw;
  if (token.size() > kMaxTokenLength || !absl::WebSafeBase64Unescape(token, &raw) ||
      raw.size() < 1 + kMacBytes || raw[0] != kVersion) {
    return BadToken(field, "is not a token of this service");
  }
  const absl::string_view position = absl::string_view(raw).substr(1 + kMacBytes);
  const std::string expected = Mac(position, arguments);
  if (CRYPTO_memcmp(expected.data(), raw.data() + 1, kMacBytes) != 0) {
    return BadToken(field, "belongs to another request or has been changed");
  }
  return std::string(position);
}

}  // namespace capstan::resource
