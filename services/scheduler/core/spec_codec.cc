#include "services/scheduler/core/spec_codec.h"

#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace capstan::scheduler {
namespace {

// Shorter ones are left as they are: what is saved is not worth the time.
constexpr size_t kMinSpecBytes = 192;
// More of a dictionary would be looked at in vain, and those who fill samples with it are few.
constexpr size_t kDictionaryBytes = size_t{32} << 10;
constexpr size_t kFirstSamples = 16;
constexpr int kLevel = 3;

}  // namespace

// The text that specs are compared with, as zstd wants it for either way.
struct SpecCodec::Dictionary {
  explicit Dictionary(std::string given)
      : text(std::move(given)),
        compress(ZSTD_createCDict(text.data(), text.size(), kLevel), &ZSTD_freeCDict),
        decompress(ZSTD_createDDict(text.data(), text.size()), &ZSTD_freeDDict) {}

  const std::string text;
  const std::unique_ptr<ZSTD_CDict, size_t (*)(ZSTD_CDict*)> compress;
  const std::unique_ptr<ZSTD_DDict, size_t (*)(ZSTD_DDict*)> decompress;
};

struct SpecCodec::Contexts {
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> compress{ZSTD_createCCtx(),
                                                                    &ZSTD_freeCCtx};
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> decompress{ZSTD_createDCtx(),
                                                                      &ZSTD_freeDCtx};
};

SpecCodec::SpecCodec() : contexts_(std::make_unique<Contexts>()), samples_wanted_(kFirstSamples) {}
SpecCodec::~SpecCodec() = default;

std::string SpecCodec::Encode(absl::string_view spec) {
  std::string encoded;
  if (spec.size() >= kMinSpecBytes && !dictionaries_.empty()) {
    encoded.resize(1 + ZSTD_compressBound(spec.size()));
    encoded[0] = static_cast<char>(dictionaries_.size());
    const size_t size =
        ZSTD_compress_usingCDict(contexts_->compress.get(), encoded.data() + 1, encoded.size() - 1,
                                 spec.data(), spec.size(), dictionaries_.back()->compress.get());
    encoded.resize(ZSTD_isError(size) != 0U ? 0 : 1 + size);
  }
  if (spec.size() >= kMinSpecBytes && (encoded.empty() || encoded.size() > spec.size() / 3)) {
    Learn(spec);
  }
  if (encoded.empty() || encoded.size() > spec.size()) {
    encoded.assign(1, '\0');
    encoded.append(spec.data(), spec.size());
  }
  return encoded;
}

std::string SpecCodec::Decode(absl::string_view encoded) const {
  assert(!encoded.empty());
  const size_t dictionary = static_cast<unsigned char>(encoded[0]);
  encoded.remove_prefix(1);
  if (dictionary == 0) return std::string(encoded);
  std::string spec(ZSTD_getFrameContentSize(encoded.data(), encoded.size()), '\0');
  [[maybe_unused]] const size_t size = ZSTD_decompress_usingDDict(
      contexts_->decompress.get(), spec.data(), spec.size(), encoded.data(), encoded.size(),
      dictionaries_[dictionary - 1]->decompress.get());
  assert(size == spec.size());
  return spec;
}

void SpecCodec::Learn(absl::string_view spec) {
  if (dictionaries_.size() == kMaxDictionaries) return;
  ++sampled_;
  samples_.append(spec.data(), std::min(spec.size(), kDictionaryBytes / 4));
  if (samples_.size() > kDictionaryBytes) samples_.erase(0, samples_.size() - kDictionaryBytes);
  if (sampled_ < samples_wanted_) return;
  std::string text;
  // Half of it stays, for those that it did much for.
  if (!dictionaries_.empty() && samples_.size() > kDictionaryBytes / 2) {
    samples_.erase(0, samples_.size() - kDictionaryBytes / 2);
  }
  if (!dictionaries_.empty()) {
    const std::string& last = dictionaries_.back()->text;
    const size_t kept = std::min(last.size(), kDictionaryBytes - samples_.size());
    text = last.substr(last.size() - kept);
  }
  dictionaries_.push_back(std::make_shared<const Dictionary>(text + samples_));
  samples_.clear();
  sampled_ = 0;
  samples_wanted_ *= 2;
}

}  // namespace capstan::scheduler
