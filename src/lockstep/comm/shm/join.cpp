#include "lockstep/comm/shm/join.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/comm/failure/group_failure.h"
#include "lockstep/comm/shm/core_sharing.h"
#include "lockstep/comm/shm/peers/process_watch.h"
#include "lockstep/comm/shm/peers/store_watch.h"

namespace lockstep::shm {
namespace {

Token random_token(const std::string& where) {
  Token token{};
  if (::getrandom(token.data(), sizeof(token), 0) != static_cast<ssize_t>(sizeof(token))) {
    throw Error("getrandom failed: " + errno_text(errno), where, "check the sandbox that this process runs in");
  }
  return token;
}

std::string inbox_key(int rank) { return fmt::format("shm/inbox/{}", rank); }

// The inbox and label for a rank's control block and the inbox's folder, in the text that the rank stores for rank 0.
std::string to_text(const Recipient& it, const std::string& folder) {
  return fmt::format("{} {} {} {}", it.inbox, it.label.token[0], it.label.token[1], folder);
}

Recipient recipient_from(const std::string& text, int rank, const std::string& own_folder, const std::string& where) {
  Recipient it;
  std::string folder;
  std::istringstream in(text);
  in >> it.inbox >> it.label.token[0] >> it.label.token[1] >> std::ws;
  std::getline(in, folder);
  if (in.fail()) {
    throw Error(fmt::format("rank {} says \"{}\" where the name of its socket is expected", rank, text.substr(0, 200)),
                where, "run the same version of Lockstep on all ranks");
  }
  if (folder != own_folder) {
    throw Error(fmt::format("rank {} has its sockets in {}, but rank 0 in {}", rank, folder.substr(0, 200), own_folder),
                where, "set XDG_RUNTIME_DIR and TMPDIR alike for all ranks of this host, and let containers share it");
  }
  it.label.number = kBlockNumber;
  return it;
}

// Watches the other ranks' processes, or their marks in the store if they are threads of this process.
std::unique_ptr<PeerWatch> make_watch(const Membership& membership, bool threads) {
  if (threads) return watch_store(membership);
  std::vector<pid_t> pids;
  for (const Peer& peer : membership.peers) pids.push_back(peer.pid);
  return watch_processes(pids, membership.rank);
}

void throw_if_lost(const Membership& membership, PeerWatch& watch, const std::vector<int>& ranks) {
  for (const LostPeer& peer : watch.lost()) {
    if (std::count(ranks.begin(), ranks.end(), peer.rank) == 0) continue;
    GroupFailure::rank_lost(start_of_group(membership), named_rank(membership, peer.rank), peer.cause)
        .raise(membership.rank);
  }
}

[[noreturn]] void throw_missing(const Membership& membership, const std::vector<int>& ranks, const char* lacks) {
  const auto limit = membership.join_timeout.value_or(membership.timeout);
  LateRanks late;
  for (const int rank : ranks) late.push_back({named_rank(membership, rank), lacks, ""});
  GroupFailure::start_timed_out(start_of_group(membership), std::chrono::duration<double>(limit).count(), late)
      .raise(membership.rank);
}

// Rank 0 delivers the block to all ranks, in the order in which they arrive.
void deliver_block(const Segment& block, const Membership& membership, MemorySharing& sharing, PeerWatch& watch,
                   Deadline deadline) {
  const std::string where = membership.where();
  const std::string folder = sharing.inbox_folder();
  std::vector<int> missing;
  for (int rank = 1; rank < membership.world_size; ++rank) missing.push_back(rank);
  const auto deliver = [&](int rank) {
    const auto text = membership.store->try_get(inbox_key(rank));
    return text && sharing.offer(block, recipient_from(*text, rank, folder, where), deadline);
  };
  for (;;) {
    missing.erase(std::remove_if(missing.begin(), missing.end(), deliver), missing.end());
    if (missing.empty()) return;
    throw_if_lost(membership, watch, missing);
    if (deadline.passed()) throw_missing(membership, missing, "has not arrived");
    try {
      membership.store->wait({inbox_key(missing.front())},
                             Deadline::after(std::min(deadline.remaining(), membership.look_interval)));
    } catch (const TimeoutError&) {  // check again
    }
  }
}

Segment make_block(const Membership& membership, MemorySharing& sharing, const Layout& layout) {
  Segment block = sharing.make(layout.total_bytes());
  sharing.reserve(block, 0, layout.total_bytes());
  auto& header = *reinterpret_cast<GroupHeader*>(block.mapping->data());
  header.magic = kMagic;
  header.token = random_token(membership.where());
  header.world_size = static_cast<std::uint64_t>(layout.world_size());
  header.core_mask_words = static_cast<std::uint64_t>(layout.core_mask_words());
  return block;
}

Segment await_block(const Membership& membership, MemorySharing& sharing, const Layout& layout, PeerWatch& watch,
                    Deadline deadline) {
  const std::string where = membership.where();
  const Recipient me{sharing.inbox(), {random_token(where), kBlockNumber}};
  membership.store->set(inbox_key(membership.rank), to_text(me, sharing.inbox_folder()));
  // Whichever rank is lost, rank 0 gives up, and may live on.
  std::vector<int> others;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    if (rank != membership.rank) others.push_back(rank);
  }
  Segment block;
  for (;;) {
    block = sharing.accept(me.label, layout.total_bytes(), std::min(deadline.remaining(), membership.look_interval));
    if (block.mapping) break;
    throw_if_lost(membership, watch, others);
    if (deadline.passed()) throw_missing(membership, {0}, "has not set up the shared memory");
  }
  const auto& header = *reinterpret_cast<const GroupHeader*>(block.mapping->data());
  if (header.magic == kMagic && header.world_size == static_cast<std::uint64_t>(layout.world_size()) &&
      header.core_mask_words == static_cast<std::uint64_t>(layout.core_mask_words())) {
    return block;
  }
  throw Error("rank 0's shared memory has a different layout", where, "run the same version of Lockstep on all ranks");
}

// A quota applies to each process separately: only if all are in one container does it bound all of them together.
int common_quota() {
  const auto cores = static_cast<int>(affinity_cores().size());
  return available_cores() < cores ? available_cores() : INT_MAX;
}

void await_state(Group& group, const Call& call, RankState state) {
  RankCell& mine = group.cell(group.rank());
  group.publish(mine.state, static_cast<std::uint64_t>(state), [] { return true; });
  const auto missing = [&](int rank) { return group.load(group.cell(rank).state) < static_cast<std::uint64_t>(state); };
  group.await(
      call,
      [&] {
        for (int rank = 0; rank < group.world_size(); ++rank) {
          if (missing(rank)) return false;
        }
        return true;
      },
      missing);
}

}  // namespace

