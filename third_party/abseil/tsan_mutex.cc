// Tells ThreadSanitizer about absl::Mutex and its relatives, and about the holders of an
// absl::Status.
//
// Debian's abseil is not instrumented, so that the sanitizer takes every datum behind an
// absl::Mutex for racy. The functions below stand in front of those of the shared library (a
// program's own symbols win), say what the lock orders, and call the real ones. Linked into tests
// of the tsan configuration only.
//
// Conditions are evaluated by whichever thread unlocks, inside the real Unlock, when its release
// has been announced already. It holds the lock while it does so, hence those reads are left out.

#include <dlfcn.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

extern "C" {
void __tsan_acquire(void* addr);                             // NOLINT
void __tsan_release(void* addr);                             // NOLINT
void AnnotateIgnoreReadsBegin(const char* file, int line);   // NOLINT
void AnnotateIgnoreReadsEnd(const char* file, int line);     // NOLINT
void AnnotateIgnoreWritesBegin(const char* file, int line);  // NOLINT
void AnnotateIgnoreWritesEnd(const char* file, int line);    // NOLINT
}

namespace {

void Acquire(const void* addr) { __tsan_acquire(const_cast<void*>(addr)); }
void Release(const void* addr) { __tsan_release(const_cast<void*>(addr)); }

template <typename Function>
Function Real(const char* mangled) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, mangled));
}

// The call of a member function through its symbol: `this` comes first in the Itanium ABI.
#define REAL(result, mangled, ...) \
  static const auto real = Real<result (*)(__VA_ARGS__)>("_ZN" mangled)
#define REAL_CONST(result, mangled, ...) \
  static const auto real = Real<result (*)(__VA_ARGS__)>("_ZNK" mangled)

// The library's own search for deadlocks guards its graph with a lock that is not announced here,
// and moves memory by functions that the sanitizer watches. The sanitizer searches itself.
[[maybe_unused]] const bool kSearchIsOff = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  REAL(void, "4absl7debian35Mutex4LockEv", Mutex*);
  real(this);
  Acquire(this);
}

bool Mutex::TryLock() {
  REAL(bool, "4absl7debian35Mutex7TryLockEv", Mutex*);
  const bool locked = real(this);
  if (locked) Acquire(this);
  return locked;
}

void Mutex::Unlock() {
  REAL(void, "4absl7debian35Mutex6UnlockEv", Mutex*);
  Release(this);
  real(this);
}

void Mutex::ReaderLock() {
  REAL(void, "4absl7debian35Mutex10ReaderLockEv", Mutex*);
  real(this);
  Acquire(this);
}

bool Mutex::ReaderTryLock() {
  REAL(bool, "4absl7debian35Mutex13ReaderTryLockEv", Mutex*);
  const bool locked = real(this);
  if (locked) Acquire(this);
  return locked;
}

void Mutex::ReaderUnlock() {
  REAL(void, "4absl7debian35Mutex12ReaderUnlockEv", Mutex*);
  Release(this);
  real(this);
}

void Mutex::LockWhen(const Condition& cond) {
  REAL(void, "4absl7debian35Mutex8LockWhenERKNS0_9ConditionE", Mutex*, const Condition&);
  real(this, cond);
  Acquire(this);
}

bool Mutex::LockWhenWithTimeout(const Condition& cond, absl::Duration timeout) {
  REAL(bool, "4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE", Mutex*,
       const Condition&, absl::Duration);
  const bool met = real(this, cond, timeout);
  Acquire(this);
  return met;
}

bool Mutex::LockWhenWithDeadline(const Condition& cond, absl::Time deadline) {
  REAL(bool, "4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE", Mutex*,
       const Condition&, absl::Time);
  const bool met = real(this, cond, deadline);
  Acquire(this);
  return met;
}

void Mutex::ReaderLockWhen(const Condition& cond) {
  REAL(void, "4absl7debian35Mutex14ReaderLockWhenERKNS0_9ConditionE", Mutex*, const Condition&);
  real(this, cond);
  Acquire(this);
}

