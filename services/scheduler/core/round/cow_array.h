#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_COW_ARRAY_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_COW_ARRAY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace capstan::scheduler::round {

namespace cow_internal {

inline constexpr size_t kLeafBits = 5;
inline constexpr size_t kLeafSize = size_t{1} << kLeafBits;
inline constexpr size_t kBranchBits = 6;
inline constexpr size_t kBranchSize = size_t{1} << kBranchBits;
inline constexpr size_t kRootShift = kLeafBits + kBranchBits;

template <typename T>
struct Leaf {
  uint64_t edit = 0;
  std::array<T, kLeafSize> items{};
};

template <typename T>
struct Branch {
  uint64_t edit = 0;
  std::array<std::shared_ptr<Leaf<T>>, kBranchSize> leaves{};
};

}  // namespace cow_internal

// An immutable version of a CowArray. Cheap to copy; may be read by any thread while the array goes
// on changing.
template <typename T>
class CowView {
 public:
  CowView() = default;

  size_t size() const { return size_; }
  const T& operator[](size_t i) const {
    return root_[i >> cow_internal::kRootShift]
        ->leaves[(i >> cow_internal::kLeafBits) & (cow_internal::kBranchSize - 1)]
        ->items[i & (cow_internal::kLeafSize - 1)];
  }

  // Calls `visit(first, last)` for each range of positions, in order, whose items may differ from
  // those of `older`, an earlier version of the same array. Costs what changed, and a pointer
  // comparison for each 2,048 items.
  template <typename Visit>
  void VisitChanges(const CowView& older, Visit visit) const {
    using namespace cow_internal;  // NOLINT(google-build-using-namespace)
    for (size_t b = 0; b < root_.size(); ++b) {
      const Branch<T>* const old = b < older.root_.size() ? older.root_[b].get() : nullptr;
      if (root_[b].get() == old) continue;
      for (size_t l = 0; l < kBranchSize; ++l) {
        const size_t first = (b << kRootShift) | (l << kLeafBits);
        if (first >= size_) return;
        if (old != nullptr && old->leaves[l] == root_[b]->leaves[l]) continue;
        visit(first, first + kLeafSize < size_ ? first + kLeafSize : size_);
      }
    }
  }

 private:
  template <typename U>
  friend class CowArray;

  size_t size_ = 0;
  uint64_t edit_ = 0;
  std::vector<std::shared_ptr<cow_internal::Branch<T>>> root_;
};

// An array that gives out immutable versions of itself: Freeze() copies one pointer for each 2,048
// items, and the first change of an item after it copies that item's leaf of 32 and branch of 64
// pointers. For one thread; its versions are for any.
template <typename T>
class CowArray {
 public:
  CowArray() = default;
  // Goes on from a version that another array gave out, and shares with it what neither changes.
  explicit CowArray(CowView<T> base) : view_(std::move(base)) { ++view_.edit_; }
  CowArray(const CowArray&) = delete;
  CowArray& operator=(const CowArray&) = delete;

  size_t size() const { return view_.size_; }
  const T& operator[](size_t i) const { return view_[i]; }

  // The item at `i`, to be changed; valid until the next call of anything here.
  T& Mutable(size_t i) {
    using namespace cow_internal;  // NOLINT(google-build-using-namespace)
    std::shared_ptr<Branch<T>>& branch = view_.root_[i >> kRootShift];
    if (branch->edit != view_.edit_) {
      branch = std::make_shared<Branch<T>>(*branch);
      branch->edit = view_.edit_;
    }
    std::shared_ptr<Leaf<T>>& leaf = branch->leaves[(i >> kLeafBits) & (kBranchSize - 1)];
    if (leaf->edit != view_.edit_) {
      leaf = std::make_shared<Leaf<T>>(*leaf);
      leaf->edit = view_.edit_;
    }
    return leaf->items[i & (kLeafSize - 1)];
  }

  void PushBack(T item) {
    using namespace cow_internal;  // NOLINT(google-build-using-namespace)
    const size_t i = view_.size_;
    if ((i >> kRootShift) == view_.root_.size()) {
      view_.root_.push_back(std::make_shared<Branch<T>>());
      view_.root_.back()->edit = view_.edit_;
    }
    std::shared_ptr<Branch<T>>& branch = view_.root_[i >> kRootShift];
    if (branch->edit != view_.edit_) {
      branch = std::make_shared<Branch<T>>(*branch);
      branch->edit = view_.edit_;
    }
    std::shared_ptr<Leaf<T>>& leaf = branch->leaves[(i >> kLeafBits) & (kBranchSize - 1)];
    if (leaf == nullptr) {
      leaf = std::make_shared<Leaf<T>>();
      leaf->edit = view_.edit_;
    }
    ++view_.size_;
    Mutable(i) = std::move(item);
  }

  void PopBack() {
    Mutable(view_.size_ - 1) = T();
    --view_.size_;
  }

  // This version, for good.
  CowView<T> Freeze() {
    CowView<T> frozen = view_;
    // Whatever the version reaches now belongs to an earlier edit and is copied before a change.
    ++view_.edit_;
    return frozen;
  }

 private:
  CowView<T> view_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_COW_ARRAY_H_
