#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_SPEC_CODEC_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_SPEC_CODEC_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::scheduler {

// Makes specs that resemble others small, and gives them back exactly. It learns from those that
// come: what it makes of a spec changes with time, what it gives back for it does not. Equal specs
// that come one after the other are made the same of, but for when it learns in between. Pure; for
// one thread.
class SpecCodec {
 public:
  SpecCodec();
  ~SpecCodec();
  SpecCodec(const SpecCodec&) = delete;
  SpecCodec& operator=(const SpecCodec&) = delete;

  // Never more than a byte longer than `spec`.
  std::string Encode(absl::string_view spec);
  // Of what Encode of this codec gave.
  std::string Decode(absl::string_view encoded) const;

  // Decodes from here on what `other` encoded until now. Of one that has encoded nothing.
  void LearnFrom(const SpecCodec& other) { dictionaries_ = other.dictionaries_; }

  // At most kMaxDictionaries, each of about 100 KiB.
  size_t dictionaries() const { return dictionaries_.size(); }

 private:
  // The first byte of what is encoded: 0 for one that is as it was, else of the dictionary, from 1.
  static constexpr size_t kMaxDictionaries = 32;
  struct Dictionary;
  struct Contexts;

  // Keeps a spec that the newest dictionary did little for; from enough of them a new one is made.
  void Learn(absl::string_view spec);

  const std::unique_ptr<Contexts> contexts_;
  // Shared with those that have learned from this one, on any thread.
  std::vector<std::shared_ptr<const Dictionary>> dictionaries_;
  std::string samples_;
  size_t sampled_ = 0;
  // Doubles each time, so that what cannot be made small is not tried for ever.
  size_t samples_wanted_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_SPEC_CODEC_H_
