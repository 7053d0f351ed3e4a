#include "lockstep/comm/mesh/activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/random/mix_bits.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxActivities = 4096;

std::string encode_fingerprint(const Fingerprint& f) {
  return fmt::format("{} {} {} {} {} {}", static_cast<int>(f.kind), static_cast<int>(f.op), static_cast<int>(f.dtype),
                     f.root, f.count, f.sequence);
}

bool decode_fingerprint(std::istream& in, Fingerprint& f) {
  int kind = 0;
  int op = 0;
  int dtype = 0;
  if (!(in >> kind >> op >> dtype >> f.root >> f.count >> f.sequence)) return false;
  if (kind < 0 || kind > static_cast<int>(OperationKind::Barrier)) return false;
  if (op < 0 || op > static_cast<int>(ReduceOp::Product)) return false;
  if (dtype < 0 || dtype >= static_cast<int>(c10::ScalarType::NumOptions)) return false;
  f.kind = static_cast<OperationKind>(kind);
  f.op = static_cast<ReduceOp>(op);
  f.dtype = static_cast<c10::ScalarType>(dtype);
  return true;
}

// A well-mixed 64-bit hash, one word at a time.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  return mix_bits(hash ^ (word + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2)));
}

std::optional<Fingerprint> collective_at(const RankState& state, std::uint64_t sequence) {
  for (const Activity& activity : state.current) {
    if (activity.collective() && activity.fingerprint.sequence == sequence) return activity.fingerprint;
  }
  for (const Fingerprint& ended : state.ended) {
    if (ended.sequence == sequence) return ended;
  }
  return std::nullopt;
}

std::optional<GroupFailure> disagreement_at(std::uint64_t sequence, const GroupState& states,
                                            const Membership& membership) {
  std::vector<std::pair<int, Fingerprint>> found;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    if (!states[rank]) continue;
    if (const auto call = collective_at(*states[rank], sequence)) found.emplace_back(static_cast<int>(rank), *call);
  }
  const auto differs = [&](const auto& each) { return each.second != found.front().second; };
  if (std::none_of(found.begin(), found.end(), differs)) return std::nullopt;
  std::vector<RankCall> calls;
  for (const auto& [rank, call] : found) calls.push_back({name_of(membership, rank), call.describe()});
  return GroupFailure::disagreement(calls);
}

bool same_message(const Activity& send, int sender, const Activity& recv, int receiver) {
  return !send.is_group_start && !recv.is_group_start && send.fingerprint.kind == OperationKind::Send &&
         recv.fingerprint.kind == OperationKind::Recv && send.fingerprint.root == receiver &&
         recv.fingerprint.root == sender && send.tag == recv.tag && send.number == recv.number;
}

std::optional<GroupFailure> message_disagreement(int sender, const RankState& from, int receiver, const RankState& to,
                                                 const Membership& membership) {
  for (const Activity& send : from.current) {
    for (const Activity& recv : to.current) {
      if (!same_message(send, sender, recv, receiver)) continue;
      if (send.fingerprint.count == recv.fingerprint.count && send.fingerprint.dtype == recv.fingerprint.dtype)
        continue;
      return GroupFailure::disagreement(
          {{name_of(membership, sender), send.describe()}, {name_of(membership, receiver), recv.describe()}});
    }
  }
  return std::nullopt;
}

}  // namespace

std::string Activity::describe() const {
  if (is_group_start) return "the start of the group";
  if (collective()) return fingerprint.describe();
  return fmt::format("{}, tag {}", fingerprint.describe(), tag);
}

Activity activity_of(const Operation& collective) {
  Activity activity;
  activity.fingerprint = collective.fingerprint;
  activity.enclosing_mark = collective.enclosing_mark;
  return activity;
}

Activity MessageNumbers::activity_of(const Operation& operation) {
  Activity activity;
  activity.fingerprint = operation.fingerprint;
  activity.tag = operation.tag;
  const std::lock_guard<std::mutex> lock(mutex_);
  activity.number = next_[{operation.fingerprint.kind, operation.fingerprint.root, operation.tag}]++;
  return activity;
}

