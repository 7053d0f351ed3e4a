#include "lockstep/net/server/lost_list.h"

#include <algorithm>

namespace lockstep {

void LostList::add(std::int64_t generation, int round, const LostRank& lost, bool replace) {
  for (Entry& entry : entries_) {
    const bool same_round = entry.round == round || entry.round == kAnyRound || round == kAnyRound;
    if (entry.generation != generation || entry.lost.rank != lost.rank || !same_round) continue;
    if (replace || (entry.lost.silent && !lost.silent)) entry.lost = lost;
    return;
  }
  entries_.push_back({generation, round, lost});
}

void LostList::heard_again(std::int64_t generation, int round, int rank) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const Entry& entry) {
                                  return entry.lost.silent && entry.generation == generation && entry.round == round &&
                                         entry.lost.rank == rank;
                                }),
                 entries_.end());
}

void LostList::replaced(std::int64_t generation, int round, int rank) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const Entry& entry) {
                                  return entry.generation == generation && entry.round == round &&
                                         entry.lost.rank == rank;
                                }),
                 entries_.end());
}

void LostList::forget(std::int64_t generation) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const Entry& entry) { return entry.generation == generation; }),
                 entries_.end());
}

std::vector<LostRank> LostList::of(std::int64_t generation, int round) const {
  std::vector<LostRank> found;
  for (const Entry& entry : entries_) {
    if (entry.generation == generation && (entry.round == round || entry.round == kAnyRound))
      found.push_back(entry.lost);
  }
  return found;
}

std::vector<LostRank> LostList::of(std::int64_t generation) const {
  std::vector<LostRank> found;
  for (const Entry& entry : entries_) {
    if (entry.generation == generation) found.push_back(entry.lost);
  }
  return found;
}

}  // namespace lockstep
