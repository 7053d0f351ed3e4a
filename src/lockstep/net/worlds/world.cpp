#include "lockstep/net/worlds/world.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/net/store/store_protocol.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_world(const std::string& what) {
  throw Error("the store holds a list of ranks that cannot be read: " + what,
              "the ranks' agreement on their next group", "run the same version of Lockstep on all ranks");
}

}  // namespace

int RankWorld::rank_of(int global_rank) const {
  const auto is_it = [&](const Peer& peer) { return peer.global_rank == global_rank; };
  const auto found = std::find_if(members.begin(), members.end(), is_it);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

std::string encode(const RankWorld& world) {
  WireWriter text;
  text.i64(world.number);
  text.u32(static_cast<std::uint32_t>(world.members.size()));
  for (const Peer& peer : world.members) write_peer(text, peer);
  return text.bytes();
}

RankWorld decode_world(const std::string& text) {
  try {
    WireReader reader(text);
    RankWorld world;
    world.number = reader.i64();
    const std::uint32_t count = reader.u32();
    if (count == 0 || count > static_cast<std::uint32_t>(kMaxWorldSize)) refuse_world("its number of ranks");
    for (std::uint32_t i = 0; i < count; ++i) world.members.push_back(read_peer(reader));
    reader.end();
    return world;
  } catch (const WireError& error) {
    refuse_world(error.what());
  }
}

WorldStep next_step(const WorldView& view) {
  if (view.next) return {WorldStep::Kind::Adopt, *view.next};
  WorldStep step;
  step.world.number = view.current.number + 1;
  for (const Peer& peer : view.current.members) {
    if (view.gone.count(peer.global_rank) == 0) step.world.members.push_back(peer);
  }
  bool changes = view.must_change || step.world.members.size() < view.current.members.size();
  for (const Peer& peer : view.waiting) {
    if (view.most > 0 && static_cast<int>(step.world.members.size()) >= view.most) break;
    if (!view.admits || view.gone.count(peer.global_rank) != 0 || view.current.rank_of(peer.global_rank) >= 0) continue;
    step.world.members.push_back(peer);
    changes = true;
  }
  if (changes) step.kind = WorldStep::Kind::Propose;
  return step;
}

RankWorld first_world(std::int64_t era, const std::vector<RankWorld>& known, const std::set<int>& here) {
  const auto older = [](const RankWorld& a, const RankWorld& b) { return a.number < b.number; };
  RankWorld first;
  first.number = first_number_of(era);
  for (const Peer& peer : std::max_element(known.begin(), known.end(), older)->members) {
    if (here.count(peer.global_rank) != 0) first.members.push_back(peer);
  }
  return first;
}

}  // namespace lockstep
