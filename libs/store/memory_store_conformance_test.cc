#include <memory>

#include "libs/store/conformance.h"
#include "libs/store/conformance_concurrency.h"
#include "libs/store/conformance_watch.h"
#include "libs/store/memory_store.h"

namespace capstan::store {
namespace {

class MemoryDisk final : public StoreDisk {
 public:
  std::unique_ptr<Store> Open(PumpedStrand* strand) override {
    return std::make_unique<MemoryStore>(strand, image_);
  }

 private:
  const std::shared_ptr<MemoryImage> image_ = std::make_shared<MemoryImage>();
};

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformanceTest,
                         testing::Values([] { return std::make_unique<MemoryDisk>(); }));

}  // namespace
}  // namespace capstan::store
