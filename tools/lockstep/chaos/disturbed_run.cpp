#include "tools/lockstep/chaos/disturbed_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <regex>
#include <set>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLook{2};  // between looks at the job
constexpr std::size_t kLastLines = 30;
constexpr std::uint64_t kLongestPauseMs = 500;
// After this many changes of the metrics a process that joined has the training's state for certain.
constexpr int kChangesUntilSettled = 2;

volatile std::sig_atomic_t was_stopped = 0;

// Watches one run, and disturbs it.
class Disturber {
 public:
  Disturber(const DisturbedRun& run, std::mt19937_64& random, ChaosCounts& counts)
      : run_(run), random_(random), counts_(counts), job_(run.words, run.log), restarts_before_(counts.restarts) {}

  void act() {
    bool runs = wait_until_begun();
    for (int left = run_.faults; runs && left > 0 && counts_.restarts == restarts_before_;) {
      runs = pass(milliseconds(below(2 * static_cast<std::uint64_t>(run_.interval.count()) + 1)));
      if (runs && disturb()) {
        --left;
        run_.on_fault(counts_);
      }
    }
    while (runs) runs = look();
    finish();
  }

 private:
  std::uint64_t below(std::uint64_t count) { return random_() % count; }

  // Reads what is new. @return  false once the run has ended
  bool look() {
    const bool has_ended = job_.ends_within(kLook);
    const auto lines = job_.new_lines();
    for (const std::string& line : lines) take_line(line);
    std::error_code ignored;
    const auto size = std::filesystem::file_size(run_.metrics, ignored);
    const bool has_stepped = !ignored && size != metrics_size_;
    if (has_stepped) {
      metrics_size_ = size;
      for (auto& [pid, changes] : joined_) ++changes;
    }
    const auto now = Clock::now();
    if (has_stepped || !lines.empty()) sign_of_life_ = now;
    if (was_stopped != 0) {
      throw Error("stopped by a signal", "lockstep chaos", "start it again; its training has been ended");
    }
    stands_still_ = !has_ended && now - sign_of_life_ > run_.patience;
    return !has_ended && !stands_still_;
  }

  bool pass(milliseconds time) {
    for (const auto until = Clock::now() + time; Clock::now() < until;) {
      if (!look()) return false;
    }
    return true;
  }

  void take_line(const std::string& line) {
    static const std::regex waited(", ([0-9]+) ms after they noticed a loss");
    static const std::regex has_joined("a new process \\(pid ([0-9]+)\\) has joined in the place of rank");
    static const std::regex is_lost("rank [0-9]+ \\(local rank [0-9]+, pid ([0-9]+)\\) on .* ended: .*\\. The others ");
    std::smatch match;
    if (std::regex_search(line, match, waited)) counts_.waited_ms.push_back(std::stod(match[1]));
    if (std::regex_search(line, match, has_joined)) joined_[std::stoi(match[1])] = 0;
    if (std::regex_search(line, match, is_lost) && hit_.count(std::stoi(match[1])) == 0) ++counts_.unexplained;
    if (line.find("all ranks are started again") != std::string::npos) ++counts_.restarts;
    counts_.last_lines.push_back(line);
    if (counts_.last_lines.size() > kLastLines) counts_.last_lines.pop_front();
  }

  // Survival begins with the training's first update.
  bool wait_until_begun() {
    while (look()) {
      if (run_.faults == 0) continue;
      const auto all = job_.processes();
      const auto has_begun = [](const ChildOfLauncher& each) {
        std::error_code ignored;
        return !each.is_successor && std::filesystem::exists(each.survival_file, ignored);
      };
      if (std::count_if(all.begin(), all.end(), has_begun) == run_.ranks) return true;
    }
    return false;
  }

  bool is_member(const ChildOfLauncher& each) const { return !each.is_successor || joined_.count(each.pid) > 0; }

  bool has_state(const ChildOfLauncher& each) const {
    const auto found = joined_.find(each.pid);
    return !each.is_successor || (found != joined_.end() && found->second >= kChangesUntilSettled);
  }

  // The processes that a fault may hit: one that has the training's state must remain.
  std::vector<pid_t> targets(Fault fault) const {
    const auto all = job_.processes();
    std::vector<pid_t> found;
    for (const ChildOfLauncher& each : all) {
      const auto remains = [&](const ChildOfLauncher& other) { return other.pid != each.pid && has_state(other); };
      const bool is_hit = fault == Fault::Spare ? !is_member(each) : is_member(each);
      if (is_hit && std::any_of(all.begin(), all.end(), remains)) found.push_back(each.pid);
    }
    return found;
  }

  // @return  false if there was nothing to hit
  bool disturb() {
    const Fault fault = run_.kinds[below(run_.kinds.size())];
    const std::vector<pid_t> pids = targets(fault);
    if (pids.empty()) return false;
    const pid_t pid = pids[below(pids.size())];
    const bool is_killed = fault == Fault::Kill || fault == Fault::Spare;
    if (fault != Fault::Pause) hit_.insert(pid);
    if (!job_.send(pid, is_killed ? SIGKILL : SIGSTOP)) return false;
    ++counts_.faults[fault];
    if (fault == Fault::Pause) {
      pass(milliseconds(1 + below(kLongestPauseMs)));
      job_.send(pid, SIGCONT);
    }
    if (fault == Fault::Stop) {
      while (job_.send(pid, 0) && look()) {
      }
    }
    return true;
  }

  void finish() {
    ++counts_.runs;
    const ExitStatus status = stands_still_ ? ExitStatus{} : job_.status();
    if (!stands_still_ && status.success()) return;
    ++counts_.failed;
    if (!counts_.problem.empty()) return;
    counts_.problem = stands_still_ ? fmt::format("a run gave no sign of life for {} s", run_.patience.count() / 1000)
                                    : fmt::format("a run failed: {}", status.describe());
  }

  const DisturbedRun& run_;
  std::mt19937_64& random_;
  ChaosCounts& counts_;
  LaunchedJob job_;
  const int restarts_before_;
  std::map<pid_t, int> joined_;  // with the number of changes of the metrics since
  std::set<pid_t> hit_;
  std::uintmax_t metrics_size_ = 0;
  Clock::time_point sign_of_life_ = Clock::now();
  bool stands_still_ = false;
};

}  // namespace

int ChaosCounts::all_faults() const {
  return std::accumulate(faults.begin(), faults.end(), 0, [](int sum, const auto& each) { return sum + each.second; });
}

void run_disturbed(const DisturbedRun& run, std::mt19937_64& random, ChaosCounts& counts) {
  Disturber(run, random, counts).act();
}

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { was_stopped = 1; };
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
}

}  // namespace lockstep
