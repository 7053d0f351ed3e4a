#include "bench/measure/bench_folder.h"

#include <filesystem>

namespace lockstep {

std::string bench_folder() {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path installed = (own / LOCKSTEP_SHARE_FROM_LIBEXEC / "bench").lexically_normal();
  return std::filesystem::exists(installed) ? installed.string() : LOCKSTEP_BENCH_DIR;
}

}  // namespace lockstep
