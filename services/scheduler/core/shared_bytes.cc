#include "services/scheduler/core/shared_bytes.h"

#include <cstring>
#include <new>

namespace capstan::scheduler {

SharedBytes BytePool::Intern(absl::string_view bytes) {
  const auto known = blocks_.find(bytes);
  if (known != blocks_.end()) return SharedBytes(*known);
  Block* const block = new (::operator new(sizeof(Block) + bytes.size()))
      Block{this, 0, static_cast<uint32_t>(bytes.size())};
  if (!bytes.empty()) std::memcpy(block->bytes(), bytes.data(), bytes.size());
  blocks_.insert(block);
  return SharedBytes(block);
}

void SharedBytes::Free() {
  block_->pool->blocks_.erase(block_);
  ::operator delete(block_);
}

}  // namespace capstan::scheduler
