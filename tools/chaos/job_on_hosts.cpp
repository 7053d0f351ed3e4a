#include "tools/chaos/job_on_hosts.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <regex>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr int kPort = 29400;
// A launcher whose host was cut off notices that it is alone, or is taken back.
constexpr std::chrono::seconds kToBeTakenBack{30};
// The launchers of the other hosts end with the job. One that came too late for it, and has no ranks, waits for another
// one.
constexpr std::chrono::seconds kToEndWithTheJob{20};
constexpr std::chrono::seconds kToEndWithoutRanks{2};

}  // namespace

JobOnHosts::JobOnHosts(const JobCommand& command)
    : command_(command), places_(command.hosts == nullptr ? 1 : static_cast<std::size_t>(command.hosts->count())) {
  if (command_.hosts != nullptr) endpoint_ = fmt::format("{}:{}", command_.hosts->address(0), kPort);
  start(0);
  for (std::size_t host = 1; host + 1 < places_.size(); ++host) start(static_cast<int>(host));
}

JobOnHosts::~JobOnHosts() {
  try {
    for (std::size_t host = 0; host < places_.size(); ++host) {
      if (places_[host].is_cut) command_.hosts->set_link(static_cast<int>(host), true);
    }
  } catch (const Error&) {
    // The hosts are removed soon.
  }
}

void JobOnHosts::start(int host) {
  Place& place = places_[static_cast<std::size_t>(host)];
  std::vector<std::string> words = command_.words(endpoint_);
  std::string log = command_.log;
  if (command_.hosts != nullptr) {
    words = command_.hosts->on(host, words);
    log += fmt::format(".{}.{}", command_.hosts->name(host), place.starts++);
  }
  place.job = std::make_unique<LaunchedJob>(std::move(words), log);
}

bool JobOnHosts::ends_within(milliseconds time) {
  std::vector<pollfd> waited;
  for (const Place& place : places_) waited.push_back({is_running(place) ? place.job->ended_fd() : -1, POLLIN, 0});
  if (::poll(waited.data(), waited.size(), static_cast<int>(time.count())) > 0) {
    for (std::size_t i = 0; i < waited.size(); ++i) {
      if (waited[i].revents != 0) take_end(static_cast<int>(i));
    }
  }
  const auto since_over = over_since_ ? Clock::now() - *over_since_ : Clock::duration::zero();
  if (since_over > kToEndWithTheJob || (since_over > kToEndWithoutRanks && processes().empty())) return true;
  const bool none_runs =
      std::none_of(places_.begin(), places_.end(), [&](const Place& each) { return is_running(each); });
  if (none_runs && !over_since_ && !failure_) failure_ = "all launchers have ended";
  return failure_ || none_runs;
}

void JobOnHosts::keep_lines(int host) {
  for (std::string& line : place_of(host).job->new_lines()) last_lines_.push_back({std::move(line), host});
}

// The launcher of a host that was cut off may find that it is alone, and end. It is started again once.
void JobOnHosts::take_end(int host) {
  Place& place = place_of(host);
  const ExitStatus status = place.job->status();
  keep_lines(host);
  place.job.reset();
  place.free_since = Clock::now();
  if (status.success()) {
    if (!over_since_) over_since_ = Clock::now();
    return;
  }
  if (place.is_cut || over_since_) return;
  if (Clock::now() >= std::exchange(place.excused_until, Clock::time_point{})) {
    failure_ = fmt::format("the launcher of host {}: {}", host, status.describe());
    return;
  }
  start(host);
}

std::vector<JobOnHosts::Process> JobOnHosts::processes() const {
  std::vector<Process> all;
  for (std::size_t host = 0; host < places_.size(); ++host) {
    if (!is_running(places_[host])) continue;
    for (ChildOfLauncher& each : places_[host].job->processes()) {
      Process process;
      static_cast<ChildOfLauncher&>(process) = std::move(each);
      process.host = static_cast<int>(host);
      all.push_back(std::move(process));
    }
  }
  return all;
}

bool JobOnHosts::send(const Process& process, int signal) const {
  const Place& place = places_[static_cast<std::size_t>(process.host)];
  return is_running(place) && place.job->send(process.pid, signal);
}

std::vector<JobOnHosts::Line> JobOnHosts::new_lines() {
  for (int host = 0; host < static_cast<int>(places_.size()); ++host) {
    if (is_running(place_of(host))) keep_lines(host);
  }
  std::vector<Line> all = std::exchange(last_lines_, {});
  for (const Line& line : all) read_serving_host(line.text);
  return all;
}

void JobOnHosts::read_serving_host(const std::string& line) {
  static const std::regex serves("; host (\\S+) serves it from now on, at tcp:(\\S+)");
  std::smatch match;
  if (command_.hosts == nullptr || !std::regex_search(line, match, serves)) return;
  endpoint_ = match[2];
  serving_ = host_named(match[1]);
}

int JobOnHosts::host_named(const std::string& name) const {
  for (int host = 0; command_.hosts != nullptr && host < command_.hosts->count(); ++host) {
    if (command_.hosts->name(host) == name) return host;
  }
  return -1;
}

std::vector<int> JobOnHosts::running_hosts() const {
  std::vector<int> found;
  for (int host = 0; host < static_cast<int>(places_.size()); ++host) {
    const Place& place = places_[static_cast<std::size_t>(host)];
    if (is_running(place) && !place.is_cut) found.push_back(host);
  }
  return found;
}

void JobOnHosts::lose(int host) {
  Place& place = places_[static_cast<std::size_t>(host)];
  keep_lines(host);
  place.job.reset();  // kills it
  place.free_since = Clock::now();
}

void JobOnHosts::add_host() {
  int next = -1;
  for (int host = 0; host < static_cast<int>(places_.size()); ++host) {
    const Place& place = places_[static_cast<std::size_t>(host)];
    if (is_running(place)) continue;
    if (next < 0 || place.free_since < places_[static_cast<std::size_t>(next)].free_since) next = host;
  }
  if (next < 0 || over_since_) return;
  start(next);
  places_[static_cast<std::size_t>(next)].excused_until = Clock::now() + kToBeTakenBack;
}

void JobOnHosts::set_link(int host, bool up) {
  Place& place = places_[static_cast<std::size_t>(host)];
  command_.hosts->set_link(host, up);
  place.is_cut = !up;
  if (!up) return;
  place.excused_until = Clock::now() + kToBeTakenBack;
  if (!is_running(place) && !over_since_) start(host);
}

}  // namespace lockstep
