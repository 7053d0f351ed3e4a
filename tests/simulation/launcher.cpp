#include "tests/simulation/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lockstep::simulation {
namespace {

constexpr int kFirstPid = 100;
constexpr Time kAfterAnEnd = milliseconds(200);  // of a process: the others have recovered
constexpr Time kToBeLetIn = milliseconds(400);   // members look each 50 ms, waiting hosts each 100
constexpr Time kKeepAlive = milliseconds(3000);  // a host that is silent for longer is lost
constexpr Time kToBeTakenBack = milliseconds(2000);
constexpr Time kRecovery = milliseconds(10000);

Peer peer_of(int number, int host) {
  return {number, fmt::format("host-{}", host), std::to_string(host), kFirstPid + number, number};
}

}  // namespace

Launcher::~Launcher() {
  for (const Child& child : children_) child.process->kill();
}

void Launcher::start() {
  RankWorld world;
  for (int number = 0; number < job_.shape.ranks; ++number) {
    world.members.push_back(peer_of(number, number % job_.shape.hosts));
  }
  std::vector<std::pair<ConnectionId, Peer>> joined;
  for (const Peer& peer : world.members) {
    start_process(std::stoi(peer.host_id), world, Time(0));
    joined.emplace_back(children_.back().rank->store().connection(), peer);
  }
  job_.server().join(joined);
}

void Launcher::start_process(int host, RankWorld world, Time delay) {
  const int number = started();
  Child& child = children_.emplace_back();
  child.process = std::make_unique<Process>(
      job_.simulation, number, host, [this, number] { rank(number).run(); }, [this, number] { note_end(number); });
  child.rank = std::make_unique<Rank>(job_, *child.process, peer_of(number, host), std::move(world));
  child.rank->set_killer([this](int pid) { end_given_up(pid - kFirstPid); });
  child.process->start(delay);
}

void Launcher::end_given_up(int number) {
  if (process(number).lives() && !rank(number).is_excused()) {
    job_.simulation.fail(fmt::format("{} was given up, and did not stand still", process(number).name()));
  }
  process(number).kill();
}

void Launcher::note_end(int number) {
  Child& child = children_[static_cast<std::size_t>(number)];
  if (!child.rank->has_finished()) job_.disturb(kAfterAnEnd);
  child.rank->end();
  job_.simulation.note([&] {
    if (child.process->was_killed()) return child.process->name() + " has ended";
    return fmt::format("{} {}", child.process->name(),
                       child.rank->error().empty() ? "has finished" : "failed: " + child.rank->error());
  });
  check_end(child);
  const Time notice = job_.simulation.random().time(microseconds(50), milliseconds(5));
  const int host = child.process->host();
  const Time report = is_moving_ ? Time(0) : job_.network.delay(host, job_.server().host());
  job_.simulation.after(notice + report, [this, number] { take_end(number); });
}

// A process that was neither hit nor taken for lost ends because its work is done.
void Launcher::check_end(const Child& child) {
  const Rank& rank = *child.rank;
  if (was_left_at_the_door(rank)) {
    job_.simulation.fail(child.process->name() + " asked to be let in, and was not");
  }
  if (child.process->was_killed() || rank.has_finished()) return;
  if (job_.shape.hosts > 1 && rank.is_excused()) return;
  if (rank.missed_state() && with_state() == 0) return;
  if (!rank.was_member() && is_needless(rank)) return;
  job_.simulation.fail(fmt::format("{} was not hit, and failed: {}", child.process->name(), rank.error()));
}

bool Launcher::was_left_at_the_door(const Rank& rank) const {
  if (!rank.asked_at() || rank.was_member()) return false;
  return job_.simulation.now() - std::max(*rank.asked_at(), job_.disturbed_until) > kToBeLetIn;
}

// Whether the training has ended without this process, which had asked to join it.
bool Launcher::is_needless(const Rank& rank) const {
  const bool is_over =
      std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.rank->is_done(); });
  return is_over && rank.error().find("the training ended before") != std::string::npos;
}

void Launcher::take_end(int number) {
  Child& child = children_[static_cast<std::size_t>(number)];
  child.end_is_known = true;
  if (child.was_asked) return;
  // A rank of a lost store's time that has finished is on the roll of the next one.
  if (!child.rank->has_finished() || job_.server().era() > 0) job_.server().mark_lost(child.rank->self(), "ended");
  if (!child.rank->has_finished()) {
    const bool is_replaced = child.rank->was_member() || child.process->was_killed();
    if (is_replaced && a_member_runs() && successors_ < job_.shape.successors) {
      ++successors_;
      const Time delay = job_.shape.warm ? job_.simulation.random().time(milliseconds(15), milliseconds(60))
                                         : job_.simulation.random().time(milliseconds(250), milliseconds(1500));
      start_successor(child.process->host(), delay);
    }
  }
  if (!a_member_runs()) end_those_at_the_door();
}

