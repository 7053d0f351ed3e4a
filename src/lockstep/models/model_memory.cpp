#include "lockstep/models/model_memory.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr double kGigabyte = 1e9;

// 0 if the kernel does not report it.
double bytes_of_host() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return 0;
  return (static_cast<double>(info.totalram) + static_cast<double>(info.totalswap)) * info.mem_unit;
}

}  // namespace

void require_memory_for(const ParameterCount& count, const std::string& path) {
  const double wanted = count.parameters * sizeof(float);
  const double there = bytes_of_host();
  if (there == 0 || wanted <= there) return;
  throw Error(
      fmt::format("a model of these sizes has {:.3g} parameters, {:.1f} GB, but this host has {:.1f} GB of memory",
                  count.parameters, wanted / kGigabyte, there / kGigabyte),
      fmt::format("{}, fields {}", path, count.fields), "check that the sizes are those of the model's weights");
}

}  // namespace lockstep
