#include "tests/simulation/faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::simulation {
namespace {

constexpr int kMostFaults = 6;
constexpr int kMostHolds = 3;
constexpr int kFarthestPoint = 150;
// Within a look of one member, within a recovery, or after it.
constexpr std::array<Time, 4> kLongestBetween{milliseconds(5), milliseconds(20), milliseconds(50), milliseconds(1500)};
constexpr Time kLongestRecovery = milliseconds(10000);  // beside timeouts: what the store may know later
constexpr Time kToTheEnd = milliseconds(120000);        // without faults a job needs seconds

constexpr int kLosesServer = 40;       // in percent of the jobs on several hosts
constexpr int kLosesServerAgain = 30;  // in percent of these

// In percent, in the order of FaultKind.
constexpr std::array<int, kFaultsOfProcesses> kWeights{30, 25, 12, 12, 8, 6, 7};

FaultKind choose_kind(Random& random) {
  int drawn = random.below(100);
  std::size_t kind = 0;
  while (drawn >= kWeights.at(kind)) drawn -= kWeights.at(kind++);
  return static_cast<FaultKind>(kind);
}

JobShape shape_of(Random& random) {
  JobShape shape;
  shape.ranks = random.between(2, 5);
  shape.hosts = random.chance(50) ? 1 : random.between(2, 3);
  shape.steps = random.chance(15) ? random.between(100, 400) : random.between(8, 60);
  shape.successors = random.below(4);
  shape.warm = random.chance(50);
  // The longest are longer than the store waits for a silent rank.
  shape.timeout = milliseconds(random.chance(5) ? random.between(15000, 20000) : random.between(1000, 4000));
  return shape;
}

}  // namespace

Faults::Faults(JobParts& job, Launcher& launcher, int count, bool holds) : job_(job), launcher_(launcher) {
  Random& random = job.simulation.random();
  const Time longest = milliseconds(12) * job.shape.steps;
  if (holds && job.shape.hosts > 1) {
    for (int left = random.between(1, kMostHolds); left > 0; --left) plan_hold(random, random.time(Time(0), longest));
  }
  if (count > 0) plan_next(count, random.time(Time(0), longest));
  if (job.shape.hosts == 1 || !random.chance(kLosesServer)) return;
  const Time first = random.time(Time(0), longest);
  plan_loss_of_server(first);
  // Often while ranks move to the store that replaces the first one.
  if (random.chance(kLosesServerAgain)) {
    plan_loss_of_server(first + random.time(milliseconds(15), random.chance(70) ? milliseconds(250) : longest));
  }
}

void Faults::plan_hold(Random& random, Time delay) {
  const Time time = random.time(job_.shape.timeout, 2 * job_.shape.timeout);
  const int messages = random.between(1, 3);
  lasts(delay + time);
  job_.simulation.after(delay, [this, time, messages] {
    ++counts_.at(static_cast<std::size_t>(FaultKind::Hold));
    job_.network.allow_timeouts();
    job_.disturb(time + kLongestRecovery + 3 * job_.shape.timeout);
    job_.network.hold(messages, time);
    job_.simulation.note([&] { return fmt::format("{} message(s) are held", messages); });
  });
}

void Faults::plan_loss_of_server(Time delay) {
  lasts(delay);
  job_.simulation.after(delay, [this] { lose_server(); });
}

void Faults::lose_server() {
  if (!launcher_.may_lose_server() || launcher_.living().empty()) return;
  Random& random = job_.simulation.random();
  if (launcher_.with_state_elsewhere() == 0 && random.chance(90)) return;
  const bool is_cut = launcher_.may_cut_server_off() && random.chance(30);
  ++counts_.at(static_cast<std::size_t>(is_cut ? FaultKind::CutServerOff : FaultKind::LoseServer));
  is_cut ? launcher_.cut_server_off() : launcher_.lose_server();
}

void Faults::plan_next(int left, Time delay) {
  lasts(delay);
  job_.simulation.after(delay, [this, left] {
    act();
    if (left == 1) return;
    Random& random = job_.simulation.random();
    plan_next(left - 1, random.time(Time(0), kLongestBetween.at(static_cast<std::size_t>(random.below(4)))));
  });
}