// A lost host starts no process: another one does. Numbers for new processes are given by who serves.
void Launcher::start_successor(int host, Time delay) {
  if (is_moving_) {
    job_.simulation.after(milliseconds(20), [this, host, delay] { start_successor(host, delay); });
    return;
  }
  while (dead_hosts_.count(host) != 0) host = (host + 1) % job_.shape.hosts;
  if (!a_member_runs()) return;
  job_.simulation.note([&] { return fmt::format("process {} is started on host {}", started(), host); });
  start_process(host, {}, delay);
}

void Launcher::lose_host(int host) {
  dead_hosts_.insert(host);
  for (std::size_t number = 0; number < children_.size(); ++number) {
    Child& child = children_[number];
    if (child.process->host() != host || !child.process->lives()) continue;
    job_.simulation.after(job_.simulation.random().time(Time(0), milliseconds(10)),
                          [this, number] { children_[number].process->kill(); });
  }
}

void Launcher::lose_server() {
  is_moving_ = true;
  SimulatedServer& server = job_.server();
  job_.simulation.note([&] { return fmt::format("host {}, which serves the store, is lost", server.host()); });
  job_.disturb(kRecovery + 3 * job_.shape.timeout);
  server.die();
  lose_host(server.host());
  job_.simulation.after(job_.simulation.random().time(milliseconds(12), milliseconds(150)), [this] { take_over(); });
}

// Its launcher ends it when it finds that it is alone, before the others take the store over.
void Launcher::cut_server_off() {
  is_moving_ = true;
  SimulatedServer& server = job_.server();
  job_.simulation.note([&] { return fmt::format("host {}, which serves the store, is cut off", server.host()); });
  job_.network.cut(server.host(), Process::kForever);
  job_.network.allow_timeouts();
  job_.disturb(kKeepAlive + kToBeTakenBack + kRecovery + 3 * job_.shape.timeout);
  for (const Child& child : children_) child.rank->excuse();
  job_.simulation.after(kKeepAlive, [this, &server] { lose_host(server.host()); });
  const Time later = job_.simulation.random().time(milliseconds(20), milliseconds(200));
  job_.simulation.after(kKeepAlive + kToBeTakenBack + later, [this] { take_over(); });
}

void Launcher::take_over() {
  const int lost = job_.server().host();
  is_moving_ = false;
  if (living_hosts() == 0) return;
  int host = (lost + 1) % job_.shape.hosts;
  while (dead_hosts_.count(host) != 0) host = (host + 1) % job_.shape.hosts;
  const auto era = static_cast<std::int64_t>(job_.servers.size());
  job_.servers.push_back(std::make_unique<SimulatedServer>(job_.simulation, job_.network, host, era));
  SimulatedServer& server = job_.server();
  server.resume();
  std::set<int> roll;
  for (const Child& child : children_) {
    if (!child.end_is_known && dead_hosts_.count(child.process->host()) == 0) roll.insert(child.process->number());
  }
  job_.simulation.note([&] { return fmt::format("host {} serves the store, of [{}]", host, fmt::join(roll, " ")); });
  for (const int number : roll) {
    const Time delay = job_.network.delay(host, process(number).host());
    job_.simulation.after(delay + job_.simulation.random().time(microseconds(200), milliseconds(10)),
                          [this, number, &server, roll] { rank(number).move_store(server, roll); });
  }
}

bool Launcher::a_member_runs() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return runs(child) && child.rank->was_member(); });
}

void Launcher::end_those_at_the_door() {
  for (Child& child : children_) {
    if (!child.process->lives()) continue;
    child.was_asked = true;
    child.process->kill();
  }
}

std::vector<int> Launcher::living() const {
  std::vector<int> numbers;
  for (const Child& child : children_) {
    if (runs(child)) numbers.push_back(child.process->number());
  }
  return numbers;
}

bool Launcher::all_ended() const {
  const bool is_frozen = std::any_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.process->lives() && child.process->is_frozen() && child.rank->was_member();
  });
  return living().empty() || (is_frozen && !a_member_runs());
}

bool Launcher::has_state(const Child& child) const {
  return runs(child) && child.rank->was_member() && child.rank->has_state();
}

int Launcher::with_state() const {
  return static_cast<int>(
      std::count_if(children_.begin(), children_.end(), [this](const Child& child) { return has_state(child); }));
}

int Launcher::with_state_elsewhere() const {
  const int host = job_.servers.back()->host();
  return static_cast<int>(std::count_if(children_.begin(), children_.end(), [&](const Child& child) {
    return has_state(child) && child.process->host() != host;
  }));
}

int Launcher::finished() const {
  return static_cast<int>(
      std::count_if(children_.begin(), children_.end(), [](const Child& child) { return child.rank->has_finished(); }));
}

std::string Launcher::standing_still() const {
  std::string text;
  for (const Child& child : children_) {
    if (!runs(child)) continue;
    text += fmt::format("{}{} in step {}", text.empty() ? "" : ", ", child.process->name(), child.rank->position());
  }
  return text;
}

}  // namespace lockstep::simulation
