#include "lockstep/comm/shm/peers/store_watch.h"

#include "lockstep/base/error.h"

namespace lockstep::shm {
namespace {

class StoreWatch : public PeerWatch {
 public:
  explicit StoreWatch(const Membership& membership) : membership_(membership) {}

  std::vector<LostPeer> lost() override {
    std::vector<LostPeer> gone;
    try {
      for (const LostRank& lost : membership_.store->lost_ranks()) {
        if (lost.silent) continue;  // it may be heard of again: the deadline decides
        for (int rank = 0; rank < membership_.world_size; ++rank) {
          if (rank == membership_.rank) continue;
          const Peer& peer = membership_.peers[static_cast<std::size_t>(rank)];
          if (peer.global_rank == lost.rank) gone.push_back({rank, lost.cause});
        }
      }
    } catch (const Error&) {
      // A store that does not answer shows no losses; the deadline still applies.
    }
    return gone;
  }

 private:
  const Membership membership_;
};

}  // namespace

std::unique_ptr<PeerWatch> watch_store(const Membership& membership) {
  return std::make_unique<StoreWatch>(membership);
}

}  // namespace lockstep::shm
