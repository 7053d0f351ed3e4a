// `lockstep bench restart`: the time from the kill of a rank to the next training step of all ranks, for Lockstep and
// torchrun in turn.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure/bench_folder.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/tables/restart_job.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "tools/frame/companion.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

constexpr long kKillAfterStep = 45;  // two checkpoints exist then
constexpr int kTrainingBatch = 8;    // on each rank of `lockstep train`

struct System {
  std::string name;
  RankOutput output;
  Words command;
  std::string sign;  // shows that it is ready for a failure
  bool is_peer = false;
  std::vector<double> seconds{};
  std::string failure{};  // of a peer, which then gets no further turn
};

class BenchRestart : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--ranks,--nproc-per-node", ranks_, "number of ranks, of which the last one is killed")
        ->capture_default_str()
        ->check(CLI::Range(2, 64));
    app.add_option("--rounds", rounds_, "turns that each gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--peer", peer_, "torchrun: the same job in Python, as it is and with --monitor-interval 0.1; none")
        ->capture_default_str()
        ->check(CLI::IsMember({"torchrun", "none"}));
    app.add_option("--python", python_, "interpreter that has torch")->capture_default_str();
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench restart", "lockstep bench restart --rounds 9 --peer none"});
  }

  int run() override {
    ::setenv("LOCKSTEP_LOG_LEVEL", "info", 1);  // reports when spares are loaded
    for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) ::setenv(name, "1", 1);
    // In newer versions the ranks use torchrun's own store, in which a second start finds the addresses of the first
    // one's ranks: "connectFullMesh ... Connection refused" (pytorch/pytorch#135712). With this, each start has a
    // store.
    ::setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", 0);
    std::vector<System> systems{
        {"lockstep run", RankOutput::Worker, ours({}), ""},
        {"lockstep run --warm-spares", RankOutput::Worker, ours({"--warm-spares"}), spares_sign()},
        {"lockstep run lockstep train", RankOutput::Training, ours({}), ""},
        {"the same --warm-spares", RankOutput::Training, ours({"--warm-spares"}), spares_sign()}};
    if (has_torchrun()) {
      systems.push_back({"torchrun", RankOutput::Worker, theirs({}), "", true});
      systems.push_back(
          {"torchrun --monitor-interval 0.1", RankOutput::Worker, theirs({"--monitor_interval", "0.1"}), "", true});
    }
    for (int round = 0; round < rounds_; ++round) {
      for (System& system : systems) {
        if (system.failure.empty()) take_turn(system);
      }
    }
    report(systems);
    return 0;
  }

 private:
  // A peer that fails is shown as such: the others' figures do not depend on it.
  void take_turn(System& system) const {
    const ScratchFolder folder("lockstep-restart");
    try {
      RestartJob job(with_program(system, folder), ranks_, system.output);
      system.seconds.push_back(job.seconds_to_next_step(kKillAfterStep, system.sign));
    } catch (const Error& error) {
      if (!system.is_peer) throw;
      system.failure = error.happened();
    }
  }

  bool has_torchrun() const {
    if (peer_ == "none") return false;
    const std::string probe = shell_quoted(python_) + " -c 'import torch.distributed.run' 2>/dev/null";
    if (run_shell(probe).first == 0) return true;
    fmt::print(stderr, "no torchrun: {} has no torch (package python3-torch). It is left out\n", python_);
    return false;
  }

  Words ours(const Words& more) const {
    Words words{
        companion_program("lockstep"), "run", "--nproc-per-node", std::to_string(ranks_), "--max-restarts", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string spares_sign() const { return fmt::format("warm spares are loaded: {}", ranks_); }

  // The launcher's command line, followed by the program, which writes into `folder`.
  Words with_program(const System& system, const ScratchFolder& folder) const {
    const std::string steps = std::to_string(RestartJob::kStepsPerSave);
    Words words = system.command;
    if (system.output == RankOutput::Worker) {
      if (words.front() != python_) words.push_back(companion_program("lockstep-restart-worker"));
      words.insert(words.end(), {folder.path(), steps});
      return words;
    }
    const Words program{companion_program("lockstep"),
                        "train",
                        "--task",
                        "tabular-classification",
                        "--model",
                        "mlp",
                        "--train-file",
                        table_file(folder),
                        "--output-dir",
                        folder / "output",
                        "--max-steps",
                        "1000000",
                        "--logging-steps",
                        "1",
                        "--save-steps",
                        steps,
                        "--save-total-limit",
                        "2",
                        "--per-device-train-batch-size",
                        std::to_string(kTrainingBatch),
                        "--resume-from-checkpoint",
                        "true",
                        "--disable-tqdm",
                        "true"};
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }

  // Writes a table with RestartJob::kStepsPerEpoch steps per epoch.
  std::string table_file(const ScratchFolder& folder) const {
    const std::string path = folder / "table.csv";
    std::ofstream file(path);
    file << "height,label\n";
    const int rows = RestartJob::kStepsPerEpoch * kTrainingBatch * ranks_;
    for (int row = 0; row < rows; ++row) file << row % 17 << (row % 17 > 8 ? ",tall\n" : ",short\n");
    if (!file.flush())
      throw Error("cannot write the rows to train on", path, "set TMPDIR to a folder on a disk with free space");
    return path;
  }

  // Debian's torchrun fails under Python 3.11 without redirection.
  Words theirs(const Words& more) const {
    Words words{
        python_,          "-m", "torch.distributed.run", "--standalone",        "--redirects", "2", "--tee", "2",
        "--max_restarts", "1",  "--nproc_per_node",      std::to_string(ranks_)};
    words.insert(words.end(), more.begin(), more.end());
    words.push_back(bench_folder() + "/peers/pytorch_restart.py");
    return words;
  }

  void report(const std::vector<System>& systems) const {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    if (!json_) {
      fmt::print("kill -9 of one of {} ranks to the next step of all; {} rounds in turn; {} cores, load {:.2f}\n\n",
                 ranks_, rounds_, available_cores(), load_average());
      fmt::print("{:<32} {:>9} {:>9} {:>9}\n", "launcher", "median s", "best s", "worst s");
    }
    for (const System& system : systems) {
      if (!system.failure.empty()) {
        rows.push_back({{"system", system.name}, {"ranks", ranks_}, {"failure", system.failure}});
        if (!json_) fmt::print("{:<32} {:>9} {:>9} {:>9}\n", system.name, "failed", "-", "-");
        fmt::print(stderr, "{} did not start again: {}\n", system.name, system.failure);
        continue;
      }
      const auto [best, worst] = std::minmax_element(system.seconds.begin(), system.seconds.end());
      const double middle = median(system.seconds);
      rows.push_back(
          {{"system", system.name}, {"ranks", ranks_}, {"median_s", middle}, {"min_s", *best}, {"max_s", *worst}});
      if (!json_) fmt::print("{:<32} {:>9.2f} {:>9.2f} {:>9.2f}\n", system.name, middle, *best, *worst);
    }
    if (json_) fmt::print("{}\n", rows.dump(2));
  }

  int ranks_ = 2;
  int rounds_ = 5;
  std::string peer_ = "torchrun";
  std::string python_ = "/usr/bin/python3";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_restart() { return std::make_unique<BenchRestart>(); }

}  // namespace lockstep