std::string encode_state(const RankState& state) {
  std::string text = fmt::format("2 {} {} {}", state.beat, state.left ? 1 : 0, state.ended.size());
  for (const Fingerprint& ended : state.ended) text += " " + encode_fingerprint(ended);
  const std::size_t count = std::min(state.current.size(), kMaxActivities);
  text += fmt::format(" {}", count);
  for (std::size_t i = 0; i < count; ++i) {
    const Activity& activity = state.current[i];
    text += fmt::format(" {} {} {} {}", encode_fingerprint(activity.fingerprint), activity.tag, activity.number,
                        activity.is_group_start ? 1 : 0);
  }
  return text;
}

RankState decode_state(const std::string& text) {
  std::istringstream in(text);
  RankState state;
  int version = 0;
  std::size_t count = 0;
  int left = 0;
  bool good =
      static_cast<bool>(in >> version >> state.beat >> left >> count) && version == 2 && count <= RankState::kHistory;
  state.left = left != 0;
  for (std::size_t i = 0; good && i < count; ++i) good = decode_fingerprint(in, state.ended.emplace_back());
  good = good && (in >> count) && count <= kMaxActivities;
  for (std::size_t i = 0; good && i < count; ++i) {
    Activity activity;
    int is_group_start = 0;
    good = decode_fingerprint(in, activity.fingerprint) &&
           static_cast<bool>(in >> activity.tag >> activity.number >> is_group_start);
    activity.is_group_start = is_group_start != 0;
    state.current.push_back(activity);
  }
  if (!good) {
    throw Error("a rank's state in the store is not readable", "this group",
                "run the same build of the program on every rank");
  }
  return state;
}

std::uint64_t slot_of(const Activity& activity, int rank) {
  const Fingerprint& f = activity.fingerprint;
  std::uint64_t hash = mix(static_cast<std::uint64_t>(f.dtype), static_cast<std::uint64_t>(f.count));
  if (activity.collective()) {
    hash = mix(hash, static_cast<std::uint64_t>(f.kind));
    hash = mix(hash, static_cast<std::uint64_t>(f.op));
    hash = mix(hash, static_cast<std::uint64_t>(f.root));
    hash = mix(hash, f.sequence);
    if (activity.enclosing_mark != 0) hash = mix(hash, activity.enclosing_mark);
  } else {
    const bool sends = f.kind == OperationKind::Send;
    hash = mix(hash, static_cast<std::uint64_t>(OperationKind::Send));
    hash = mix(hash, static_cast<std::uint64_t>(sends ? rank : f.root));
    hash = mix(hash, static_cast<std::uint64_t>(sends ? f.root : rank));
    hash = mix(hash, static_cast<std::uint64_t>(activity.tag));
    hash = mix(hash, activity.number);
  }
  return hash & ~std::uint64_t{0xff};
}

std::optional<GroupFailure> find_disagreement(const GroupState& states, const Membership& membership) {
  // Also ended ones: a rank that only had to send may have continued.
  std::set<std::uint64_t> sequences;
  for (const auto& state : states) {
    if (!state) continue;
    for (const Fingerprint& ended : state->ended) sequences.insert(ended.sequence);
    for (const Activity& activity : state->current) {
      if (activity.collective()) sequences.insert(activity.fingerprint.sequence);
    }
  }
  for (const std::uint64_t sequence : sequences) {
    if (auto failure = disagreement_at(sequence, states, membership)) return failure;
  }
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    for (std::size_t other = 0; other < states.size(); ++other) {
      if (!states[rank] || !states[other] || other == rank) continue;
      auto failure = message_disagreement(static_cast<int>(rank), *states[rank], static_cast<int>(other),
                                          *states[other], membership);
      if (failure) return failure;
    }
  }
  return std::nullopt;
}

std::vector<int> not_arrived(const GroupState& states, std::uint64_t sequence) {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    bool arrived = false;
    if (states[rank]) {
      arrived = !states[rank]->ended.empty() && states[rank]->ended.back().sequence >= sequence;
      for (const Activity& activity : states[rank]->current) {
        arrived = arrived || (activity.collective() && activity.fingerprint.sequence >= sequence);
      }
    }
    if (!arrived) missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

std::string last_seen(const std::optional<RankState>& state) {
  if (!state) return "it has not reported anything in this group";
  if (!state->current.empty()) {
    std::string text = last_seen_entering(state->current.front().describe());
    if (state->current.size() > 1) text += fmt::format(" and {} more", state->current.size() - 1);
    return text;
  }
  return state->ended.empty() ? kNothingEntered : last_seen_entering(state->ended.back().describe());
}

}  // namespace lockstep
