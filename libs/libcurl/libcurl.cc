#include "libs/libcurl/libcurl.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan {
namespace {

// The name that libcurl has kept since 7.16; both of Debian's builds with OpenSSL have it.
constexpr char kLibrary[] = "libcurl.so.4";

absl::Status Missing() {
  const char* error = dlerror();
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "LIBCURL_MISSING",
      absl::StrCat(
          "HTTP needs libcurl, which can't be loaded: ", error == nullptr ? "unknown error" : error,
          "; install Debian's package libcurl4 and start this process again"));
}

template <typename F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<Libcurl> Load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Missing();
  Libcurl curl;
  decltype(&::curl_global_init) global_init = nullptr;
  const bool whole = Find(library, "curl_global_init", &global_init) &&
                     Find(library, "curl_easy_init", &curl.easy_init) &&
                     Find(library, "curl_easy_reset", &curl.easy_reset) &&
                     Find(library, "curl_easy_setopt", &curl.easy_setopt) &&
                     Find(library, "curl_easy_getinfo", &curl.easy_getinfo) &&
                     Find(library, "curl_easy_perform", &curl.easy_perform) &&
                     Find(library, "curl_easy_pause", &curl.easy_pause) &&
                     Find(library, "curl_easy_cleanup", &curl.easy_cleanup) &&
                     Find(library, "curl_easy_strerror", &curl.easy_strerror) &&
                     Find(library, "curl_multi_init", &curl.multi_init) &&
                     Find(library, "curl_multi_setopt", &curl.multi_setopt) &&
                     Find(library, "curl_multi_add_handle", &curl.multi_add_handle) &&
                     Find(library, "curl_multi_remove_handle", &curl.multi_remove_handle) &&
                     Find(library, "curl_multi_perform", &curl.multi_perform) &&
                     Find(library, "curl_multi_info_read", &curl.multi_info_read) &&
                     Find(library, "curl_multi_poll", &curl.multi_poll) &&
                     Find(library, "curl_multi_wakeup", &curl.multi_wakeup) &&
                     Find(library, "curl_multi_cleanup", &curl.multi_cleanup) &&
                     Find(library, "curl_slist_append", &curl.slist_append) &&
                     Find(library, "curl_slist_free_all", &curl.slist_free_all);
  if (!whole) return Missing();
  const CURLcode begun = global_init(CURL_GLOBAL_DEFAULT);
  if (begun != CURLE_OK) return absl::InternalError(curl.easy_strerror(begun));
  return curl;
}

}  // namespace

absl::StatusOr<const Libcurl*> LoadLibcurl() {
  static const auto* const loaded = new absl::StatusOr<Libcurl>(Load());
  if (!loaded->ok()) return loaded->status();
  return &**loaded;
}

}  // namespace capstan
