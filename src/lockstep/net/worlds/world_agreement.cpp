#include "lockstep/net/worlds/world_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/store/store_protocol.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// A loss is not a key, for which a member could wait, so it looks this often. Each look is two requests.
constexpr milliseconds kLook{2};
// The store answers those that wait for a key at once. They look this often for what else can end their wait: a loss,
// while ranks meet, and the end of the training, while a process asks to join.
constexpr milliseconds kLookWhileMeeting{5};
constexpr milliseconds kLookToBeLetIn{1000};
constexpr const char* kAsked = "asked";
constexpr const char* kClosed = "closed";
constexpr const char* kLeft = "left";

std::string world_key(std::int64_t number) { return fmt::format("world/{}", number); }
std::string ready_key(const RankWorld& world, int global_rank) {
  return fmt::format("ready/{}/{}", world.number, global_rank);
}
std::string here_key(int global_rank) { return fmt::format("here/{}", global_rank); }
std::string request_key(std::int64_t number) { return fmt::format("ask/{}", number); }

std::string text_of(const Peer& peer) {
  WireWriter text;
  write_peer(text, peer);
  return text.bytes();
}

Peer peer_of(const std::string& text) {
  WireReader reader(text);
  return read_peer(reader);
}

// Until all `keys` are set, for at most `limit`.
void wait_briefly(Store& store, const std::vector<std::string>& keys, milliseconds limit) {
  try {
    store.wait(keys, Deadline::after(limit));
  } catch (const TimeoutError&) {
    // The caller looks, and waits again.
  }
}

std::string where_of(const Peer& self) {
  return fmt::format("rank {} of the job, process {} on {}", self.global_rank, self.pid, self.host);
}

[[noreturn]] void throw_left_out(const Peer& self) {
  throw Error("the other ranks continue without this one: it was not heard of for longer than the timeout",
              where_of(self), "raise the timeout (ddp_timeout) if ranks may stand still for so long");
}

}  // namespace

WorldAgreement::WorldAgreement(std::shared_ptr<Store> store, Peer self)
    : store_(std::move(store)), self_(std::move(self)) {}

std::set<int> WorldAgreement::gone() {
  std::set<int> gone = given_up_;
  for (const LostRank& lost : store_->lost_ranks()) {
    if (!lost.silent) gone.insert(lost.rank);
  }
  const std::optional<std::string> left = store_->try_get(kLeft);
  for (std::size_t i = 0; left && i < left->size();) {
    const std::size_t end = left->find(' ', i);
    gone.insert(std::stoi(left->substr(i, end - i)));
    i = end == std::string::npos ? left->size() : end + 1;
  }
  gone.erase(self_.global_rank);
  return gone;
}

RankWorld WorldAgreement::next(const RankWorld& current, bool must_change, bool admits, Deadline deadline) {
  WorldView view;
  view.current = current;
  view.must_change = must_change;
  view.admits = admits;
  view.most = most_;
  if (admits) view.waiting = waiting(current, asked());
  for (;;) {
    const bool is_last = deadline.passed();
    if (const auto text = store_->try_get(world_key(current.number + 1))) {
      view.next = decode_world(*text);
    } else {
      view.gone = gone();
    }
    const WorldStep step = next_step(view);
    if (step.kind == WorldStep::Kind::Adopt) {
      if (step.world.rank_of(self_.global_rank) >= 0) return step.world;
      throw_left_out(self_);
    }
    if (step.kind == WorldStep::Kind::Propose) {
      store_->compare_set(world_key(step.world.number), "", encode(step.world));
      continue;
    }
    if (is_last) {
      throw TimeoutError("no rank of the group is lost, so there is nothing to continue without", where_of(self_),
                         "see the failure that came before this one");
    }
    std::this_thread::sleep_for(kLook);
  }
}

bool WorldAgreement::has_changed(const RankWorld& current) {
  if (store_->try_get(world_key(current.number + 1))) return true;
  for (const int each : gone()) {
    if (current.rank_of(each) >= 0) return true;
  }
  return false;
}

void WorldAgreement::begin_era(std::int64_t era) {
  era_ = era;
  settled_ = 0;
  given_up_.clear();  // who arrives is there
}

RankWorld WorldAgreement::call_roll(const RankWorld& current, const std::set<int>& roll, Deadline deadline,
                                    std::vector<Peer>& late) {
  store_->set(here_key(self_.global_rank), encode(current));
  std::set<int> all = roll;
  all.insert(self_.global_rank);
  const std::vector<int> numbers(all.begin(), all.end());
  std::vector<std::string> keys{world_key(first_number_of(era_))};
  for (const int number : numbers) keys.push_back(here_key(number));
  for (;;) {
    const bool is_last = deadline.passed();  // looked at first: this process may stand still at any place
    const auto values = store_->try_get_all(keys);
    const std::vector<std::optional<std::string>> told(values.begin() + 1, values.end());
    std::set<int> gone = this->gone();
    std::set<int> missing;
    for (std::size_t i = 0; i < told.size(); ++i) {
      if (!told[i] && gone.count(numbers[i]) == 0) missing.insert(numbers[i]);
    }
    if (values.front()) {
      RankWorld first = decode_world(*values.front());
      if (first.rank_of(self_.global_rank) < 0) throw_left_out(self_);
      for (const Peer& peer : current.members) {
        if (missing.count(peer.global_rank) != 0) late.push_back(peer);
      }
      return first;
    }
    if (missing.empty() || is_last) {
      propose_first(told, numbers, gone);
      continue;
    }
    wait_briefly(*store_, keys, std::min(kLookWhileMeeting, deadline.remaining()));
  }
}

