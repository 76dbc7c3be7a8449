#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_H2_HEADERS_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_H2_HEADERS_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/kube/transport/h2_exchange.h"
#include "nghttp2/nghttp2.h"

namespace capstan::kube {

// The head of a request as nghttp2 takes it. Valid as long as `setup` and `exchange` are.
class H2Headers {
 public:
  H2Headers(const H2Setup& setup, const H2Exchange& exchange);
  H2Headers(const H2Headers&) = delete;
  H2Headers& operator=(const H2Headers&) = delete;

  const std::vector<nghttp2_nv>& pairs() const { return pairs_; }

 private:
  void Add(absl::string_view name, absl::string_view value);
  // Keeps `text` for the pairs.
  absl::string_view Keep(std::string text);

  std::vector<nghttp2_nv> pairs_;
  // Whose elements stay where they are.
  std::deque<std::string> kept_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_H2_HEADERS_H_
