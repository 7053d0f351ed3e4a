#include "tools/chaos/disturbed_run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "tools/chaos/fault_targets.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLook{2};  // between looks at the job
constexpr std::size_t kLastLines = 30;
constexpr std::uint64_t kLongestPauseMs = 500;

volatile std::sig_atomic_t was_stopped = 0;

// Watches one run, and disturbs it.
class Disturber {
 public:
  Disturber(const DisturbedRun& run, std::mt19937_64& random, ChaosCounts& counts)
      : run_(run),
        random_(random),
        counts_(counts),
        job_(run.job),
        fault_log_(run.fault_log),
        restarts_before_(counts.restarts) {}

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
    for (const JobOnHosts::Line& line : lines) take_line(line.text, line.host);
    std::error_code ignored;
    const auto size = std::filesystem::file_size(run_.metrics, ignored);
    const bool has_stepped = !ignored && size != metrics_size_;
    if (has_stepped) {
      metrics_size_ = size;
      targets_.note_steps();
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

  void take_line(const std::string& line, int host) {
    static const std::regex waited(", ([0-9]+) ms after they noticed a loss");
    static const std::regex has_joined("a new process \\(pid ([0-9]+)\\) has joined ");
    static const std::regex host_is_lost("host (\\S+) was lost: .*; the ranks of the other hosts continue");
    static const std::regex is_lost(
        "rank [0-9]+ \\(local rank [0-9]+, pid ([0-9]+)\\) on .* ended: .*\\. (The others |No rank is left )");
    std::smatch match;
    if (std::regex_search(line, match, host_is_lost)) give_up(job_.host_named(match[1]));
    if (std::regex_search(line, match, waited)) take_recovery(std::stod(match[1]), host);
    if (std::regex_search(line, match, has_joined)) targets_.note_joined(std::stoi(match[1]));
    if (std::regex_search(line, match, is_lost) && hit_.count(std::stoi(match[1])) == 0) ++counts_.unexplained;
    const bool starts_again = line.find("all ranks are started again") != std::string::npos ||
                              (has_begun_ && line.find("the ranks start: ") != std::string::npos);
    if (starts_again && !all_were_hit_) counts_.restarts = restarts_before_ + 1;  // each host's launcher says so
    const bool is_quoted = line.rfind("    | ", 0) == 0;  // by the launcher, when it reports how a rank ended
    if (all_were_hit_ && !is_quoted && line.find("continues from the launcher's memory") != std::string::npos) {
      ++counts_.from_memory;
      all_were_hit_ = false;
    }
    counts_.last_lines.push_back(line);
    if (counts_.last_lines.size() > kLastLines) counts_.last_lines.pop_front();
  }

  // The others continue without the ranks of a host, which live on until its launcher hears of it: none of them has
  // what the others do from now on.
  void give_up(int host) {
    for (const auto& each : job_.processes()) {
      if (each.host != host) continue;
      hit_.insert(each.pid);
      if (targets_.is_member(each)) targets_.give_up(each.pid);  // a spare takes a place once the link is up
    }
  }

  // What the ranks of a host do that is cut off does not count: the others continue.
  void take_recovery(double waited_ms, int host) {
    if (host == cut_off_) return;
    counts_.waited_ms.push_back(waited_ms);
    if (!open_fault_) return;
    const double since_ms = 1e3 * std::chrono::duration<double>(Clock::now() - open_fault_->second).count();
    (is_silent(open_fault_->first) ? counts_.after_silence_ms : counts_.after_loss_ms).push_back(since_ms);
    open_fault_.reset();
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
      has_begun_ = std::count_if(all.begin(), all.end(), has_begun) == run_.ranks;
      if (has_begun_) return true;
    }
    return false;
  }

  void count(Fault fault, const std::string& hit) {
    ++counts_.faults[fault];
    note(name_of(fault) + ": " + hit);
  }

  // By the clock of the launchers' logs.
  void note(const std::string& text) {
    const auto now = std::chrono::system_clock::now();
    const auto ms = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
    const std::tm local = fmt::localtime(std::chrono::system_clock::to_time_t(now));
    fault_log_ << fmt::format("{:%H:%M:%S}.{:03} {}\n", local, ms, text) << std::flush;
  }

  std::string host_text(int host) const { return "host " + run_.job.hosts->name(host); }

