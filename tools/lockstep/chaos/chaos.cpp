// `lockstep chaos`: a training whose ranks are killed and stopped, beside the undisturbed one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/companion_path.h"
#include "lockstep/base/seconds_since.h"
#include "tools/lockstep/chaos/disturbed_run.h"
#include "tools/lockstep/chaos/written_weights.h"
#include "tools/lockstep/progress_line.h"
#include "tools/lockstep/scratch_folder.h"
#include "tools/lockstep/subcommand.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;
using std::chrono::milliseconds;

constexpr int kMostRunsWithoutFault = 3;
const std::vector<std::pair<std::string, Fault>> kKinds{
    {"kill", Fault::Kill}, {"spare", Fault::Spare}, {"pause", Fault::Pause}, {"stop", Fault::Stop}};

const Words kDefaultTraining{"lockstep",
                             "train",
                             "--task",
                             "text-classification",
                             "--model",
                             "bert-tiny",
                             "--tokenizer",
                             "data/reviews-vocab",
                             "--train-file",
                             "data/reviews.csv",
                             "--validation-file",
                             "data/reviews-test.csv",
                             "--label-column",
                             "division",
                             "--max-length",
                             "32",
                             "--per-device-train-batch-size",
                             "4",
                             "--max-steps",
                             "600",
                             "--logging-steps",
                             "5",
                             "--save-steps",
                             "150",
                             "--eval-strategy",
                             "steps",
                             "--eval-steps",
                             "200",
                             "--max-eval-samples",
                             "40"};

// The nearest-rank percentile of sorted values.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

