#include "libs/rpc/status_conversion.h"

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::rpc {
namespace {

absl::Status Full(absl::StatusCode code) {
  absl::Status status = status::Error(code, "REASON", "message with ünïcode", {{"key", "value"}});
  status = status::WithRetryDelay(std::move(status), absl::Milliseconds(1500));
  status.SetPayload("type.googleapis.com/unknown.Type", absl::Cord(std::string("\0\xff raw", 6)));
  return status;
}

TEST(StatusConversionTest, EveryCodeComesBackWithItsPayloads) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status plain(static_cast<absl::StatusCode>(code), "plain");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(plain)), plain);
    EXPECT_TRUE(ToGrpcStatus(plain).error_details().empty());
    const absl::Status full = Full(static_cast<absl::StatusCode>(code));
    const grpc::Status wire = ToGrpcStatus(full);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_EQ(FromGrpcStatus(wire), full);
    EXPECT_EQ(FromStatusProto(ToStatusProto(full)), full);
  }
}

TEST(StatusConversionTest, OkIsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(FromGrpcStatus(grpc::Status::OK), absl::OkStatus());
  EXPECT_EQ(FromStatusProto(ToStatusProto(absl::OkStatus())), absl::OkStatus());
}

TEST(StatusConversionTest, FieldViolationsComeBack) {
  status::FieldErrors errors;
  errors.Add("job.spec.task_groups[0].replicas", "must be at least 1");
  errors.Add("job.queue", "must be set");
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(errors.ToStatus()));
  EXPECT_EQ(back, errors.ToStatus());
  EXPECT_EQ(status::GetFieldViolations(back), errors.violations());
}

TEST(StatusConversionTest, WhatIsTooLongForTheTrailerIsCut) {
  status::FieldErrors errors;
  for (int i = 0; i < 500; ++i) errors.Add(absl::StrCat("field", i), std::string(100, 'x'));
  absl::Status status = errors.ToStatus();
  const grpc::Status wire = ToGrpcStatus(status);
  EXPECT_LE(wire.error_details().size(), 4096u);
  const absl::Status back = FromGrpcStatus(wire);
  EXPECT_EQ(status::Reason(back), "INVALID_FIELD");
  const auto violations = status::GetFieldViolations(back);
  EXPECT_GT(violations.size(), 10u);
  EXPECT_LT(violations.size(), 100u);
  EXPECT_EQ(violations[0].field, "field0");
}

TEST(StatusConversionTest, LongMessagesAndPayloadsAreCutButNotTheReason) {
  std::string message;
  for (int i = 0; i < 2000; ++i) message += "ü";
  absl::Status status = status::Error(absl::StatusCode::kInternal, "REASON", message);
  status.SetPayload("type.googleapis.com/big.Type", absl::Cord(std::string(100'000, 'x')));
  const grpc::Status wire = ToGrpcStatus(status);
  EXPECT_EQ(wire.error_message().size(), 1024u);
  EXPECT_LE(wire.error_details().size(), 4096u);
  EXPECT_EQ(status::Reason(FromGrpcStatus(wire)), "REASON");
}

TEST(StatusConversionTest, LongWordsOfAnErrorAreCutButNotTheReason) {
  std::map<std::string, std::string> words;
  for (int i = 0; i < 40; ++i) words[absl::StrCat("word", i)] = std::string(5000, 'x');
  const grpc::Status wire =
      ToGrpcStatus(status::Error(absl::StatusCode::kInternal, "REASON", "m", words));
  EXPECT_LE(wire.error_details().size(), 4096u);
  const absl::optional<status::ErrorInfo> info = status::GetErrorInfo(FromGrpcStatus(wire));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "REASON");
  EXPECT_GT(info->metadata.size(), 10u);
  EXPECT_EQ(info->metadata.at("word0"), std::string(256, 'x'));
}

TEST(StatusConversionTest, BytesThatAreNoTextDoNotCostTheReason) {
  const std::string bytes = "a\xff\xc3\xa9\xed\xa0\x80\xf0\x9f\x98";
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(
      status::Error(absl::StatusCode::kInvalidArgument, "REASON", bytes, {{"name", bytes}})));
  EXPECT_EQ(status::Reason(back), "REASON");
  const std::string text = "a\uFFFD\u00e9\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD";
  EXPECT_EQ(back.message(), text);
  EXPECT_EQ(status::GetErrorInfo(back)->metadata["name"], text);
  status::FieldErrors errors;
  errors.Add("file\xff", "is '\xfe'");
  const auto violations =
      status::GetFieldViolations(FromGrpcStatus(ToGrpcStatus(errors.ToStatus())));
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].description, "is '\uFFFD'");
}

// gRPC itself maps a code that it does not know to UNKNOWN before it makes a Status.
TEST(StatusConversionTest, DetailsThatAreNoProtoAreLeftOut) {
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::ABORTED, "x", "not a proto\xff")),
            absl::AbortedError("x"));
}

}  // namespace
}  // namespace capstan::rpc
