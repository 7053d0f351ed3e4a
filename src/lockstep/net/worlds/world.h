#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// The ranks that train together for a while. A job that survives lost ranks lives through a sequence of worlds: number
/// 0 is the one that the launcher started. A member is known by `Peer::global_rank`, which no other process of the job
/// ever has: a process that takes a lost rank's place gets a number of its own.
struct RankWorld {
  std::int64_t number = 0;
  std::vector<Peer> members;  ///< by rank in this world

  /// The rank of a member in this world; -1 if it is not in it.
  int rank_of(int global_rank) const;
};

/// Numbers of worlds that are agreed on in the store that replaced `era` earlier ones, each of which was lost with its
/// host, begin here: so they are greater than all that were agreed on in those.
constexpr std::int64_t first_number_of(std::int64_t era) { return era << 32; }
/// How many stores were lost before the one in which a world was agreed on.
constexpr std::int64_t era_of(std::int64_t number) { return number >> 32; }

std::string encode(const RankWorld& world);
/// @throws Error  if `text` is not the text of a world
RankWorld decode_world(const std::string& text);

/// What one member knows when it decides what follows its world.
struct WorldView {
  RankWorld current;
  std::optional<RankWorld> next;  ///< the world after `current`, if a member has proposed one
  std::set<int> gone;             ///< lost global ranks, or those that have left
  std::vector<Peer> waiting;      ///< processes that want to join
  bool admits = false;            ///< all members have agreed to let them in now
  bool must_change = false;       ///< the present world cannot continue, even if no member of it is gone
  int most = 0;                   ///< no more members than this are let in; 0: any number
};

struct WorldStep {
  enum class Kind {
    Wait,     ///< nothing has changed yet: look again
    Propose,  ///< store `world` as the next one, unless another member was faster; then look again
    Adopt     ///< `world` is the next one, for every member
  };
  Kind kind = Kind::Wait;
  RankWorld world;
};

/// One step of the agreement on the next world. The first proposal that is stored counts for all members, so a proposal
/// need not be the best one: a member that is found to be gone later leads to one more world.
WorldStep next_step(const WorldView& view);

/// The first world in a new store: the members of the newest world that processes know, as far as these are there. One
/// of them has the newest state, because a world's members are in it until there is a newer one.
/// @param known  the worlds of those that are there, at least one
/// @param here   the processes that are there
RankWorld first_world(std::int64_t era, const std::vector<RankWorld>& known, const std::set<int>& here);

}  // namespace lockstep
