// Step host: what can be known without a computation.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tools/lockstep/doctor/doctor_step.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMib = 1 << 20;
constexpr double kSmallestShmMib = 128;  // NCCL takes some tens of MiB for each pair of devices

double shm_mib() {
  struct statvfs state {};
  if (::statvfs("/dev/shm", &state) != 0) return 0;
  return static_cast<double>(state.f_bavail) * static_cast<double>(state.f_frsize) / kMib;
}

Json limit_of(__rlimit_resource resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return limit.rlim_cur;
}

// The file of the library that the loader has taken: it must be the one that LibTorch was built with.
std::string library_of(const char* function) {
  void* const address = ::dlsym(RTLD_DEFAULT, function);
  Dl_info info{};
  return address != nullptr && ::dladdr(address, &info) != 0 ? info.dli_fname : "none";
}

std::string container() {
  if (std::filesystem::exists("/.dockerenv")) return "docker";
  if (std::filesystem::exists("/run/.containerenv")) return "podman";
  return std::getenv("KUBERNETES_SERVICE_HOST") != nullptr ? "kubernetes" : "no";
}

Json engines_of_build() {
  Json out = Json::object();
  for (const Engine& engine : available_engines()) out[engine.name] = "built";
  for (const MissingEngine& missing : missing_engines())
    out[missing.name] = "not built: " + std::string(missing.reason);
  return out;
}

}  // namespace

StepFigures check_host(const DoctorOptions& options) {
  StepFigures found;
  found.figures = {{"shm_free_mib", shm_mib()},
                   {"locked_memory_bytes", limit_of(RLIMIT_MEMLOCK)},
                   {"open_files", limit_of(RLIMIT_NOFILE)},
                   {"container", container()},
                   {"libcudart", library_of("cudaGetDeviceCount")},
                   {"libnccl", library_of("ncclGetVersion")},
                   {"engines", engines_of_build()}};
  if (const std::string warning = cuda_warning(options.cuda); !warning.empty()) {
    throw Error(warning, "this host", "follow \"Install\" of docs/gpu.md; lockstep env shows all versions");
  }
  if (options.has_devices() && options.cuda.devices.size() > 1 && found.figures["libnccl"] == "none") {
    throw Error(fmt::format("there are {} CUDA devices, but no engine nccl to connect them: {}",
                            options.cuda.devices.size(), found.figures["engines"].value("nccl", "")),
                "this build", "configure again with what is missing (docs/gpu.md, Install)");
  }
  if (shm_mib() < kSmallestShmMib) {
    throw Error(fmt::format("/dev/shm has {:.0f} MiB free: ranks of one host exchange their data there", shm_mib()),
                "this host",
                "start the container with --ipc=host or --shm-size=1g; a pod needs an emptyDir with medium: Memory");
  }
  std::vector<std::string> names;
  for (const Engine& engine : available_engines()) names.emplace_back(engine.name);
  found.line = fmt::format("/dev/shm {:.0f} MiB free, engines {}", shm_mib(), fmt::join(names, ", "));
  return found;
}

}  // namespace lockstep