std::unique_ptr<Group> join(const Membership& membership, MemorySharing& sharing,
                            std::function<std::string(const Announcement&)> describe_operation) {
  if (membership.world_size > kMaxRanks) {
    throw Error(fmt::format("{} ranks cannot share memory: at most {} can", membership.world_size, kMaxRanks),
                membership.where(), "use engine gloo");
  }
  const Deadline deadline = membership.join_deadline();
  const Layout layout(membership.world_size, words_of_core_mask());
  // Watched before they report that they are present: a process that reports later is certainly the watched one.
  auto watch = make_watch(membership, sharing.one_address_space());

  Segment block;
  if (membership.rank == 0) {
    block = make_block(membership, sharing, layout);
    deliver_block(block, membership, sharing, *watch, deadline);
  } else {
    block = await_block(membership, sharing, layout, *watch, deadline);
  }

  Names names;
  names.rank = [membership](int rank) { return named_rank(membership, rank); };
  names.operation = std::move(describe_operation);
  names.start = start_of_group(membership);
  auto group =
      std::make_unique<Group>(std::move(block.mapping), layout, membership.rank, std::move(names), std::move(watch));
  group->set_patience(membership.patience, !membership.is_part());
  RankCell& mine = group->cell(membership.rank);
  publish_cores(*group, affinity_cores());
  group->store(mine.inbox, sharing.inbox());
  const Call call{kJoining, 0, deadline};
  await_state(*group, call, RankState::Present);
  await_state(*group, call, RankState::Member);
  share_cores(*group, common_quota());
  return group;
}

}  // namespace lockstep::shm