// A process that asks to join tells no world, and may be in one that others know.
void WorldAgreement::propose_first(const std::vector<std::optional<std::string>>& told, const std::vector<int>& numbers,
                                   const std::set<int>& gone) {
  std::vector<RankWorld> known;
  std::set<int> here;
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (!told[i] || gone.count(numbers[i]) != 0) continue;
    here.insert(numbers[i]);
    if (!told[i]->empty()) known.push_back(decode_world(*told[i]));
  }
  const RankWorld first = first_world(era_, known, here);
  store_->compare_set(world_key(first.number), "", encode(first));
}

WorldMeeting WorldAgreement::meet(const RankWorld& world, Deadline deadline) {
  store_->set(ready_key(world, self_.global_rank), "1");
  std::vector<std::string> all_ready;
  for (const Peer& peer : world.members) all_ready.push_back(ready_key(world, peer.global_rank));
  std::vector<std::string> keys{world_key(world.number + 1)};
  keys.insert(keys.end(), all_ready.begin(), all_ready.end());
  for (;;) {
    const bool is_last = deadline.passed();  // looked at first: this process may stand still at any place
    const auto values = store_->try_get_all(keys);
    if (values.front()) return {};
    WorldMeeting meeting;
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (!values[i]) meeting.late.push_back(world.members[i - 1]);
    }
    if (meeting.late.empty()) return {true, {}};
    for (const int lost : gone()) {
      if (world.rank_of(lost) >= 0) return {};
    }
    if (is_last) return meeting;
    wait_briefly(*store_, all_ready, std::min(kLookWhileMeeting, deadline.remaining()));
  }
}

std::int64_t WorldAgreement::asked() {
  const auto text = store_->try_get(kAsked);
  return text ? std::stoll(*text) : 0;
}

// The processes whose request is complete, and that are neither lost nor members.
std::vector<Peer> WorldAgreement::waiting(const RankWorld& current, std::int64_t asked) {
  std::vector<std::string> keys;
  for (std::int64_t i = settled_ + 1; i <= asked; ++i) keys.push_back(request_key(i));
  std::vector<Peer> found;
  if (keys.empty()) return found;
  const std::set<int> gone = this->gone();
  bool all_are_settled = true;
  for (const auto& text : store_->try_get_all(keys)) {
    const std::optional<Peer> peer = text ? std::optional<Peer>(peer_of(*text)) : std::nullopt;
    const bool is_settled = peer && (gone.count(peer->global_rank) != 0 || current.rank_of(peer->global_rank) >= 0);
    if (peer && !is_settled) found.push_back(*peer);
    all_are_settled = all_are_settled && is_settled;
  }
  if (all_are_settled) settled_ = asked;
  return found;
}

bool WorldAgreement::someone_waits(const RankWorld& current) {
  if (most_ > 0 && static_cast<int>(current.members.size()) >= most_) return false;
  const std::int64_t requests = asked();
  return requests > settled_ && !waiting(current, requests).empty();
}

RankWorld WorldAgreement::wait_for_admission(Deadline deadline) {
  const std::int64_t number = store_->add(kAsked, 1);
  store_->set(request_key(number), text_of(self_));
  // Those who survive a lost store wait until this process is there, too: they may have let it in before.
  if (era_ > 0) store_->set(here_key(self_.global_rank), "");
  for (std::int64_t world = first_number_of(era_) + (era_ > 0 ? 0 : 1);;) {
    if (const auto text = store_->try_get(world_key(world))) {
      RankWorld found = decode_world(*text);
      if (found.rank_of(self_.global_rank) >= 0) return found;
      ++world;
      continue;
    }
    if (store_->try_get(kClosed)) {
      throw Error("the training ended before this rank could join it", where_of(self_),
                  "nothing is to be done: the other ranks have its result");
    }
    if (deadline.passed()) {
      throw TimeoutError("the ranks of the job did not let this one join", where_of(self_),
                         "see whether they still train; they look for new ranks at the start of each update");
    }
    wait_briefly(*store_, {world_key(world)}, std::min(kLookToBeLetIn, deadline.remaining()));
  }
}

void WorldAgreement::heard_of(const RankWorld& world) {
  for (const Peer& peer : world.members) given_up_.erase(peer.global_rank);
}

void WorldAgreement::leave() {
  for (std::string before = store_->try_get(kLeft).value_or("");;) {
    const std::string after =
        before.empty() ? std::to_string(self_.global_rank) : fmt::format("{} {}", before, self_.global_rank);
    const std::string now = store_->compare_set(kLeft, before, after);
    if (now == after) return;
    before = now;
  }
}

void WorldAgreement::close() { store_->set(kClosed, "1"); }

}  // namespace lockstep
