#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/random/random.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::fuzzing {
namespace {

using capstan::type::v1::SessionDown;

std::vector<uint8_t> Noise(uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> bytes(400);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
  return bytes;
}

TEST(FuzzInput, GivesNothingButZerosAtItsEnd) {
  const uint8_t bytes[] = {7, 3};
  FuzzInput input(bytes, 2);
  EXPECT_EQ(input.Byte(), 7);
  EXPECT_EQ(input.Below(2), 1u);
  EXPECT_TRUE(input.empty());
  EXPECT_EQ(input.Byte(), 0);
  EXPECT_EQ(input.Below(0), 0u);
  EXPECT_EQ(input.Bytes(9), "");
  EXPECT_EQ(input.Word({"a", "b"}), "a");
}

TEST(FuzzMessage, EqualBytesMakeEqualMessagesThatCanBeSent) {
  int with_tasks = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const std::vector<uint8_t> bytes = Noise(seed);
    FuzzInput input(bytes.data(), bytes.size());
    FuzzInput again(bytes.data(), bytes.size());
    const auto message = MakeMessage<SessionDown>({"n1", "job"}, &input);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
        MakeMessage<SessionDown>({"n1", "job"}, &again), message));
    // Strings that are not UTF-8 would be refused here.
    SessionDown received;
    ASSERT_TRUE(received.ParseFromString(message.SerializeAsString())) << seed;
    for (const auto& task : received.desired().tasks()) {
      with_tasks += task.key().job_uid() == "job" ? 1 : 0;
    }
  }
  // It comes to what lies deep, and the words are used.
  EXPECT_GT(with_tasks, 3);
}

}  // namespace
}  // namespace capstan::fuzzing
