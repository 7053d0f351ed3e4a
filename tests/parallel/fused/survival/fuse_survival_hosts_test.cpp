// Tests fused updates of several hosts that lose ranks and hosts in the middle of an update. Each pretended host has a
// job's memory of its own. The result must be that of one process that nothing disturbed and that fuses nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/parallel/fused/survival/surviving_rank.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

// Ranks are dealt to the hosts, one after the other.
struct HostLoss {
  int ranks = 4;
  int hosts = 2;
  std::vector<std::vector<int>> lost;
  Clip clip = Clip::InStep;
  bool memory_stays = true;
  std::string engine = {};  // the fastest
};

// The victims die where they write to this kind of memory, or before the update: "".
struct FatalMemory {
  std::string kind;
  double part = 0;
};

void die_at(SurvivingRank& rank, const FatalMemory& place) {
  if (place.kind.empty()) ::kill(::getpid(), SIGKILL);
  die_without_core();
  if (place.kind == "sums") {
    const at::Tensor sums = rank.memory().sums(0).narrow(0, 0, kIn * kOut);
    return protect(sums.data_ptr(), sums.nbytes(), place.part, PROT_READ);
  }
  const OwnMemory memory = own_memory(rank, place.kind);
  protect(memory.data, memory.bytes, place.part, PROT_READ);
}

// Whether a host that is left knows of the update. If a whole host is lost, that depends on what others had of its last
// message.
enum class Decided { No, Yes, Perhaps };

void expect_hosts_survive(const HostLoss& loss, const FatalMemory& place, Decided decided) {
  SCOPED_TRACE(place.kind + " at " + std::to_string(place.part));
  std::vector<UniqueFd> memories;
  for (int host = 0; host < loss.hosts; ++host) memories.push_back(make_job_memory());
  const auto is_lost = [&](int rank) {
    return std::any_of(loss.lost.begin(), loss.lost.end(), [&](const std::vector<int>& at_once) {
      return std::find(at_once.begin(), at_once.end(), rank) != at_once.end();
    });
  };
  const auto ends = ranks_as_processes(loss.ranks, [&](const Membership& membership) {
    const int memory = memories[static_cast<std::size_t>(membership.rank % loss.hosts)].get();
    SurvivingRank rank(on_hosts(membership, loss.hosts), make_adam, memory,
                       {loss.lost, loss.clip, loss.memory_stays, /*continues=*/false, loss.engine});
    rank.train([&](SurvivingRank& self) {
      if (is_lost(self.rank())) die_at(self, place);
    });
    EXPECT_TRUE(decided == Decided::Perhaps || rank.finished() == (decided == Decided::Yes ? 1 : 0)) << rank.finished();
  });
  for (int rank = 0; rank < loss.ranks; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    if (is_lost(rank)) {
      EXPECT_NE(end.signal, 0) << "rank " << rank << " has not died: " << end.text;
    } else {
      EXPECT_FALSE(end.failed) << "rank " << rank << ": " << end.text;
    }
  }
}

const std::vector<std::vector<int>> kOneRank{{1}}, kSecondHost{{1, 3}}, kFirstHost{{0, 2}};

TEST(FuseSurvivalHosts, AHostDiesWhereItWrites) {
  for (const char* kind : {"weights", "exp_avg"}) {
    for (const double part : {0.0, 0.9}) expect_hosts_survive({4, 2, kSecondHost}, {kind, part}, Decided::Perhaps);
  }
  expect_hosts_survive({4, 2, kFirstHost, Clip::InStep, /*memory_stays=*/false}, {"weights", 0.5}, Decided::Perhaps);
}

TEST(FuseSurvivalHosts, AHostDiesBeforeTheUpdate) {
  expect_hosts_survive({4, 2, kFirstHost}, {""}, Decided::No);
  expect_hosts_survive({4, 2, kSecondHost, Clip::Never, /*memory_stays=*/false}, {""}, Decided::No);
}

// Some sums are on some hosts.
TEST(FuseSurvivalHosts, AHostDiesWhereSumsArrive) {
  for (const Clip clip : {Clip::Never, Clip::Before, Clip::InStep}) {
    for (const double part : {0.1, 0.8}) expect_hosts_survive({4, 2, kSecondHost, clip}, {"sums", part}, Decided::No);
  }
}

// The hosts that are left have one rank and two, or the host has one.
TEST(FuseSurvivalHosts, OneRankOfAHostDiesWhereItWrites) {
  for (const bool memory_stays : {true, false}) {
    expect_hosts_survive({4, 2, kOneRank, Clip::InStep, memory_stays}, {"exp_avg_sq", 0.4}, Decided::Yes);
    expect_hosts_survive({3, 2, {{2}}, Clip::InStep, memory_stays}, {"weights", 0.6}, Decided::Yes);
  }
}

