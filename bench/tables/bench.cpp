// The companion `lockstep-bench`: `lockstep bench`, the benchmarks, of which each table shows its bound or its peer
// next to Lockstep, and `lockstep plan`.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/benchmark.h"
#include "lockstep/base/text/flag_name.h"
#include "tools/frame/command_line.h"
#include "tools/frame/subcommand.h"
#include "tools/frame/torch_error_text.h"

namespace lockstep {
#define TORCH_FREE(name, summary, example)
#define NEEDS_TORCH(name, summary, example)
#define BENCHMARKS(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#define DISTURBS(name, summary, example)
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
#define BENCH(name, summary) std::unique_ptr<Benchmark> make_bench_##name();
#include "bench/tables/benches.inc"
#undef BENCH

namespace {

class Bench : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.require_subcommand(1);
#define BENCH(name, summary) add_benchmark(app, with_hyphens(#name), summary, make_bench_##name());
#include "bench/tables/benches.inc"
#undef BENCH
    show_examples(app, {"lockstep bench step --model convnet --ranks 1,2 --peer pytorch",
                        "lockstep bench all-reduce --nproc-per-node 2 --engines shm,gloo,mpi",
                        "lockstep bench start --ranks 2 --peer torchrun", "lockstep bench wrappers --help"});
  }

  int run(const CommandStreams& /*streams*/) override {
    for (const auto& [app, benchmark] : benchmarks_) {
      if (app->parsed()) return benchmark->run();
    }
    return 2;  // cannot happen: a subcommand is required
  }

 private:
  void add_benchmark(CLI::App& app, const std::string& name, const char* summary,
                     std::unique_ptr<Benchmark> benchmark) {
    CLI::App* nested = app.add_subcommand(name, summary);
    benchmark->add(*nested);
    benchmarks_.emplace_back(nested, std::move(benchmark));
  }

  std::vector<std::pair<CLI::App*, std::unique_ptr<Benchmark>>> benchmarks_;
};

}  // namespace

std::unique_ptr<Subcommand> make_bench() { return std::make_unique<Bench>(); }

}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const std::vector<SubcommandEntry> entries{
#define TORCH_FREE(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep"},
#define NEEDS_TORCH(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-torch"},
#define BENCHMARKS(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep-bench"},
#define DISTURBS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-chaos"},
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
  };
  return run_command_line(entries, argc, argv, torch_error_text);
}