  // @return  false if there was nothing to hit
  bool disturb() {
    const Fault fault = run_.kinds[below(run_.kinds.size())];
    if (fault == Fault::All) return disturb_all();
    return is_of_hosts(fault) ? disturb_host(fault) : disturb_process(fault);
  }

  bool disturb_process(Fault fault) {
    const auto processes = targets_.processes(fault);
    if (processes.empty()) return false;
    const JobOnHosts::Process& hit = processes[below(processes.size())];
    const bool is_killed = fault == Fault::Kill || fault == Fault::Spare;
    if (fault != Fault::Pause) hit_.insert(hit.pid);
    if (!job_.send(hit, is_killed ? SIGKILL : SIGSTOP)) return false;
    count(fault, fmt::format("process {}", hit.pid));
    if (fault == Fault::Kill || fault == Fault::Stop) open(fault);
    if (fault == Fault::Pause) {
      pass(milliseconds(1 + below(kLongestPauseMs)));
      job_.send(hit, SIGCONT);
    }
    // A member of its own host ends it. If none is there, it finds out when it wakes up.
    if (fault == Fault::Stop) {
      while (job_.send(hit, 0) && look()) {
        if (run_.job.hosts != nullptr && !open_fault_) job_.send(hit, SIGCONT);
      }
    }
    return true;
  }

  // They stand still first, so that none is left to survive another.
  bool disturb_all() {
    const std::vector<JobOnHosts::Process> members = targets_.members();
    if (members.empty()) return false;
    for (const JobOnHosts::Process& each : members) hit_.insert(each.pid);
    all_were_hit_ = true;
    for (const int signal : {SIGSTOP, SIGKILL}) {
      for (const JobOnHosts::Process& each : members) job_.send(each, signal);
    }
    count(Fault::All, fmt::format("{} processes", members.size()));
    targets_.start_over();
    open_fault_.reset();
    while (all_were_hit_ && look()) {
    }
    wait_until_begun();
    return true;
  }

  bool disturb_host(Fault fault) {
    const std::vector<int> hosts = targets_.hosts(fault);
    if (hosts.empty()) return false;
    const int host = hosts[below(hosts.size())];
    if (fault == Fault::Host) {
      job_.lose(host);
      count(fault, host_text(host));
      open(fault);
      if (until_recovered()) job_.add_host();
      return true;
    }
    const milliseconds blink(1 + below(kLongestPauseMs));
    if (fault == Fault::Cut) {
      // Hosts that are silent at the same time would be taken for the part that continues. What ends the cut is the
      // recovery from it, not from an earlier fault.
      if (!until_recovered()) return true;
      if (!pass(std::max(milliseconds(0), std::chrono::ceil<milliseconds>(no_cut_before_ - Clock::now())))) return true;
      give_up(host);
      open(fault);
    }
    cut_off_ = host;
    job_.set_link(host, false);
    count(fault, host_text(host));
    fault == Fault::Cut ? until_recovered() : pass(blink);
    job_.set_link(host, true);
    note(fmt::format("the link of {} is up", host_text(host)));
    cut_off_ = -1;
    no_cut_before_ = Clock::now() + 3 * run_.timeout;
    return true;
  }

  void open(Fault fault) {
    if (!open_fault_) open_fault_.emplace(fault, Clock::now());
  }

  // @return  false if the run has ended
  bool until_recovered() {
    while (open_fault_) {
      if (!look()) return false;
    }
    return true;
  }

  void finish() {
    ++counts_.runs;
    if (!stands_still_ && !job_.failure()) return;
    ++counts_.failed;
    if (!counts_.problem.empty()) return;
    counts_.problem = stands_still_ ? fmt::format("a run gave no sign of life for {} s", run_.patience.count() / 1000)
                                    : fmt::format("a run failed: {}", *job_.failure());
  }

  const DisturbedRun& run_;
  std::mt19937_64& random_;
  ChaosCounts& counts_;
  JobOnHosts job_;
  std::ofstream fault_log_;
  const int restarts_before_;
  FaultTargets targets_{job_};
  std::set<pid_t> hit_;
  std::optional<std::pair<Fault, Clock::time_point>> open_fault_;  // the first one that was not recovered from
  int cut_off_ = -1;                                               // a host
  Clock::time_point no_cut_before_{};
  bool has_begun_ = false;
  bool all_were_hit_ = false;  // and have not continued yet
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
