#include "libs/kube/watch/decoder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::kube::watch {
namespace {

std::string Field(int number, absl::string_view bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (size_t size = bytes.size(); true; size >>= 7) {
    if (size < 128) {
      out.push_back(static_cast<char>(size));
      break;
    }
    out.push_back(static_cast<char>((size & 127) | 128));
  }
  return absl::StrCat(out, bytes);
}

std::string Framed(absl::string_view type, absl::string_view object) {
  const std::string unknown =
      absl::StrCat(Field(1, Field(1, "v1") + Field(2, "Pod")), Field(2, object));
  const std::string body = absl::StrCat(
      Field(1, type), Field(2, Field(1, absl::StrCat(std::string("k8s\0", 4), unknown))));
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(body.size() >> shift));
  return absl::StrCat(out, body);
}

// One line for each event, and the error at the end if there is one.
template <typename AnyDecoder>
std::vector<std::string> Decode(absl::string_view bytes, size_t piece,
                                size_t max = kDefaultMaxEventBytes) {
  AnyDecoder decoder(max);
  std::vector<std::string> out;
  while (true) {
    auto event = decoder.Next();
    if (!event.ok()) {
      out.push_back(status::Reason(event.status()));
      return out;
    }
    if (event->has_value()) {
      const Event& e = **event;
      out.push_back(absl::StrCat(static_cast<int>(e.type), "|", e.object, "|", e.kind, "|",
                                 e.resource_version, "|", e.initial_events_end, "|", e.status.code,
                                 "|", e.status.reason));
      continue;
    }
    if (bytes.empty()) break;
    const absl::string_view chunk = bytes.substr(0, piece);
    decoder.Append(chunk);
    bytes.remove_prefix(chunk.size());
  }
  const absl::Status end = decoder.Finish();
  if (!end.ok()) out.push_back(status::Reason(end));
  return out;
}

TEST(JsonDecoderTest, AnyPiecesGiveTheSameEvents) {
  const std::string stream =
      "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\\\"{\",\"b\":[{}]}}\n"
      "\r\n"
      "{ \"object\" : {} , \"more\":[1,2], \"type\" : \"DELETED\" }\r\n"
      "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":"
      "\"12\","
      "\"creationTimestamp\":null,\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"
      "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n";
  const std::vector<std::string> expected = {"0|{\"a\":\"}\\\"{\",\"b\":[{}]}|||0|0|",
                                             "2|{}|||0|0|", "3|||12|1|0|", "4||||0|410|Expired"};
  for (size_t piece = 1; piece < 60; ++piece) {
    EXPECT_EQ(Decode<JsonDecoder>(stream, piece), expected) << piece;
  }
}

TEST(JsonDecoderTest, KeepsTheDelayThatTheServerAsksFor) {
  JsonDecoder decoder;
  decoder.Append(
      "{\"type\":\"ERROR\",\"object\":{\"code\":429,\"message\":\"wait\","
      "\"details\":{\"retryAfterSeconds\":3}}}\n");
  const auto event = decoder.Next();
  ASSERT_TRUE(event.ok() && event->has_value());
  EXPECT_EQ((*event)->status.retry_after, absl::Seconds(3));
  EXPECT_EQ((*event)->status.message, "wait");
}

TEST(JsonDecoderTest, RefusesWhatIsNoEvent) {
  for (const char* line :
       {"[]", "{}", "{\"type\":\"ADDED\"}", "{\"type\":\"ADDED\",\"object\":7}",
        "{\"type\":\"OTHER\",\"object\":{}}", "{\"type\":\"ADDED\",\"object\":{}}{}",
        "{\"type\":\"ADDED\",\"type\":\"ADDED\",\"object\":{}}", "{\"type\":\"ADDED\",\"object\":{",
        "{\"type\":\"BOOKMARK\",\"object\":{}}", "{\"type\":\"ADDED\",\"object\":{},}"}) {
    EXPECT_EQ(Decode<JsonDecoder>(absl::StrCat(line, "\n"), 7),
              std::vector<std::string>{"WATCH_EVENT_MALFORMED"})
        << line;
  }
}

TEST(JsonDecoderTest, SaysThatAStreamIsTornAndThatAnEventIsTooLarge) {
  EXPECT_EQ(Decode<JsonDecoder>("{\"type\":", 3), std::vector<std::string>{"WATCH_EVENT_TORN"});
  EXPECT_EQ(Decode<JsonDecoder>(std::string(300, 'x'), 10, 100),
            std::vector<std::string>{"WATCH_EVENT_TOO_LARGE"});
}

TEST(ProtobufDecoderTest, AnyPiecesGiveTheSameEvents) {
  const std::string metadata = absl::StrCat(
      Field(6, "12"), Field(12, Field(1, "k8s.io/initial-events-end") + Field(2, "true")));
  const std::string stream =
      absl::StrCat(Framed("ADDED", std::string(300, 'x')), Framed("BOOKMARK", Field(1, metadata)),
                   Framed("ERROR", absl::StrCat(Field(4, "Expired"), "\x30\x9a\x03")));
  const std::vector<std::string> expected = {
      absl::StrCat("0|", std::string(300, 'x'), "|Pod||0|0|"), "3||Pod|12|1|0|",
      "4||Pod||0|410|Expired"};
  for (size_t piece = 1; piece < 60; ++piece) {
    EXPECT_EQ(Decode<ProtobufDecoder>(stream, piece), expected) << piece;
  }
}

TEST(ProtobufDecoderTest, RefusesWhatIsNoEvent) {
  EXPECT_EQ(Decode<ProtobufDecoder>(absl::string_view("\0\0\0\1\x0a", 5), 2),
            std::vector<std::string>{"WATCH_EVENT_MALFORMED"});
  EXPECT_EQ(Decode<ProtobufDecoder>(absl::string_view("\0\0\0\0", 4), 2),
            std::vector<std::string>{"WATCH_EVENT_MALFORMED"});
  std::string no_magic = Framed("ADDED", "x");
  no_magic.replace(no_magic.find("k8s"), 3, "abc");
  EXPECT_EQ(Decode<ProtobufDecoder>(no_magic, 5),
            std::vector<std::string>{"WATCH_EVENT_MALFORMED"});
  EXPECT_EQ(Decode<ProtobufDecoder>("\x7f\xff\xff\xff", 1),
            std::vector<std::string>{"WATCH_EVENT_TOO_LARGE"});
  const std::string whole = Framed("ADDED", "x");
  EXPECT_EQ(Decode<ProtobufDecoder>(whole.substr(0, whole.size() - 1), 5),
            std::vector<std::string>{"WATCH_EVENT_TORN"});
}

}  // namespace
}  // namespace capstan::kube::watch