TEST(FuseSurvivalHosts, OneRankOfAHostDiesBeforeTheUpdate) {
  for (const Clip clip : {Clip::Never, Clip::Before}) expect_hosts_survive({4, 2, kOneRank, clip}, {""}, Decided::No);
}

TEST(FuseSurvivalHosts, HostsOfOneRankEach) {
  expect_hosts_survive({3, 3, {{1}}}, {"weights", 0.5}, Decided::Perhaps);
  expect_hosts_survive({3, 3, {{1}}}, {"sums", 0.5}, Decided::No);
  expect_hosts_survive({3, 3, {{0, 2}}}, {"weights", 0.2}, Decided::Perhaps);
}

TEST(FuseSurvivalHosts, OverOtherEngines) {
  for (const char* engine : {"tcp", "gloo"}) {
    HostLoss loss{4, 2, kSecondHost};
    loss.engine = engine;
    expect_hosts_survive(loss, {"weights", 0.5}, Decided::Perhaps);
    loss = {3, 1, {{1}}};  // on one host
    loss.engine = engine;
    expect_hosts_survive(loss, {"weights", 0.5}, Decided::Yes);
  }
}

// How many ranks finished the update without the lost host, if the ranks of the second of three hosts took their
// `call`th exchange of the step for failed, of which the others have the result.
int finished_after(int call) {
  SCOPED_TRACE("exchange " + std::to_string(call));
  constexpr int kRanks = 5;
  std::vector<UniqueFd> memories;
  for (int host = 0; host < 3; ++host) memories.push_back(make_job_memory());
  const auto shared = shm::Mapping::of_file(shm::create_segment(shm::page_bytes()).get(), shm::page_bytes());
  auto* const counters = reinterpret_cast<std::atomic<int>*>(shared->data());
  std::atomic<int>& finished = counters[kRanks];
  const auto ends = ranks_as_processes(kRanks, [&](const Membership& membership) {
    const int host = membership.rank % 3;
    SurvivingRank rank(on_hosts(membership, 3), make_adam, memories[static_cast<std::size_t>(host)].get(),
                       {{{0, 3}}, Clip::InStep, true, false, "", counters});
    rank.train([&](SurvivingRank& self) {
      if (host == 1) self.failing_group().fail_after(call);
    });
    if (host == 1) finished += rank.finished();
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.failed, rank % 3 == 0) << "rank " << rank << ": " << end.text;
  }
  return finished;
}

// In particular: a host may have begun to write, and another one does not know yet that it may.
TEST(FuseSurvivalHosts, AnExchangeOfTheStepEndsForOthersAlone) {
  std::vector<int> finished;
  for (int call = 0; call < 6; ++call) finished.push_back(finished_after(call));
  // The agreement, all sums, two messages of the norm, and the barrier that ends the update.
  EXPECT_EQ(finished, (std::vector<int>{0, 0, 0, 2, 2, 0}));
}

// What `fuse` says on two hosts. @param has_memory  by rank
std::string refusal_on_two_hosts(const std::vector<bool>& has_memory) {
  const UniqueFd answer(::memfd_create("answer", MFD_CLOEXEC));
  run_ranks_as_processes(2, [&](const Membership& membership) {
    const UniqueFd memory = make_job_memory();
    const bool has_own = has_memory[static_cast<std::size_t>(membership.rank)];
    const Group group = make_communicator("", on_two_hosts(membership));
    const torch::nn::Linear model = make_linear(8, 4);
    const auto optimizer = make_adam(model);
    const UpdateRescue rescue(*optimizer, {}, {has_own ? std::make_shared<JobMemoryMap>(memory.get()) : nullptr});
    DistributedDataParallel<torch::nn::Linear> ddp(model, on_shards(group));
    EXPECT_EQ(ddp.fuse(*optimizer).mode(), FuseMode::Off);
    if (membership.rank == 1) return;
    const std::string reason = ddp.fused_step().reason();
    EXPECT_EQ(::write(answer.get(), reason.data(), reason.size()), static_cast<ssize_t>(reason.size()));
  });
  std::string text(1000, '\0');
  text.resize(static_cast<std::size_t>(::pread(answer.get(), text.data(), text.size(), 0)));
  return text;
}

TEST(FuseSurvivalHosts, RefusesHostsWithoutMemory) {
  const std::string without = refusal_on_two_hosts({true, false});
  EXPECT_NE(without.find("the launcher of some host holds no memory"), std::string::npos) << without;
}

}  // namespace
}  // namespace lockstep
