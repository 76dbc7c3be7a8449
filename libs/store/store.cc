#include "libs/store/store.h"

namespace capstan::store {

std::string PrefixEnd(const std::string& prefix) {
  std::string end = prefix;
  while (!end.empty()) {
    const auto last = static_cast<unsigned char>(end.back());
    if (last != 0xff) {
      end.back() = static_cast<char>(last + 1);
      return end;
    }
    end.pop_back();
  }
  // No key begins with 0xff, so this is past them all.
  return "\xff";
}

}  // namespace capstan::store
