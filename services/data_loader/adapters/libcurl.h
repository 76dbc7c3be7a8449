#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_LIBCURL_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_LIBCURL_H_

#include "absl/status/statusor.h"
#include "curl/curl.h"

namespace capstan::data_loader {

// libcurl's functions by their own names, less `curl_`. It is loaded when it is first needed, not
// linked: it brings many libraries along (LDAP, Kerberos, SSH and others), which every process,
// each CLI command too, would load at its start, and few ever have an HTTP source.
struct Libcurl {
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// The one of this process, initialised; never unloaded, since others may use it too. Thread-safe.
// FAILED_PRECONDITION (LIBCURL_MISSING): it is not installed, or too old; the message says what to
// install. A process that once failed to load it has to be started again.
absl::StatusOr<const Libcurl*> LoadLibcurl();

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_LIBCURL_H_