class Chaos : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--faults", faults_, "how many faults, in as many trainings as that takes")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--seed", seed_, "chooses moments, kinds and ranks")->capture_default_str();
    app.add_option("--nproc-per-node", ranks_, "ranks of the training")
        ->check(CLI::Range(2, 1024))
        ->capture_default_str();
    app.add_option("--kinds", kinds_,
                   "kill: SIGKILL to a rank; spare: SIGKILL to a process that waits for a lost rank's place, or joins; "
                   "pause: a rank stands still for up to 0.5 s; stop: until the others give it up")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--interval", interval_, "mean seconds between faults")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    app.add_option("--timeout", timeout_, "of collectives, in seconds, while kinds contain stop")
        ->check(CLI::Range(2.0, 3600.0))
        ->capture_default_str();
    app.add_flag("--spares,!--no-spares", spares_, "warm spares take the places of lost ranks")->default_val(true);
    app.prefix_command();
    app_ = &app;
    show_examples(app, {"lockstep chaos", "lockstep chaos --faults 100 --seed 7 --kinds kill,spare --nproc-per-node 3",
                        "lockstep chaos --faults 5 --kinds stop --timeout 3",
                        "lockstep chaos --interval 0.3 -- lockstep train --task text-classification --model bert-mini "
                        "--tokenizer data/reviews-vocab --train-file data/reviews.csv --label-column division "
                        "--max-steps 300 --logging-steps 5"});
  }

  int run() override {
    read_kinds();
    read_training();
    stop_on_signals();
    const ScratchFolder folder("lockstep-chaos");
    fmt::print("training     {}\n", fmt::join(training_, " "));
    std::fflush(stdout);
    undisturbed(folder);
    disturbed(folder);
    return report();
  }

 private:
  void read_kinds() {
    for (const std::string& name : kinds_) {
      const auto found =
          std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& kind) { return kind.first == name; });
      if (found == kKinds.end()) {
        throw UsageError("there is no kind of fault '" + name + "'", "--kinds", "use kill, spare, pause and stop");
      }
      chosen_.push_back(found->second);
    }
    if (std::count(chosen_.begin(), chosen_.end(), Fault::Spare) == static_cast<long>(chosen_.size())) {
      throw UsageError("--kinds spare alone leaves all ranks alone", "--kinds", "use kill,spare");
    }
  }

  void read_training() {
    training_ = app_->remaining();
    if (!training_.empty() && training_.front() == "--") training_.erase(training_.begin());
    if (training_.empty()) {
      training_ = kDefaultTraining;
      require_data();
    }
    if (training_.size() < 2 || std::filesystem::path(training_[0]).filename() != "lockstep" ||
        training_[1] != "train") {
      throw UsageError("the program is not lockstep train", fmt::format("{}", fmt::join(training_, " ")),
                       "name the training as: lockstep chaos -- lockstep train --task ...");
    }
    if (has("--output-dir")) {
      throw UsageError("--output-dir in the training", "lockstep chaos",
                       "leave it out: each training gets an empty folder, which is removed");
    }
    if (has("--survive-lost-ranks")) {
      throw UsageError("--survive-lost-ranks in the training", "lockstep chaos",
                       "leave it out: it is always true here");
    }
    if (training_[0] == "lockstep") training_[0] = companion_path("lockstep");
    if (!has("--virtual-shards")) training_ = joined(training_, {"--virtual-shards", std::to_string(ranks_)});
    training_ = joined(training_, {"--survive-lost-ranks", "true"});
  }

  static void require_data() {
    for (const char* path : {"data/reviews-vocab", "data/reviews.csv", "data/reviews-test.csv"}) {
      if (std::filesystem::exists(path)) continue;
      throw UsageError(fmt::format("there is no {} here, with which the default training works", path),
                       "lockstep chaos",
                       "start it in a checkout of Lockstep, or name a training: lockstep chaos -- lockstep train ...");
    }
  }

  // In both spellings, alone or as --flag=value.
  bool has(const std::string& flag) const {
    return std::any_of(training_.begin(), training_.end(), [&](std::string word) {
      word = word.substr(0, word.find('='));
      std::replace(word.begin(), word.end(), '_', '-');
      return word == flag;
    });
  }

  static Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  DisturbedRun job(const ScratchFolder& folder, const std::string& name, int faults) const {
    DisturbedRun run;
    run.words = {companion_path("lockstep"), "run", "--nproc-per-node", std::to_string(ranks_)};
    if (faults > 0) run.words = joined(run.words, {"--max-restarts", std::to_string(faults + 1)});
    if (faults > 0 && spares_) run.words.push_back("--warm-spares");
    if (std::count(chosen_.begin(), chosen_.end(), Fault::Stop) > 0)
      run.words = joined(run.words, {"--timeout", fmt::format("{}", timeout_)});
    run.words = joined(joined(run.words, training_), {"--output-dir", folder / name});
    run.log = folder / (name + ".log");
    run.metrics = folder / (name + "/metrics.jsonl");
    run.ranks = ranks_;
    run.faults = faults;
    run.kinds = chosen_;
    run.interval = milliseconds(std::llround(1000 * interval_));
    run.patience = milliseconds(120000) + milliseconds(std::llround(3000 * undisturbed_s_));
    run.on_fault = [this](const ChaosCounts& counts) {
      progress_.show(fmt::format("faults: {} of {}, training {}", counts.all_faults(), faults_, counts.runs + 1));
    };
    return run;
  }

  void undisturbed(const ScratchFolder& folder) {
    progress_.show("undisturbed training");
    const auto begin = std::chrono::steady_clock::now();
    std::mt19937_64 unused;
    ChaosCounts counts;
    run_disturbed(job(folder, "undisturbed", 0), unused, counts);
    undisturbed_s_ = seconds_since(begin);
    if (counts.failed > 0) {
      throw Error(fmt::format("the undisturbed training does not work: {}\n{}", counts.problem,
                              fmt::join(counts.last_lines, "\n")),
                  "lockstep chaos", "see what its log says");
    }
    expected_ = written_weights(folder / "undisturbed");
  }

  void disturbed(const ScratchFolder& folder) {
    std::mt19937_64 random(seed_);
    for (int idle = 0; counts_.all_faults() < faults_ && counts_.failed == 0 && differs_.empty();) {
      const int before = counts_.all_faults();
      run_disturbed(job(folder, "disturbed", faults_ - before), random, counts_);
      if (counts_.failed == 0) compare(written_weights(folder / "disturbed"));
      std::filesystem::remove_all(folder / "disturbed");
      std::filesystem::remove(folder / "disturbed.log");
      idle = counts_.all_faults() > before ? 0 : idle + 1;
      if (idle == kMostRunsWithoutFault) {
        throw Error(fmt::format("{} trainings ended before a fault", idle), "lockstep chaos",
                    "give more --max-steps to the training, or a smaller --interval");
      }
    }
    progress_.show("");
  }

  void compare(const std::map<std::string, std::string>& found) {
    found_ = found.at("model.safetensors");
    for (const auto& [path, digest] : expected_) {
      const auto same = found.find(path);
      if (same == found.end() || same->second != digest) differs_.push_back(path);
    }
    for (const auto& each : found) {
      if (expected_.count(each.first) == 0) differs_.push_back(each.first);
    }
  }

  int report() {
    std::vector<std::string> by_kind;
    for (const auto& [name, fault] : kKinds) {
      if (counts_.faults.count(fault) > 0) by_kind.push_back(fmt::format("{} {}", name, counts_.faults.at(fault)));
    }
    fmt::print("faults       {} in {} training{} on {} ranks, seed {}: {}\n", counts_.all_faults(), counts_.runs,
               counts_.runs == 1 ? "" : "s", ranks_, seed_, fmt::join(by_kind, ", "));
    fmt::print("survived     {} without a restart of all ranks\n", counts_.survived());
    report_waits();
    const bool are_equal = differs_.empty() && !found_.empty() && counts_.failed == 0;
    fmt::print("lost         {}\n", are_equal ? "0 steps, 0 samples: the weights have the same bits" : "unknown");
    fmt::print("weights      {}\nundisturbed  {}\n", found_.empty() ? "none" : found_,
               expected_.at("model.safetensors"));
    if (are_equal && expected_.size() > 1) {
      fmt::print("checkpoints  {} more files equal, in each training\n", expected_.size() - 1);
    }
    if (are_equal && counts_.survived() == counts_.all_faults()) return 0;
    report_trouble();
    return 1;
  }

  void report_waits() {
    auto& waits = counts_.waited_ms;
    std::sort(waits.begin(), waits.end());
    if (waits.empty()) {
      fmt::print("waited       no rank logged a recovery\n");
      return;
    }
    fmt::print("waited       median {:.3f} s, p99 {:.3f} s, longest {:.3f} s in {} recoveries, from a rank's notice\n",
               percentile(waits, 0.5) / 1000, percentile(waits, 0.99) / 1000, waits.back() / 1000, waits.size());
  }

  void report_trouble() const {
    if (!counts_.problem.empty()) fmt::print("FAILED       {}\n", counts_.problem);
    if (counts_.restarts > 0) fmt::print("FAILED       restarts of all ranks: {}\n", counts_.restarts);
    if (counts_.unexplained > 0) {
      fmt::print("FAILED       ranks that nobody had hit, and that ended: {}\n", counts_.unexplained);
    }
    for (const std::string& path : differs_) fmt::print("FAILED       {} differs\n", path);
    fmt::print("the last lines of the log:\n{}\n", fmt::join(counts_.last_lines, "\n"));
  }

  int faults_ = 10;
  std::uint64_t seed_ = 1;
  int ranks_ = 4;
  Words kinds_{"kill", "spare", "pause"};
  double interval_ = 1;
  double timeout_ = 5;
  bool spares_ = true;
  CLI::App* app_ = nullptr;
  std::vector<Fault> chosen_;
  Words training_;
  double undisturbed_s_ = 0;
  ChaosCounts counts_;
  std::map<std::string, std::string> expected_;
  std::string found_;
  Words differs_;
  ProgressLine progress_;
};

}  // namespace

std::unique_ptr<Subcommand> make_chaos() { return std::make_unique<Chaos>(); }

}  // namespace lockstep
