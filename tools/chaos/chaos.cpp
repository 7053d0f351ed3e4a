// `lockstep chaos`: a training whose ranks and hosts are killed, stopped and cut off, beside the undisturbed one.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/files/companion_path.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/launch/ranks/cpu_share.h"
#include "lockstep/net/secret.h"
#include "lockstep/start/start_variables.h"
#include "tools/chaos/chaos_report.h"
#include "tools/chaos/default_training.h"
#include "tools/chaos/disturbed_run.h"
#include "tools/chaos/written_weights.h"
#include "tools/frame/progress_line.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/subcommand.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;
using std::chrono::milliseconds;

constexpr int kMostRunsWithoutFault = 3;
constexpr int kRanksOfOneHost = 4;
constexpr int kRanksOfEachHost = 2;
constexpr const char* kRate = "1gbit";  // of a host's link

class Chaos : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--faults", faults_, "number of faults, in as many trainings as they need")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--seed", seed_, "seed from which moments, kinds and ranks are drawn")->capture_default_str();
    app.add_option("--nproc-per-node", ranks_,
                   "ranks of the training, or of each host with --hosts; default: 4, or 2 with --hosts")
        ->check(CLI::Range(1, 1024));
    app.add_option("--hosts", hosts_,
                   "train on this many hosts, which are network namespaces of this machine; needs root")
        ->check(CLI::Range(2, 16));
    app.add_option(
           "--kinds", kinds_,
           std::string(
               "kinds of faults, separated by commas; default: kill,spare,pause, with --hosts also host,blink,cut\n") +
               fault_descriptions())
        ->delimiter(',');
    app.add_option("--interval", interval_, "mean seconds between faults")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    app.add_option(
           "--timeout", timeout_,
           "seconds after which a collective fails, if the kinds contain stop or cut, and a silent host is lost")
        ->check(CLI::Range(2.0, 3600.0))
        ->capture_default_str();
    app.add_flag("--spares,!--no-spares", spares_, "warm spares take the places of lost ranks")->default_val(true);
    app.prefix_command();
    app_ = &app;
    show_examples(app, {"lockstep chaos", "lockstep chaos --faults 100 --seed 7 --kinds kill,spare --nproc-per-node 3",
                        "lockstep chaos --faults 5 --kinds stop --timeout 3",
                        "sudo lockstep chaos --hosts 3 --faults 200 --kinds kill,host,blink,cut",
                        "lockstep chaos --interval 0.3 -- lockstep train --task text-classification --model bert-mini "
                        "--tokenizer data/reviews-vocab --train-file data/reviews.csv --label-column division "
                        "--max-steps 300 --logging-steps 5"});
  }

  int run(const CommandStreams& streams) override {
    read_ranks();
    read_kinds();
    read_training();
    make_hosts();
    stop_on_signals();
    const ScratchFolder folder("lockstep-chaos");
    fmt::print(streams.out, "training     {}\n", fmt::join(training_, " "));
    streams.out.flush();
    undisturbed(folder);
    disturbed(folder);
    return print_chaos_report(result_, streams.out);
  }

 private:
  void read_ranks() {
    if (ranks_ == 0) ranks_ = hosts_ == 0 ? kRanksOfOneHost : kRanksOfEachHost;
    if (ranks_ < 2 && hosts_ == 0) {
      throw UsageError("a training with one rank has no other rank that could survive", "--nproc-per-node",
                       "give it 2 or more, or train on several --hosts");
    }
    result_.ranks = all_ranks();
    result_.hosts = hosts_;
    result_.seed = seed_;
  }

  void read_kinds() {
    if (kinds_.empty()) {
      kinds_ = {"kill", "spare", "pause"};
      if (hosts_ > 0) kinds_ = joined(kinds_, {"host", "blink", "cut"});
    }
    for (const std::string& name : kinds_) {
      const std::optional<Fault> fault = fault_of(name);
      if (!fault) {
        throw UsageError("'" + name + "' is not a kind of fault", "--kinds",
                         "use kill, spare, pause, stop and all, and with --hosts also host, blink and cut");
      }
      if (*fault == Fault::All && hosts_ > 0) {
        throw UsageError("--kinds all cannot be combined with --hosts, whose launchers hold no memory of the training",
                         "--kinds", "leave one of them out");
      }
      if (is_of_hosts(*fault) && hosts_ == 0) {
        throw UsageError("--kinds " + name + " needs --hosts", "--kinds", "add --hosts 2 or more");
      }
      chosen_.push_back(*fault);
    }
    if (std::count(chosen_.begin(), chosen_.end(), Fault::Spare) == static_cast<long>(chosen_.size())) {
      throw UsageError("--kinds spare by itself hits no rank", "--kinds", "use kill,spare");
    }
  }

  // The training has `hosts_` of them; one more takes the place of one that is lost.
  void make_hosts() {
    if (hosts_ == 0) return;
    if (const auto reason = NetworkHosts::why_not()) {
      throw UsageError(*reason, "--hosts", "run it as root in a machine or container that may make network namespaces");
    }
    network_.emplace(hosts_ + 1, kRate);
    // For the launchers. What names an interface of this machine means nothing on those hosts.
    if (secret_from_environment().empty()) ::setenv("LOCKSTEP_SECRET", make_secret().c_str(), 1);
    ::unsetenv("LOCKSTEP_GLOO_INTERFACE");
    ::unsetenv("GLOO_SOCKET_IFNAME");
    // Each host would take all cores for its own, and ranks whose threads wait for cores do not meet in time.
    if (!is_users_choice("OMP_NUM_THREADS")) {
      ::setenv("OMP_NUM_THREADS", std::to_string(std::max(1, node_cores().threads / all_ranks())).c_str(), 1);
    }
  }

  void read_training() {
    training_ = app_->remaining();
    if (!training_.empty() && training_.front() == "--") training_.erase(training_.begin());
    if (training_.empty()) {
      training_ = default_training();
      require_data();
    }
    if (training_.size() < 2 || std::filesystem::path(training_[0]).filename() != "lockstep" ||
        training_[1] != "train") {
      throw UsageError("the program is not lockstep train", fmt::format("{}", fmt::join(training_, " ")),
                       "name the training as: lockstep chaos -- lockstep train --task ...");
    }
    if (has("--output-dir")) {
      throw UsageError("the training has --output-dir", "lockstep chaos",
                       "leave it out: each training gets an empty folder, which is removed");
    }
    if (has("--survive-lost-ranks")) {
      throw UsageError("the training has --survive-lost-ranks", "lockstep chaos",
                       "leave it out: it is always true here");
    }
    if (training_[0] == "lockstep") training_[0] = companion_path("lockstep");
    if (!has("--virtual-shards")) training_ = joined(training_, {"--virtual-shards", std::to_string(all_ranks())});
    training_ = joined(training_, {"--survive-lost-ranks", "true"});
  }

  static void require_data() {
    for (const char* path : {"data/reviews-vocab", "data/reviews.csv", "data/reviews-test.csv"}) {
      if (std::filesystem::exists(path)) continue;
      throw UsageError(fmt::format("there is no {} here, which the default training needs", path), "lockstep chaos",
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

  int all_ranks() const { return ranks_ * std::max(hosts_, 1); }
  bool has_kind(Fault fault) const { return std::count(chosen_.begin(), chosen_.end(), fault) > 0; }

  Words launcher_words(const std::string& endpoint, const std::string& output, int faults) const {
    Words words{companion_path("lockstep"), "run", "--nproc-per-node", std::to_string(ranks_)};
    // A link that was cut takes all ranks of its host.
    if (faults > 0) words = joined(words, {"--max-restarts", std::to_string((faults + 1) * (hosts_ > 0 ? ranks_ : 1))});
    if (faults > 0 && spares_) words.push_back("--warm-spares");
    if (has_kind(Fault::Stop) || hosts_ > 0) words = joined(words, {"--timeout", fmt::format("{}", timeout_)});
    if (hosts_ > 0) {
      words =
          joined(words, {"--nnodes", fmt::format("1:{}", hosts_), "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint,
                         "--rdzv-conf", fmt::format("keep_alive_interval={},keep_alive_max_attempt=3", timeout_ / 3)});
    }
    return joined(joined(words, training_), {"--output-dir", output});
  }

  DisturbedRun job(const ScratchFolder& folder, const std::string& name, int faults) const {
    DisturbedRun run;
    const std::string output = folder / name;
    run.job.words = [=](const std::string& endpoint) { return launcher_words(endpoint, output, faults); };
    std::filesystem::create_directory(folder / (name + "-logs"));
    run.job.log = folder / (name + "-logs/launcher");
    run.job.hosts = network_ ? &*network_ : nullptr;
    run.fault_log = folder / (name + "-logs/faults");
    run.metrics = output + "/metrics.jsonl";
    run.ranks = all_ranks();
    run.faults = faults;
    run.kinds = chosen_;
    run.interval = milliseconds(std::llround(1000 * interval_));
    run.timeout = milliseconds(std::llround(1000 * timeout_));
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
      throw Error(
          fmt::format("the undisturbed training failed: {}\n{}", counts.problem, fmt::join(counts.last_lines, "\n")),
          "lockstep chaos", "read its log");
    }
    result_.expected = written_weights(folder / "undisturbed");
  }

  void disturbed(const ScratchFolder& folder) {
    std::mt19937_64 random(seed_);
    for (int idle = 0;
         result_.counts.all_faults() < faults_ && result_.counts.failed == 0 && result_.differs.empty();) {
      const int before = result_.counts.all_faults();
      const int troubles = result_.troubles();
      run_disturbed(job(folder, "disturbed", faults_ - before), random, result_.counts);
      if (result_.counts.failed == 0) compare(written_weights(folder / "disturbed"));
      if (result_.troubles() > troubles) keep_logs(folder);
      std::filesystem::remove_all(folder / "disturbed");
      std::filesystem::remove_all(folder / "disturbed-logs");
      idle = result_.counts.all_faults() > before ? 0 : idle + 1;
      if (idle == kMostRunsWithoutFault) {
        throw Error(fmt::format("{} trainings ended before a fault", idle), "lockstep chaos",
                    "give more --max-steps to the training, or a smaller --interval");
      }
    }
    progress_.show("");
  }

  // A fault that occurs once in a thousand trainings is hard to repeat.
  void keep_logs(const ScratchFolder& folder) {
    if (!logs_) logs_.emplace("lockstep-chaos-logs").keep();
    result_.logs = logs_->path();
    std::filesystem::rename(folder / "disturbed-logs", *logs_ / fmt::format("training-{}", result_.counts.runs));
  }

  void compare(const std::map<std::string, std::string>& found) {
    result_.found = found.at("model.safetensors");
    for (const auto& [path, digest] : result_.expected) {
      const auto same = found.find(path);
      if (same == found.end() || same->second != digest) result_.differs.push_back(path);
    }
    for (const auto& each : found) {
      if (result_.expected.count(each.first) == 0) result_.differs.push_back(each.first);
    }
  }

  int faults_ = 10;
  std::uint64_t seed_ = 1;
  int ranks_ = 0;  // of each host; 0: not given
  int hosts_ = 0;  // 0: this machine alone
  Words kinds_;
  double interval_ = 1;
  double timeout_ = 5;
  bool spares_ = true;
  CLI::App* app_ = nullptr;
  std::vector<Fault> chosen_;
  Words training_;
  double undisturbed_s_ = 0;
  std::optional<NetworkHosts> network_;
  std::optional<ScratchFolder> logs_;
  ChaosResult result_;
  ProgressLine progress_;
};

}  // namespace

std::unique_ptr<Subcommand> make_chaos() { return std::make_unique<Chaos>(); }

}  // namespace lockstep
