// `lockstep env`: shows this installation, and the hardware that ranks would use.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <sys/utsname.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/base/processor/blas.h"
#include "lockstep/base/processor/processor_name.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/comm/factory.h"
#include "lockstep/start/amx.h"
#include "lockstep/start/kernel_choice.h"
#include "lockstep/start/process_threads.h"
#include "lockstep/start/start_variables.h"
#include "lockstep/version.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/devices/cuda_facts.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

// Value of the first line of `file` that starts with `key`, after the colon.
std::string proc_field(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "unknown";
}

std::string kernel() {
  utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {}", name.sysname, name.release) : "unknown";
}

Json versions() { return {{"lockstep", LOCKSTEP_VERSION}, {"libtorch", TORCH_VERSION}, {"compiler", compiler()}}; }

// A variable of a library below LibTorch, and whether Lockstep set it.
std::string with_origin(const char* name) {
  const auto value = env_string(name);
  if (!value) return "unset";
  return *value + (is_users_choice(name) ? "" : ", set by Lockstep");
}

Json threads() {
  Json out{{"torch", at::get_num_threads()},
           {"torch_inter_op", at::get_num_interop_threads()},
           {"ranks_on_this_host", ranks_on_host()}};
  for (const char* name :
       {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    out[name] = with_origin(name);
  }
  return out;
}

Json heap() {
  Json out = Json::object();
  for (const char* name : {"LOCKSTEP_MALLOC", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    out[name] = with_origin(name);
  }
  return out;
}

std::string kernels_chosen_by() {
  const std::string who = chosen_by("OPENBLAS_CORETYPE");
  if (who == "user") return "the user, by OPENBLAS_CORETYPE";
  if (who == "lockstep") return "Lockstep, by OPENBLAS_CORETYPE: OpenBLAS may not know this processor";
  return "OpenBLAS, by the processor's model";
}

Json blas() {
  const BlasLibrary library = loaded_blas();
  Json out{{"name", library.name},
           {"path", library.path},
           {"description", library.description},
           {"threads", library.num_threads},
           {"OPENBLAS_CORETYPE", with_origin("OPENBLAS_CORETYPE")}};
  const std::string kernels = blas_kernels();
  if (kernels.empty()) return out;
  out["kernels"] = kernels;
  out["kernels_chosen_by"] = kernels_chosen_by();
  return out;
}

std::string amx() {
  switch (amx_of_processor()) {
    case Amx::Absent:
      return "not offered";
    case Amx::Described:
      return "offered, tiles described";
    case Amx::Undescribed:
      break;
  }
  return "offered, tiles not described (CPUID leaf 1Dh): a product in bf16 that uses them ends with SIGILL";
}

// Products in bf16.
Json onednn() {
  Json out{{"amx", amx()}};
  for (const char* name : kOnednnVariables) out[name] = with_origin(name);
  return out;
}

Json engines() {
  Json out = Json::object();
  for (const Engine& engine : available_engines()) out[engine.name] = engine.description;
  for (const MissingEngine& missing : missing_engines())
    out[missing.name] = std::string("not built: ") + missing.reason;
  return out;
}

Json host() {
  return {{"name", host_name()},
          {"kernel", kernel()},
          {"cpu", processor_name()},
          {"vectors", widest_vectors().empty() ? "older than AVX2, or another kind of processor" : widest_vectors()},
          {"cores", available_cores()},
          {"memory", proc_field("/proc/meminfo", "MemTotal")},
          {"cuda_devices", static_cast<int>(torch::cuda::device_count())}};
}

Json warnings(const CudaFacts& cuda) {
  Json out = Json::array();
  if (const std::string warning = cuda_warning(cuda); !warning.empty()) out.push_back(warning);
  if (loaded_blas().is_reference()) {
    out.push_back(
        "the reference BLAS is loaded: matrix products are many times slower than they could be. "
        "Install libopenblas0-pthread (apt-get install libopenblas0-pthread)");
  }
  const int factor = slowdown_of(blas_kernels(), widest_vectors());
  if (factor > 1) {
    out.push_back(
        fmt::format("OpenBLAS uses its {} kernels on a processor that has {}: matrix products take up to {} times as "
                    "long as they need to. Kernels chosen by: {}",
                    blas_kernels(), widest_vectors(), factor, kernels_chosen_by()));
  }
  return out;
}

void print_table(const Json& report, const CudaFacts& cuda, std::ostream& out) {
  for (const auto& [section, values] : report.items()) {
    if (values.is_array()) {
      for (const auto& text : values) fmt::print(out, "{}: {}\n", section, text.get<std::string>());
      continue;
    }
    fmt::print(out, "{}\n", section);
    for (const auto& [key, value] : values.items()) {
      if (value.is_array()) continue;
      fmt::print(out, "  {:22} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
    }
    if (section != "cuda") continue;
    for (std::size_t i = 0; i < cuda.devices.size(); ++i) {
      fmt::print(out, "  {:22} {}\n", fmt::format("device {}", i), device_text(cuda.devices[i]));
    }
  }
}

class Env : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_flag("--json", json_, "print one JSON object instead of a table");
    show_examples(app, {"lockstep env", "lockstep env --json", "OMP_NUM_THREADS=1 lockstep env"});
  }

  int run(const CommandStreams& streams) override {
    const CudaFacts cuda = cuda_facts();
    Json report{{"versions", versions()}, {"engines", engines()}, {"threads", threads()}, {"heap", heap()},
                {"blas", blas()},         {"onednn", onednn()},   {"host", host()},       {"cuda", cuda_json(cuda)}};
    report["warning"] = warnings(cuda);
    if (json_) {
      fmt::print(streams.out, "{}\n", report.dump(2));
    } else {
      print_table(report, cuda, streams.out);
    }
    return 0;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_env() { return std::make_unique<Env>(); }

}  // namespace lockstep
