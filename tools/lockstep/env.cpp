// `lockstep env`: what this installation is made of, and what ranks would run on.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/blas.h"
#include "lockstep/base/blas_core_type.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/topology.h"
#include "lockstep/comm/factory.h"
#include "tools/lockstep/subcommand.h"

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
std::string field(const char* file, const std::string& key) {
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

Json threads() {
  Json out{{"torch", at::get_num_threads()}, {"torch_inter_op", at::get_num_interop_threads()}};
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE"}) {
    out[name] = env_string(name).value_or("unset");
  }
  return out;
}

Json blas() {
  const BlasLibrary library = loaded_blas();
  return {{"name", library.name},
          {"path", library.path},
          {"description", library.description},
          {"threads", library.num_threads}};
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
          {"cpu", field("/proc/cpuinfo", "model name")},
          {"cores", available_cores()},
          {"memory", field("/proc/meminfo", "MemTotal")},
          {"cuda_devices", static_cast<int>(torch::cuda::device_count())}};
}

Json warnings() {
  Json out = Json::array();
  if (loaded_blas().is_reference()) {
    out.push_back(
        "the reference BLAS is loaded: matrix products are many times slower than they could be. "
        "Install libopenblas0-pthread (apt-get install libopenblas0-pthread)");
  }
  const std::string kernels = loaded_blas().description;
  if (kernels.find("Prescott") != std::string::npos && !blas_core_type().empty()) {
    out.push_back(
        "OpenBLAS does not know this processor and uses its slowest kernels. `lockstep run` sets OPENBLAS_CORETYPE for "
        "its ranks; for other programs set OPENBLAS_CORETYPE=" +
        blas_core_type());
  }
  return out;
}

void print_table(const Json& report) {
  for (const auto& [section, values] : report.items()) {
    if (values.is_array()) {
      for (const auto& text : values) fmt::print("{}: {}\n", section, text.get<std::string>());
      continue;
    }
    fmt::print("{}\n", section);
    for (const auto& [key, value] : values.items()) {
      fmt::print("  {:22} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

class Env : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_flag("--json", json_, "print one JSON object instead of a table");
    show_examples(app, {"lockstep env", "lockstep env --json", "OMP_NUM_THREADS=1 lockstep env"});
  }

  int run() override {
    Json report{
        {"versions", versions()}, {"engines", engines()}, {"threads", threads()}, {"blas", blas()}, {"host", host()}};
    report["warning"] = warnings();
    if (json_) {
      fmt::print("{}\n", report.dump(2));
    } else {
      print_table(report);
    }
    return 0;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_env() { return std::make_unique<Env>(); }

}  // namespace lockstep
