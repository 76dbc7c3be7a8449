#ifndef CAPSTAN_LIBS_SAFE_PATH_FOLD_H_
#define CAPSTAN_LIBS_SAFE_PATH_FOLD_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// A form of a UTF-8 path in which names that some file system takes for one are equal: Unicode case
// folding with compatibility decomposition, without the code points that are invisible. Only for
// comparison; never a name to store under.
std::string FoldPath(absl::string_view path);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_SAFE_PATH_FOLD_H_
