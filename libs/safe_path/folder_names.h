#ifndef CAPSTAN_LIBS_SAFE_PATH_FOLDER_NAMES_H_
#define CAPSTAN_LIBS_SAFE_PATH_FOLDER_NAMES_H_

#include <string>
#include <vector>

namespace capstan {

// The names in a folder of our own, sorted, without `.` and `..`; empty if it cannot be read, for
// instance since it is gone. Follows links: where strangers may write, use SafeRoot.
std::vector<std::string> FolderNames(const std::string& path);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_SAFE_PATH_FOLDER_NAMES_H_
