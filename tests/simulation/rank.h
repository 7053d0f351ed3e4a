#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/net/worlds/member_standing.h"
#include "lockstep/net/worlds/world_member.h"
#include "tests/simulation/job.h"

namespace lockstep::simulation {

/// The program of one process: a training in the manner of `on_rank_change`, with the library's WorldMember. Its model
/// is a digest, which shows any step or sample that was lost or used twice.
class Rank : private WorldLinks {
 public:
  /// @param world  of the processes that the launcher started together; without members for a successor
  Rank(JobParts& job, Process& process, Peer self, RankWorld world);

  /// Throws Killed, and nothing else.
  void run();
  /// The launcher tells where the job's store is now, after an earlier one was lost.
  void move_store(SimulatedServer& server, const std::set<int>& roll);
  /// The launcher's and the other members' view of its end, in whatever way it ended.
  void end();

  const Peer& self() const { return member_.self(); }
  SimulatedStore& store() { return *store_; }
  bool was_member() const { return was_member_; }
  /// It has the training's result.
  bool is_done() const { return is_done_; }
  /// It has left the others in order.
  bool has_finished() const { return has_finished_; }
  bool has_state() const { return position_ >= 0; }
  std::int64_t position() const { return position_; }
  /// The error with which it ended; empty: none.
  const std::string& error() const { return error_; }
  /// The error says that no member has the training's state.
  bool missed_state() const { return missed_state_; }

  /// When it asked to be let in; nothing for a process that the launcher started first, or that has not asked yet.
  const std::optional<Time>& asked_at() const { return asked_at_; }

  /// It was made to stand still, so that others may have given it up.
  void excuse();
  bool is_excused() const { return is_excused_; }
  /// @param killer  ends a process of this host
  void set_killer(std::function<void(int pid)> killer) { killer_ = std::move(killer); }

 private:
  void disconnect() override;
  void connect(const RankWorld& world) override;
  std::optional<StoreMove> follow_store() override { return store_->follow(self()); }
  void end_process(int pid) override { killer_(pid); }

  void try_to_enter();
  void begin();
  void train();
  void check_promptness();
  void check_thrift(std::int64_t worlds);
  void check_world(const RankWorld& world);
  void check_admission(const RankWorld& world);
  void settle();
  void receive_state(const Standing& standing);
  void update();
  bool someone_waits();
  int rank() const { return member_.world().rank_of(self().global_rank); }
  std::vector<Contribution> exchange(const std::string& call, std::vector<std::int64_t> values);
  void check_update(const std::vector<Contribution>& all);

  JobParts& job_;
  Process& process_;
  std::shared_ptr<SimulatedStore> store_;
  WorldMember member_;
  struct Seat {
    Group* group = nullptr;
    int rank = -1;
  };
  static void leave(Seat& seat);

  Seat seat_;
  Seat former_;  // until the next group is connected, unless the program has left it before
  std::optional<Time> asked_at_;
  struct Admission {
    RankWorld before;
    Time agreed_at{0};  // requests that were complete by then are to be met
  };
  std::optional<Admission> admission_;  // until the next world
  std::int64_t last_world_ = -1;
  std::int64_t position_ = 0;
  std::uint64_t state_ = 0;
  bool was_member_ = false;
  bool was_overtaken_ = false;
  bool is_done_ = false;
  bool has_finished_ = false;
  bool missed_state_ = false;
  bool is_excused_ = false;
  std::string error_;
  std::function<void(int)> killer_;
};

}  // namespace lockstep::simulation
