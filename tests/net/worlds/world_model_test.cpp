// Explores every order in which the members of a world can read, propose, meet and be killed, with the decision that
// the ranks use. The store is a few numbers here; each access to it is one step, and a kill or its discovery may come
// between any two steps.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/net/worlds/world.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

constexpr int kProcesses = 4;
using Set = unsigned;  // of processes, one bit each
Set one(int process) { return 1U << static_cast<unsigned>(process); }
bool holds(Set set, int process) { return (set & one(process)) != 0; }

enum class Phase { Working, Reading, Looking, Proposing, Meeting, Formed, Asking, Dead };

struct Process {
  Phase phase = Phase::Dead;
  int world = 0;     // the one it is in, or has adopted
  Set proposal = 0;  // what it is about to store
  bool admits = false;
};

struct WorldsModel {
  std::array<Process, kProcesses> processes;
  std::vector<Set> worlds;   // the store's; number 0 is the launcher's
  std::map<int, Set> ready;  // by world
  Set lost = 0;              // the store's list
  Set waiting = 0;           // requests to join
  int kills_left = 0;

  // Each number is less than 128.
  std::string key() const {
    std::string bytes;
    const auto add = [&bytes](auto number) { bytes += static_cast<char>(number); };
    for (const Process& each : processes) {
      for (const auto number : {static_cast<unsigned>(each.phase), static_cast<unsigned>(each.world), each.proposal}) {
        add(number);
      }
      add(each.admits);
    }
    add(worlds.size());
    for (const Set world : worlds) add(world);
    for (const auto& [world, set] : ready) {
      add(world);
      add(set);
    }
    add(ready.size());
    for (const auto number : {lost, waiting, static_cast<unsigned>(kills_left)}) add(number);
    return bytes;
  }
  std::string text() const {
    std::string numbers;
    for (const char number : key()) numbers += std::to_string(static_cast<int>(number)) + ",";
    return numbers;
  }
};

RankWorld world_of(std::int64_t number, Set members) {
  RankWorld world;
  world.number = number;
  for (int process = 0; process < kProcesses; ++process) {
    if (holds(members, process)) world.members.push_back({process, "host", "id", 100 + process, process});
  }
  return world;
}

Set members_of(const RankWorld& world) {
  Set members = 0;
  for (const Peer& peer : world.members) members |= one(peer.global_rank);
  return members;
}

class Explorer {
 public:
  void explore(const WorldsModel& model) {
    visit(model);
    if (!::testing::Test::HasFailure()) expect_an_end_is_near();
  }
  std::size_t states() const { return seen_.size(); }

 private:
  // @return  the state's number
  std::size_t visit(const WorldsModel& model) {
    const auto [seen, is_new] = seen_.emplace(model.key(), seen_.size());
    const std::size_t number = seen->second;
    if (!is_new || ::testing::Test::HasFailure()) return number;
    before_.emplace_back();
    std::vector<WorldsModel> after;
    for (int process = 0; process < kProcesses; ++process) add_steps(model, process, after);
    add_discoveries(model, after);
    if (after.empty()) {
      check_end(model);
      ends_.push_back(number);
    }
    for (const WorldsModel& next : after) before_[visit(next)].push_back(number);
    // A kill is always possible, and never needed.
    if (model.kills_left > 0) {
      std::vector<WorldsModel> killed;
      for (int process = 0; process < kProcesses; ++process) add_kill(model, process, killed);
      for (const WorldsModel& next : killed) visit(next);
    }
    return number;
  }

  // From every state, steps lead to an end: the processes never only look and propose.
  void expect_an_end_is_near() const {
    std::vector<bool> is_near(before_.size());
    std::vector<std::size_t> found = ends_;
    for (const std::size_t end : found) is_near[end] = true;
    std::size_t count = found.size();
    while (!found.empty()) {
      const std::size_t state = found.back();
      found.pop_back();
      for (const std::size_t each : before_[state]) {
        if (is_near[each]) continue;
        is_near[each] = true;
        found.push_back(each);
        ++count;
      }
    }
    EXPECT_EQ(count, before_.size()) << "from the other states nothing is formed any more";
  }

  static bool has_next(const WorldsModel& model, int world) {
    return world + 1 < static_cast<int>(model.worlds.size());
  }

  static void adopt(WorldsModel& model, int process) {
    Process& self = model.processes[static_cast<std::size_t>(process)];
    const RankWorld next = world_of(self.world + 1, model.worlds[static_cast<std::size_t>(self.world) + 1]);
    const WorldStep step = next_step({world_of(self.world, 0), next, {}, {}, false, false});
    ASSERT_EQ(step.kind, WorldStep::Kind::Adopt);
    ASSERT_TRUE(holds(members_of(step.world), process)) << "a process that lives was left out";
    ++self.world;
    self.phase = Phase::Meeting;
    self.admits = false;
    model.ready[self.world] |= one(process);
  }

  static void look(WorldsModel& model, int process) {
    Process& self = model.processes[static_cast<std::size_t>(process)];
    WorldView view{
        world_of(self.world, model.worlds[static_cast<std::size_t>(self.world)]), {}, {}, {}, self.admits, self.admits};
    for (int other = 0; other < kProcesses; ++other) {
      if (holds(model.lost, other)) view.gone.insert(other);
    }
    view.waiting = world_of(0, model.waiting).members;
    const WorldStep step = next_step(view);
    self.phase = step.kind == WorldStep::Kind::Propose ? Phase::Proposing : Phase::Reading;
    self.proposal = members_of(step.world);
  }

