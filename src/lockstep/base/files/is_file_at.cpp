#include "lockstep/base/files/is_file_at.h"

#include <sys/stat.h>

namespace lockstep {

bool is_file_at(int fd, const std::string& path) {
  struct stat opened {};
  struct stat there {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &there) == 0 && opened.st_ino == there.st_ino &&
         opened.st_dev == there.st_dev;
}

}  // namespace lockstep
