#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_SHARED_BYTES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_SHARED_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace capstan::scheduler {

class BytePool;

// Bytes that a BytePool holds once for all who have the same, and never changes; gone with the last
// of its handles. A handle takes 8 bytes, what it leads to 16 and a slot of the pool beside the
// bytes. Not after the pool is gone, and on one thread with all other handles of the pool.
class SharedBytes {
 public:
  // Leads to nothing, which no pool made.
  SharedBytes() = default;
  SharedBytes(const SharedBytes& other) : block_(other.block_) {
    if (block_ != nullptr) ++block_->handles;
  }
  SharedBytes(SharedBytes&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  SharedBytes& operator=(SharedBytes other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~SharedBytes() {
    if (block_ != nullptr && --block_->handles == 0) Free();
  }

  // Stays where it is while there is a handle.
  absl::string_view bytes() const {
    return block_ == nullptr ? absl::string_view()
                             : absl::string_view(block_->bytes(), block_->size);
  }
  explicit operator bool() const { return block_ != nullptr; }
  // Of one pool: whether the bytes are the same.
  friend bool operator==(const SharedBytes& a, const SharedBytes& b) {
    return a.block_ == b.block_;
  }

 private:
  friend class BytePool;
  struct Block {
    BytePool* pool;
    uint32_t handles;
    uint32_t size;

    char* bytes() { return reinterpret_cast<char*>(this + 1); }
    const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
  };

  explicit SharedBytes(Block* block) : block_(block) { ++block_->handles; }
  void Free();

  Block* block_ = nullptr;
};

class BytePool {
 public:
  BytePool() = default;
  BytePool(const BytePool&) = delete;
  BytePool& operator=(const BytePool&) = delete;

  // Expected O(size); at most 4 GiB.
  SharedBytes Intern(absl::string_view bytes);
  // Different bytes held.
  size_t size() const { return blocks_.size(); }

 private:
  friend class SharedBytes;
  using Block = SharedBytes::Block;
  static absl::string_view BytesOf(const Block* block) { return {block->bytes(), block->size}; }
  static absl::string_view BytesOf(absl::string_view bytes) { return bytes; }
  struct Hash {
    using is_transparent = void;
    template <typename T>
    size_t operator()(const T& of) const {
      return absl::Hash<absl::string_view>()(BytesOf(of));
    }
  };
  struct Equal {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return BytesOf(a) == BytesOf(b);
    }
  };

  absl::flat_hash_set<Block*, Hash, Equal> blocks_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_SHARED_BYTES_H_
