#include "libs/config/proto_reader.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "libs/config/spelling.h"
#include "libs/config/testing.pb.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"

namespace capstan::config {
namespace {

using ::testing::ElementsAre;
using testing::Everything;
using ::testing::HasSubstr;

std::string Problems(absl::string_view text) {
  Everything message;
  return std::string(ReadProto(text, "f.yaml", &message).message());
}

constexpr char kYaml[] = R"(# Everything once.
name: 007          # text, not a number
threads: 4
cache: 1.5Gi
cpu: 250m
time_out: 1h30m
start_time: 2026-01-02T15:04:05Z
verbose: true
ratio: 0.5
log_level: debug
peers: [a, "b c"]
children:
  - name: one
    cache_bytes: 10
  - cpuMillis: 2
env: {A: 1, B: "", C: yes}
devices:
  nvidia.com/h100: 8
key: AAEC
file: /tmp/x
port: 8080
seed: 18446744073709551615
levels: [LOG_LEVEL_ERROR, Debug]
gain: 2
)";

TEST(ProtoReaderTest, ReadsEveryKindOfField) {
  Everything message;
  const absl::Status read = ReadProto(kYaml, "f.yaml", &message);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(message.name(), "007");
  EXPECT_EQ(message.threads(), 4);
  EXPECT_EQ(message.cache_bytes(), int64_t{3} << 29);
  EXPECT_EQ(message.cpu_millis(), 250);
  EXPECT_EQ(ToDuration(message.time_out()), absl::Minutes(90));
  EXPECT_EQ(message.start_time().seconds(), 1767366245);
  EXPECT_TRUE(message.verbose());
  EXPECT_EQ(message.ratio(), 0.5);
  EXPECT_EQ(message.log_level(), Everything::LOG_LEVEL_DEBUG);
  EXPECT_THAT(message.peers(), ElementsAre("a", "b c"));
  ASSERT_EQ(message.children_size(), 2);
  EXPECT_EQ(message.children(0).cache_bytes(), 10);
  EXPECT_EQ(message.children(1).cpu_millis(), 2);
  EXPECT_EQ(message.env().at("A"), "1");
  EXPECT_EQ(message.env().at("B"), "");
  EXPECT_EQ(message.env().at("C"), "yes");
  EXPECT_EQ(message.devices().at("nvidia.com/h100"), 8);
  EXPECT_EQ(message.key(), std::string("\0\1\2", 3));
  EXPECT_EQ(message.file(), "/tmp/x");
  EXPECT_EQ(message.port(), 8080u);
  EXPECT_EQ(message.seed(), 18446744073709551615u);
  EXPECT_THAT(message.levels(),
              ElementsAre(Everything::LOG_LEVEL_ERROR, Everything::LOG_LEVEL_DEBUG));
  EXPECT_EQ(message.gain(), 2);
}

TEST(ProtoReaderTest, JsonReadsTheSame) {
  Everything yaml;
  Everything json;
  ASSERT_TRUE(ReadProto("name: a\nchildren: [{threads: 3}]\nenv: {K: v}\n", "f", &yaml).ok());
  const absl::Status read = ReadProto(
      "{\"name\": \"a\",\n\t\"children\": [{\"threads\": 3}],\n \"env\": {\"K\": \"v\"}}\n", "f",
      &json);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(yaml, json));
}

TEST(ProtoReaderTest, AnEmptyFileIsAnEmptyMessage) {
  for (const char* text : {"", "# nothing\n", "---\n", "{}", "~"}) {
    EXPECT_EQ(Problems(text), "") << text;
  }
}

