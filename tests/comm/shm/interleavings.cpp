#include "tests/comm/shm/interleavings.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "tests/comm/shm/checked_machine.h"

namespace lockstep::shm {
namespace {

using Machine = CheckedMemory::Machine;
using State = Machine::State;

class Digest {
 public:
  void add(std::uint64_t value) {
    a_ = (a_ ^ value) * 0x9E3779B97F4A7C15ULL;
    a_ ^= a_ >> 29;
    b_ = (b_ + value) * 0xD6E8FEB86659FD93ULL;
    b_ ^= b_ >> 32;
  }
  std::pair<std::uint64_t, std::uint64_t> value() const { return {a_, b_}; }

 private:
  std::uint64_t a_ = 0x243F6A8885A308D3ULL;
  std::uint64_t b_ = 0x13198A2E03707344ULL;
};

// Two 64-bit sums: two of a few million different states share both with a chance of about 1 in 10^25.
std::pair<std::uint64_t, std::uint64_t> digest(const State& state) {
  Digest sum;
  for (const std::uint64_t word : state.words) sum.add(word);
  for (const Machine::RankHistory& rank : state.ranks) {
    sum.add(rank.told.size());
    for (const std::uint64_t value : rank.told) sum.add(value);
    sum.add(rank.buffer.size());
    for (const Machine::Buffered& store : rank.buffer) {
      sum.add(store.word);
      sum.add(store.value);
    }
    sum.add(rank.sleeps_on * 2 + (rank.ended ? 1 : 0));
  }
  return sum.value();
}

struct PairHash {
  std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& p) const { return p.first ^ (p.second << 1); }
};

// How a state was reached: by an access of a rank, or because its stores took effect.
struct Node {
  std::uint32_t parent;
  std::uint8_t rank;
  std::uint8_t way;
  bool flush;
};

std::string tell(Machine& machine, const std::vector<Node>& nodes, std::uint32_t last) {
  std::vector<Node> path;
  for (std::uint32_t at = last; at != 0; at = nodes[at].parent) path.push_back(nodes[at]);
  std::ostringstream text;
  State state = machine.initial();
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    if (node->flush) {
      state = *machine.flush(state, node->rank);
    } else {
      auto next = machine.step(state, node->rank);
      if (node->way >= next.size()) break;
      state = next[node->way];
    }
    text << "\n  rank " << static_cast<int>(node->rank) << ": " << machine.last_access();
  }
  return text.str();
}

}  // namespace

CheckResult check_all_interleavings(const std::vector<RankProgram>& programs, const CheckOptions& options) {
  Machine machine(programs, options);
  CheckResult result;
  std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, PairHash> seen;
  std::vector<Node> nodes{{0, 0, 0, false}};
  std::vector<std::pair<State, std::uint32_t>> open;
  open.emplace_back(machine.initial(), 0);
  seen.insert(digest(open.back().first));
  while (!open.empty()) {
    const auto state = std::move(open.back().first);  // no structured binding: a lambda below captures `node`
    const auto node = open.back().second;
    open.pop_back();
    ++result.states;
    bool stuck = true;
    const auto reach = [&](State next, int rank, std::size_t way, bool flush) {
      stuck = false;
      if (!seen.insert(digest(next)).second) return;
      nodes.push_back({node, static_cast<std::uint8_t>(rank), static_cast<std::uint8_t>(way), flush});
      open.emplace_back(std::move(next), static_cast<std::uint32_t>(nodes.size() - 1));
    };
    for (int rank = 0; rank < options.world_size; ++rank) {
      if (auto flushed = machine.flush(state, rank)) reach(std::move(*flushed), rank, 0, true);
      auto next = machine.step(state, rank);
      if (machine.failure()) {
        const std::string what = *machine.failure();
        const std::string access = machine.last_access();
        result.failure = what + "; it came about so:" + tell(machine, nodes, node) + "\n  rank " +
                         std::to_string(rank) + ": " + access;
        return result;
      }
      for (std::size_t way = 0; way < next.size(); ++way) reach(std::move(next[way]), rank, way, false);
    }
    const bool ended = std::all_of(state.ranks.begin(), state.ranks.end(), [](const auto& r) { return r.ended; });
    if (ended) ++result.endings;
    if (stuck && !ended) {
      result.failure = "ranks wait for ever; it came about so:" + tell(machine, nodes, node);
      return result;
    }
    if (seen.size() > options.most_states) {
      result.failure = "more states than " + std::to_string(options.most_states);
      return result;
    }
  }
  return result;
}

}  // namespace lockstep::shm
