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

// Of a call that the server has never looked at: a server that refuses all has to be told of.
constexpr int kMostAttempts = 4;
constexpr int kUnauthorized = 401;

}  // namespace

H2Exchange::H2Exchange(const H2Setup* setup, uint64_t id, HttpRequest request,
                       std::shared_ptr<Delivery> delivery, BootTime started)
    : setup_(setup),
      id_(id),
      request_(std::move(request)),
      delivery_(std::move(delivery)),
      deadline_(request_, started) {
  // A response to it has none either.
  if (request_.method == "HEAD") request_.body.clear();
}

absl::Status H2Exchange::SetCredential(Credential credential) {
  credential_ = std::move(credential);
  return CheckBearerToken(credential_.bearer_token);
}

size_t H2Exchange::TakeBody(uint8_t* out, size_t size, bool* last) {
  const size_t count = std::min(size, request_.body.size() - body_sent_);
  if (count > 0) std::memcpy(out, request_.body.data() + body_sent_, count);
  body_sent_ += count;
  *last = body_sent_ == request_.body.size();
  return count;
}

bool H2Exchange::TakeHeader(absl::string_view name, absl::string_view value) {
  deadline_.Extend(setup_->now);
  failure_ = head_.Count(name.size() + value.size());
  if (!failure_.ok()) return false;
  // Trailers are for no one.
  if (told_) return true;
  if (name == ":status") {
    head_.Begin(value);
  } else {
    head_.Add(name, value);
  }
  return true;
}

bool H2Exchange::EndHead() {
  deadline_.Extend(setup_->now);
  if (told_) return true;
  const absl::StatusOr<bool> whole = head_.End();
  failure_ = whole.status();
  if (!whole.ok() || !*whole) return whole.ok();
  told_ = true;
  if (head_.head().status == kUnauthorized && setup_->credentials != nullptr) {
    setup_->credentials->Rejected(credential_);
  }
  delivery_->Head(std::move(head_.head()));
  return true;
}

void H2Exchange::TakeBytes(absl::string_view bytes) {
  deadline_.Extend(setup_->now);
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
  head_ = ResponseHead();
  return ++attempts_ <= kMostAttempts;
}

HttpRequest H2Exchange::HandOver() {
  request_.timeout = deadline_.Left(setup_->now);
  return std::move(request_);
}

}  // namespace capstan::kube