  // At most one step for each process, because a process that waits for others makes none.
  static void add_steps(const WorldsModel& model, int process, std::vector<WorldsModel>& after) {
    WorldsModel next = model;
    Process& self = next.processes[static_cast<std::size_t>(process)];
    const Set own_world =
        self.world < static_cast<int>(model.worlds.size()) ? model.worlds[static_cast<std::size_t>(self.world)] : 0;
    const bool member_is_lost = (own_world & model.lost) != 0;
    const bool may_continue = member_is_lost || self.admits || has_next(model, self.world);
    switch (self.phase) {
      case Phase::Working:  // notices by itself, or by the others' leaving
      case Phase::Formed:
        if (!member_is_lost && !self.admits && !has_next(model, self.world)) return;
        self.phase = Phase::Reading;
        break;
      case Phase::Reading:
        if (!may_continue) return;
        if (has_next(model, self.world)) {
          adopt(next, process);
        } else {
          self.phase = Phase::Looking;
        }
        break;
      case Phase::Looking:
        look(next, process);
        break;
      case Phase::Proposing:
        if (!has_next(model, self.world)) next.worlds.push_back(self.proposal);
        self.phase = Phase::Reading;
        break;
      case Phase::Meeting:
        if (has_next(model, self.world) || member_is_lost) {
          self.phase = Phase::Reading;
        } else if (next.ready[self.world] == own_world) {
          self.phase = Phase::Formed;
        } else {
          return;
        }
        break;
      case Phase::Asking: {
        int found = 0;
        for (std::size_t world = 1; world < model.worlds.size() && found == 0; ++world) {
          if (holds(model.worlds[world], process)) found = static_cast<int>(world);
        }
        if (found == 0) return;
        self.phase = Phase::Meeting;
        self.world = found;
        next.ready[found] |= one(process);
        break;
      }
      case Phase::Dead:
        return;
    }
    after.push_back(std::move(next));
  }

  static void add_discoveries(const WorldsModel& model, std::vector<WorldsModel>& after) {
    for (int process = 0; process < kProcesses; ++process) {
      const bool was_there = process < kProcesses - 1 || holds(model.waiting, process);
      if (!was_there || model.processes[static_cast<std::size_t>(process)].phase != Phase::Dead ||
          holds(model.lost, process)) {
        continue;
      }
      WorldsModel next = model;
      next.lost |= one(process);
      after.push_back(std::move(next));
    }
  }

  static void add_kill(const WorldsModel& model, int process, std::vector<WorldsModel>& after) {
    if (model.processes[static_cast<std::size_t>(process)].phase == Phase::Dead) return;
    WorldsModel next = model;
    next.processes[static_cast<std::size_t>(process)].phase = Phase::Dead;
    --next.kills_left;
    after.push_back(std::move(next));
  }

  // Nothing moves any more: those that live are in one world, which they have formed, and it has no others.
  static void check_end(const WorldsModel& model) {
    Set alive = 0;
    for (int process = 0; process < kProcesses; ++process) {
      const Phase phase = model.processes[static_cast<std::size_t>(process)].phase;
      if (phase != Phase::Dead && phase != Phase::Asking) alive |= one(process);
    }
    if (alive == 0) return;
    const auto newest = static_cast<int>(model.worlds.size()) - 1;
    EXPECT_EQ(model.worlds.back(), alive) << model.text();
    for (int process = 0; process < kProcesses; ++process) {
      if (!holds(alive, process)) continue;
      const Process& self = model.processes[static_cast<std::size_t>(process)];
      EXPECT_TRUE(self.phase == Phase::Formed || self.phase == Phase::Working) << model.text();
      EXPECT_EQ(self.world, newest) << model.text();
    }
  }

  std::unordered_map<std::string, std::size_t> seen_;  // numbers of states, by key
  std::vector<std::vector<std::size_t>> before_;       // from which states a step leads to the state of that number
  std::vector<std::size_t> ends_;
};

WorldsModel three_members(int kills) {
  WorldsModel model;
  for (std::size_t process = 0; process < 3; ++process) model.processes[process].phase = Phase::Working;
  model.worlds = {7};
  model.kills_left = kills;
  return model;
}

TEST(WorldModel, SurvivorsOfAnyKillsFormOneWorldOfThemselves) {
  for (const int kills : {0, 1, 2}) {
    Explorer explorer;
    explorer.explore(three_members(kills));
    EXPECT_GT(explorer.states(), kills == 0 ? 0U : 50U);
  }
}

// With two kills, there are 380 000 states, which takes a second.
TEST(WorldModel, AProcessIsLetInOrDiesWhoeverIsKilledMeanwhile) {
  for (int kills = 0; kills <= test_size(1, 2); ++kills) {
    WorldsModel model = three_members(kills);
    for (std::size_t process = 0; process < 3; ++process) model.processes[process].admits = true;
    model.processes[3].phase = Phase::Asking;
    model.waiting = 8;
    Explorer explorer;
    explorer.explore(model);
    EXPECT_GT(explorer.states(), 50U);
  }
}

}  // namespace
}  // namespace lockstep