bool Mutex::ReaderLockWhenWithTimeout(const Condition& cond, absl::Duration timeout) {
  REAL(bool, "4absl7debian35Mutex25ReaderLockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE",
       Mutex*, const Condition&, absl::Duration);
  const bool met = real(this, cond, timeout);
  Acquire(this);
  return met;
}

bool Mutex::ReaderLockWhenWithDeadline(const Condition& cond, absl::Time deadline) {
  REAL(bool, "4absl7debian35Mutex26ReaderLockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE", Mutex*,
       const Condition&, absl::Time);
  const bool met = real(this, cond, deadline);
  Acquire(this);
  return met;
}

void Mutex::Await(const Condition& cond) {
  REAL(void, "4absl7debian35Mutex5AwaitERKNS0_9ConditionE", Mutex*, const Condition&);
  Release(this);
  real(this, cond);
  Acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& cond, absl::Duration timeout) {
  REAL(bool, "4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE", Mutex*,
       const Condition&, absl::Duration);
  Release(this);
  const bool met = real(this, cond, timeout);
  Acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& cond, absl::Time deadline) {
  REAL(bool, "4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE", Mutex*,
       const Condition&, absl::Time);
  Release(this);
  const bool met = real(this, cond, deadline);
  Acquire(this);
  return met;
}

void CondVar::Wait(Mutex* mu) {
  REAL(void, "4absl7debian37CondVar4WaitEPNS0_5MutexE", CondVar*, Mutex*);
  Release(mu);
  real(this, mu);
  Acquire(mu);
}

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  REAL(bool, "4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE", CondVar*, Mutex*,
       absl::Duration);
  Release(mu);
  const bool timed_out = real(this, mu, timeout);
  Acquire(mu);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mu, absl::Time deadline) {
  REAL(bool, "4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE", CondVar*, Mutex*,
       absl::Time);
  Release(mu);
  const bool timed_out = real(this, mu, deadline);
  Acquire(mu);
  return timed_out;
}

bool Condition::Eval() const {
  REAL_CONST(bool, "4absl7debian39Condition4EvalEv", const Condition*);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  const bool met = real(this);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  return met;
}

// On the flag itself, so that the inline HasBeenNotified, an instrumented load, sees it too.
void Notification::Notify() {
  REAL(void, "4absl7debian312Notification6NotifyEv", Notification*);
  Release(&notified_yet_);
  real(this);
}

void Notification::WaitForNotification() const {
  REAL_CONST(void, "4absl7debian312Notification19WaitForNotificationEv", const Notification*);
  real(this);
  Acquire(&notified_yet_);
}

bool Notification::WaitForNotificationWithTimeout(absl::Duration timeout) const {
  REAL_CONST(bool, "4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE",
             const Notification*, absl::Duration);
  const bool notified = real(this, timeout);
  if (notified) Acquire(&notified_yet_);
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(absl::Time deadline) const {
  REAL_CONST(bool, "4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE",
             const Notification*, absl::Time);
  const bool notified = real(this, deadline);
  if (notified) Acquire(&notified_yet_);
  return notified;
}

bool BlockingCounter::DecrementCount() {
  REAL(bool, "4absl7debian315BlockingCounter14DecrementCountEv", BlockingCounter*);
  Release(this);
  return real(this);
}

void BlockingCounter::Wait() {
  REAL(void, "4absl7debian315BlockingCounter4WaitEv", BlockingCounter*);
  real(this);
  Acquire(this);
}

// A Status counts its holders inside the library, where the sanitizer does not see the order that
// the count makes: the last holder's freeing would look like a race with another holder's reading.
void Status::UnrefNonInlined(std::uintptr_t rep) {
  REAL(void, "4absl7debian36Status15UnrefNonInlinedEm", std::uintptr_t);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  real(rep);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

ABSL_NAMESPACE_END
}  // namespace absl