void Faults::lasts(Time time) { over_at_ = std::max(over_at_, job_.simulation.now() + time); }

void Faults::act() {
  const std::vector<int> living = launcher_.living();
  if (living.empty()) return;
  Random& random = job_.simulation.random();
  const int number = living[static_cast<std::size_t>(random.below(static_cast<int>(living.size())))];
  const FaultKind kind = choose_kind(random);
  const bool kills = kind == FaultKind::Kill || kind == FaultKind::KillAtPoint || kind == FaultKind::Stop;
  // Most jobs keep their state.
  if (kills && launcher_.with_state() <= 1 && random.chance(90)) return;
  if (kind == FaultKind::Cut && job_.shape.hosts == 1) return;
  ++counts_.at(static_cast<std::size_t>(kind));
  hit(kind, number);
}

void Faults::hit(FaultKind kind, int number) {
  Random& random = job_.simulation.random();
  Process& process = launcher_.process(number);
  const Time timeout = job_.shape.timeout;
  Time time{0};
  switch (kind) {
    case FaultKind::Kill:
      process.kill();
      return;
    case FaultKind::KillAtPoint:
      job_.points.kill_at(random.between(1, kFarthestPoint));
      return;
    case FaultKind::Pause:
      time = random.time(milliseconds(1), timeout / 3);
      process.stop(time);
      break;
    case FaultKind::Stop:
      time = random.time(timeout, 3 * timeout);
      excuse(number);
      process.stop(random.chance(30) ? Process::kForever : time);
      break;
    case FaultKind::Cut:
      time = random.time(milliseconds(1), 2 * timeout);
      // The first member that notices it decides which members are given up.
      if (time > timeout / 3) {
        for (const int each : launcher_.living()) excuse(each);
      }
      job_.network.cut(process.host(), time);
      break;
    case FaultKind::Slow:
      time = random.time(milliseconds(10), milliseconds(500));
      job_.network.slow_down(time, random.time(milliseconds(1), timeout / 20));
      break;
    case FaultKind::Connection:
      job_.connections_to_fail += random.between(1, 3);
      break;
    case FaultKind::LoseServer:
    case FaultKind::CutServerOff:
    case FaultKind::Hold:
      return;  // planned by themselves
  }
  job_.network.allow_timeouts();
  job_.disturb(time + kLongestRecovery + 3 * timeout);
  lasts(time);
  job_.simulation.note([&] {
    return fmt::format("{} of {:.0f} ms hits {} on host {}", kFaultNames.at(static_cast<std::size_t>(kind)),
                       1e-6 * static_cast<double>(time.count()), process.name(), process.host());
  });
}

void Faults::excuse(int number) { launcher_.rank(number).excuse(); }

Outcome simulate(std::uint64_t seed, bool keeps_schedule, bool holds) {
  Simulation simulation(seed, keeps_schedule);
  JobParts job(simulation, shape_of(simulation.random()));
  Launcher launcher(job);
  simulation.note([&] {
    return fmt::format("{} ranks on {} host(s), {} steps, {} successor(s), timeout {} ms", job.shape.ranks,
                       job.shape.hosts, job.shape.steps, job.shape.successors,
                       std::chrono::duration_cast<milliseconds>(job.shape.timeout).count());
  });
  launcher.start();
  Faults faults(job, launcher, simulation.random().below(kMostFaults + 1), holds);
  for (Time silence{0}; simulation.violation().empty() && !launcher.all_ended();) {
    if (simulation.now() >= silence) {
      job.server().look_for_silence();
      silence += milliseconds(1000);
    }
    if (simulation.step(faults.over_at() + kToTheEnd)) continue;
    simulation.fail("the job stands still: " + launcher.standing_still());
  }
  Outcome outcome;
  outcome.violation = simulation.violation();
  outcome.schedule = simulation.notes();
  outcome.faults = faults.counts();
  outcome.groups = job.groups.count();
  outcome.started = launcher.started();
  outcome.finished = launcher.finished();
  outcome.events = simulation.events();
  return outcome;
}

}  // namespace lockstep::simulation
