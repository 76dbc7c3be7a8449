#ifndef CAPSTAN_LIBS_LIBCURL_LIBCURL_H_
#define CAPSTAN_LIBS_LIBCURL_LIBCURL_H_

#include "absl/status/statusor.h"
#include "curl/curl.h"

namespace capstan {

// libcurl's functions by their own names, less `curl_`. It is loaded when it is first needed, not
// linked: it brings many libraries along (LDAP, Kerberos, SSH and others), which every process,
// each CLI command too, would load at its start, and few ever speak HTTP.
struct Libcurl {
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_pause) easy_pause = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_setopt) multi_setopt = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// The one of this process, initialised; never unloaded, since others may use it too. Thread-safe.
// FAILED_PRECONDITION (LIBCURL_MISSING): it is not installed, or too old; the message says what to
// install. A process that once failed to load it has to be started again.
absl::StatusOr<const Libcurl*> LoadLibcurl();

}  // namespace capstan

#endif  // CAPSTAN_LIBS_LIBCURL_LIBCURL_H_
