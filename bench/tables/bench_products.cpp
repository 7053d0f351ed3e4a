// `lockstep bench products`: the matrix products of a training step in fp32 and in bf16, beside what the processor can
// multiply at most.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/baseline_threads.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/measure/product_bound.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// A layer of `out` by `in` weights over so many rows of inputs.
struct ProductSize {
  std::int64_t rows = 0, in = 0, out = 0;

  static ProductSize parse(const std::string& text) {
    ProductSize size;
    int used = 0;
    const int read = std::sscanf(text.c_str(), "%ldx%ldx%ld%n", &size.rows, &size.in, &size.out, &used);
    if (read != 3 || used != static_cast<int>(text.size()) || std::min({size.rows, size.in, size.out}) < 1) {
      throw UsageError("'" + text + "' is not a size", "--sizes", "write ROWSxINxOUT, such as 512x768x3072");
    }
    return size;
  }
  double operations() const { return 2.0 * static_cast<double>(rows) * static_cast<double>(in * out); }
};

/// One of a layer's three products, in both types.
struct TimedProduct {
  std::string name;
  std::function<void()> run[2];  // fp32, bf16
  std::vector<double> s[2];
};

std::vector<TimedProduct> products_of(const ProductSize& size) {
  std::vector<TimedProduct> all(3);
  all[0].name = "forward";
  all[1].name = "input gradient";
  all[2].name = "weight gradient";
  for (int type = 0; type < 2; ++type) {
    const auto make = [&](std::int64_t rows, std::int64_t columns) {
      return torch::randn({rows, columns}).to(type == 0 ? at::kFloat : at::kBFloat16);
    };
    const at::Tensor x = make(size.rows, size.in), weight = make(size.out, size.in), dy = make(size.rows, size.out);
    all[0].run[type] = [x, weight] { at::linear(x, weight); };
    all[1].run[type] = [dy, weight] { at::mm(dy, weight); };
    all[2].run[type] = [dy, x] { at::mm(dy.t(), x); };
  }
  return all;
}

class BenchProducts : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--sizes", sizes_, "ROWSxINxOUT: so many rows of inputs, and a layer's weights")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--rounds", rounds_, "turns of each")->capture_default_str()->check(CLI::Range(1, 999));
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench products", "lockstep bench products --sizes 512x768x3072,2048x256x1024"});
  }

  int run() override {
    std::vector<ProductSize> sizes;
    for (const std::string& text : sizes_) sizes.push_back(ProductSize::parse(text));
    const BaselineThreads one_thread(1);
    at::set_num_threads(1);
    const at::NoGradGuard no_grad;
    bound_ = measure_product_bound();
    if (!json_) print_head();
    Json rows = Json::array();
    for (const ProductSize& size : sizes) {
      std::vector<TimedProduct> products = products_of(size);
      measure(products);
      for (const TimedProduct& product : products) report(size, product, rows);
    }
    if (json_) fmt::print("{}\n", rows.dump(2));
    return 0;
  }

 private:
  void measure(std::vector<TimedProduct>& products) const {
    for (int round = -1; round < rounds_; ++round) {  // the first prepares the kernels
      for (TimedProduct& product : products) {
        for (int type = 0; type < 2; ++type) {
          const auto begin = std::chrono::steady_clock::now();
          product.run[type]();
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
          if (round >= 0) product.s[type].push_back(took.count());
        }
      }
    }
  }

  static std::string gflops_text(const std::optional<double>& gflops) {
    return gflops ? fmt::format("{:.0f} GFLOP/s", *gflops) : std::string("not known");
  }

  void print_head() const {
    fmt::print("one thread, {} rounds in turn; {} cores, load {:.2f}\n", rounds_, available_cores(), load_average());
    fmt::print("bound, in registers alone: fp32 {}, bf16 {}\n\n", gflops_text(bound_.fp32_gflops),
               gflops_text(bound_.bf16_gflops));
    fmt::print("{:<15} {:<15} {:>9} {:>8} {:>8} {:>9} {:>8} {:>8} {:>9}\n", "rows x in x out", "", "fp32 ms", "GFLOP/s",
               "of bound", "bf16 ms", "GFLOP/s", "of bound", "fp32/bf16");
  }

  void report(const ProductSize& size, const TimedProduct& product, Json& rows) const {
    const std::optional<double> bounds[] = {bound_.fp32_gflops, bound_.bf16_gflops};
    const char* const names[] = {"fp32", "bf16"};
    Json row{{"rows", size.rows}, {"in", size.in}, {"out", size.out}, {"product", product.name}};
    std::string line =
        fmt::format("{:<15} {:<15}", fmt::format("{}x{}x{}", size.rows, size.in, size.out), product.name);
    for (int type = 0; type < 2; ++type) {
      const double s = median(product.s[type]);
      const double gflops = size.operations() / s / 1e9;
      const std::string name = names[type];
      row[name + "_ms"] = s * 1e3;
      row[name + "_gflops"] = gflops;
      row[name + "_bound_gflops"] = bounds[type] ? Json(*bounds[type]) : Json();
      const std::string share = bounds[type] ? fmt::format("{:.0f}%", 100 * gflops / *bounds[type]) : "-";
      line += fmt::format(" {:>9.3f} {:>8.0f} {:>8}", s * 1e3, gflops, share);
    }
    rows.push_back(std::move(row));
    if (!json_) fmt::print("{} {:>9.2f}\n", line, median(product.s[0]) / median(product.s[1]));
  }

  // Layers of bert-tiny, bert-mini and bert-base at the sizes of `bench step`'s table.
  std::vector<std::string> sizes_{"256x128x512",  "256x512x128",  "2048x256x1024", "2048x1024x256",
                                  "512x768x2304", "512x768x3072", "512x3072x768"};
  int rounds_ = 15;
  bool json_ = false;
  ProductBound bound_;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_products() { return std::make_unique<BenchProducts>(); }

}  // namespace lockstep
