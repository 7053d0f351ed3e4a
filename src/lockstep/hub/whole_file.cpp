#include "lockstep/hub/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

WholeFile::WholeFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    throw Error("cannot open a file: " + errno_text(errno), path, "check the path and its permissions");
  }
  if (status.st_size == 0) return;
  map_ = std::make_unique<MappedFile>(std::move(fd), static_cast<std::size_t>(status.st_size),
                                      MappedFile::Access::ReadOnly, path);
  map_->expect_sequence(true);
}

std::string_view WholeFile::view() const {
  if (!map_) return {};
  map_->require_whole();
  return {map_->data(), map_->size()};
}

}  // namespace lockstep
