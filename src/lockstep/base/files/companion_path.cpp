#include "lockstep/base/files/companion_path.h"

#include <filesystem>

namespace lockstep {

std::string companion_path(const std::string& name) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& folder : {own, own / LOCKSTEP_LIBEXEC_FROM_BIN, own / LOCKSTEP_BIN_FROM_LIBEXEC}) {
    const std::filesystem::path path = (folder / name).lexically_normal();
    if (std::filesystem::exists(path)) return path.string();
  }
  return (own / name).string();
}

}  // namespace lockstep
