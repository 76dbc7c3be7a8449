// What every KeyKeeper must do. Include it in a test and instantiate KeyKeeperConformance with a
// factory.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_KEY_KEEPER_CONFORMANCE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_KEY_KEEPER_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "services/credentials/ports/key_keeper.h"

namespace capstan::credentials {

using KeyKeeperFactory = std::function<std::unique_ptr<KeyKeeper>()>;

class KeyKeeperConformance : public testing::TestWithParam<KeyKeeperFactory> {
 protected:
  KeyKeeperConformance() : keeper_(GetParam()()) {}
  std::unique_ptr<KeyKeeper> keeper_;
  const std::string data_key_ = "0123456789abcdef0123456789abcdef";
};

TEST_P(KeyKeeperConformance, UnwrapsWhatItWrapped) {
  const auto wrapped = keeper_->Wrap(data_key_, "ca");
  ASSERT_TRUE(wrapped.ok()) << wrapped.status();
  const auto unwrapped = keeper_->Unwrap(*wrapped, "ca");
  ASSERT_TRUE(unwrapped.ok()) << unwrapped.status();
  EXPECT_EQ(*unwrapped, data_key_);
}

TEST_P(KeyKeeperConformance, WrappingHidesTheKeyAndNeverRepeats) {
  const auto first = keeper_->Wrap(data_key_, "ca");
  const auto second = keeper_->Wrap(data_key_, "ca");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(first->find(data_key_), std::string::npos);
}

TEST_P(KeyKeeperConformance, AnotherContextDoesNotUnwrap) {
  const auto wrapped = keeper_->Wrap(data_key_, "ca");
  ASSERT_TRUE(wrapped.ok());
  EXPECT_EQ(keeper_->Unwrap(*wrapped, "other").status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(KeyKeeperConformance, ChangedBytesDoNotUnwrapAndTheErrorHoldsNoKey) {
  const auto wrapped = keeper_->Wrap(data_key_, "ca");
  ASSERT_TRUE(wrapped.ok());
  for (size_t i = 0; i < wrapped->size(); ++i) {
    std::string changed = *wrapped;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const auto unwrapped = keeper_->Unwrap(changed, "ca");
    EXPECT_EQ(unwrapped.status().code(), absl::StatusCode::kDataLoss) << "byte " << i;
    EXPECT_EQ(unwrapped.status().ToString().find(data_key_), std::string::npos);
  }
  EXPECT_FALSE(keeper_->Unwrap("", "ca").ok());
  EXPECT_FALSE(keeper_->Unwrap(wrapped->substr(0, wrapped->size() - 1), "ca").ok());
}

TEST_P(KeyKeeperConformance, NamesItsKey) { EXPECT_FALSE(keeper_->key_id().empty()); }

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_KEY_KEEPER_CONFORMANCE_H_
