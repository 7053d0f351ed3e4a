// `lockstep bench safetensors`: the time from a path to the numbers of a tensor.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "lockstep/base/error.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class BenchSafetensors : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("file", file_, "a .safetensors file; default: one of --megabytes is made and removed")
        ->check(CLI::ExistingFile);
    app.add_option("--megabytes", megabytes_, "size of the file that is made")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
    app.add_option("--rounds", rounds_, "how often it is opened")->capture_default_str()->check(CLI::Range(1, 9999));
    app.add_flag("--json", json_, "print an object");
    show_examples(app,
                  {"lockstep bench safetensors", "lockstep bench safetensors bert-base-uncased/model.safetensors"});
  }

  int run() override {
    const bool is_made = file_.empty();
    const std::string path = is_made ? make_file() : file_;
    try {
      measure(path);
    } catch (...) {
      if (is_made) fs::remove(path);
      throw;
    }
    if (is_made) fs::remove(path);
    return 0;
  }

 private:
  // Layers of 4 MB, as in a real model.
  std::string make_file() const {
    NamedTensors tensors;
    const at::Tensor layer = at::zeros({1000, 1000}, at::kFloat);
    for (int i = 0; i < std::max(1, megabytes_ / 4); ++i)
      tensors.emplace_back(fmt::format("layer.{}.weight", i), layer);
    const std::string path = (fs::temp_directory_path() / fmt::format("lockstep-bench-{}.safetensors", ::getpid()));
    write_safetensors(path, tensors);
    return path;
  }

  void measure(const std::string& path) const {
    std::vector<double> open_ms;
    std::vector<double> all_ms;  // opening, and reading every page of the first tensor
    double sum = 0;
    for (int round = 0; round < rounds_; ++round) {
      const auto start = std::chrono::steady_clock::now();
      const SafetensorsFile file(path);
      if (file.entries().empty()) throw Error("the file has no tensor", path, "name another one");
      open_ms.push_back(milliseconds_since(start));
      sum += file.tensor(file.entries()[0].name).sum().item<double>();
      all_ms.push_back(milliseconds_since(start));
    }
    const double bytes = static_cast<double>(fs::file_size(path));
    if (json_) {
      const Json out{{"bytes", fs::file_size(path)}, {"rounds", rounds_},           {"open_ms", median(open_ms)},
                     {"first_open_ms", open_ms[0]},  {"tensor_ms", median(all_ms)}, {"first_tensor_ms", all_ms[0]},
                     {"sum", sum / rounds_}};
      fmt::print("{}\n", out.dump(2));
      return;
    }
    fmt::print("{:.0f} MB, median of {} rounds, the file in the system's cache; load {:.2f}\n", bytes / 1e6, rounds_,
               load_average());
    fmt::print("opened and checked:                    {:8.3f} ms (first {:.3f})\n", median(open_ms), open_ms[0]);
    fmt::print("and every number of one tensor summed: {:8.3f} ms (first {:.3f})\n", median(all_ms), all_ms[0]);
  }

  std::string file_;
  int megabytes_ = 500;
  int rounds_ = 21;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_safetensors() { return std::make_unique<BenchSafetensors>(); }

}  // namespace lockstep
