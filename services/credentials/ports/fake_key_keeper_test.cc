#include "services/credentials/ports/fake_key_keeper.h"

#include <memory>

#include "services/credentials/ports/key_keeper_conformance.h"

namespace capstan::credentials {
namespace {

INSTANTIATE_TEST_SUITE_P(Fake, KeyKeeperConformance, testing::Values(KeyKeeperFactory([] {
                           return std::make_unique<FakeKeyKeeper>();
                         })));

}  // namespace
}  // namespace capstan::credentials
