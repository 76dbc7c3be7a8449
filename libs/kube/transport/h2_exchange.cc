#include "libs/kube/transport/h2_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

constexpr size_t kMostHeadBytes = size_t{256} << 10;
// Of a call that the server has never looked at: a server that refuses all has to be told of.
constexpr int kMostAttempts = 4;
constexpr int kLowestStatus = 200;
constexpr int kHighestStatus = 599;
constexpr int kUnauthorized = 401;

absl::Status Broken(absl::string_view what) {
  return status::Error(absl::StatusCode::kUnavailable, kBroken, what);
}

}  // namespace

H2Exchange::H2Exchange(const H2Setup* setup, uint64_t id, HttpRequest request,
                       std::shared_ptr<Delivery> delivery, BootTime started)
    : setup_(setup),
      id_(id),
      request_(std::move(request)),
      delivery_(std::move(delivery)),
      started_(started),
      last_byte_(started) {
  // A response to it has none either.
  if (request_.method == "HEAD") request_.body.clear();
}

absl::Status H2Exchange::SetCredential(Credential credential) {
  credential_ = std::move(credential);
  if (IsToken68(credential_.bearer_token)) return absl::OkStatus();
  return status::Error(absl::StatusCode::kUnauthenticated, kNoCredential,
                       "the bearer token is not one word of printable ASCII; look where it comes "
                       "from for line ends and spaces");
}

BootTime H2Exchange::Deadline() const {
  const BootTime whole = started_ + request_.timeout;
  if (delivery_->finished() || delivery_->paused()) return whole;
  return std::min(whole, last_byte_ + request_.idle_timeout);
}

absl::Status H2Exchange::TimedOut() const {
  const bool whole = setup_->now >= started_ + request_.timeout;
  return status::Error(absl::StatusCode::kDeadlineExceeded, kTimedOut,
                       whole ? absl::StrCat("the API server has not answered within ",
                                            absl::FormatDuration(request_.timeout))
                             : absl::StrCat("nothing came from the API server for ",
                                            absl::FormatDuration(request_.idle_timeout)));
}

size_t H2Exchange::TakeBody(uint8_t* out, size_t size, bool* last) {
  const size_t count = std::min(size, request_.body.size() - body_sent_);
  if (count > 0) std::memcpy(out, request_.body.data() + body_sent_, count);
  body_sent_ += count;
  *last = body_sent_ == request_.body.size();
  return count;
}

bool H2Exchange::TakeHeader(absl::string_view name, absl::string_view value) {
  last_byte_ = setup_->now;
  head_bytes_ += name.size() + value.size();
  if (head_bytes_ > kMostHeadBytes) {
    failure_ = Broken("the head of the response has more than 256 KiB");
    return false;
  }
  // Trailers are for no one.
  if (told_) return true;
  if (name == ":status") {
    head_ = HttpHead();
    if (!absl::SimpleAtoi(value, &head_.status)) head_.status = 0;
  } else {
    head_.headers.push_back({std::string(name), std::string(value)});
  }
  return true;
}

bool H2Exchange::EndHead() {
  constexpr int kLowestInformational = 100;
  last_byte_ = setup_->now;
  if (told_) return true;
  if (head_.status >= kLowestInformational && head_.status < kLowestStatus) return true;
  if (head_.status < kLowestStatus || head_.status > kHighestStatus) {
    failure_ = Broken(absl::StrCat("the API server answered with status ", head_.status));
    return false;
  }
  told_ = true;
  if (head_.status == kUnauthorized && setup_->credentials != nullptr) {
    setup_->credentials->Rejected(credential_);
  }
  delivery_->Head(std::move(head_));
  return true;
}

void H2Exchange::TakeBytes(absl::string_view bytes) {
  last_byte_ = setup_->now;
  taken_ += bytes.size();
  delivery_->Bytes(bytes);
}

size_t H2Exchange::TakeConsumed() {
  const size_t consumed = taken_ - std::min(taken_, delivery_->held());
  taken_ -= consumed;
  return consumed;
}

bool H2Exchange::StartOver() {
  body_sent_ = 0;
  sent = false;
  connection = nullptr;
  stream = 0;
  head_ = HttpHead();
  head_bytes_ = 0;
  return ++attempts_ <= kMostAttempts;
}

HttpRequest H2Exchange::HandOver() {
  request_.timeout -= setup_->now - started_;
  return std::move(request_);
}

}  // namespace capstan::kube
