#ifndef CAPSTAN_LIBS_STORE_TESTING_STORED_KEYS_H_
#define CAPSTAN_LIBS_STORE_TESTING_STORED_KEYS_H_

#include <string>
#include <vector>

#include "libs/golden/golden.h"
#include "libs/store/service_records.h"

namespace capstan::store {

// Where a service's records lie: a version of the format is lines `<key> <message>`, sorted, with
// `-` for what is no message. Fails unless the service knows every line of every version, the
// newest is exactly the keys that it writes now, and each kind of its records is among them.
void ExpectStoredKeys(const golden::Format& format, const ServiceRecords& service,
                      const std::vector<std::string>& keys);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_TESTING_STORED_KEYS_H_
