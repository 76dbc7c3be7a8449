#include "integration/monitoring/http_request.h"

#include "curl/curl.h"

namespace capstan::integration {
namespace {

size_t Append(const char* bytes, size_t size, size_t count, void* text) {
  static_cast<std::string*>(text)->append(bytes, size * count);
  return size * count;
}

}  // namespace

HttpAnswer HttpRequest(const std::string& method, const std::string& url, const std::string& body,
                       const std::string& roots) {
  HttpAnswer answer;
  CURL* const curl = curl_easy_init();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  if (method == "HEAD") curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  if (!body.empty()) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  if (!roots.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, roots.c_str());
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  if (curl_easy_perform(curl) == CURLE_OK) {
    const char* type = nullptr;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    if (type != nullptr) answer.content_type = type;
  }
  curl_easy_cleanup(curl);
  return answer;
}

HttpAnswer HttpGet(const std::string& url, const std::string& roots) {
  return HttpRequest("GET", url, "", roots);
}

}  // namespace capstan::integration