TEST(ProtoReaderTest, EveryProblemHasLineColumnAndPath) {
  EXPECT_EQ(Problems("name: a\nchildren:\n  - thread: 1\n"),
            "f.yaml:3:5: children[0].thread: unknown field; did you mean 'threads'?");
  EXPECT_EQ(Problems("cpuu: 1\n"), "f.yaml:1:1: cpuu: unknown field; did you mean 'cpu'?");
  EXPECT_EQ(Problems("zzzzzzzz: 1\n"), "f.yaml:1:1: zzzzzzzz: unknown field");
  EXPECT_EQ(Problems("threads: many\n"),
            "f.yaml:1:10: threads: expected a whole number, found 'many'");
  EXPECT_EQ(Problems("threads: \"4\"\n"),
            "f.yaml:1:10: threads: expected a whole number, found '4'");
  EXPECT_EQ(Problems("threads: 3000000000\n"),
            "f.yaml:1:10: threads: expected a whole number, found '3000000000'");
  EXPECT_THAT(Problems("cache: 4Gib\n"), HasSubstr("f.yaml:1:8: cache_bytes: '4Gib' has the"));
  EXPECT_THAT(Problems("cpu: 1u\n"), HasSubstr("cpu_millis: '1u' is not a whole number of"));
  EXPECT_THAT(Problems("time_out: 30\n"), HasSubstr("f.yaml:1:11: time_out: '30' is not a dur"));
  EXPECT_EQ(Problems("name:\n"), "f.yaml:1:1: name: expected text, found nothing");
  EXPECT_EQ(Problems("peers: a\n"), "f.yaml:1:8: peers: expected a list, found a single value");
  EXPECT_EQ(Problems("children: [a]\n"),
            "f.yaml:1:12: children[0]: expected a mapping, found a single value");
  EXPECT_EQ(Problems("log_level: eror\n"),
            "f.yaml:1:12: log_level: 'eror' is no LogLevel; did you mean 'ERROR'?");
  EXPECT_EQ(Problems("verbose: yes\n"),
            "f.yaml:1:10: verbose: expected true or false, found 'yes'");
  EXPECT_EQ(Problems("file: a\nsocket: b\n"),
            "f.yaml:2:1: socket: only one kind of sink can be given");
  EXPECT_EQ(Problems("cpu: 1\ncpu_millis: 5\n"), "f.yaml:2:1: cpu_millis: is given twice");
  EXPECT_EQ(Problems("- a\n"), "f.yaml:1:1: expected a mapping, found a list");
  EXPECT_EQ(Problems("env:\n  A: [1]\n"), "f.yaml:2:6: env[\"A\"]: expected text, found a list");
}

TEST(ProtoReaderTest, SyntaxProblemsHaveAPlaceToo) {
  EXPECT_THAT(Problems("name: [a\n"), HasSubstr("f.yaml:"));
  EXPECT_EQ(Problems("name: a\nname: b\n"), "f.yaml:2:1: 'name' is given twice");
  EXPECT_THAT(Problems("a: &x b\nc: *x\n"), HasSubstr("f.yaml:1:4: anchors"));
  EXPECT_THAT(Problems("name: !!str a\n"), HasSubstr("tags (!name) are not supported"));
  EXPECT_EQ(Problems("name: a\n---\nname: b\n"), "f.yaml:1:1: holds more than one document");
  EXPECT_EQ(Problems("name: a\nx\xff: 1\n"), "f.yaml:2:2: not UTF-8 text");
  EXPECT_EQ(Problems(std::string("name: \0", 7)), "f.yaml:1:7: not UTF-8 text");
  EXPECT_THAT(Problems(std::string(1000, '[')), HasSubstr("f.yaml:1:"));
  EXPECT_THAT(Problems(std::string((1 << 20) + 1, ' ')), HasSubstr("longer than 1 MiB"));
}

TEST(ProtoReaderTest, AllProblemsAreFoundInOneGo) {
  Everything message;
  const absl::Status status = ReadProto("threads: x\nport: -1\nratio: y\n", "f.yaml", &message);
  EXPECT_EQ(status::GetFieldViolations(status).size(), 3u);
  EXPECT_EQ(status::Reason(status), "INVALID_FILE");
  std::string many;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&many, "unknown_", i, ": 1\n");
  EXPECT_THAT(Problems(many), HasSubstr("and 10 more"));
}

TEST(ProtoReaderTest, TheSourceMapKnowsWhereFieldsWere) {
  Everything message;
  SourceMap map;
  ASSERT_TRUE(ReadProto("children:\n  - name: x\n    cpu: 1\n", "f", &message, &map).ok());
  EXPECT_EQ(map.at("children[0].name"), (Mark{2, 11}));
  EXPECT_EQ(map.at("children[0].cpu_millis"), (Mark{3, 10}));
}

TEST(ProtoReaderTest, AMissingFileIsNamed) {
  Everything message;
  const absl::Status status = ReadProtoFile("/nonexistent/f.yaml", &message);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/f.yaml"));
}

TEST(SpellingTest, NearestWord) {
  EXPECT_EQ(NearestWord("replcas", {"replicas", "name"}), "replicas");
  EXPECT_EQ(NearestWord("enviroment", {"env", "environment"}), "environment");
  EXPECT_EQ(NearestWord("ofo", {"bar", "foo"}), "foo");
  EXPECT_EQ(NearestWord("nmae", {"name"}), "name");
  EXPECT_EQ(NearestWord("xyz", {"name"}), "");
}

}  // namespace
}  // namespace capstan::config
