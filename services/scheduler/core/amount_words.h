#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_AMOUNT_WORDS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_AMOUNT_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan::scheduler {

// `1.5`, `0.25`: thousandths of a core as cores.
std::string CoresInWords(int64_t millis);
// `256Mi`, `1.5Gi`: bytes with at most two decimals.
std::string BytesInWords(int64_t bytes);
// Either of these, or the number, of that resource.
std::string AmountInWords(absl::string_view resource, int64_t amount);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_AMOUNT_WORDS_H_
