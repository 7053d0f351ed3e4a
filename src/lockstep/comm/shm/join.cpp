#include "lockstep/comm/shm/join.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/topology.h"
#include "lockstep/comm/shm/process_watch.h"
#include "lockstep/comm/shm/store_watch.h"

namespace lockstep::shm {
namespace {

constexpr const char* kKey = "shm/block";
constexpr std::chrono::milliseconds kLookForLeader(200);

struct Invitation {
  SegmentAddress address;
  std::array<std::uint64_t, 2> token{};
};

std::string to_text(const Invitation& it) {
  return fmt::format("{} {} {} {} {} {} {}", it.address.pid, it.address.fd, it.address.device, it.address.inode,
                     it.address.bytes, it.token[0], it.token[1]);
}

Invitation from_text(const std::string& text, std::size_t bytes, const std::string& where) {
  Invitation it;
  std::istringstream in(text);
  in >> it.address.pid >> it.address.fd >> it.address.device >> it.address.inode >> it.address.bytes >> it.token[0] >>
      it.token[1];
  if (in.fail() || it.address.bytes != bytes) {
    throw Error(fmt::format("rank 0 announces shared memory as \"{}\", not as {} bytes", text.substr(0, 200), bytes),
                where, "run the same version of Lockstep on all ranks");
  }
  return it;
}

std::array<std::uint64_t, 2> random_token(const std::string& where) {
  std::array<std::uint64_t, 2> token{};
  if (::getrandom(token.data(), sizeof(token), 0) != static_cast<ssize_t>(sizeof(token))) {
    throw Error("getrandom failed: " + errno_text(errno), where, "check the sandbox that this process runs in");
  }
  return token;
}

// The other ranks' processes, or their marks in the store where they are threads of this one.
std::unique_ptr<PeerWatch> make_watch(const Membership& membership, bool threads) {
  if (threads) return watch_store(membership);
  std::vector<pid_t> pids;
  for (const Peer& peer : membership.peers) pids.push_back(peer.pid);
  return watch_processes(pids, membership.rank);
}

std::string await_invitation(const Membership& membership, PeerWatch& watch, Deadline deadline) {
  for (;;) {
    try {
      const auto slice = std::min<std::chrono::milliseconds>(deadline.remaining(), kLookForLeader);
      return membership.store->get(kKey, Deadline::after(slice));
    } catch (const TimeoutError&) {
      for (const LostPeer& peer : watch.lost()) {
        if (peer.rank != 0) continue;
        throw Error("joining the group lost rank 0: " + peer.cause, membership.where(), "read the log of rank 0");
      }
      if (!deadline.passed()) continue;
      throw TimeoutError("joining the group timed out, waiting for rank 0, which has not set up the shared memory",
                         membership.where(), "read the log of rank 0; if it is only slow, raise the group's timeout");
    }
  }
}

void put_affinity(RankCell& cell) {
  for (const int core : affinity_cores()) {
    const auto word = static_cast<std::size_t>(core) / 64;
    if (word < cell.cores.size()) cell.cores[word].fetch_or(std::uint64_t{1} << (core % 64));
  }
}

void share_cores(Group& group) {
  std::vector<std::uint64_t> masks;
  constexpr int kWords = static_cast<int>(std::tuple_size<decltype(RankCell::cores)>::value);
  for (int rank = 0; rank < group.world_size(); ++rank) {
    for (const Word& word : group.cell(rank).cores) masks.push_back(group.load(word));
  }
  // A quota holds for each process by itself: only where all are in one container is it a bound for them together.
  const auto cores = static_cast<int>(affinity_cores().size());
  const int quota = available_cores() < cores ? available_cores() : INT_MAX;
  group.set_spin_policy(choose_spin_policy(masks.data(), kWords, group.world_size(), quota));
  group.set_cores(cores_per_rank(masks.data(), kWords, group.world_size(), quota, group.rank()));
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
  const std::string where = membership.where();
  if (membership.world_size > kMaxRanks) {
    throw Error(fmt::format("{} ranks share memory with {} at most", membership.world_size, kMaxRanks), where,
                "use engine gloo");
  }
  const Deadline deadline = Deadline::after(membership.timeout);
  const std::size_t bytes = Layout(membership.world_size).total_bytes();
  // Watched before they say that they are present: a process that says so later is the one that is watched.
  auto watch = make_watch(membership, sharing.one_address_space());

  Offer offer;
  Invitation invitation;
  std::shared_ptr<Mapping> block;
  if (membership.rank == 0) {
    offer = sharing.offer(bytes);
    sharing.reserve(offer.address, 0, bytes);
    block = offer.mapping;
    invitation = {offer.address, random_token(where)};
    auto& header = *reinterpret_cast<GroupHeader*>(block->data());
    header.magic = kMagic;
    header.token = invitation.token;
    header.world_size = static_cast<std::uint64_t>(membership.world_size);
    membership.store->set(kKey, to_text(invitation));
  } else {
    invitation = from_text(await_invitation(membership, *watch, deadline), bytes, where);
    block = sharing.accept(invitation.address);
    const auto& header = *reinterpret_cast<const GroupHeader*>(block->data());
    if (header.magic != kMagic || header.token != invitation.token ||
        header.world_size != static_cast<std::uint64_t>(membership.world_size)) {
      throw Error("the shared memory that rank 0 announced is not this group's", where,
                  "run the same version of Lockstep on all ranks");
    }
  }

  Names names;
  names.rank = [peers = membership.peers, threads = sharing.one_address_space()](int rank) {
    const Peer& peer = peers[static_cast<std::size_t>(rank)];
    const std::string global = peer.global_rank == rank ? "" : fmt::format(" ({} of the job)", peer.global_rank);
    const std::string process = threads ? "" : fmt::format(" (process {})", peer.pid);
    return fmt::format("rank {}{} on {}{}", rank, global, peer.host, process);
  };
  names.operation = std::move(describe_operation);
  auto group = std::make_unique<Group>(std::move(block), membership.rank, membership.world_size, std::move(names),
                                       std::move(watch));
  RankCell& mine = group->cell(membership.rank);
  put_affinity(mine);
  const Call call{kJoining, 0, deadline};
  await_state(*group, call, RankState::Present);
  await_state(*group, call, RankState::Member);
  share_cores(*group);
  return group;
}

}  // namespace lockstep::shm
